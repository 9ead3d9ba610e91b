//! A target volume in a temporary directory, and what it holds.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use filestore_common::{ObjectInfo, ObjectMeta};
use filestore_migrator::progress::Silent;
use filestore_migrator::{Endpoint, Error, Location, Outcome, RunOptions, run as engine};
use filestore_store::{ListEntry, ListQuery, Precondition, Store, StoreOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::memory::{MemorySource, bucket, key};

pub(crate) struct Target {
    pub(crate) directory: TempDir,
    pub(crate) options: RunOptions,
}

pub(crate) type Held = BTreeMap<String, (ObjectInfo, Vec<u8>)>;

impl Target {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let to = Endpoint::new(Location::Volume(directory.path().into()));
        let mut options = RunOptions::new(None, to);
        options.wait = Duration::ZERO;
        options.absent_after = Duration::ZERO;
        options.parallel = 4;
        Self { directory, options }
    }

    pub(crate) async fn run(&self, source: &Arc<MemorySource>) -> Result<Outcome, Error> {
        engine::run_from(
            source.clone(),
            &self.options,
            Arc::new(Silent),
            CancellationToken::new(),
        )
        .await
    }

    pub(crate) async fn copy(&self, source: &Arc<MemorySource>) -> Result<Outcome, Error> {
        engine::copy_from(
            source.clone(),
            &self.options,
            Arc::new(Silent),
            CancellationToken::new(),
        )
        .await
    }

    /// The store as a gateway would open it.
    pub(crate) fn store(&self) -> Store {
        Store::open(self.directory.path(), &StoreOptions::default()).unwrap()
    }

    /// A client of the gateway writes.
    pub(crate) fn client_puts(&self, name: &str, object: &str, bytes: &[u8]) {
        let store = self.store();
        let (name, object) = (bucket(name), key(object));
        match store.create_bucket(&name, "client") {
            Ok(()) | Err(filestore_store::Error::BucketExists) => {}
            Err(error) => panic!("{error}"),
        }
        let mut staged = store.stage(&name, &object, None).unwrap();
        staged.write(bytes).unwrap();
        let etag = hex::encode(filestore_common::digest::md5(bytes));
        let meta = ObjectMeta::new(filestore_common::ETag::new(etag));
        store
            .publish(staged, &meta, &Precondition::None, None)
            .unwrap();
    }

    pub(crate) fn client_deletes(&self, name: &str, object: &str) {
        let deleted = self
            .store()
            .delete_object(&bucket(name), &key(object), &Precondition::None);
        assert!(deleted.unwrap(), "{name}/{object} was not there");
    }

    /// Everything on the volume, by `bucket/key`.
    pub(crate) fn held(&self) -> Held {
        let store = self.store();
        let mut held = Held::new();
        for info in store.list_buckets().unwrap() {
            let mut query = ListQuery {
                max_keys: 1000,
                ..ListQuery::default()
            };
            loop {
                let page = store.list(&info.name, &query).unwrap();
                for entry in page.entries {
                    let ListEntry::Object(listed) = entry else {
                        continue;
                    };
                    let mut reader = store.open_object(&info.name, &key(&listed.key)).unwrap();
                    let mut bytes = Vec::new();
                    reader.file.read_to_end(&mut bytes).unwrap();
                    held.insert(
                        format!("{}/{}", info.name, listed.key),
                        (reader.info, bytes),
                    );
                }
                if page.next.is_none() {
                    break;
                }
                query.after = page.next;
            }
        }
        held
    }

    /// Bodies by `bucket/key`.
    pub(crate) fn bodies(&self) -> BTreeMap<String, String> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        self.held()
            .into_iter()
            .map(|(name, (_, bytes))| (name, text(bytes)))
            .collect()
    }

    /// Asserts that the volume holds what the source holds, in everything that S3 shows.
    pub(crate) fn equals(&self, source: &MemorySource) {
        let held = self.held();
        let buckets = source.buckets.lock().unwrap();
        let mut expected = 0;
        for (bucket, objects) in &*buckets {
            for (key, stored) in objects {
                let name = format!("{bucket}/{key}");
                let (info, bytes) = held
                    .get(&name)
                    .unwrap_or_else(|| panic!("{name} is missing"));
                assert_eq!(*bytes, stored.bytes, "body of {name}");
                assert_eq!(info.meta, stored.meta, "metadata of {name}");
                assert_eq!(info.last_modified, stored.modified, "time of {name}");
                expected += 1;
            }
        }
        assert_eq!(held.len(), expected, "objects: {:?}", held.keys());
    }
}
