use std::path::Path;

use filestore_common::marker::MARKER_FILE;

use super::*;
use crate::{Store, StoreOptions};

fn written(volume: &Path, state: &str, kind: &str) -> String {
    let text = format!(
        r#"{{"version":1,"runId":"run-7","state":"{state}","holder":"h",
            "startedAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z",
            "source":{{"kind":"{kind}","location":"http://minio","buckets":["b"]}},
            "carried":{{"buckets":1,"objects":2,"bytes":3}},"digest":"d"}}"#
    );
    std::fs::write(path(volume), &text).unwrap();
    text
}

fn path(volume: &Path) -> std::path::PathBuf {
    volume.join(".filestore").join(MARKER_FILE)
}

struct Scratch {
    dir: tempfile::TempDir,
    store: Store,
}

fn scratch() -> Scratch {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
    Scratch { dir, store }
}

#[test]
fn verified_becomes_cutover_once_and_for_all() {
    let Scratch { dir, store } = scratch();
    written(dir.path(), "verified", "s3");

    let first = store.hand_over("run-7").unwrap();

    assert_eq!(first.state, MarkerState::Cutover);
    assert_eq!(first.cutover_at.as_ref(), Some(&first.updated_at));
    assert_eq!(
        (first.carried.objects, first.digest.as_deref()),
        (2, Some("d"))
    );
    assert_eq!(store.marker().unwrap().as_ref(), Some(&first));
    assert_eq!(store.migration_state().unwrap(), Some(MarkerState::Cutover));
    let changes = store.marker_changes();
    // Again: the same, and not written anew.
    assert_eq!(store.hand_over("run-7").unwrap(), first);
    assert_eq!(store.marker_changes(), changes);
}

#[test]
fn any_other_state_or_id_is_refused_and_stays() {
    let Scratch { dir, store } = scratch();
    assert!(matches!(
        store.hand_over("run-7"),
        Err(HandOverError::Unknown(_))
    ));
    for state in ["copying", "rollingBack", "rolledBack"] {
        let before = written(dir.path(), state, "s3");
        let refused = store.hand_over("run-7").unwrap_err();
        assert!(
            matches!(refused, HandOverError::NotNow(_)),
            "{state}: {refused}"
        );
        assert!(refused.to_string().contains(state), "{refused}");
        assert_eq!(std::fs::read_to_string(path(dir.path())).unwrap(), before);
    }
    for state in ["verified", "cutover"] {
        let before = written(dir.path(), state, "s3");
        let refused = store.hand_over("run-8").unwrap_err();
        assert!(
            matches!(refused, HandOverError::Unknown(_)),
            "{state}: {refused}"
        );
        assert_eq!(std::fs::read_to_string(path(dir.path())).unwrap(), before);
    }
    // Has no id of ours, and is its clients'.
    written(dir.path(), "cutover", "adopted");
    assert_eq!(
        store.hand_over("run-8").unwrap().state,
        MarkerState::Cutover
    );
}

#[test]
fn a_program_that_changes_the_migration_is_not_cut_in_on() {
    let Scratch { dir, store } = scratch();
    let before = written(dir.path(), "verified", "s3");
    let lock = std::fs::File::create(dir.path().join(".filestore").join(STATE_LOCK_FILE)).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();

    let refused = store.hand_over("run-7").unwrap_err();

    assert!(matches!(refused, HandOverError::NotNow(_)), "{refused}");
    assert_eq!(std::fs::read_to_string(path(dir.path())).unwrap(), before);
    drop(lock);
    assert!(store.hand_over("run-7").is_ok());
}

#[test]
fn requests_at_once_are_all_answered_with_the_same() {
    let Scratch { dir, store } = scratch();
    written(dir.path(), "verified", "s3");

    let markers: Vec<Marker> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| store.hand_over("run-7").unwrap());
        let asked: Vec<_> = (0..8).map(|_| ask()).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });

    assert!(markers.iter().all(|marker| *marker == markers[0]));
    assert_eq!(store.marker_changes(), 1);
}

#[test]
fn what_a_crash_leaves_is_the_old_marker_or_the_new_one() {
    let Scratch { dir, store } = scratch();
    let before = written(dir.path(), "verified", "s3");
    // Before the rename there is a temporary file beside it, whole or not.
    std::fs::write(dir.path().join(".filestore/filestore.0123.1"), "{\"vers").unwrap();
    drop(store);

    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();

    assert_eq!(std::fs::read_to_string(path(dir.path())).unwrap(), before);
    assert_eq!(
        store.migration_state().unwrap(),
        Some(MarkerState::Verified)
    );
    assert_eq!(
        store.hand_over("run-7").unwrap().state,
        MarkerState::Cutover
    );
}

#[test]
fn the_state_follows_whoever_changes_the_marker() {
    let Scratch { dir, store } = scratch();
    assert_eq!(store.migration_state().unwrap(), None);
    // In one tick of the clock, in files of one size, on inodes that are used again.
    for _ in 0..50 {
        for (text, state) in [
            ("cutover", MarkerState::Cutover),
            ("copying", MarkerState::Copying),
        ] {
            let new = dir.path().join(".filestore/new");
            written(dir.path(), text, "s3");
            std::fs::copy(path(dir.path()), &new).unwrap();
            std::fs::rename(&new, path(dir.path())).unwrap();
            assert_eq!(store.migration_state().unwrap(), Some(state));
        }
    }
    std::fs::write(path(dir.path()), "{").unwrap();
    assert!(store.migration_state().is_err());
    std::fs::remove_file(path(dir.path())).unwrap();
    assert_eq!(store.migration_state().unwrap(), None);
}
