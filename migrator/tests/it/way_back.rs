//! Going back and over again, between volumes: histories that real servers make hard to time.

use std::sync::Arc;

use filestore_common::marker::{Marker, MarkerScope, MarkerState};
use filestore_migrator::manifest::Reader;
use filestore_migrator::progress::Silent;
use filestore_migrator::reconcile::Deletes;
use filestore_migrator::run::{MergeOptions, ReverseOptions};
use filestore_migrator::{
    Ending, Error, ExitCode, Kind, Outcome, RunOptions, Scope, run as engine,
};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble, bucket};

const COMPLETE: ReverseOptions = ReverseOptions {
    complete: true,
    dry_run: false,
    report: None,
};

/// A legacy volume and the one that took it over.
struct Pair {
    legacy: Target,
    served: Target,
}

impl Pair {
    async fn new(fill: impl FnOnce(&Target), scope: Scope) -> Self {
        let (legacy, mut served) = (Target::new(), Target::new());
        fill(&legacy);
        served.options.from = Some(legacy.options.to.clone());
        served.options.scope = scope;
        let cancel = CancellationToken::new();
        let outcome = engine::run(&served.options, Arc::new(Silent), cancel).await;
        assert_eq!(outcome.unwrap().ending, Ending::Migrated);
        Self { legacy, served }
    }

    async fn reverse(
        &self,
        how: &ReverseOptions,
        change: impl FnOnce(&mut RunOptions),
    ) -> Result<Outcome, Error> {
        let mut options = self.legacy.options.clone();
        options.from = Some(self.served.options.to.clone());
        change(&mut options);
        engine::reverse(&options, how, Arc::new(Silent), CancellationToken::new()).await
    }

    fn marker(&self) -> Marker {
        read_marker(&self.served)
    }
}

fn read_marker(target: &Target) -> Marker {
    let path = target.directory.path().join(".filestore/migration.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn what_clients_wrote_outside_of_the_scope_is_not_left_behind_silently() {
    let given = MarkerScope {
        buckets: vec!["data".into()],
        exclude: vec!["tmp/".into()],
        ..MarkerScope::default()
    };
    let scope = Scope::read(&given, None).unwrap();
    let pair = Pair::new(|legacy| legacy.client_puts("data", "a", b"a"), scope).await;
    pair.served.client_puts("data", "b", b"b");
    pair.served.client_puts("data", "tmp/x", b"x");
    pair.served.client_puts("other", "new", b"new");

    let outcome = pair.reverse(&COMPLETE, |_| {}).await.unwrap();

    assert_eq!(outcome.exit, ExitCode::Failures);
    for name in ["data/tmp/x", "other/new", "--accept-loss"] {
        assert!(outcome.summary.contains(name), "{}", outcome.summary);
    }
    assert!(!outcome.summary.contains("data/b,"), "{}", outcome.summary);
    assert_eq!(pair.marker().state, MarkerState::RollingBack);
    let accept = |options: &mut RunOptions| options.accept_loss = true;
    let outcome = pair.reverse(&COMPLETE, accept).await.unwrap();
    assert_eq!(outcome.ending, Ending::RolledBack);
    let held: Vec<String> = pair.legacy.bodies().into_keys().collect();
    assert_eq!(held, ["data/a", "data/b"]);
}

#[tokio::test]
async fn a_bucket_without_objects_goes_back_too() {
    let fill = |legacy: &Target| {
        legacy.client_puts("data", "a", b"a");
        legacy.store().create_bucket(&bucket("gone"), "x").unwrap();
    };
    let pair = Pair::new(fill, Scope::default()).await;
    let names = |target: &Target| -> Vec<String> {
        let buckets = target.store().list_buckets().unwrap();
        buckets.into_iter().map(|b| b.name.to_string()).collect()
    };
    assert_eq!(names(&pair.served), ["data", "gone"]);
    pair.served
        .store()
        .create_bucket(&bucket("new"), "x")
        .unwrap();
    pair.legacy.store().delete_bucket(&bucket("gone")).unwrap();

    let outcome = pair.reverse(&COMPLETE, |_| {}).await.unwrap();

    assert_eq!(outcome.ending, Ending::RolledBack, "{}", outcome.summary);
    // What was deleted there by its clients does not come back.
    assert_eq!(names(&pair.legacy), ["data", "new"]);
}

#[tokio::test]
async fn a_refused_deletion_is_told_by_a_trial_and_leaves_the_marker_with_its_manifest() {
    let fill = |legacy: &Target| {
        for key in ["a", "b", "c"] {
            legacy.client_puts("data", key, key.as_bytes());
        }
    };
    let pair = Pair::new(fill, Scope::default()).await;
    pair.served.client_deletes("data", "b");
    pair.served.client_deletes("data", "c");
    pair.served.client_puts("data", "d", b"d");
    let few = |options: &mut RunOptions| options.max_delete = Some(1);
    let how = |dry_run| ReverseOptions {
        complete: false,
        dry_run,
        report: None,
    };

    let error = pair.reverse(&how(true), few).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused, "{error}");
    assert_eq!(pair.marker().carried.objects, 3);
    assert_eq!(pair.legacy.held().len(), 3);

    let error = pair.reverse(&how(false), few).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused, "{error}");
    assert_eq!(pair.legacy.held().len(), 4);
    let marker = pair.marker();
    let run = format!(".filestore/runs/{}/manifest.jsonl.gz", marker.run_id);
    let mut manifest = Reader::open(&pair.served.directory.path().join(run)).unwrap();
    let lines = std::iter::from_fn(|| manifest.line().unwrap()).count() as u64;
    assert_eq!((lines, marker.carried.objects), (4, 4));
}

#[tokio::test]
async fn a_merge_that_leaves_objects_behind_says_so_by_its_exit_code() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    target.run(&source).await.unwrap();
    source.put("abc", "secret", b"s", 2);
    source.trouble("abc/secret", Trouble::Encrypted);
    let how = MergeOptions {
        deletes: Deletes::List,
        dry_run: false,
        report: None,
    };
    let merge = async |options: &RunOptions| {
        let (silent, cancel) = (Arc::new(Silent), CancellationToken::new());
        engine::merge_from(source.clone(), options, &how, silent, cancel).await
    };

    assert_eq!(
        merge(&target.options).await.unwrap().exit,
        ExitCode::Failures
    );
    target.options.accept_loss = true;
    assert_eq!(merge(&target.options).await.unwrap().exit, ExitCode::Ok);
}

#[tokio::test]
async fn another_list_than_the_accepted_one_stops_a_second_take_over_before_it_begins() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a", b"a", 1);
    target.run(&source).await.unwrap();
    let mut marker = read_marker(&target);
    marker.state = MarkerState::RolledBack;
    let path = target.directory.path().join(".filestore/migration.json");
    std::fs::write(path, serde_json::to_vec(&marker).unwrap()).unwrap();
    source.put("abc", "b", b"b", 2);
    source.put("abc", "secret", b"s", 2);
    source.trouble("abc/secret", Trouble::Encrypted);
    target.options.again = true;
    target.options.run_id = Some("second".into());
    target.options.accept = Some("0123456789abcdef".into());

    let error = target.run(&source).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused, "{error}");
    assert_eq!(target.held().len(), 1);
    assert_eq!(read_marker(&target), marker);
    // It names the list that may be accepted.
    let told = error.to_string();
    let hash = told.split("would stay behind: ").nth(1).unwrap();
    target.options.accept = Some(hash[..16].to_owned());
    assert_eq!(target.run(&source).await.unwrap().ending, Ending::Migrated);
    assert_eq!(target.held().len(), 2);
}
