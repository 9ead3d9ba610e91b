//! The way back in one command, between volumes: what is on the disk at each step.

use std::sync::{Arc, Mutex};

use filestore_common::marker::{Marker, MarkerState};
use filestore_migrator::progress::{Event, Phase, Progress, Silent};
use filestore_migrator::{Ending, Error, ExitCode, Kind, Outcome, RunOptions, run as engine};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;

/// Does something when a phase begins.
struct At<F>(Mutex<F>);

impl<F> std::fmt::Debug for At<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("At")
    }
}

impl<F: FnMut(Phase) + Send> Progress for At<F> {
    fn event(&self, event: &Event<'_>) {
        if let Event::Phase { phase, .. } = event {
            self.0.lock().unwrap()(*phase);
        }
    }
}

/// A legacy volume and the one that took it over as `first`, with clients since.
struct Pair {
    legacy: Target,
    served: Target,
}

impl Pair {
    async fn new() -> Self {
        let (legacy, mut served) = (Target::new(), Target::new());
        for key in ["a", "b"] {
            legacy.client_puts("data", key, key.as_bytes());
        }
        served.options.from = Some(legacy.options.to.clone());
        served.options.run_id = Some("first".into());
        let cancel = CancellationToken::new();
        let taken = engine::run(&served.options, Arc::new(Silent), cancel).await;
        assert_eq!(taken.unwrap().ending, Ending::Migrated);
        served.client_puts("data", "b", b"changed");
        served.client_puts("data", "c", b"new");
        Self { legacy, served }
    }

    fn options(&self) -> RunOptions {
        let mut options = self.legacy.options.clone();
        options.from = Some(self.served.options.to.clone());
        options.run_id = Some("first".into());
        options
    }

    async fn back(&self, at: impl FnMut(Phase) + Send + 'static) -> Result<Outcome, Error> {
        let progress = Arc::new(At(Mutex::new(at)));
        engine::roll_back(&self.options(), progress, CancellationToken::new()).await
    }

    fn state(&self) -> MarkerState {
        state(self.served.directory.path())
    }
}

fn state(volume: &std::path::Path) -> MarkerState {
    let text = std::fs::read(volume.join(".filestore/migration.json")).unwrap();
    serde_json::from_slice::<Marker>(&text).unwrap().state
}

#[tokio::test]
async fn the_marker_is_on_the_disk_before_each_step() {
    let pair = Pair::new().await;
    let volume = pair.served.directory.path().to_owned();
    // What a power loss leaves of a marker that did not get its name.
    std::fs::write(volume.join(".filestore/migration.json.new"), "{\"vers").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let at = move |phase| log.lock().unwrap().push((phase, state(&volume)));

    let done = pair.back(at).await.unwrap();

    assert_eq!((done.exit, done.ending), (ExitCode::Ok, Ending::RolledBack));
    assert_eq!(pair.state(), MarkerState::RolledBack);
    let seen = seen.lock().unwrap();
    // From before the legacy store is asked for anything until the very end.
    assert_eq!(seen.first().unwrap().0, Phase::Connect);
    assert_eq!(seen.last().unwrap().0, Phase::Mark);
    assert!(
        seen.iter()
            .all(|(_, state)| *state == MarkerState::RollingBack),
        "{seen:?}"
    );
    let bodies = pair.legacy.bodies();
    assert_eq!(bodies["data/b"], "changed");
    assert_eq!(bodies.len(), 3);
}

#[tokio::test]
async fn a_legacy_store_that_lost_what_it_was_given_is_not_let_serve() {
    let pair = Pair::new().await;
    let lost = pair.legacy.directory.path().join("s3/data/c");
    let gone = lost.clone();
    let at = move |phase| {
        if phase == Phase::Verify && gone.exists() {
            std::fs::remove_file(&gone).unwrap();
        }
    };

    let refused = pair.back(at).await.unwrap_err();

    assert_eq!(refused.kind, Kind::Refused);
    assert!(refused.to_string().contains("data/c"), "{refused}");
    assert_eq!(pair.state(), MarkerState::RollingBack);
}

