//! Objects, uploads and buckets of every kind, and all that a store says of them.

use std::os::unix::fs::FileExt as _;
use std::time::{Duration, SystemTime};

use filestore_common::{BucketName, Checksum, ChecksumAlgorithm, ChecksumKind, ETag, ObjectMeta};

use super::*;
use crate::{CompleteOptions, CompletedPart, ListEntry, ListQuery, Precondition, UploadSpec};

/// A key with an upload in progress: two parts, one of them replaced.
const UNFINISHED: &str = "up/unfinished";

pub(super) fn fill(at: &Scratch) {
    let store = &at.store;
    put(store, "plain", b"plain");
    put(store, "empty", b"");
    put(store, "deep/er/é", b"deep");
    put(store, "d/", b"");
    put(store, "d/child", b"child");
    for odd in ["a//b", "plain/below", "b/", ".sgwtmp/x"] {
        put(store, odd, odd.as_bytes());
    }
    put_full(store);
    multipart(store);
    fs::write(at.path("by-hand"), b"by hand").unwrap();
    fs::write(at.path("by-hand-with-tags"), b"by hand").unwrap();
    fs::create_dir_all(at.path("no/object")).unwrap();
    let tags = vec![("t".to_owned(), "v".to_owned())];
    let tagged = key("by-hand-with-tags");
    store.set_object_tags(&bucket(), &tagged, &tags).unwrap();
    let second = BucketName::new("second").unwrap();
    store.create_bucket(&second, "owner").unwrap();
    store.set_bucket_tags(&second, Some(&tags)).unwrap();
    if store.metadata_mode() == MetadataMode::Xattr {
        let file = fs::File::open(at.path("plain")).unwrap();
        crate::attributes::xattr::put(&file, "mine", b"of somebody else").unwrap();
    }
}

fn put_full(store: &Store) {
    let mut meta = ObjectMeta::new(ETag::new("00112233445566778899aabbccddeeff"));
    meta.headers.content_type = Some("text/csv".into());
    meta.headers.cache_control = Some("no-store".into());
    meta.user.insert("origin".into(), "studio".into());
    meta.tags = vec![("z".into(), "1".into()), ("a".into(), "2".into())];
    meta.checksum = Some(Checksum {
        algorithm: ChecksumAlgorithm::Crc32,
        kind: ChecksumKind::FullObject,
        value: "NhCmhg==".into(),
    });
    let mut staged = store.stage(&bucket(), &key("full"), None).unwrap();
    staged.write(b"full").unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 7);
    store
        .publish(staged, &meta, &Precondition::None, Some(then))
        .unwrap();
}

fn part(store: &Store, name: &str, id: &str, number: u32, body: &[u8]) -> CompletedPart {
    let mut staged = store
        .stage_part(&bucket(), &key(name), id, number, None)
        .unwrap();
    staged.write(body).unwrap();
    let etag = ETag::new(hex::encode(<md5::Md5 as md5::Digest>::digest(body)));
    let info = store.publish_part(staged, &etag, None).unwrap();
    CompletedPart {
        number,
        etag: info.etag,
        checksum: None,
    }
}

fn small_parts() -> CompleteOptions {
    CompleteOptions {
        allow_small_parts: true,
        ..CompleteOptions::default()
    }
}

fn multipart(store: &Store) {
    let (at, mut spec) = (bucket(), UploadSpec::default());
    spec.user.insert("made".into(), "in parts".into());
    let name = key("up/done");
    let id = store.create_upload(&at, &name, &spec).unwrap();
    let parts =
        [(1, b"one"), (2, b"two")].map(|(number, body)| part(store, "up/done", &id, number, body));
    store
        .complete_upload(&at, &name, &id, &parts, &small_parts())
        .unwrap();

    let id = store.create_upload(&at, &key(UNFINISHED), &spec).unwrap();
    part(store, UNFINISHED, &id, 1, b"replaced");
    part(store, UNFINISHED, &id, 1, b"first");
    part(store, UNFINISHED, &id, 2, b"second");
    spec.checksum = Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite));
    let id = store.create_upload(&at, &key("odd//up"), &spec).unwrap();
    part(store, "odd//up", &id, 3, b"only");
}

fn unfinished(store: &Store) -> String {
    let query = UploadQuery {
        prefix: UNFINISHED.into(),
        max_uploads: 10,
        ..UploadQuery::default()
    };
    let page = store.list_uploads(&bucket(), &query).unwrap();
    page.uploads[0].upload_id.clone()
}

