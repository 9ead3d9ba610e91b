//! What the S3 API of the running server said is what the reader says of the stopped drive.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use filestore_common::{ChecksumAlgorithm, ChecksumKind};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::*;

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let map = value.as_object().unwrap().iter();
    map.map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn timestamp(value: &Value) -> u64 {
    let time: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
    u64::try_from(time.as_second()).unwrap()
}

fn headers(object: &DriveObject) -> BTreeMap<String, String> {
    let headers = &object.meta.headers;
    [
        ("ContentType", &headers.content_type),
        ("CacheControl", &headers.cache_control),
        ("ContentDisposition", &headers.content_disposition),
        ("ContentEncoding", &headers.content_encoding),
        ("ContentLanguage", &headers.content_language),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
    .collect()
}

fn everything_equals_the_manifest(name: &str) {
    let (directory, manifest) = example(name);
    let drive = Drive::open(directory.path()).unwrap();
    let mut seen = 0;
    for bucket_name in manifest["buckets"].as_array().unwrap() {
        let bucket_name = bucket_name.as_str().unwrap();
        let keys = walk(&drive, bucket_name);
        assert!(keys.is_sorted_by(|left, right| left.key < right.key));
        for found in keys {
            let all = manifest["objects"].as_array().unwrap();
            let Some(expected) = all.iter().find(|object| {
                object["bucket"] == bucket_name
                    && object["key"] == found.key.as_str()
                    && object["latest"] == true
            }) else {
                assert!(
                    matches!(found.content, Content::DeleteMarker),
                    "{}",
                    found.key
                );
                continue;
            };
            let Content::Object(object) = &found.content else {
                panic!("{}: {:?}", found.key, found.content)
            };
            seen += 1;
            let path = found.key.as_str();
            let body = read(&drive, bucket_name, path, object).unwrap();
            assert_eq!(expected["size"], object.size, "{path}");
            assert_eq!(text(&expected["etag"]), object.meta.etag.as_str(), "{path}");
            assert_eq!(
                timestamp(&expected["last_modified"]),
                seconds(object.last_modified)
            );
            assert_eq!(strings(&expected["headers"]), headers(object), "{path}");
            assert_eq!(strings(&expected["metadata"]), object.meta.user, "{path}");
            let tags: BTreeMap<_, _> = object.meta.tags.iter().cloned().collect();
            assert_eq!(strings(&expected["tags"]), tags, "{path}");
            assert_eq!(
                text(&expected["sha256"]),
                hex::encode(Sha256::digest(&body)),
                "{path}"
            );
            assert_eq!(
                expected["listed"] == true,
                found.hidden_by.is_none(),
                "{path}"
            );
            assert!(object.dropped.is_empty() && !object.locked, "{path}");
            let older = all.iter().filter(|other| {
                other["bucket"] == bucket_name && other["key"] == path && other["latest"] == false
            });
            let sizes: Vec<u64> = older.map(|other| other["size"].as_u64().unwrap()).collect();
            assert_eq!(found.noncurrent, sizes.len() as u64, "{path}");
            assert_eq!(found.noncurrent_bytes, sizes.iter().sum::<u64>(), "{path}");
        }
    }
    let latest = manifest["objects"].as_array().unwrap().iter();
    let current = latest.filter(|object| object["latest"] == true).count();
    // `gone` has an object version, but a delete marker above it.
    assert_eq!(seen, current);
    assert_eq!(drive.system().unwrap().unfinished_uploads.count, 1);
    assert!(drive.deployment_id().is_some());
}

#[test]
fn a_plain_drive_equals_its_manifest() {
    everything_equals_the_manifest("minio-drive");
}

#[test]
fn a_compressed_drive_equals_its_manifest() {
    everything_equals_the_manifest("minio-drive-compressed");
}

#[test]
fn versions_markers_and_hidden_keys_are_told() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();

    let versioned = walk(&drive, "with-versions");

    let told: Vec<_> = versioned
        .iter()
        .map(|found| (found.key.as_str(), found.noncurrent, found.delete_markers))
        .collect();
    assert_eq!(
        told,
        [("doc", 2, 0), ("gone", 1, 1), ("same-key-twice", 1, 0)]
    );
    assert!(matches!(versioned[1].content, Content::DeleteMarker));
    let plain = walk(&drive, "ryax-filestore");
    let hidden: Vec<_> = plain
        .iter()
        .filter(|found| found.hidden_by.is_some())
        .collect();
    assert_eq!(hidden.len(), 1);
    assert_eq!(hidden[0].key.as_str(), "shadow/p/child");
    assert_eq!(hidden[0].hidden_by, Some(key("shadow/p")));
}

