use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use filestore_common::{BucketName, ETag, ObjectKey, ObjectMeta};
use tempfile::TempDir;

use super::*;
use crate::query::*;

const BUCKET: &str = "bucket";

fn options(mode: MetadataMode) -> StoreOptions {
    StoreOptions {
        durability: Durability::Relaxed,
        metadata: Some(mode),
        ..StoreOptions::default()
    }
}

fn open(dir: &TempDir, mode: MetadataMode) -> Arc<Store> {
    let store = Store::open(dir.path(), &options(mode)).unwrap();
    store.start_counting().unwrap();
    Arc::new(store)
}

/// Counts once, to the end.
fn count(store: &Store) {
    store.count_once().unwrap();
}

fn bucket() -> BucketName {
    BucketName::new(BUCKET).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).unwrap()
}

fn put(store: &Store, name: &str, size: usize) -> Result<()> {
    let mut staged = store.stage(&bucket(), &key(name), Some(size as u64))?;
    staged.write(&vec![7; size])?;
    let meta = ObjectMeta::new(ETag::new("0123456789abcdef0123456789abcdef"));
    store
        .publish(staged, &meta, &Precondition::None, None)
        .map(drop)
}

fn delete(store: &Store, name: &str) {
    store
        .delete_object(&bucket(), &key(name), &Precondition::None)
        .unwrap();
}

fn usage(store: &Store) -> Option<Usage> {
    let all = store.usage();
    all.into_iter().find(|one| one.bucket == BUCKET)?.usage
}

/// What a listing shows.
fn listed(store: &Store) -> Usage {
    let page = store
        .list(
            &bucket(),
            &ListQuery {
                prefix: String::new(),
                delimiter: None,
                after: None,
                max_keys: 100_000,
            },
        )
        .unwrap();
    let mut usage = Usage::default();
    for entry in page.entries {
        if let ListEntry::Object(object) = entry {
            usage.objects += 1;
            usage.bytes += object.size;
        }
    }
    usage
}

fn quota(store: &Store, bytes: Option<u64>, objects: Option<u64>) {
    let quota = Quota { bytes, objects };
    store.set_quotas(&BTreeMap::from([(BUCKET.to_owned(), quota)]));
}

#[test]
fn every_kind_of_change_is_counted() {
    for mode in [MetadataMode::Xattr, MetadataMode::Sidecar] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir, mode);
        store.create_bucket(&bucket(), "root").unwrap();
        assert_eq!(usage(&store), Some(Usage::default()));
        let steps: [&dyn Fn(&Store); 16] = [
            &|store| put(store, "a", 10).unwrap(),
            &|store| put(store, "a", 30).unwrap(),
            &|store| put(store, "a", 5).unwrap(),
            &|store| put(store, "dir/b", 100).unwrap(),
            // Keys that no tree holds.
            &|store| put(store, "dir", 7).unwrap(),
            &|store| put(store, "dir", 8).unwrap(),
            &|store| put(store, "x//y", 9).unwrap(),
            // Directory objects, without and with a body.
            &|store| put(store, "d/", 0).unwrap(),
            &|store| put(store, "d/", 0).unwrap(),
            &|store| put(store, "d/", 11).unwrap(),
            &|store| put(store, "d/", 0).unwrap(),
            &|store| put(store, "large", 3 << 20).unwrap(),
            &|store| put(store, "large", 2 << 20).unwrap(),
            &|store| delete(store, "large"),
            &|store| delete(store, "missing"),
            &|store| delete(store, "d/"),
        ];
        for (number, step) in steps.iter().enumerate() {
            step(&store);
            assert_eq!(
                usage(&store),
                Some(listed(&store)),
                "{mode:?} step {number}"
            );
        }
        let before = usage(&store);
        for name in ["dir", "x//y", "dir/b", "a"] {
            delete(&store, name);
            assert_eq!(usage(&store), Some(listed(&store)), "{mode:?} {name}");
        }
        assert_ne!(usage(&store), before);
        assert_eq!(usage(&store), Some(Usage::default()));
        store.delete_bucket(&bucket()).unwrap();
        assert_eq!(usage(&store), None);
    }
}

#[test]
fn uploads_count_when_they_are_complete() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MetadataMode::Xattr);
    store.create_bucket(&bucket(), "root").unwrap();
    put(&store, "m", 100).unwrap();
    let id = store
        .create_upload(&bucket(), &key("m"), &UploadSpec::default())
        .unwrap();
    let mut named = Vec::new();
    for (number, size) in [(1, 5 << 20), (2, 1000)] {
        let mut staged = store
            .stage_part(&bucket(), &key("m"), &id, number, Some(size as u64))
            .unwrap();
        staged.write(&vec![1; size]).unwrap();
        let etag = ETag::new("0123456789abcdef0123456789abcdef");
        store.publish_part(staged, &etag, None).unwrap();
        named.push(CompletedPart {
            number,
            etag,
            checksum: None,
        });
    }
    assert_eq!(usage(&store).unwrap().bytes, 100);
    quota(&store, Some(5 << 20), None);
    let complete = || {
        store.complete_upload(
            &bucket(),
            &key("m"),
            &id,
            &named,
            &CompleteOptions::default(),
        )
    };
    assert!(matches!(complete(), Err(Error::QuotaExceeded)));
    quota(&store, Some((5 << 20) + 1000), None);
    complete().unwrap();
    assert_eq!(usage(&store), Some(listed(&store)));
    assert_eq!(usage(&store).unwrap().bytes, (5 << 20) + 1000);
    // Not even a part of more than there is room for is taken.
    let id = store
        .create_upload(&bucket(), &key("n"), &UploadSpec::default())
        .unwrap();
    let part = store.stage_part(&bucket(), &key("n"), &id, 1, Some(1));
    assert!(matches!(part, Err(Error::QuotaExceeded)));
}