#[tokio::test]
async fn what_the_legacy_store_alone_changed_is_no_difference() {
    let pair = Pair::new().await;
    pair.legacy.client_puts("data", "own", b"own");
    pair.legacy.client_deletes("data", "a");

    let done = pair.back(|_| ()).await.unwrap();

    assert_eq!(done.ending, Ending::RolledBack, "{}", done.summary);
    let held: Vec<String> = pair.legacy.bodies().into_keys().collect();
    assert_eq!(held, ["data/b", "data/c", "data/own"]);
}

#[tokio::test]
async fn given_up_it_is_as_before_and_not_after_its_end() {
    let pair = Pair::new().await;
    let options = pair.options();
    let before = engine::abandon(&options).unwrap();
    assert_eq!(before.marker.unwrap().state, MarkerState::Cutover);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let stopped = engine::roll_back(&options, Arc::new(Silent), cancel).await;
    assert_eq!(stopped.unwrap_err().kind, Kind::Interrupted);
    assert_eq!(pair.state(), MarkerState::RollingBack);

    let given_up = engine::abandon(&options).unwrap();

    assert_eq!(given_up.ending, Ending::Abandoned);
    let marker = given_up.marker.unwrap();
    assert_eq!(
        (marker.state, pair.state()),
        (MarkerState::Cutover, MarkerState::Cutover)
    );
    assert!(marker.cutover_at.is_some());
    assert_eq!(pair.back(|_| ()).await.unwrap().ending, Ending::RolledBack);
    assert_eq!(engine::abandon(&options).unwrap_err().kind, Kind::Refused);
    assert_eq!(pair.state(), MarkerState::RolledBack);
}

#[tokio::test]
async fn a_gateway_at_work_is_told_before_anything_is_marked() {
    let pair = Pair::new().await;
    let serving = pair.served.store();
    let refused = pair.back(|_| ()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert_eq!(refused.cure.as_deref(), Some("stop the gateway first"));
    assert_eq!(pair.state(), MarkerState::Cutover);
    drop(serving);
    assert!(pair.back(|_| ()).await.is_ok());
}

#[tokio::test]
async fn rounds_of_a_second_take_over_delete_nothing_and_lose_nothing() {
    let mut pair = Pair::new().await;
    pair.back(|_| ()).await.unwrap();
    pair.legacy.client_puts("data", "b", b"legacy");
    pair.legacy.client_deletes("data", "a");
    pair.served.client_puts("data", "late", b"late");
    let copy = async |pair: &Pair| {
        engine::copy(
            &pair.served.options,
            Arc::new(Silent),
            CancellationToken::new(),
        )
        .await
    };
    assert_eq!(
        copy(&pair).await.unwrap_err().kind,
        Kind::Refused,
        "the same id"
    );
    pair.served.options.run_id = Some("second".into());

    let round = copy(&pair).await.unwrap();

    assert_eq!(round.exit, ExitCode::Ok, "{}", round.summary);
    let apart = round.apart.unwrap();
    assert_eq!((apart.differed, apart.only_on_target), (1, 1));
    let bodies = pair.served.bodies();
    assert_eq!(
        bodies["data/a"], "a",
        "deleted on the legacy store, not yet here"
    );
    assert_eq!(
        (&*bodies["data/b"], &*bodies["data/late"]),
        ("legacy", "late")
    );
    assert_eq!(copy(&pair).await.unwrap().apart.unwrap().differed, 0);

    pair.served.options.cutover = false;
    let mode = filestore_migrator::verify::Mode::Listing;
    let (silent, cancel) = (Arc::new(Silent), CancellationToken::new());
    let last = engine::finish(&pair.served.options, mode, silent, cancel)
        .await
        .unwrap();

    assert_eq!(
        (last.exit, last.ending),
        (ExitCode::Ok, Ending::Migrated),
        "{}",
        last.summary
    );
    let marker = last.marker.unwrap();
    assert_eq!(marker.state, MarkerState::Verified);
    assert_eq!(marker.follows.as_deref(), Some("first"));
    let held: Vec<String> = pair.served.bodies().into_keys().collect();
    assert_eq!(held, ["data/b", "data/c", "data/late"]);
}
