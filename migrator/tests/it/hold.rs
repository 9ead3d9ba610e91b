//! A final pass that waits for the word.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use filestore_common::marker::{Marker, MarkerState};
use filestore_migrator::progress::{Event, Phase, Progress};
use filestore_migrator::run::{Apart, finish_from};
use filestore_migrator::verify::Mode;
use filestore_migrator::{Ending, Error, ExitCode, Kind, Outcome};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble};

/// What happens while the pass is held, on the thread of the pass.
type Meanwhile = Box<dyn FnOnce() + Send>;

struct Watch {
    phases: Mutex<Vec<Phase>>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Progress for Watch {
    fn event(&self, event: &Event<'_>) {
        let Event::Phase { phase, .. } = event else {
            return;
        };
        self.phases.lock().unwrap().push(*phase);
        if *phase == Phase::Held
            && let Some(happens) = self.meanwhile.lock().unwrap().take()
        {
            happens();
        }
    }
}

struct Held {
    target: Target,
    source: Arc<MemorySource>,
    go: PathBuf,
    directory: tempfile::TempDir,
}

impl Held {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let go = directory.path().join("go");
        let mut target = Target::new();
        target.options.cutover = false;
        target.options.hold_file = Some(go.clone());
        target.options.run_id = Some("files-1".into());
        let source = MemorySource::new();
        for name in ["kept", "changed", "deleted"] {
            source.put("data", name, name.as_bytes(), 1);
        }
        Self {
            target,
            source,
            go,
            directory,
        }
    }

    async fn finish(
        &self,
        cancel: CancellationToken,
        meanwhile: Meanwhile,
    ) -> (Result<Outcome, Error>, Vec<Phase>) {
        let watch = Arc::new(Watch {
            phases: Mutex::default(),
            meanwhile: Mutex::new(Some(meanwhile)),
        });
        let (source, options) = (self.source.clone(), &self.target.options);
        let ended = finish_from(source, options, Mode::Listing, watch.clone(), cancel).await;
        let phases = watch.phases.lock().unwrap().clone();
        (ended, phases)
    }

    fn marker(&self) -> Marker {
        let path = self
            .target
            .directory
            .path()
            .join(".filestore/migration.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

#[tokio::test]
async fn what_happens_before_the_word_is_in_the_final_pass() {
    let held = Held::new();
    let (source, go) = (held.source.clone(), held.go.clone());
    let files = held.target.directory.path().join("s3/data");
    let happens = move || {
        // Up to date, before anybody has to stop.
        assert_eq!(std::fs::read(files.join("deleted")).unwrap(), b"deleted");
        source.put("data", "changed", b"since", 2);
        source.put("new", "added", b"added", 2);
        source.delete("data", "deleted");
        std::fs::write(go, "go\n").unwrap();
    };

    let (ended, phases) = held
        .finish(CancellationToken::new(), Box::new(happens))
        .await;

    let ended = ended.unwrap();
    assert_eq!((ended.exit, ended.ending), (ExitCode::Ok, Ending::Migrated));
    held.target.equals(&held.source);
    let marker = held.marker();
    assert_eq!(
        (marker.state, &*marker.run_id),
        (MarkerState::Verified, "files-1")
    );
    assert_eq!((marker.carried.objects, marker.carried.buckets), (3, 2));
    assert_eq!(marker.source.buckets, ["data", "new"]);
    assert_eq!(marker.cutover_at, None);
    let order = [
        Phase::Copy,
        Phase::Held,
        Phase::Final,
        Phase::Verify,
        Phase::Mark,
    ];
    let mut seen = phases;
    seen.dedup();
    assert_eq!(seen, order);
    // Three before, two since.
    assert_eq!(
        ended.apart,
        Some(Apart {
            differed: 5,
            only_on_target: 0
        })
    );
}

#[tokio::test]
async fn stopped_while_it_is_held_it_goes_on_with_the_same_id() {
    let mut held = Held::new();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let (ended, _) = held.finish(cancel, Box::new(move || stop.cancel())).await;
    assert_eq!(ended.unwrap_err().kind, Kind::Interrupted);
    assert_eq!(held.marker().state, MarkerState::Copying);

    held.target.options.run_id = Some("files-2".into());
    let (ended, phases) = held.finish(CancellationToken::new(), Box::new(|| ())).await;
    let refused = ended.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.to_string().contains("files-1"), "{refused}");
    assert!(!phases.contains(&Phase::Held));

    held.target.options.run_id = Some("files-1".into());
    let go = held.go.clone();
    let happens = move || std::fs::write(go, "go").unwrap();
    let (ended, _) = held
        .finish(CancellationToken::new(), Box::new(happens))
        .await;
    assert_eq!(ended.unwrap().exit, ExitCode::Ok);
    assert_eq!(held.marker().state, MarkerState::Verified);
    assert_eq!(held.source.opened(), 3, "nothing is copied twice");
    held.target.equals(&held.source);
}

#[tokio::test]
async fn what_cannot_be_carried_is_told_before_anybody_stops() {
    let mut held = Held::new();
    held.source.trouble("data/kept", Trouble::Encrypted);
    let (ended, phases) = held.finish(CancellationToken::new(), Box::new(|| ())).await;
    let ended = ended.unwrap();
    assert_eq!(ended.exit, ExitCode::Failures);
    assert!(ended.summary.contains("--accept"), "{}", ended.summary);
    assert!(!phases.contains(&Phase::Held));
    assert_eq!(held.marker().state, MarkerState::Copying);

    held.target.options.accept_loss = true;
    let go = held.go.clone();
    let happens = move || std::fs::write(go, "go").unwrap();
    let (ended, _) = held
        .finish(CancellationToken::new(), Box::new(happens))
        .await;
    assert_eq!(ended.unwrap().exit, ExitCode::Ok);
}

#[tokio::test]
async fn a_file_that_can_never_be_read_is_told_at_once() {
    let mut held = Held::new();
    held.target.options.hold_file = Some(held.directory.path().to_owned());
    let (ended, phases) = held.finish(CancellationToken::new(), Box::new(|| ())).await;
    assert_eq!(ended.unwrap_err().kind, Kind::Usage);
    assert!(!phases.contains(&Phase::Copy));
}
