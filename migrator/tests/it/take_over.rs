//! The whole way: plan, copy, verify, marker, and the same again.

use std::collections::BTreeMap;

use filestore_common::marker::MarkerState;
use filestore_common::{ContentHeaders, ETag, ObjectMeta, digest};
use filestore_migrator::state::State;
use filestore_migrator::{Ending, ExitCode, manifest};

use crate::fixture::Target;
use crate::memory::MemorySource;

fn filled() -> std::sync::Arc<MemorySource> {
    let source = MemorySource::new();
    source.put("ryax-filestore", "a/1", b"one", 1);
    source.put("ryax-filestore", "a-b", b"sorts before a/1 by bytes", 2);
    source.put("ryax-filestore", "empty", b"", 3);
    source.put("ryax-filestore", "folder/", b"", 4);
    source.put("ryax-filestore", "caf\u{e9}", b"NFC", 5);
    source.put("ryax-filestore", "cafe\u{301}", b"NFD", 6);
    source.put("ryax-filestore", "a+b %2F\u{8}", b"odd", 7);
    source.put("ryax-filestore", "big", &vec![7; 3_000_017], 8);
    source.put_parts(
        "ryax-filestore",
        "parts",
        &[&vec![1; 700_000], &vec![2; 900_000], &[3; 5]],
        9,
    );
    let body = b"described";
    let mut meta = ObjectMeta::new(ETag::new(hex::encode(digest::md5(body))));
    meta.headers = ContentHeaders {
        content_type: Some("image/jpeg".into()),
        content_encoding: Some("gzip".into()),
        content_language: Some("fr".into()),
        content_disposition: Some("attachment; filename*=UTF-8''na%C3%AFve".into()),
        cache_control: Some("no-cache".into()),
        expires: Some("Thu, 01 Dec 2033 16:00:00 GMT".into()),
        website_redirect_location: None,
    };
    meta.user = BTreeMap::from([("c".into(), "[{\"C\":\"D\"}]".into())]);
    meta.tags = vec![("owner".into(), "a b".into()), ("é".into(), "1&2".into())];
    source.put_meta("other-bucket", "described", body, meta, 10);
    source.add_bucket("empty-bucket");
    source
}

#[tokio::test]
async fn everything_arrives_and_the_marker_says_so() {
    let (source, target) = (filled(), Target::new());

    let outcome = target.run(&source).await.unwrap();

    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::Migrated)
    );
    target.equals(&source);
    let buckets: Vec<String> = target
        .store()
        .list_buckets()
        .unwrap()
        .into_iter()
        .map(|b| b.name.to_string())
        .collect();
    assert_eq!(buckets, ["empty-bucket", "other-bucket", "ryax-filestore"]);

    let state = State::new(target.directory.path().join(".filestore"));
    let marker = state.marker().unwrap().unwrap();
    assert_eq!(Some(&marker), outcome.marker.as_ref());
    assert_eq!(marker.state, MarkerState::Cutover);
    assert_eq!(marker.source.deployment_id.as_deref(), Some("deployment-1"));
    assert_eq!((marker.carried.buckets, marker.carried.objects), (3, 10));

    // The manifest names every object in byte order, and the digest is over its lines.
    let mut reader = manifest::Reader::open(&state.manifest(&marker.run_id)).unwrap();
    let mut digest = manifest::CarriedDigest::default();
    let mut keys = Vec::new();
    while let Some(line) = reader.line().unwrap() {
        digest.add(&line.bucket, &line.key, line.etag.as_ref(), line.size);
        keys.push((line.bucket, line.key));
    }
    assert_eq!(keys.len(), 10);
    assert!(keys.is_sorted());
    assert_eq!(marker.digest, Some(digest.finish()));
}

#[tokio::test]
async fn a_second_run_reads_no_object() {
    let (source, target) = (filled(), Target::new());
    target.run(&source).await.unwrap();
    let opened = source.opened();

    let outcome = target.run(&source).await.unwrap();

    assert_eq!(
        (outcome.exit, outcome.ending),
        (ExitCode::Ok, Ending::Rechecked)
    );
    assert_eq!(source.opened(), opened);
    assert!(!outcome.marker.unwrap().diverged);
}

#[tokio::test]
async fn a_second_copy_reads_no_object_and_looks_at_none() {
    let (source, target) = (filled(), Target::new());
    target.copy(&source).await.unwrap();
    let (opened, looked) = (
        source.opened(),
        source.looked.load(std::sync::atomic::Ordering::SeqCst),
    );

    let outcome = target.copy(&source).await.unwrap();

    assert_eq!(outcome.exit, ExitCode::Ok);
    assert_eq!(source.opened(), opened);
    // The one look is the proof that source and target are two stores.
    assert!(source.looked.load(std::sync::atomic::Ordering::SeqCst) <= looked + 1);
    target.equals(&source);
}

#[tokio::test]
async fn a_copy_that_was_cut_off_is_resumed_and_not_repeated() {
    let (source, target) = (filled(), Target::new());
    *source.opens_left.lock().unwrap() = Some(4);
    let error = target.run(&source).await.unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Auth);
    assert!(target.store().list_buckets().unwrap().len() >= 2);
    let opened = source.opened();

    *source.opens_left.lock().unwrap() = None;
    let outcome = target.run(&source).await.unwrap();

    assert_eq!(outcome.ending, Ending::Migrated);
    let already = u64::try_from(10).unwrap() - (source.opened() - opened);
    assert!(already >= 1, "everything was copied again");
    target.equals(&source);
}

#[tokio::test]
async fn the_final_pass_takes_over_what_changed_and_went_since_the_copy() {
    let (source, target) = (filled(), Target::new());
    target.copy(&source).await.unwrap();
    // Equal size, older date (aws/aws-cli#3273).
    source.put("ryax-filestore", "a/1", b"ONE", 0);
    source.delete("ryax-filestore", "empty");
    source.put("ryax-filestore", "new", b"new", 20);

    let outcome = target.run(&source).await.unwrap();

    assert_eq!(outcome.ending, Ending::Migrated);
    target.equals(&source);
}

#[tokio::test]
async fn pages_of_keys_are_compared_to_their_end() {
    let (source, target) = (MemorySource::new(), Target::new());
    for number in 0..2345 {
        source.put("many", &format!("k/{number:05}"), b"x", 1);
    }
    assert_eq!(target.run(&source).await.unwrap().ending, Ending::Migrated);
    assert_eq!(target.held().len(), 2345);
}
