//! Volumes, short forms of the store's calls, and the run over all variants.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, ObjectMeta};
use filestore_store::{
    Access, Durability, ListEntry, ListPage, ListQuery, MetadataMode, Precondition, Result, Store,
    StoreOptions, UploadQuery,
};
use md5::{Digest, Md5};

/// Bucket that every case finds.
pub(crate) const BUCKET: &str = "cases";

/// A volume under test.
pub(crate) struct Volume {
    directory: tempfile::TempDir,
    options: StoreOptions,
    store: Store,
}

impl Volume {
    pub(crate) fn new(metadata: MetadataMode, durability: Durability) -> Self {
        let directory = match durability {
            Durability::Durable => tempfile::tempdir_in(fast_directory()).unwrap(),
            Durability::Relaxed => tempfile::tempdir().unwrap(),
        };
        let options = StoreOptions {
            durability,
            metadata: Some(metadata),
            access: Access::Shared,
            ..StoreOptions::default()
        };
        let store = Store::open(directory.path(), &options).unwrap();
        store.create_bucket(&bucket(BUCKET), "owner").unwrap();
        Self {
            directory,
            options,
            store,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Directory of the bucket of the cases.
    pub(crate) fn bucket_path(&self) -> PathBuf {
        self.directory.path().join("s3").join(BUCKET)
    }

    /// Another store on the same volume, as a second process would have it.
    pub(crate) fn second_store(&self) -> Store {
        Store::open(self.directory.path(), &self.options).unwrap()
    }

    /// Opens the volume anew, as after a restart.
    pub(crate) fn reopen(self) -> Self {
        let Self {
            directory,
            options,
            store,
        } = self;
        drop(store);
        let store = Store::open(directory.path(), &options).unwrap();
        Self {
            directory,
            options,
            store,
        }
    }
}

/// Memory where there is some: every flush is called, and costs nothing. That flushes do what they
/// should is for tests that cut the power.
fn fast_directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}

/// Runs a case over all variants and checks that what it left survives a restart.
pub(crate) fn run(case: fn(&Volume)) {
    for metadata in [MetadataMode::Xattr, MetadataMode::Sidecar] {
        for durability in [Durability::Durable, Durability::Relaxed] {
            let volume = Volume::new(metadata, durability);
            case(&volume);
            let before = snapshot(volume.store());
            let volume = volume.reopen();
            assert_eq!(
                before,
                snapshot(volume.store()),
                "{metadata:?} {durability:?}"
            );
        }
    }
}

/// Declares each function as a test that runs over all variants.
macro_rules! cases {
    ($($(#[$attribute:meta])* fn $name:ident($volume:ident: &Volume) $body:block)*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                fn case($volume: &$crate::support::Volume) $body
                $crate::support::run(case);
            }
        )*
    };
}
pub(crate) use cases;

/// Everything that a client can see of a store.
fn snapshot(store: &Store) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for info in store.list_buckets().unwrap() {
        let name = info.name.clone();
        seen.insert(format!("{name}"), String::new());
        for key in keys(store, &name, &ListQuery::default()) {
            let (info, body) = read(store, &name, &key);
            let text = format!("{info:?} {}", md5_of(&body));
            seen.insert(format!("{name} {key}"), text);
        }
        let query = UploadQuery {
            max_uploads: 1000,
            ..UploadQuery::default()
        };
        for upload in store.list_uploads(&name, &query).unwrap().uploads {
            let parts = store
                .list_parts(&name, &upload.key, &upload.upload_id, 0, 10_000)
                .unwrap();
            let id = upload.upload_id.clone();
            seen.insert(
                format!("{name} upload {id}"),
                format!("{upload:?} {parts:?}"),
            );
        }
    }
    seen
}

pub(crate) fn bucket(name: &str) -> BucketName {
    BucketName::new(name).unwrap()
}

/// The bucket of the cases.
pub(crate) fn cases_bucket() -> BucketName {
    bucket(BUCKET)
}

pub(crate) fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).unwrap()
}

