//! What a pass costs, and what it leaves for the next one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filestore_migrator::pass::Durability;
use filestore_migrator::progress::Silent;
use filestore_migrator::run::copy_from;
use filestore_migrator::source::volume::VolumeSource;
use filestore_migrator::{Ending, ExitCode, Scope};
use tokio_util::sync::CancellationToken;

use crate::fixture::Target;
use crate::memory::{MemorySource, Trouble, bucket, key};
use crate::scope::include;

/// `checkpoint.json` of the only run on the volume.
fn checkpoint(volume: &Path) -> serde_json::Value {
    let runs = std::fs::read_dir(volume.join(".filestore/runs")).unwrap();
    let runs: Vec<_> = runs.map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let text = std::fs::read(runs[0].join("checkpoint.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn only_a_relaxed_copy_leaves_objects_in_doubt() {
    for (durability, in_doubt) in [(Durability::Durable, false), (Durability::Relaxed, true)] {
        let mut target = Target::new();
        target.options.durability = durability;
        let source = MemorySource::new();
        source.put("bkt", "a", b"one", 1);
        source.put("bkt", "b", b"two", 2);

        target.copy(&source).await.unwrap();

        let left = checkpoint(target.directory.path());
        assert_eq!(left["copied"], 2);
        if in_doubt {
            let doubt = &left["unflushed"];
            assert_eq!(
                (&doubt["bucket"], &doubt["key"]),
                (&"bkt".into(), &"a".into())
            );
        } else {
            assert_eq!(left["unflushed"], serde_json::Value::Null);
        }

        target.run(&source).await.unwrap();

        // Whatever the setting, nothing is in doubt once the marker says that the target counts.
        assert_eq!(
            checkpoint(target.directory.path())["unflushed"],
            serde_json::Value::Null
        );
        assert_eq!(source.opened(), 2, "{durability:?}");
        target.equals(&source);
    }
}

/// Changes what the last pass left unflushed.
fn record(volume: &Path, field: &str, value: serde_json::Value) {
    let run = std::fs::read_dir(volume.join(".filestore/runs"));
    let file = run.unwrap().next().unwrap().unwrap().path();
    let mut told = checkpoint(volume);
    assert!(told["unflushed"].is_object(), "{told}");
    told["unflushed"][field] = value;
    std::fs::write(file.join("checkpoint.json"), told.to_string()).unwrap();
}

/// Another start of the machine; the file of `object` was not written out in full.
fn lose_power(volume: &Path, object: &str) {
    record(volume, "bootId", "another".into());
    let torn = volume.join("s3").join(object);
    let modified = std::fs::metadata(&torn).unwrap().modified().unwrap();
    let written = std::fs::File::options().write(true).open(&torn).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&written, b"\0", 0).unwrap();
    written.set_modified(modified).unwrap();
}

/// A volume with objects that no flush has reached, and their source.
async fn copied(names: &[&str]) -> (Target, Arc<MemorySource>) {
    let mut target = Target::new();
    target.options.durability = Durability::Relaxed;
    let source = MemorySource::new();
    for name in names {
        source.put("bkt", name, name.as_bytes(), 1);
    }
    target.copy(&source).await.unwrap();
    (target, source)
}

#[tokio::test]
async fn a_power_loss_after_a_relaxed_copy_makes_the_next_pass_read_back() {
    let (target, source) = copied(&["a", "b", "c"]).await;
    lose_power(target.directory.path(), "bkt/b");

    target.run(&source).await.unwrap();

    assert_eq!(source.opened(), 4, "only the torn one was read again");
    target.equals(&source);
}

#[tokio::test]
async fn an_object_in_doubt_that_cannot_be_copied_again_stays_in_doubt() {
    let (mut target, source) = copied(&["a", "b", "c"]).await;
    lose_power(target.directory.path(), "bkt/b");
    source.trouble("bkt/b", Trouble::Flipped);
    target.options.durability = Durability::Durable;

    let outcome = target.copy(&source).await.unwrap();
    assert_eq!(outcome.exit, ExitCode::Failures, "{}", outcome.summary);
    source.trouble.lock().unwrap().clear();
    let outcome = target.run(&source).await.unwrap();

    assert_eq!(outcome.ending, Ending::Migrated, "{}", outcome.summary);
    target.equals(&source);
}

#[tokio::test]
async fn a_pass_over_a_part_does_not_end_the_doubt_of_the_rest() {
    let (mut target, source) = copied(&["a", "b", "logs/1"]).await;
    lose_power(target.directory.path(), "bkt/b");
    source.put("bkt", "logs/2", b"new", 1);
    target.options.durability = Durability::Durable;
    target.options.scope = include("logs/");
    target.copy(&source).await.unwrap();
    target.options.scope = Scope::default();

    target.run(&source).await.unwrap();

    target.equals(&source);
}

#[tokio::test]
async fn a_second_relaxed_copy_keeps_what_the_first_did_not_flush() {
    let (target, source) = copied(&["a", "b", "c"]).await;
    source.put("bkt", "c", b"another", 2);
    target.copy(&source).await.unwrap();
    lose_power(target.directory.path(), "bkt/a");

    target.run(&source).await.unwrap();

    target.equals(&source);
}

#[tokio::test]
async fn after_a_failed_flush_everything_is_copied_again() {
    let (target, source) = copied(&["a", "b", "c"]).await;
    record(target.directory.path(), "key", "b".into());
    record(target.directory.path(), "failed", true.into());

    target.run(&source).await.unwrap();

    assert_eq!(source.opened(), 5, "b and c were read again");
    target.equals(&source);
    let left = checkpoint(target.directory.path());
    assert_eq!(left["unflushed"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_second_pass_reads_no_object_and_looks_at_none() {
    let target = Target::new();
    let source = MemorySource::new();
    for number in 0..3000 {
        source.put("bkt", &format!("{number:05}"), &[7; 10], 1);
    }
    target.copy(&source).await.unwrap();
    assert_eq!(source.opened(), 3000);
    let looked = source.looked.load(Ordering::SeqCst);

    let outcome = target.copy(&source).await.unwrap();

    let text = &outcome.summary;
    assert!(text.contains("3000 were the same"), "{text}");
    assert_eq!(source.opened(), 3000);
    // The proof that source and target are two stores asks for a key or two.
    let more = source.looked.load(Ordering::SeqCst) - looked;
    assert!(more <= 2, "{more} objects were looked at");
}

#[tokio::test]
async fn tags_that_changed_on_a_volume_are_carried_by_the_next_pass() {
    let (from, target) = (Target::new(), Target::new());
    from.client_puts("bkt", "a", b"one");
    let source = Arc::new(VolumeSource::open(from.directory.path()).await.unwrap());
    for tags in [vec![], vec![("stage".to_owned(), "raw".to_owned())]] {
        from.store()
            .set_object_tags(&bucket("bkt"), &key("a"), &tags)
            .unwrap();
        let (silent, cancel) = (Arc::new(Silent), CancellationToken::new());
        copy_from(source.clone(), &target.options, silent, cancel)
            .await
            .unwrap();
        assert_eq!(target.held()["bkt/a"].0.meta.tags, tags);
    }
}
