//! A source in memory whose misbehaviour is scripted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use filestore_common::digest;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, ObjectMeta};
use filestore_migrator::source::{
    Bucket, Entry, Left, Listed, Listing, Object, Reason, Source, Tally,
};
use filestore_migrator::{Error, Kind, Result};
use futures::{StreamExt, stream};

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta: ObjectMeta,
    pub(crate) modified: SystemTime,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The first so many reads of the object meet another generation.
    Moves(u32),
    /// The body is not what the ETag says.
    Flipped,
    /// The body breaks off, always.
    BreaksOff,
    /// The listing does not show it, a look at the key does.
    Unlisted,
    /// Not readable by anyone; reported by the listing.
    Encrypted,
}

#[derive(Debug, Default)]
pub(crate) struct MemorySource {
    pub(crate) buckets: Mutex<BTreeMap<BucketName, BTreeMap<ObjectKey, Stored>>>,
    pub(crate) trouble: Mutex<BTreeMap<String, Trouble>>,
    /// Ends every listing with an error after so many objects.
    pub(crate) listing_breaks_after: Mutex<Option<usize>>,
    /// Opens that succeed before the store goes down.
    pub(crate) opens_left: Mutex<Option<u64>>,
    pub(crate) opened: AtomicU64,
    pub(crate) looked: AtomicU64,
    /// A volume that is the same store behind another name.
    pub(crate) same_as: Mutex<Option<PathBuf>>,
    /// Empty = it does not show it.
    pub(crate) deployment: String,
}

pub(crate) fn bucket(name: &str) -> BucketName {
    BucketName::new(name).unwrap()
}

pub(crate) fn key(key: &str) -> ObjectKey {
    ObjectKey::new(key).unwrap()
}

/// Seconds after some day in 2024, so that "now" on the target would show.
pub(crate) fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_717_171_717 + seconds)
}

impl MemorySource {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            deployment: "deployment-1".into(),
            ..Self::default()
        })
    }

    pub(crate) fn add_bucket(&self, name: &str) {
        self.buckets
            .lock()
            .unwrap()
            .entry(bucket(name))
            .or_default();
    }

    /// A plain object; its ETag is the MD5 of its bytes.
    pub(crate) fn put(&self, name: &str, object: &str, bytes: &[u8], seconds: u64) {
        let meta = ObjectMeta::new(ETag::new(hex::encode(digest::md5(bytes))));
        self.put_meta(name, object, bytes, meta, seconds);
    }

    pub(crate) fn put_meta(
        &self,
        name: &str,
        object: &str,
        bytes: &[u8],
        meta: ObjectMeta,
        seconds: u64,
    ) {
        let stored = Stored {
            bytes: bytes.to_vec(),
            meta,
            modified: time(seconds),
        };
        let mut buckets = self.buckets.lock().unwrap();
        buckets
            .entry(bucket(name))
            .or_default()
            .insert(key(object), stored);
    }

    /// A multipart object in parts of these bytes.
    pub(crate) fn put_parts(&self, name: &str, object: &str, parts: &[&[u8]], seconds: u64) {
        let digests: Vec<_> = parts.iter().map(|part| digest::md5(part)).collect();
        let mut meta = ObjectMeta::new(digest::multipart_etag(&digests));
        meta.part_sizes = parts.iter().map(|part| part.len() as u64).collect();
        self.put_meta(name, object, &parts.concat(), meta, seconds);
    }

    pub(crate) fn delete(&self, name: &str, object: &str) {
        let mut buckets = self.buckets.lock().unwrap();
        buckets
            .get_mut(&bucket(name))
            .unwrap()
            .remove(&key(object))
            .unwrap();
    }

    pub(crate) fn trouble(&self, name: &str, trouble: Trouble) {
        self.trouble.lock().unwrap().insert(name.into(), trouble);
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    fn troubled(&self, bucket: &BucketName, key: &ObjectKey) -> Option<Trouble> {
        self.trouble
            .lock()
            .unwrap()
            .get(&format!("{bucket}/{key}"))
            .cloned()
    }
}

