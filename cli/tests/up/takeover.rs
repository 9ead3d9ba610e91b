//! The main job on real input: a drive that MinIO wrote, and what its S3 API said of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use filestore_common::{BucketName, ObjectKey};
use filestore_store::{ListEntry, ListQuery, Store, StoreOptions};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::harness::{Workplace, example};

/// A place with the manifest and the drive `name` as the legacy claim.
fn with_drive(name: &str) -> Workplace {
    let work = Workplace::new();
    work.write("m.yaml", &example("takeover.yaml"));
    let drive = work.path("data/ryax-minio");
    std::fs::create_dir_all(&drive).unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{name}.tar.xz"));
    let status = Command::new("tar")
        .arg("-xJf")
        .arg(archive)
        .arg("-C")
        .arg(drive)
        .status()
        .unwrap();
    assert!(status.success());
    work
}

fn text_map(value: &Value) -> BTreeMap<String, String> {
    let map = value.as_object().unwrap();
    map.iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

/// Compares all that MinIO's API said of each current object with what the store says.
fn assert_carried(work: &Workplace, manifest: &str) {
    let expected: Value = serde_json::from_str(&example(manifest)).unwrap();
    let store = Store::open(&work.path("data/ryax-filestore"), &StoreOptions::default()).unwrap();
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for bucket in expected["buckets"].as_array().unwrap() {
        keys.insert(bucket.as_str().unwrap().to_owned(), BTreeSet::new());
    }
    for object in expected["objects"].as_array().unwrap() {
        if object["latest"] == true {
            let (bucket, key) = (
                object["bucket"].as_str().unwrap(),
                object["key"].as_str().unwrap(),
            );
            assert_object(&store, bucket, key, object);
            keys.get_mut(bucket).unwrap().insert(key.to_owned());
        }
    }
    // And nothing else: no old version, no deleted key, no file of MinIO's own.
    let buckets: Vec<_> = store
        .list_buckets()
        .unwrap()
        .into_iter()
        .map(|b| b.name.to_string())
        .collect();
    assert_eq!(buckets, keys.keys().cloned().collect::<Vec<_>>());
    for (bucket, keys) in keys {
        let query = ListQuery {
            max_keys: 1000,
            ..ListQuery::default()
        };
        let page = store
            .list(&BucketName::new(bucket).unwrap(), &query)
            .unwrap();
        let listed: BTreeSet<_> = page
            .entries
            .into_iter()
            .map(|entry| match entry {
                ListEntry::Object(object) => object.key,
                ListEntry::Prefix(prefix) => panic!("prefix {prefix}"),
            })
            .collect();
        assert_eq!(listed, keys);
    }
}

fn assert_object(store: &Store, bucket: &str, key: &str, expected: &Value) {
    let name = format!("{bucket}/{key}");
    let reader = store
        .open_object(
            &BucketName::new(bucket).unwrap(),
            &ObjectKey::new(key).unwrap(),
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut body = Vec::new();
    (&reader.file).read_to_end(&mut body).unwrap();
    let info = &reader.info;
    let headers = &info.meta.headers;

    assert_eq!(
        hex::encode(Sha256::digest(&body)),
        expected["sha256"],
        "{name}: bytes"
    );
    assert_eq!(
        info.size,
        expected["size"].as_u64().unwrap(),
        "{name}: size"
    );
    assert_eq!(info.meta.etag.as_str(), expected["etag"], "{name}: ETag");
    assert_eq!(
        info.meta.user,
        text_map(&expected["metadata"]),
        "{name}: metadata"
    );
    let tags: BTreeMap<_, _> = info.meta.tags.iter().cloned().collect();
    assert_eq!(tags, text_map(&expected["tags"]), "{name}: tags");
    for (field, value) in [
        ("ContentType", &headers.content_type),
        ("CacheControl", &headers.cache_control),
        ("ContentDisposition", &headers.content_disposition),
        ("ContentEncoding", &headers.content_encoding),
        ("ContentLanguage", &headers.content_language),
    ] {
        assert_eq!(
            value.as_deref(),
            expected["headers"][field].as_str(),
            "{name}: {field}"
        );
    }
    let modified: jiff::Timestamp = expected["last_modified"].as_str().unwrap().parse().unwrap();
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    assert_eq!(
        i64::try_from(seconds(info.last_modified)).unwrap(),
        modified.as_second(),
        "{name}: Last-Modified"
    );
}

#[test]
fn every_object_is_carried_with_all_that_s3_says_of_it() {
    let work = with_drive("minio-drive");
    let drive = work.snapshot("data/ryax-minio");

    let text = work.up_once();

    assert!(
        text.contains("data/ryax-filestore/.filestore/migration.json says cutover"),
        "{text}"
    );
    assert_carried(&work, "minio-drive.json");
    assert_eq!(
        work.snapshot("data/ryax-minio"),
        drive,
        "the legacy drive was touched"
    );
    assert!(
        !text.contains("Ab3dEf6hIj9k"),
        "the secret was shown: {text}"
    );
}

#[test]
fn compressed_objects_are_carried_as_clients_see_them() {
    let work = with_drive("minio-drive-compressed");
    work.up_once();
    assert_carried(&work, "minio-drive-compressed.json");
}

/// From cut-over on the volume belongs to its clients.
#[test]
fn a_second_run_copies_nothing() {
    let work = with_drive("minio-drive");
    work.up_once();
    let bucket = BucketName::new("ryax-filestore").unwrap();
    let deleted = ObjectKey::new("iodata/0002/no-extension").unwrap();
    {
        let store =
            Store::open(&work.path("data/ryax-filestore"), &StoreOptions::default()).unwrap();
        assert!(
            store
                .delete_object(&bucket, &deleted, &filestore_store::Precondition::None)
                .unwrap()
        );
    }
    let objects = work.files("data/ryax-filestore/s3");

    work.up_once();

    assert_eq!(work.files("data/ryax-filestore/s3"), objects);
}

/// The old drive is not needed any more, and its absence is no reason not to serve.
#[test]
fn serves_after_the_legacy_drive_is_gone() {
    let work = with_drive("minio-drive");
    work.up_once();
    std::fs::remove_dir_all(work.path("data/ryax-minio")).unwrap();

    let serving = work.serve();

    assert!(
        serving.greeting.contains("ryax-filestore, with-versions"),
        "{}",
        serving.greeting
    );
    assert_eq!(serving.interrupt(), Some(0));
}