#[test]
fn multipart_objects_know_their_part_sizes() {
    for name in ["minio-drive", "minio-drive-compressed"] {
        let (directory, _) = example(name);
        let drive = Drive::open(directory.path()).unwrap();
        let sizes = |path: &str| object(&drive, "ryax-filestore", path).meta.part_sizes;

        assert_eq!(sizes("multi/two-parts"), [5 << 20, 1000]);
        assert_eq!(sizes("multi/one-part"), [200]);
        assert!(sizes("executions-data/0001/three-frames.bin").is_empty());
    }
}

#[test]
fn a_walk_can_start_after_any_key() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let all = walk(&drive, "ryax-filestore");
    for (index, from) in all.iter().enumerate() {
        let rest = drive
            .walk(&bucket("ryax-filestore"), Some(&from.key))
            .unwrap();
        let rest: Vec<_> = rest
            .map(|item| match item.unwrap() {
                WalkItem::Key(found) => (found.key, found.hidden_by),
                WalkItem::Stray(stray) => panic!("{stray}"),
            })
            .collect();

        let expected: Vec<_> = all[index + 1..]
            .iter()
            .map(|found| (found.key.clone(), found.hidden_by.clone()))
            .collect();
        assert_eq!(rest, expected, "{}", from.key);
    }
}

#[test]
fn odd_objects_equal_their_manifest() {
    let (directory, manifest) = odd();
    let drive = Drive::open(directory.path()).unwrap();
    for expected in manifest["objects"].as_array().unwrap() {
        let (name, path) = (text(&expected["bucket"]), text(&expected["key"]));
        if expected["encrypted"] != Value::Null {
            continue;
        }
        let found = object(&drive, &name, &path);
        let body = read(&drive, &name, &path, &found).unwrap();
        assert_eq!(text(&expected["etag"]), found.meta.etag.as_str(), "{path}");
        assert_eq!(
            text(&expected["sha256"]),
            hex::encode(Sha256::digest(&body)),
            "{path}"
        );
        assert_eq!(strings(&expected["metadata"]), found.meta.user, "{path}");
        assert_eq!(
            expected["encoding"].as_str(),
            found.meta.headers.content_encoding.as_deref()
        );
        assert_eq!(
            expected["expires"].as_str(),
            found.meta.headers.expires.as_deref()
        );
        let tags = expected["tags"].as_array().unwrap().iter();
        let tags: Vec<_> = tags
            .map(|tag| (text(&tag["Key"]), text(&tag["Value"])))
            .collect();
        assert_eq!(tags, found.meta.tags, "{path}");
        let checksum = expected["checksum"].as_object().unwrap();
        let Some(sum) = &found.meta.checksum else {
            assert!(checksum.is_empty(), "{path}");
            continue;
        };
        let field = match sum.algorithm {
            ChecksumAlgorithm::Crc32 => "ChecksumCRC32",
            ChecksumAlgorithm::Crc32c => "ChecksumCRC32C",
            ChecksumAlgorithm::Crc64nvme => "ChecksumCRC64NVME",
            ChecksumAlgorithm::Sha1 => "ChecksumSHA1",
            ChecksumAlgorithm::Sha256 => "ChecksumSHA256",
        };
        let kind = match sum.kind {
            ChecksumKind::FullObject => "FULL_OBJECT",
            ChecksumKind::Composite => "COMPOSITE",
        };
        assert_eq!(checksum[field], sum.value, "{path}");
        assert_eq!(checksum["ChecksumType"], kind, "{path}");
    }
}