fn entry(key: &ObjectKey, stored: &Stored) -> Entry {
    Entry {
        key: key.clone(),
        size: stored.bytes.len() as u64,
        etag: Some(stored.meta.etag.clone()),
        last_modified: stored.modified,
        meta: None,
        hidden: false,
    }
}

#[async_trait]
impl Source for MemorySource {
    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        let buckets = self.buckets.lock().unwrap();
        Ok(SourceIdentity {
            kind: "memory".into(),
            deployment_id: Some(self.deployment.clone()).filter(|id| !id.is_empty()),
            location: "memory".into(),
            buckets: buckets.keys().map(ToString::to_string).collect(),
        })
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        let buckets = self.buckets.lock().unwrap();
        let named = buckets.keys().map(|name| Bucket {
            name: name.clone(),
            created: time(0),
            tags: Vec::new(),
        });
        Ok(named.collect())
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        let buckets = self.buckets.lock().unwrap();
        let mut items = Vec::new();
        for (key, stored) in &buckets[bucket] {
            match self.troubled(bucket, key) {
                Some(Trouble::Unlisted) => {}
                Some(Trouble::Encrypted) => items.push(Ok(Listed::Left(Left::new(
                    Reason::Encrypted,
                    format!("{bucket}/{key}"),
                    1,
                )))),
                _ => items.push(Ok(Listed::Object(entry(key, stored)))),
            }
        }
        if let Some(after) = *self.listing_breaks_after.lock().unwrap() {
            items.truncate(after);
            items.push(Err(Error::new(
                Kind::Down,
                "list",
                bucket.as_str(),
                "connection lost",
            )));
        }
        stream::iter(items).boxed()
    }

    async fn survey(&self, _bucket: &BucketName) -> Result<Tally> {
        Ok(Tally::default())
    }

    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object> {
        let name = format!("{bucket}/{}", entry.key);
        if let Some(left) = &mut *self.opens_left.lock().unwrap() {
            if *left == 0 {
                return Err(Error::new(
                    Kind::Auth,
                    "get",
                    name,
                    "the store locked us out",
                ));
            }
            *left -= 1;
        }
        let trouble = self.troubled(bucket, &entry.key);
        if let Some(Trouble::Moves(times)) = trouble
            && times > 0
        {
            self.trouble(&name, Trouble::Moves(times - 1));
            return Err(Error::new(
                Kind::Changed,
                "get",
                name,
                "precondition failed",
            ));
        }
        let stored = {
            let buckets = self.buckets.lock().unwrap();
            buckets
                .get(bucket)
                .and_then(|objects| objects.get(&entry.key))
                .cloned()
        };
        let Some(mut stored) = stored else {
            return Err(Error::new(Kind::NotFound, "get", name, "no such key"));
        };
        self.opened.fetch_add(1, Ordering::SeqCst);
        let size = stored.bytes.len() as u64;
        if trouble == Some(Trouble::Flipped) {
            stored.bytes[0] ^= 1;
        }
        let mut chunks: Vec<Result<Bytes>> = stored
            .bytes
            .chunks(60_000)
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect();
        if trouble == Some(Trouble::BreaksOff) {
            chunks.pop();
            chunks.push(Err(Error::new(Kind::Down, "read", name, "connection lost")));
        }
        Ok(Object {
            info: ObjectInfo {
                size,
                last_modified: stored.modified,
                meta: stored.meta,
            },
            body: stream::iter(chunks).boxed(),
        })
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        if let Some(volume) = &*self.same_as.lock().unwrap()
            && volume
                .join("s3")
                .join(bucket.as_str())
                .join(key.as_str())
                .exists()
        {
            let stored = Stored {
                bytes: vec![],
                meta: ObjectMeta::new(ETag::new("x")),
                modified: time(0),
            };
            return Ok(Some(entry(key, &stored)));
        }
        let buckets = self.buckets.lock().unwrap();
        let found = buckets.get(bucket).and_then(|objects| objects.get(key));
        Ok(found.map(|stored| entry(key, stored)))
    }
}
