//! After cut-over the target belongs to its clients: source-now is compared with the manifest,
//! additions and newer versions of untouched keys are merged, nothing else is changed.

use std::time::Duration;

use filestore_migrator::progress::Silent;
use filestore_migrator::reconcile::Deletes;
use filestore_migrator::run::MergeOptions;
use filestore_migrator::{Ending, ExitCode, Kind, run as engine};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble};

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one history, told in order")]
async fn nothing_that_clients_did_is_undone() {
    let (source, target) = (MemorySource::new(), Target::new());
    for key in [
        "both-deleted",
        "client-deleted",
        "client-deleted-source-new",
        "client-new",
        "client-wrote",
        "source-deleted",
        "source-new",
        "untouched",
    ] {
        source.put("abc", key, format!("old {key}").as_bytes(), 1);
    }
    assert_eq!(target.run(&source).await.unwrap().ending, Ending::Migrated);
    // The clients of the new store …
    target.client_puts("abc", "client-wrote", b"client");
    target.client_puts("abc", "client-new", b"client");
    target.client_puts("abc", "only-client", b"client");
    target.client_puts("abc", "both-added", b"client");
    for key in [
        "both-deleted",
        "client-deleted",
        "client-deleted-source-new",
    ] {
        target.client_deletes("abc", key);
    }
    // … and somebody who still writes to the old one.
    source.put("abc", "source-new", b"source", 2);
    source.put("abc", "client-new", b"source", 2);
    source.put("abc", "client-deleted-source-new", b"source", 2);
    source.put("abc", "source-added", b"source", 2);
    source.put("abc", "both-added", b"source", 2);
    source.put("new-bucket", "source-added", b"source", 2);
    source.delete("abc", "source-deleted");
    source.delete("abc", "both-deleted");

    let outcome = target.run(&source).await.unwrap();

    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::Rechecked)
    );
    assert!(outcome.marker.unwrap().diverged);
    let expected = [
        ("abc/both-added", "client"),
        ("abc/client-new", "client"),
        ("abc/client-wrote", "client"),
        ("abc/only-client", "client"),
        ("abc/source-added", "source"),
        ("abc/source-deleted", "old source-deleted"),
        ("abc/source-new", "source"),
        ("abc/untouched", "old untouched"),
        ("new-bucket/source-added", "source"),
    ];
    let held: Vec<_> = target.bodies().into_iter().collect();
    let held: Vec<_> = held
        .iter()
        .map(|(key, body)| (key.as_str(), body.as_str()))
        .collect();
    assert_eq!(held, expected);
    let runs = target.directory.path().join(".filestore/runs");
    let run = std::fs::read_dir(runs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let listed = std::fs::read_to_string(run.join("divergence.jsonl")).unwrap();
    let mut listed: Vec<(String, String)> = listed
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            (text("key"), text("how"))
        })
        .collect();
    listed.sort();
    let conflict = "changedOnBoth".to_owned();
    assert_eq!(
        listed,
        [
            ("both-added".to_owned(), conflict.clone()),
            ("client-deleted-source-new".to_owned(), conflict.clone()),
            ("client-new".to_owned(), conflict),
            ("source-deleted".to_owned(), "deletedOnSource".to_owned()),
        ]
    );

    // The same again finds the same, and merges nothing twice.
    let opened = source.opened();
    let again = target.run(&source).await.unwrap();
    assert!(again.marker.unwrap().diverged);
    assert!(
        again.summary.contains("0 added, 0 updated"),
        "{}",
        again.summary
    );
    assert_eq!(source.opened(), opened);
    assert_eq!(target.bodies().len(), expected.len());

    // A client changes what was merged: that is a change of the client alone.
    target.client_puts("abc", "source-new", b"client");
    target.run(&source).await.unwrap();
    assert_eq!(target.bodies()["abc/source-new"], "client");
}