#[test]
fn encrypted_and_locked_objects_and_suspended_versions_are_told() {
    let (directory, _) = odd();
    let drive = Drive::open(directory.path()).unwrap();

    let suspended = walk(&drive, "suspended");

    let told: Vec<_> = suspended
        .iter()
        .map(|found| {
            let hidden = found.hidden_by.as_ref().map(ObjectKey::as_str);
            (
                found.key.as_str(),
                found.noncurrent,
                found.noncurrent_bytes,
                hidden,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("a", 1, 2, None),
            ("q", 0, 0, None),
            ("q/under-marker", 0, 0, Some("q")),
            ("sse", 0, 0, None)
        ]
    );
    assert!(matches!(suspended[1].content, Content::DeleteMarker));
    assert!(matches!(
        suspended[3].content,
        Content::Unreadable(Unreadable::Encrypted(Encryption::SseS3))
    ));
    assert!(object(&drive, "settings", "locked").locked);
    let storage = object(&drive, "checksums", "headers");
    assert_eq!(storage.dropped, ["x-amz-storage-class"]);
}

#[test]
fn bucket_settings_are_named_and_tags_travel() {
    let (directory, manifest) = odd();
    let drive = Drive::open(directory.path()).unwrap();

    let buckets = drive.buckets().unwrap();

    for found in &buckets {
        let expected = timestamp(&manifest["created"][found.name.as_str()]);
        assert_eq!(seconds(found.created), expected);
        assert_eq!(found.damage, None);
    }
    let names: Vec<_> = buckets.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["checksums", "settings", "suspended"]);
    let names = |found: &DriveBucket| found.settings.keys().copied().collect::<Vec<_>>();
    assert_eq!(
        names(&buckets[1]),
        [
            "encryption",
            "lifecycle",
            "object lock",
            "policy",
            "versioning"
        ]
    );
    assert_eq!(
        buckets[1].tags,
        [
            ("team".into(), "a + b:/@=".into()),
            ("stage".into(), "prod".into())
        ]
    );
    assert!(buckets[0].settings.is_empty() && buckets[0].tags.is_empty());
    assert_eq!(names(&buckets[2]), ["versioning"]);
}

#[test]
fn users_are_counted_and_other_directories_are_no_buckets() {
    let (directory, _) = example("minio-drive");
    let iam = directory.path().join(".minio.sys/config/iam");
    for user in [
        "users/alice/identity.json",
        "users/bob/identity.json",
        "groups/g/members.json",
    ] {
        std::fs::create_dir_all(iam.join(user)).unwrap();
    }
    for name in ["lost+found", "Not_A_Bucket"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    std::fs::write(directory.path().join(".root_user"), "x").unwrap();
    let drive = Drive::open(directory.path()).unwrap();

    let system = drive.system().unwrap();
    let top = drive.top_level().unwrap();

    let counts = [&system.users, &system.groups, &system.policies].map(|found| found.count);
    assert_eq!(counts, [2, 1, 0]);
    assert_eq!(top.not_buckets, ["Not_A_Bucket"]);
    assert_eq!(top.buckets.len(), 3);
}

#[test]
fn a_write_shows_in_the_fingerprint() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let before = drive.fingerprint().unwrap();
    assert_eq!(
        drive.fingerprint().unwrap().differences(&before),
        Vec::<&str>::new()
    );

    // What MinIO does on an overwrite: a new file takes the name.
    let meta = directory
        .path()
        .join("ryax-filestore/iodata/0002/report.csv/xl.meta");
    std::fs::copy(&meta, meta.with_extension("new")).unwrap();
    let stamp = std::fs::metadata(&meta).unwrap().modified().unwrap();
    std::fs::rename(meta.with_extension("new"), &meta).unwrap();
    let file = std::fs::File::options().write(true).open(&meta).unwrap();
    file.set_modified(stamp + Duration::from_nanos(1)).unwrap();

    assert_eq!(
        drive.fingerprint().unwrap().differences(&before),
        ["ryax-filestore"]
    );
    std::fs::write(directory.path().join(".minio.sys/tmp/x"), "").unwrap();
    assert_eq!(
        drive.fingerprint().unwrap().differences(&before),
        [".minio.sys", "ryax-filestore"]
    );
}
