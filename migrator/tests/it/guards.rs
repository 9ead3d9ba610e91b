//! What must never be deleted, overwritten or started.

use std::sync::Arc;
use std::time::Duration;

use filestore_common::marker::MarkerState;
use filestore_migrator::progress::Silent;
use filestore_migrator::verify::Mode;
use filestore_migrator::{Credentials, Ending, Endpoint, ExitCode, Kind, Location, run as engine};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble};

fn source() -> Arc<MemorySource> {
    let source = MemorySource::new();
    for key in ["a", "b", "c"] {
        source.put("abc", key, key.as_bytes(), 1);
    }
    source
}

async fn finish(
    target: &Target,
    source: &Arc<MemorySource>,
) -> Result<filestore_migrator::Outcome, filestore_migrator::Error> {
    let cancel = CancellationToken::new();
    engine::finish_from(
        source.clone(),
        &target.options,
        Mode::Listing,
        Arc::new(Silent),
        cancel,
    )
    .await
}

#[tokio::test]
async fn a_listing_that_breaks_off_deletes_nothing() {
    let (source, target) = (source(), Target::new());
    target.copy(&source).await.unwrap();
    *source.listing_breaks_after.lock().unwrap() = Some(1);

    assert!(finish(&target, &source).await.is_err());

    assert_eq!(target.held().len(), 3);
}

#[tokio::test]
async fn what_the_listing_forgets_but_the_source_has_stays() {
    let (source, target) = (source(), Target::new());
    target.copy(&source).await.unwrap();
    source.trouble("abc/b", Trouble::Unlisted);

    finish(&target, &source).await.unwrap();

    assert_eq!(target.held().len(), 3);
}

#[tokio::test]
async fn an_empty_source_deletes_nothing() {
    let (full, target) = (source(), Target::new());
    target.copy(&full).await.unwrap();
    let empty = MemorySource::new();
    empty.add_bucket("abc");

    let error = finish(&target, &empty).await.unwrap_err();

    assert_eq!(
        (error.kind, error.exit_code()),
        (Kind::Refused, ExitCode::Refused)
    );
    assert_eq!(target.held().len(), 3);
}

#[tokio::test]
async fn another_source_is_refused_before_anything_is_written() {
    let (first, target) = (source(), Target::new());
    target.copy(&first).await.unwrap();
    let other = MemorySource {
        deployment: "deployment-2".into(),
        ..MemorySource::default()
    };
    other.put("abc", "d", b"d", 1);

    let error = finish(&target, &Arc::new(other)).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused);
    assert_eq!(target.held().len(), 3);
}

#[tokio::test]
async fn objects_that_were_there_before_are_deleted_only_on_request() {
    let (source, mut target) = (source(), Target::new());
    target.client_puts("abc", "mine", b"mine");

    // `run` does not even begin.
    assert_eq!(target.run(&source).await.unwrap_err().kind, Kind::Refused);
    assert_eq!(target.held().len(), 1);

    target.copy(&source).await.unwrap();
    assert_eq!(
        finish(&target, &source).await.unwrap_err().kind,
        Kind::Refused
    );
    assert_eq!(target.held().len(), 4);

    target.options.delete_extraneous = true;
    target.options.max_delete = Some(0);
    assert_eq!(
        finish(&target, &source).await.unwrap_err().kind,
        Kind::Refused
    );
    target.options.max_delete = Some(1);
    assert_eq!(finish(&target, &source).await.unwrap().exit, ExitCode::Ok);
    target.equals(&source);
}

#[tokio::test]
async fn a_source_that_is_the_target_is_found_out_by_a_probe() {
    let (source, target) = (source(), Target::new());
    target.copy(&source).await.unwrap();
    *source.same_as.lock().unwrap() = Some(target.directory.path().into());

    let error = target.copy(&source).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused);
    assert!(error.to_string().contains("the same store"), "{error}");
    assert_eq!(target.held().len(), 3, "the probe was left behind");
}