#[tokio::test]
async fn an_empty_or_broken_source_changes_nothing() {
    let (source, target) = (MemorySource::new(), Target::new());
    for key in ["a", "b", "c"] {
        source.put("abc", key, key.as_bytes(), 1);
    }
    target.run(&source).await.unwrap();

    *source.listing_breaks_after.lock().unwrap() = Some(1);
    let outcome = target.run(&source).await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::NotRechecked)
    );
    assert_eq!(target.held().len(), 3);

    *source.listing_breaks_after.lock().unwrap() = None;
    for key in ["a", "b", "c"] {
        source.delete("abc", key);
    }
    let outcome = target.run(&source).await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::Rechecked)
    );
    assert!(outcome.marker.unwrap().diverged);
    assert_eq!(target.held().len(), 3);
}

#[tokio::test]
async fn what_the_listing_forgets_is_no_deletion() {
    let (source, target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    source.put("abc", "b", b"b", 1);
    target.run(&source).await.unwrap();
    source.trouble("abc/a", Trouble::Unlisted);

    let outcome = target.run(&source).await.unwrap();

    assert!(!outcome.marker.unwrap().diverged);
}

#[tokio::test]
async fn without_time_nothing_is_compared_and_the_gateway_may_start() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    target.run(&source).await.unwrap();
    source.put("abc", "b", b"b", 1);
    target.options.recheck = Duration::ZERO;

    let outcome = target.run(&source).await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::NotRechecked)
    );

    target.options.recheck = Duration::from_secs(30);
    let outcome = target.run(&source).await.unwrap();
    assert_eq!(outcome.ending, Ending::Rechecked);
    assert_eq!(target.held().len(), 2);
}

#[tokio::test]
async fn another_source_after_cutover_is_left_alone() {
    let (source, target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    target.run(&source).await.unwrap();
    let other = MemorySource {
        deployment: "deployment-2".into(),
        ..MemorySource::default()
    };
    other.put("abc", "z", b"z", 1);

    let outcome = target.run(&std::sync::Arc::new(other)).await.unwrap();

    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::NotRechecked)
    );
    assert_eq!(target.held().len(), 1);
}

#[tokio::test]
async fn what_holds_the_migration_or_the_volume_is_no_reason_not_to_serve() {
    let (source, target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    target.run(&source).await.unwrap();
    source.put("abc", "b", b"b", 1);
    let not_compared = (ExitCode::Ok, Ending::NotRechecked);

    // As a merge or a way back holds it.
    let path = target.directory.path().join(".filestore/reconcile.lock");
    let held = std::fs::File::options().append(true).open(path).unwrap();
    held.lock().unwrap();
    let outcome = target.run(&source).await.unwrap();
    assert_eq!((outcome.exit, outcome.ending), not_compared);
    assert!(outcome.summary.contains("at work"), "{}", outcome.summary);
    drop(held);

    let serving = target.store();
    let outcome = target.run(&source).await.unwrap();
    assert_eq!((outcome.exit, outcome.ending), not_compared);
    assert!(outcome.summary.contains("in use"), "{}", outcome.summary);
    drop(serving);

    let outcome = target.run(&source).await.unwrap();
    assert_eq!(outcome.ending, Ending::Rechecked);
    assert_eq!(target.held().len(), 2);
}

#[tokio::test]
async fn a_store_that_hides_its_deployment_deletes_nothing() {
    let (source, target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    source.put("abc", "b", b"b", 1);
    target.run(&source).await.unwrap();
    let fresh = std::sync::Arc::new(MemorySource::default());
    fresh.put("abc", "b", b"b", 1);
    let how = MergeOptions {
        deletes: Deletes::Apply,
        dry_run: false,
        report: None,
    };
    let merge = async |source: &std::sync::Arc<MemorySource>| {
        let (silent, cancel) = (std::sync::Arc::new(Silent), CancellationToken::new());
        engine::merge_from(source.clone(), &target.options, &how, silent, cancel).await
    };

    let error = merge(&fresh).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused);
    assert!(error.cure.unwrap().contains("root credentials"));
    assert_eq!(target.held().len(), 2);
    // The known one may.
    source.delete("abc", "a");
    merge(&source).await.unwrap();
    assert_eq!(target.held().len(), 1);
}