/// Changes of every kind.
pub(super) fn go_on(store: &Store) {
    let tags = vec![("later".to_owned(), "yes".to_owned())];
    put(store, "plain", b"overwritten");
    store
        .set_object_tags(&bucket(), &key("full"), &tags)
        .unwrap();
    assert!(delete(store, "d/"));
    assert!(delete(store, "a//b"));
    put(store, "b/", b"another body");
    put(store, "new/object", b"new");
    put(store, "by-hand", b"mine now");
    store.set_bucket_tags(&bucket(), Some(&tags)).unwrap();
    let id = unfinished(store);
    part(store, UNFINISHED, &id, 2, b"another second");
}

/// Completes the upload in progress.
pub(super) fn complete(store: &Store) {
    let id = unfinished(store);
    let (parts, _) = store
        .list_parts(&bucket(), &key(UNFINISHED), &id, 0, 10)
        .unwrap();
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| CompletedPart {
            number: part.number,
            etag: part.etag,
            checksum: part.checksum,
        })
        .collect();
    assert_eq!(parts.len(), 2);
    let info = store
        .complete_upload(&bucket(), &key(UNFINISHED), &id, &parts, &small_parts())
        .unwrap();
    assert_eq!(info.meta.user["made"], "in parts");
    assert_eq!(info.meta.part_sizes.len(), 2);
}

/// Claims the upload in progress, as versitygw does to complete it, and crashes then.
pub(super) fn claim_an_upload(volume: &Path) {
    let store = open(volume);
    let id = unfinished(&store);
    drop(store);
    let uploads = volume.join("s3/bucket/.sgwtmp/multipart");
    let hash = crate::path::hash_name(UNFINISHED);
    let at = |name: String| uploads.join(&hash).join(name);
    let claimed = at(format!("{id}.0123456789abcdef-2.inprogress"));
    fs::rename(at(id), claimed).unwrap();
}

/// All that a store says.
pub(super) fn picture(store: &Store) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for info in store.list_buckets().unwrap() {
        let tags = store.bucket_tags(&info.name).unwrap();
        told.insert(info.name.to_string(), format!("{info:?} {tags:?}"));
        let query = ListQuery {
            max_keys: 1000,
            ..ListQuery::default()
        };
        for entry in store.list(&info.name, &query).unwrap().entries {
            let ListEntry::Object(mut listed) = entry else {
                panic!("{entry:?}");
            };
            // Listed only where that costs nothing.
            listed.checksum = None;
            let reader = store.open_object(&info.name, &key(&listed.key)).unwrap();
            let mut body = vec![0; usize::try_from(reader.info.size).unwrap()];
            reader.file.read_exact_at(&mut body, 0).unwrap();
            let value = format!("{:?} {listed:?} {body:?}", reader.info);
            told.insert(format!("{}/{}", info.name, listed.key), value);
        }
        let query = UploadQuery {
            max_uploads: 100,
            ..UploadQuery::default()
        };
        for mut upload in store.list_uploads(&info.name, &query).unwrap().uploads {
            let id = upload.upload_id.clone();
            let initiated = std::mem::replace(&mut upload.initiated, SystemTime::UNIX_EPOCH);
            told.insert(format!("initiated {id}"), format!("{initiated:?}"));
            let parts = store.list_parts(&info.name, &upload.key, &id, 0, 100);
            let value = format!("{upload:?} {:?}", parts.unwrap());
            told.insert(format!("{} upload {id}", info.name), value);
        }
    }
    told
}

/// Fails with what differs between two pictures.
pub(super) fn assert_same(
    found: &BTreeMap<String, String>,
    expected: &BTreeMap<String, String>,
    when: &str,
) {
    for name in found.keys().chain(expected.keys()) {
        assert_eq!(found.get(name), expected.get(name), "{name}, {when}");
    }
}

/// Every file and directory below a path but locks, with what is in it.
pub(super) fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            found.extend(files(&entry));
            found.insert(format!("{}/", entry.display()), Vec::new());
        } else {
            found.insert(entry.display().to_string(), fs::read(&entry).unwrap());
        }
    }
    found
}

/// What a mode that is not in use has left behind.
pub(super) fn traces(volume: &Path, mode: MetadataMode) -> Vec<String> {
    let all = files(volume);
    let is_trace = |path: &str| match mode {
        MetadataMode::Sidecar => {
            let below = |dir: &str| {
                let dir = format!("{}/.filestore/{dir}/", volume.display());
                path.starts_with(&dir) && path != dir
            };
            let part = path.contains("/.sgwtmp/multipart/")
                && !path.ends_with('/')
                && Path::new(path).extension().is_some_and(|e| e != "lock");
            below("meta") || below("intents") || part
        }
        MetadataMode::Xattr => {
            let file = fs::File::open(path).unwrap();
            let set = crate::attributes::xattr::read(file).unwrap();
            set.iter().any(|(name, _)| {
                attribute::is_metadata(name) || attribute::is_bucket_metadata(name)
            })
        }
    };
    all.into_keys().filter(|path| is_trace(path)).collect()
}
