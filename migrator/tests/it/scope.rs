//! What a narrower migration must never touch, in histories that real servers make hard to time.

use std::sync::Arc;

use filestore_common::marker::MarkerScope;
use filestore_migrator::progress::Silent;
use filestore_migrator::verify::Mode;
use filestore_migrator::{Error, ExitCode, Kind, Outcome, Scope, run as engine};
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
