//! What the volume looks like from outside and under strain; the plain behaviour of every
//! operation is in the conformance suite.

mod buckets;
mod concurrency;
mod crash;
mod foreign;
mod kill;
mod model;
mod tree;

use std::io::Read;
use std::path::{Path, PathBuf};

use super::*;

pub(crate) const BOTH: [MetadataMode; 2] = [MetadataMode::Xattr, MetadataMode::Sidecar];

/// A store in a directory of its own.
pub(crate) struct Scratch {
    dir: tempfile::TempDir,
    pub(crate) store: Store,
    options: StoreOptions,
}

impl Scratch {
    pub(crate) fn new(metadata: MetadataMode, durability: Durability) -> Self {
        let options = StoreOptions {
            durability,
            metadata: Some(metadata),
            ..StoreOptions::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &options).unwrap();
        store.create_bucket(&bucket(), "owner").unwrap();
        Self {
            dir,
            store,
            options,
        }
    }

    pub(crate) fn relaxed(metadata: MetadataMode) -> Self {
        Self::new(metadata, Durability::Relaxed)
    }

    /// Another store on the same volume, as another process would have it.
    pub(crate) fn second(&self) -> Store {
        Store::open(self.dir.path(), &self.options).unwrap()
    }

    pub(crate) fn reopen(self) -> Self {
        let Self {
            dir,
            store,
            options,
        } = self;
        drop(store);
        let store = open_alone(dir.path(), &options);
        Self {
            dir,
            store,
            options,
        }
    }

    /// Closes the store; the volume stays as long as what is returned.
    pub(crate) fn close(self) -> tempfile::TempDir {
        let Self { dir, store, .. } = self;
        drop(store);
        dir
    }

    pub(crate) fn volume(&self) -> &Path {
        self.dir.path()
    }

    /// Path of something in the bucket.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("s3/bucket").join(path)
    }
}

/// Opens a volume that nobody else has open, so that the start sweeps. Tests that start processes
/// at the same time hold copies of its lock for a moment.
pub(crate) fn open_alone(path: &Path, options: &StoreOptions) -> Store {
    let options = StoreOptions {
        access: Access::Exclusive,
        ..options.clone()
    };
    loop {
        match Store::open(path, &options) {
            Err(Error::Volume(line)) if line.contains("in use") => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

pub(crate) fn bucket() -> BucketName {
    BucketName::new("bucket").unwrap()
}

pub(crate) fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).unwrap()
}

/// Metadata whose ETag is the body itself, so that a mix of two objects shows.
pub(crate) fn meta(body: &[u8]) -> ObjectMeta {
    let text = String::from_utf8_lossy(body)
        .chars()
        .take(40)
        .collect::<String>();
    let mut meta = ObjectMeta::new(ETag::new(format!("e{text}")));
    meta.headers.content_type = Some("text/plain".into());
    meta
}

pub(crate) fn put_if(
    store: &Store,
    name: &str,
    body: &[u8],
    precondition: &Precondition,
) -> Result<ObjectInfo> {
    let mut staged = store.stage(&bucket(), &key(name), Some(body.len() as u64))?;
    staged.write(body)?;
    store.publish(staged, &meta(body), precondition, None)
}

pub(crate) fn put(store: &Store, name: &str, body: &[u8]) {
    put_if(store, name, body, &Precondition::None).unwrap();
}

pub(crate) fn get(store: &Store, name: &str) -> Option<Vec<u8>> {
    match store.open_object(&bucket(), &key(name)) {
        Ok(mut reader) => {
            let mut body = Vec::new();
            reader.file.read_to_end(&mut body).unwrap();
            assert_eq!(reader.info.size, body.len() as u64, "{name}");
            assert_eq!(reader.info.meta.etag, meta(&body).etag, "{name}");
            Some(body)
        }
        Err(Error::NoSuchKey) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

pub(crate) fn delete(store: &Store, name: &str) -> bool {
    store
        .delete_object(&bucket(), &key(name), &Precondition::None)
        .unwrap()
}

pub(crate) fn keys(store: &Store) -> Vec<String> {
    let query = ListQuery {
        max_keys: 10_000,
        ..ListQuery::default()
    };
    let page = store.list(&bucket(), &query).unwrap();
    let key = |entry| match entry {
        ListEntry::Object(object) => object.key,
        ListEntry::Prefix(prefix) => panic!("{prefix}"),
    };
    page.entries.into_iter().map(key).collect()
}