#[test]
fn a_quota_is_reached_and_never_passed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MetadataMode::Xattr);
    store.create_bucket(&bucket(), "root").unwrap();
    quota(&store, Some(100), Some(3));
    put(&store, "a", 60).unwrap();
    assert!(matches!(put(&store, "b", 41), Err(Error::QuotaExceeded)));
    put(&store, "b", 40).unwrap();
    // Overwriting by as much or less is no growth.
    put(&store, "a", 60).unwrap();
    assert!(matches!(put(&store, "a", 61), Err(Error::QuotaExceeded)));
    put(&store, "a", 10).unwrap();
    put(&store, "c", 0).unwrap();
    assert!(matches!(put(&store, "d", 0), Err(Error::QuotaExceeded)));
    delete(&store, "c");
    put(&store, "d", 50).unwrap();
    assert_eq!(usage(&store), Some(listed(&store)));
    // Of a body whose size is not known before, the end decides.
    let mut staged = store.stage(&bucket(), &key("a"), None).unwrap();
    staged.write(&[1; 11]).unwrap();
    let meta = ObjectMeta::new(ETag::new("x"));
    let published = store.publish(staged, &meta, &Precondition::None, None);
    assert!(matches!(published, Err(Error::QuotaExceeded)));
    assert_eq!(usage(&store).unwrap().bytes, 100);
    // Without the quota there is room again.
    store.set_quotas(&BTreeMap::new());
    put(&store, "big", 1000).unwrap();
}

#[test]
fn parallel_writers_do_not_pass_a_quota_and_counts_come_out_right() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MetadataMode::Xattr);
    store.create_bucket(&bucket(), "root").unwrap();
    quota(&store, Some(10_000), None);
    let refused = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (store, refused) = (&store, &refused);
            scope.spawn(move || {
                for number in 0..300 {
                    let name = format!("k{}", (number * 7 + writer) % 40);
                    if number % 5 == 4 {
                        delete(store, &name);
                    } else if put(store, &name, 100 + number * 3).is_err() {
                        refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    assert!(usage(store).unwrap().bytes <= 10_000);
                }
            });
        }
        let store = &store;
        scope.spawn(move || {
            for _ in 0..20 {
                count(store);
            }
        });
    });
    assert!(refused.into_inner() > 0);
    assert_eq!(usage(&store), Some(listed(&store)));
}

#[test]
fn what_is_there_is_found_whoever_wrote_it() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path(), &options(MetadataMode::Xattr)).unwrap();
        store.create_bucket(&bucket(), "root").unwrap();
        for number in 0..2500 {
            put(&store, &format!("{}/{number}", number % 7), number % 10).unwrap();
        }
        assert!(store.usage().is_empty());
    }
    let store = open(&dir, MetadataMode::Xattr);
    quota(&store, Some(1), None);
    // Until the first count is complete nobody is refused.
    assert_eq!(usage(&store), None);
    put(&store, "more", 10).unwrap();
    count(&store);
    assert_eq!(usage(&store), Some(listed(&store)));
    assert_eq!(usage(&store).unwrap().objects, 2501);
    assert!(matches!(put(&store, "more", 11), Err(Error::QuotaExceeded)));
}

#[test]
fn an_orderly_end_spares_the_first_count_and_a_crash_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(".filestore/counters");
    let before = {
        let store = open(&dir, MetadataMode::Xattr);
        store.create_bucket(&bucket(), "root").unwrap();
        put(&store, "a", 60).unwrap();
        count(&store);
        store.stop_counting();
        store.save_counts().unwrap();
        usage(&store)
    };
    assert!(file.is_file());
    {
        let store = open(&dir, MetadataMode::Xattr);
        assert!(!file.exists());
        assert_eq!(usage(&store), before);
        quota(&store, Some(60), None);
        assert!(matches!(put(&store, "b", 1), Err(Error::QuotaExceeded)));
        // No end in order.
    }
    let store = open(&dir, MetadataMode::Xattr);
    assert_eq!(usage(&store), None);
    count(&store);
    assert_eq!(usage(&store), before);
    store.save_counts().unwrap();
    drop(store);

    // Who does not count takes it away too.
    let store = Store::open(dir.path(), &options(MetadataMode::Xattr)).unwrap();
    put(&store, "c", 5).unwrap();
    drop(store);
    assert!(!file.exists());
    std::fs::write(&file, "nonsense").unwrap();
    let store = open(&dir, MetadataMode::Xattr);
    assert_eq!(usage(&store), None);
    count(&store);
    assert_eq!(usage(&store).unwrap().bytes, 65);
}

#[test]
fn a_second_process_makes_the_first_ones_counts_worthless() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(&dir, MetadataMode::Xattr);
    first.create_bucket(&bucket(), "root").unwrap();
    put(&first, "a", 60).unwrap();
    count(&first);
    let second = open(&dir, MetadataMode::Xattr);
    put(&second, "b", 60).unwrap();
    count(&second);
    drop(second);
    first.save_counts().unwrap();
    drop(first);

    let third = open(&dir, MetadataMode::Xattr);
    assert_eq!(usage(&third), None);
}

#[test]
fn counting_ends_when_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, MetadataMode::Xattr);
    store.create_bucket(&bucket(), "root").unwrap();
    let counting = Arc::clone(&store);
    let thread = std::thread::spawn(move || counting.count(Duration::from_hours(1)));
    store.stop_counting();
    thread.join().unwrap();
}
