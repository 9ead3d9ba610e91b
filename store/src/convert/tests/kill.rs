//! SIGKILL at every step: the volume says the same as before, goes on, and ends converted when the
//! conversion is run again.

use std::process::{Command, ExitStatus};

use super::*;
use crate::convert::import::{ImportOptions, import_sidecar};

/// Makes the test binary run [`converts_until_killed`] on this volume.
const VOLUME: &str = "FILESTORE_TEST_CONVERT";
const TO_SIDECAR: &str = "FILESTORE_TEST_TO_SIDECAR";
const SIDECAR: &str = "FILESTORE_TEST_SIDECAR";
const STOP_AT: &str = "FILESTORE_TEST_STOP_AT";
const IN_SURVEY: &str = "FILESTORE_TEST_IN_SURVEY";

/// Run by the tests below in a process of its own: kills itself at a step.
#[test]
fn converts_until_killed() {
    let Some(volume) = std::env::var_os(VOLUME) else {
        return;
    };
    let stop_at: usize = std::env::var(STOP_AT).unwrap().parse().unwrap();
    let in_survey = std::env::var_os(IN_SURVEY).is_some();
    let mut steps = 0;
    let mut count = |phase| {
        if (phase == Phase::Surveying) == in_survey {
            steps += 1;
            if steps == stop_at {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        }
    };
    let is_sidecar = std::env::var_os(TO_SIDECAR).is_some();
    let mode = BOTH[usize::from(is_sidecar)];
    if let Some(sidecar) = std::env::var_os(SIDECAR) {
        let options = ImportOptions {
            sidecar: sidecar.into(),
            metadata: Some(mode),
            dry_run: false,
        };
        import_sidecar(Path::new(&volume), &options, &mut count).unwrap();
    } else {
        convert(Path::new(&volume), to(mode), &mut count).unwrap();
    }
}

/// Runs it; whether it came to its end before that step.
pub(super) fn killed_at(
    volume: &Path,
    mode: MetadataMode,
    sidecar: Option<&Path>,
    step: usize,
) -> bool {
    killed(volume, mode, sidecar, step, false)
}

/// The same, of the steps of the survey.
pub(super) fn killed_in_survey(
    volume: &Path,
    mode: MetadataMode,
    sidecar: &Path,
    step: usize,
) -> bool {
    killed(volume, mode, Some(sidecar), step, true)
}

fn killed(
    volume: &Path,
    mode: MetadataMode,
    sidecar: Option<&Path>,
    step: usize,
    in_survey: bool,
) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "convert::tests::kill::converts_until_killed"])
        .env(VOLUME, volume)
        .env(STOP_AT, step.to_string())
        .stdout(std::process::Stdio::null());
    if mode == MetadataMode::Sidecar {
        child.env(TO_SIDECAR, "1");
    }
    if in_survey {
        child.env(IN_SURVEY, "1");
    }
    if let Some(sidecar) = sidecar {
        child.env(SIDECAR, sidecar);
    }
    let status: ExitStatus = child.status().unwrap();
    assert!(status.success() || status.code().is_none(), "{status}");
    status.code().is_none()
}

fn survives(from: MetadataMode) {
    let mode = form::other(from);
    for step in 1.. {
        let scratch = filled(from);
        let path = scratch.path();
        let before = picture(&open(path));
        if !killed_at(path, mode, None, step) {
            assert!(step > 20, "{step}");
            break;
        }
        let store = open(path);
        assert_same(&picture(&store), &before, &format!("step {step}"));
        fill::go_on(&store);
        let after = picture(&store);
        let switched = store.metadata_mode() == mode;
        drop(store);
        let done = convert_alone(path, to(mode));
        let expected = if switched {
            Outcome::Finished
        } else {
            Outcome::Converted
        };
        assert_eq!(done.outcome, expected, "step {step}");
        assert_eq!(traces(path, from), Vec::<String>::new(), "step {step}");
        let store = open(path);
        assert_eq!(store.metadata_mode(), mode);
        assert_same(&picture(&store), &after, &format!("step {step}"));
        fill::complete(&store);
    }
}

#[test]
fn to_sidecar() {
    survives(MetadataMode::Xattr);
}

#[test]
fn to_xattr() {
    survives(MetadataMode::Sidecar);
}

/// A conversion that was killed, and then one the other way.
#[test]
fn and_back_again() {
    for from in BOTH {
        for step in [3, 20, 27, 33] {
            let scratch = filled(from);
            killed_at(scratch.path(), form::other(from), None, step);
            let store = open(scratch.path());
            fill::go_on(&store);
            let expected = picture(&store);
            drop(store);
            convert_alone(scratch.path(), to(from));
            assert_same(
                &picture(&open(scratch.path())),
                &expected,
                &format!("{from:?} {step}"),
            );
        }
    }
}