#[tokio::test]
async fn a_plan_writes_nothing() {
    let (source, target) = (source(), Target::new());
    let mut options = target.options.clone();
    // A volume as source serves as well, and needs no script.
    target.run(&source).await.unwrap();
    options.from = Some(target.options.to.clone());
    let empty = tempfile::tempdir().unwrap();
    options.to = Endpoint::new(Location::Volume(empty.path().into()));

    let plan = engine::plan(&options, Arc::new(Silent), CancellationToken::new())
        .await
        .unwrap();

    assert_eq!(
        (plan.objects, plan.create, plan.bytes, plan.delete),
        (3, 3, 3, 0)
    );
    assert_eq!(plan.exit(), ExitCode::Ok);
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

fn online(port: u16) -> Endpoint {
    let keys = Credentials {
        access_key: "ryax".into(),
        secret_key: "secret-secret".into(),
    };
    let location = format!("http://127.0.0.1:{port}").parse().unwrap();
    Endpoint::new(location).with_credentials(keys)
}

#[tokio::test]
async fn a_source_that_is_down_never_leads_to_an_empty_store() {
    let mut target = Target::new();
    // A port that was free a moment ago and is not listened on.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    target.options.from = Some(online(port));

    let error = engine::run(&target.options, Arc::new(Silent), CancellationToken::new())
        .await
        .unwrap_err();

    assert_eq!(
        (error.kind, error.exit_code()),
        (Kind::Down, ExitCode::Retryable)
    );
    assert_eq!(
        std::fs::read_dir(target.directory.path()).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn an_absent_source_is_recorded_and_one_that_appears_later_is_taken_over_while_empty() {
    let mut target = Target::new();
    target.options.from = Some(Endpoint::new(Location::Volume(
        "/nonexistent/legacy".into(),
    )));
    let run = || engine::run(&target.options, Arc::new(Silent), CancellationToken::new());

    let outcome = run().await.unwrap();
    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::NothingToMigrate)
    );
    let marker = outcome.marker.unwrap();
    assert_eq!(
        (marker.state, marker.source.kind.as_str()),
        (MarkerState::Cutover, "none")
    );
    assert_eq!(run().await.unwrap().ending, Ending::NotRechecked);

    let source = source();
    let outcome = target.run(&source).await.unwrap();
    assert_eq!(outcome.ending, Ending::Migrated);
    target.equals(&source);
}

#[tokio::test]
async fn a_source_that_appears_after_clients_wrote_is_left_alone() {
    let mut target = Target::new();
    target.options.from = Some(Endpoint::new(Location::Volume(
        "/nonexistent/legacy".into(),
    )));
    engine::run(&target.options, Arc::new(Silent), CancellationToken::new())
        .await
        .unwrap();
    target.client_puts("abc", "a", b"a client's");

    let outcome = target.run(&source()).await.unwrap();

    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::NotRechecked)
    );
    assert_eq!(
        target.bodies().into_iter().collect::<Vec<_>>(),
        [("abc/a".to_owned(), "a client's".to_owned())]
    );
}

#[tokio::test]
async fn an_absent_source_of_a_volume_with_objects_is_refused() {
    let mut target = Target::new();
    target.client_puts("abc", "a", b"a");
    target.options.from = Some(Endpoint::new(Location::MinioDrive(
        "/nonexistent/legacy".into(),
    )));
    let error = engine::run(&target.options, Arc::new(Silent), CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind, Kind::Refused);
}

#[tokio::test]
async fn no_source_configured_is_nothing_to_migrate() {
    let target = Target::new();
    let outcome = engine::run(&target.options, Arc::new(Silent), CancellationToken::new());
    assert_eq!(outcome.await.unwrap().ending, Ending::NothingToMigrate);
}

#[tokio::test]
async fn a_signal_ends_a_wait_at_once() {
    let mut target = Target::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    target.options.from = Some(online(port));
    target.options.wait = Duration::from_hours(1);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let error = engine::run(&target.options, Arc::new(Silent), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Interrupted);
}
