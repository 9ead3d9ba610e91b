//! What a narrower migration must never touch, in histories that real servers make hard to time.

use std::sync::Arc;

use filestore_common::marker::MarkerScope;
use filestore_migrator::progress::Silent;
use filestore_migrator::reconcile::Deletes;
use filestore_migrator::run::MergeOptions;
use filestore_migrator::verify::Mode;
use filestore_migrator::{Error, ExitCode, Kind, Outcome, RunOptions, Scope, run as engine};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble};

pub(crate) fn include(prefix: &str) -> Scope {
    let given = MarkerScope {
        include: vec![prefix.into()],
        ..MarkerScope::default()
    };
    Scope::read(&given, None).unwrap()
}

async fn finish(target: &Target, source: &Arc<MemorySource>) -> Result<Outcome, Error> {
    engine::finish_from(
        source.clone(),
        &target.options,
        Mode::Listing,
        Arc::new(Silent),
        CancellationToken::new(),
    )
    .await
}

#[tokio::test]
async fn widening_does_not_make_older_objects_of_the_target_ours() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a/1", b"a", 1);
    source.put("abc", "b/1", b"b", 1);
    target.client_puts("abc", "b/mine", b"mine");
    target.options.scope = include("a/");
    target.copy(&source).await.unwrap();

    target.options.scope = Scope::default();
    let error = finish(&target, &source).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused);
    assert_eq!(target.bodies()["abc/b/mine"], "mine");
    target.options.delete_extraneous = true;
    finish(&target, &source).await.unwrap();
    target.equals(&source);
}

#[tokio::test]
async fn widening_a_target_that_was_empty_deletes_as_before() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a/1", b"a", 1);
    source.put("abc", "a/gone", b"a", 1);
    source.put("abc", "b/1", b"b", 1);
    target.options.scope = include("a/");
    target.copy(&source).await.unwrap();
    source.delete("abc", "a/gone");

    target.options.scope = Scope::default();
    assert_eq!(finish(&target, &source).await.unwrap().exit, ExitCode::Ok);

    target.equals(&source);
}

#[tokio::test]
async fn an_object_outside_that_cannot_be_carried_is_no_loss() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a/1", b"a", 1);
    source.put("abc", "b/broken", b"b", 1);
    source.trouble("abc/b/broken", Trouble::Flipped);
    target.options.scope = include("a/");

    assert_eq!(target.run(&source).await.unwrap().exit, ExitCode::Ok);

    assert_eq!(target.bodies().len(), 1);
}

#[tokio::test]
async fn a_pattern_that_fits_nothing_is_named() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("abc", "a/1", b"a", 1);
    let given = MarkerScope {
        include: vec!["a/".into(), "typo/".into()],
        ..MarkerScope::default()
    };
    target.options.scope = Scope::read(&given, None).unwrap();

    let outcome = target.run(&source).await.unwrap();

    let summary = &outcome.summary;
    assert!(
        summary.contains("--include typo/ fits no object"),
        "{summary}"
    );
    assert!(!summary.contains("--include a/ fits"), "{summary}");
}

#[tokio::test]
async fn a_merge_is_about_what_was_migrated_whatever_it_was_called() {
    let (source, mut target) = (MemorySource::new(), Target::new());
    source.put("old", "a", b"a", 1);
    source.put("other", "a", b"a", 1);
    let chosen = |bucket: &str| {
        let given = MarkerScope {
            buckets: vec![bucket.into()],
            ..MarkerScope::default()
        };
        Scope::read(&given, None).unwrap()
    };
    target.options.scope = chosen("old=new");
    target.run(&source).await.unwrap();
    source.put("old", "b", b"b", 2);
    source.put("other", "b", b"b", 2);
    let how = MergeOptions {
        deletes: Deletes::List,
        dry_run: false,
        report: None,
    };
    let merge = async |scope: Scope| {
        let options = RunOptions {
            scope,
            ..target.options.clone()
        };
        let (silent, cancel) = (Arc::new(Silent), CancellationToken::new());
        engine::merge_from(source.clone(), &options, &how, silent, cancel).await
    };

    let outcome = merge(Scope::default()).await.unwrap();

    assert_eq!(outcome.exit, ExitCode::Ok, "{}", outcome.summary);
    let held: Vec<String> = target.bodies().into_keys().collect();
    assert_eq!(held, ["new/a", "new/b"]);
    // As a URL that ends in it says.
    assert_eq!(merge(chosen("old")).await.unwrap().exit, ExitCode::Ok);
    let error = merge(chosen("other")).await.unwrap_err();
    assert_eq!(error.kind, Kind::Usage, "{error}");
}
