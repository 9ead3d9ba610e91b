//! Objects that move, break off, are damaged or cannot be read.

use std::os::unix::fs::FileExt;

use filestore_common::marker::MarkerState;
use filestore_migrator::state::{Checkpoint, State, Unflushed};
use filestore_migrator::{Ending, ExitCode};

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble, bucket};

fn two() -> std::sync::Arc<MemorySource> {
    let source = MemorySource::new();
    source.put("abc", "good", b"good", 1);
    source.put("abc", "odd", &vec![9; 2_500_000], 2);
    source
}

#[tokio::test]
async fn an_object_that_moves_once_is_copied() {
    let (source, target) = (two(), Target::new());
    source.trouble("abc/odd", Trouble::Moves(1));
    assert_eq!(target.run(&source).await.unwrap().ending, Ending::Migrated);
    target.equals(&source);
}

#[tokio::test]
async fn an_object_that_keeps_moving_is_listed_with_a_code_of_its_own() {
    let (source, target) = (two(), Target::new());
    source.trouble("abc/odd", Trouble::Moves(1000));

    let outcome = target.copy(&source).await.unwrap();

    assert_eq!(outcome.exit, ExitCode::Changed);
    assert!(outcome.summary.contains("abc/odd"), "{}", outcome.summary);
    assert_eq!(target.held().keys().collect::<Vec<_>>(), ["abc/good"]);
}

#[tokio::test]
async fn a_damaged_or_torn_body_never_appears_and_the_rest_does() {
    for trouble in [Trouble::Flipped, Trouble::BreaksOff] {
        let (source, target) = (two(), Target::new());
        source.trouble("abc/odd", trouble.clone());

        let outcome = target.run(&source).await.unwrap();

        assert_eq!(
            (outcome.exit, outcome.ending),
            (ExitCode::Failures, Ending::Incomplete)
        );
        assert_eq!(outcome.marker.unwrap().state, MarkerState::Copying);
        assert!(
            outcome.summary.contains("abc/odd"),
            "{trouble:?}: {}",
            outcome.summary
        );
        assert_eq!(
            target.held().keys().collect::<Vec<_>>(),
            ["abc/good"],
            "{trouble:?}"
        );
    }
}

#[tokio::test]
async fn what_nobody_can_read_is_listed_and_must_be_accepted() {
    let (source, mut target) = (two(), Target::new());
    source.trouble("abc/odd", Trouble::Encrypted);

    let outcome = target.run(&source).await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Failures, Ending::Incomplete)
    );
    assert!(
        outcome.summary.contains("--accept-loss"),
        "{}",
        outcome.summary
    );

    target.options.accept_loss = true;
    let outcome = target.run(&source).await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::Migrated)
    );
    let marker = outcome.marker.unwrap();
    assert_eq!(marker.not_carried["encrypted"].count, 1);
    assert_eq!(marker.not_carried["encrypted"].examples, ["abc/odd"]);
    assert!(marker.accepted_by.is_some());
}

/// Page cache is lost with the machine: an object whose metadata survived and whose bytes did not
/// has the right ETag and size. Whatever was not flushed before a restart of the machine is read.
#[tokio::test]
async fn what_a_power_loss_may_have_eaten_is_read_back_and_copied_again() {
    let (source, target) = (two(), Target::new());
    target.copy(&source).await.unwrap();
    let file = target.directory.path().join("s3/abc/odd");
    let file = std::fs::File::options().write(true).open(file).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(&[0; 4096], 8192).unwrap();
    file.set_modified(modified).unwrap();
    drop(file);

    // The same start of the machine: nothing was lost, nothing is read again.
    let opened = source.opened();
    target.copy(&source).await.unwrap();
    assert_eq!(source.opened(), opened);

    let state = State::new(target.directory.path().join(".filestore"));
    let run_id = state.marker().unwrap().unwrap().run_id;
    let checkpoint = Checkpoint {
        unflushed: Some(Unflushed {
            boot_id: "another start".into(),
            bucket: bucket("abc"),
            key: None,
            failed: false,
        }),
        ..state.checkpoint(&run_id).unwrap()
    };
    state.set_checkpoint(&run_id, &checkpoint).unwrap();
    target.copy(&source).await.unwrap();

    target.equals(&source);
    assert_eq!(
        source.opened(),
        opened + 1,
        "only the damaged object is copied again"
    );
    assert_eq!(state.checkpoint(&run_id).unwrap().unflushed, None);
}
