//! The drive through the trait that the engine uses.

use std::collections::BTreeMap;
use std::process::Command;

use futures::TryStreamExt;

use super::*;
use crate::source::Listed;

/// The drive below `examples/`, unpacked, and its manifest.
async fn example() -> (tempfile::TempDir, serde_json::Value, DriveSource) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new("tar")
        .arg("-xJf")
        .arg(examples.join("minio-drive.tar.xz"))
        .arg("-C")
        .arg(directory.path())
        .status()
        .unwrap();
    assert!(status.success());
    let manifest = std::fs::read(examples.join("minio-drive.json")).unwrap();
    let source = DriveSource::open(directory.path()).await.unwrap();
    (
        directory,
        serde_json::from_slice(&manifest).unwrap(),
        source,
    )
}

#[tokio::test]
async fn listing_and_bodies_equal_the_manifest() {
    let (_directory, manifest, source) = example().await;
    source.check().await.unwrap();
    let mut expected: BTreeMap<String, (u64, bool)> = BTreeMap::new();
    for object in manifest["objects"].as_array().unwrap() {
        if object["latest"] == true {
            let name = format!(
                "{}/{}",
                object["bucket"].as_str().unwrap(),
                object["key"].as_str().unwrap()
            );
            let listed = object["listed"] == true;
            expected.insert(name, (object["size"].as_u64().unwrap(), !listed));
        }
    }
    let mut found = BTreeMap::new();
    let mut tally = source.survey_store().await.unwrap();
    for bucket in source.buckets().await.unwrap() {
        tally.merge(source.survey(&bucket.name).await.unwrap());
        let items: Vec<_> = source.list(&bucket.name).try_collect().await.unwrap();
        for item in items {
            let entry = match item {
                Listed::Object(entry) | Listed::Outside(entry) => entry,
                Listed::Left(left) => {
                    tally.add(left);
                    continue;
                }
            };
            let object = source.open(&bucket.name, &entry).await.unwrap();
            assert_eq!(object.info.meta, *entry.meta.clone().unwrap());
            let name = format!("{}/{}", bucket.name, entry.key);
            let checked = crate::body::checked(object, &name);
            let chunks: Vec<_> = checked.body.try_collect().await.unwrap();
            let size: usize = chunks.iter().map(Bytes::len).sum();
            found.insert(name, (size as u64, entry.hidden));
            let head = source
                .head(&bucket.name, &entry.key)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((head.size, head.etag), (entry.size, entry.etag));
        }
    }

    assert_eq!(found, expected);
    let counts: BTreeMap<_, _> = tally
        .into_marker()
        .into_iter()
        .map(|(reason, left)| (reason, left.count))
        .collect();
    let told: Vec<_> = counts
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    assert_eq!(
        told,
        [
            ("bucketSettings", 1),
            ("deleteMarkers", 1),
            ("noncurrentVersions", 4),
            ("unfinishedUploads", 1)
        ]
    );
}

#[tokio::test]
async fn keys_without_an_object_are_not_found() {
    let (_directory, _, source) = example().await;
    let bucket = BucketName::new("with-versions").unwrap();
    for key in ["gone", "never-was", "doc/below"] {
        let key = ObjectKey::new(key).unwrap();
        assert_eq!(source.head(&bucket, &key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn refusals_are_one_line_that_names_the_path_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display();

    let error = DriveSource::open(directory.path()).await.unwrap_err();

    assert_eq!(error.kind, Kind::Refused);
    assert_eq!(
        error.to_string(),
        format!(
            "open minio-drive:{path}: no .minio.sys/format.json: not a MinIO drive, or an \
             incomplete copy of one; give the directory that MinIO was started on"
        )
    );
    let missing = directory.path().join("missing");
    let error = DriveSource::open(&missing).await.unwrap_err();
    assert_eq!(error.kind, Kind::Absent);
}

#[tokio::test]
async fn an_old_drive_is_still_at_once_and_changes_show() {
    let (directory, _, source) = example().await;

    let before = source.still().await.unwrap().unwrap();
    assert_eq!(
        source.still().await.unwrap().as_deref(),
        Some(before.as_str())
    );

    let meta = directory.path().join("ryax-filestore/folder/child/xl.meta");
    let body = std::fs::read(&meta).unwrap();
    std::fs::remove_file(&meta).unwrap();
    std::fs::write(&meta, body).unwrap();
    assert_ne!(source.still().await.unwrap(), Some(before));
}

#[test]
fn a_heartbeat_is_waited_for_only_where_it_could_come() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let ago = |seconds| Some(now - Duration::from_secs(seconds));
    let ahead = Some(now + Duration::from_secs(5));
    let begin = Duration::ZERO;

    assert_eq!(judge(ago(60), ago(60), now, begin), Watch::Still);
    assert_eq!(judge(None, None, now, begin), Watch::Still);
    assert_eq!(judge(ago(3), ago(3), now, begin), Watch::Again);
    assert_eq!(judge(ahead, ahead, now, begin), Watch::Again);
    assert_eq!(judge(ahead, ahead, now, IDLE_INTERVAL), Watch::Still);
    assert_eq!(judge(ago(14), ago(0), now, LOOK_EVERY), Watch::Beating);
}

/// Of a clock that is ahead only watching tells whether it moves on: without the word of the caller
/// this would take twenty seconds.
#[tokio::test]
async fn a_server_that_somebody_saw_go_is_not_watched_for() {
    let (directory, _, source) = example().await;
    let now = SystemTime::now();
    let touch = |seconds: u64| {
        let system = std::fs::File::open(directory.path().join(".minio.sys/tmp")).unwrap();
        let ahead = now + Duration::from_secs(3600 + seconds);
        system.set_modified(ahead).unwrap();
    };
    touch(0);
    let beat = source.fingerprint().await.unwrap().heartbeat();
    assert_eq!(judge(beat, beat, now, Duration::ZERO), Watch::Again);

    let stopped = source.of_stopped_server();
    let seen = stopped.still().await.unwrap();
    assert_eq!(stopped.still().await.unwrap(), seen);
    // Two looks are compared all the same.
    touch(1);
    assert_ne!(stopped.still().await.unwrap(), seen);
}
