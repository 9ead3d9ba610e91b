//! `final --hold-file`: all that needs no silence is done first, then the pass waits for the word.
//! What follows is as short as it can be; the writers need to stand still for that alone.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use super::{Apart, Ending, Outcome};
use crate::pass::Report;
use crate::plan::loss_names;
use crate::session::{Session, phase};
use crate::{Error, Event, ExitCode, Kind, Phase, Result};

/// What the file holds when the pass may go on.
const GO: &str = "go";
/// Pause between two looks at the file, which somebody else replaces (kubelet, for a volume of
/// the downward API).
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What became of it.
pub(super) enum Hold {
    /// The word was given; what was copied before.
    Go(Box<Report>),
    /// It would fail: that is known before anybody has to stop.
    Ended(Box<Outcome>),
}

/// Looks at the file before anything is done.
///
/// # Errors
/// [`Kind::Usage`] for one that can never be read.
pub(super) fn check(file: &Path) -> Result<()> {
    is_go(file).map(drop)
}

/// Brings the target up to date without deleting, then waits until `file` holds `go`.
///
/// # Errors
/// [`Kind::Usage`] for a file that cannot be read, [`Kind::Interrupted`], [`Kind::Refused`] where a
/// guard of deletions would stop the final pass, those of a pass.
pub(super) async fn hold(session: &mut Session<'_>, file: &Path) -> Result<Hold> {
    let progress = session.ends.progress.clone();
    phase(&*progress, Phase::Copy, None, None);
    let report = session.copy_pass().await?;
    if report.tally.losses() > 0 && !session.options.accepts(&report.tally) {
        let names = loss_names(&report.tally.clone().into_marker());
        let mut summary = report.to_string() + &session.view.unfitted();
        summary.extend([
            "not carried: ",
            &names,
            "; go on without them by --accept ",
            &report.tally.hash(),
            ", or whatever they are by --accept-loss\n",
        ]);
        return Ok(Hold::Ended(Box::new(Outcome {
            exit: ExitCode::Failures,
            ending: Ending::Incomplete,
            marker: session.marker.clone(),
            summary,
            apart: Some(Apart::from(&report)),
            undecided: None,
        })));
    }
    session.admit_deletes(&report)?;
    wait(session, file).await?;
    Ok(Hold::Go(Box::new(report)))
}

/// Waits until `file` holds `go`; both sides are open and the target is up to date.
///
/// # Errors
/// As [`hold`].
pub(super) async fn wait(session: &mut Session<'_>, file: &Path) -> Result<()> {
    let progress = session.ends.progress.clone();
    phase(&*progress, Phase::Held, None, None);
    let text = format!(
        "held: the target is up to date; waiting until {} holds `{GO}`",
        file.display()
    );
    progress.event(&Event::Note(&text));
    while !is_go(file)? {
        session.ends.go_on()?;
        tokio::select! {
            () = session.ends.cancel.cancelled() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    phase(&*progress, Phase::Final, None, None);
    progress.event(&Event::Note("go: the final pass begins"));
    // It spared a store that served; now everybody waits for us.
    session.ends.bandwidth = None;
    // Much may have happened meanwhile.
    session.look_again().await
}

/// Whether the word was given. A file that does not exist, is empty or holds anything else says
/// no.
fn is_go(file: &Path) -> Result<bool> {
    // Longer than the word, so that a text that only begins with it is told apart.
    const MOST_BYTES: u64 = 64;
    let failed = |error: &io::Error| {
        let name = file.display().to_string();
        Error::new(Kind::Usage, "read", name, error.to_string())
            .with_cure("give a file that can be read to --hold-file; it need not exist yet")
    };
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(&error)),
    };
    let mut text = Vec::new();
    opened
        .take(MOST_BYTES)
        .read_to_end(&mut text)
        .map_err(|error| failed(&error))?;
    Ok(text.trim_ascii() == GO.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_itself_is_go() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("go");
        assert!(!is_go(&file).unwrap());
        for (text, go) in [
            ("", false),
            ("\n", false),
            ("no", false),
            ("gone", false),
            ("go go", false),
            ("\"go\"", false),
            ("go", true),
            ("go\n", true),
            (" go ", true),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(is_go(&file).unwrap(), go, "{text:?}");
        }
        std::fs::write(&file, format!("go{}x", " ".repeat(40))).unwrap();
        assert!(!is_go(&file).unwrap());
        let error = is_go(directory.path()).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.cure.unwrap().contains("--hold-file"));
    }
}