pub(crate) fn md5_of(bytes: &[u8]) -> ETag {
    ETag::new(hex::encode(Md5::digest(bytes)))
}

/// Bytes that differ at every offset modulo a prime, so that a shifted copy does not look right.
pub(crate) fn body(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from(at % 251).unwrap() ^ seed)
        .collect()
}

pub(crate) fn meta_of(bytes: &[u8]) -> ObjectMeta {
    ObjectMeta::new(md5_of(bytes))
}

/// Puts an object with metadata and precondition.
pub(crate) fn put_with(
    store: &Store,
    name: &str,
    bytes: &[u8],
    meta: &ObjectMeta,
    precondition: &Precondition,
) -> Result<ObjectInfo> {
    let mut staged = store.stage(
        &cases_bucket(),
        &key(name),
        Some(u64::try_from(bytes.len()).unwrap()),
    )?;
    for chunk in bytes.chunks(100_000) {
        staged.write(chunk)?;
    }
    store.publish(staged, meta, precondition, None)
}

/// Puts an object without any metadata.
pub(crate) fn put(store: &Store, name: &str, bytes: &[u8]) -> ObjectInfo {
    put_with(store, name, bytes, &meta_of(bytes), &Precondition::None)
        .unwrap_or_else(|error| panic!("put {name:?}: {error:?}"))
}

/// Reads an object of any bucket whole; checks that its size is that of its body.
pub(crate) fn read(store: &Store, bucket: &BucketName, name: &str) -> (ObjectInfo, Vec<u8>) {
    let reader = store
        .open_object(bucket, &key(name))
        .unwrap_or_else(|error| panic!("open {name:?}: {error:?}"));
    let length = usize::try_from(reader.info.size).unwrap();
    let mut bytes = vec![0; length];
    reader.file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(reader.file.metadata().unwrap().len(), reader.info.size);
    (reader.info, bytes)
}

/// Body of an object.
pub(crate) fn get(store: &Store, name: &str) -> Vec<u8> {
    read(store, &cases_bucket(), name).1
}

pub(crate) fn head(store: &Store, name: &str) -> Result<ObjectInfo> {
    store.head_object(&cases_bucket(), &key(name))
}

pub(crate) fn delete(store: &Store, name: &str) -> bool {
    store
        .delete_object(&cases_bucket(), &key(name), &Precondition::None)
        .unwrap_or_else(|error| panic!("delete {name:?}: {error:?}"))
}

/// All pages of a listing of at most `max_keys` entries each; checks what holds for any page.
pub(crate) fn pages(store: &Store, bucket: &BucketName, query: &ListQuery) -> Vec<ListPage> {
    let mut query = query.clone();
    let mut pages = Vec::new();
    loop {
        let page = store.list(bucket, &query).unwrap();
        assert!(page.entries.len() <= query.max_keys);
        let next = page.next.clone();
        if let Some(next) = &next {
            assert_eq!(page.entries.last().map(name_of), Some(next.as_str()));
        }
        pages.push(page);
        match next {
            Some(next) => query.after = Some(next),
            None => return pages,
        }
    }
}

/// Keys and common prefixes of all pages of 7 entries (or of `max_keys`, if set).
pub(crate) fn keys(store: &Store, bucket: &BucketName, query: &ListQuery) -> Vec<String> {
    let query = ListQuery {
        max_keys: if query.max_keys == 0 {
            7
        } else {
            query.max_keys
        },
        ..query.clone()
    };
    pages(store, bucket, &query)
        .iter()
        .flat_map(|page| &page.entries)
        .map(|entry| name_of(entry).to_owned())
        .collect()
}

/// All keys of the bucket of the cases.
pub(crate) fn all_keys(store: &Store) -> Vec<String> {
    keys(store, &cases_bucket(), &ListQuery::default())
}

pub(crate) fn name_of(entry: &ListEntry) -> &str {
    match entry {
        ListEntry::Object(object) => &object.key,
        ListEntry::Prefix(prefix) => prefix,
    }
}
