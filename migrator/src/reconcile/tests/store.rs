//! A store in memory that is both ends at once, with conditional writes, a process that dies and a
//! client that comes in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, ObjectMeta, digest};
use filestore_store::Space;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::source::{Bucket, Entry, Left, Listed, Listing, Object, Reason, Source, Tally};
use crate::target::{Expect, Target, Traits};
use crate::{Error, Kind, Result};

pub(super) fn bucket() -> BucketName {
    BucketName::new("bkt").unwrap()
}

fn buckets() -> Vec<Bucket> {
    vec![Bucket {
        name: bucket(),
        created: SystemTime::UNIX_EPOCH,
        tags: Vec::new(),
    }]
}

pub(super) fn object_name(number: u8) -> String {
    format!("k{number}")
}

pub(super) fn etag(body: &str) -> ETag {
    ETag::new(hex::encode(digest::md5(body.as_bytes())))
}

/// What happens to a process while it writes.
#[derive(Debug, Clone, Default)]
pub(super) struct Blow {
    /// It is stopped before its next request after so many.
    pub(super) killed_after: Option<u32>,
    /// It is gone before its next request after so many, without another word.
    pub(super) gone_after: Option<u32>,
    /// A client that comes in between.
    pub(super) intruder: Option<Intruder>,
}

/// A client puts (or, without a body, deletes) a key before the request after so many.
#[derive(Debug, Clone)]
pub(super) struct Intruder {
    pub(super) after: u32,
    pub(super) key: String,
    pub(super) body: Option<String>,
}

/// What a store does that it should not.
#[derive(Debug, Clone, Default)]
pub(super) struct Quirks {
    /// Gone after the first listing.
    pub(super) short_lived: Option<String>,
    /// Not listed, and refused to whoever asks for it.
    pub(super) refused: Option<String>,
    /// Listed as damaged.
    pub(super) told: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<String, (String, SystemTime)>,
    /// Seconds.
    clock: u64,
    requests: u32,
    blow: Blow,
    intrusions: u32,
    /// Versions that a client replaced or deleted here.
    taken: BTreeSet<(String, String)>,
    listings: u32,
    quirks: Quirks,
    dead: CancellationToken,
    /// Of these, other bytes are there than was written.
    torn: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Store {
    inner: Mutex<Inner>,
    keeps_times: bool,
    gone: Notify,
}

impl Inner {
    fn now(&mut self) -> SystemTime {
        // Some writes fall into one second.
        self.clock += u64::from(self.objects.len().is_multiple_of(2));
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + self.clock)
    }

    fn put(&mut self, key: &str, body: &str, modified: Option<SystemTime>) -> SystemTime {
        let now = self.now();
        let modified = modified.unwrap_or(now);
        self.objects.insert(key.into(), (body.into(), modified));
        self.torn.remove(key);
        modified
    }

    fn take(&mut self, key: &str) {
        if let Some((body, _)) = self.objects.get(key) {
            self.taken.insert((key.to_owned(), body.clone()));
        }
    }

    /// Before a request of the process.
    fn request(&mut self) -> Result<()> {
        self.requests += 1;
        let requests = self.requests;
        let due = self.blow.intruder.take_if(|one| one.after < requests);
        if let Some(Intruder { key, body, .. }) = due {
            self.intrusions += 1;
            self.take(&key);
            match body {
                Some(body) => drop(self.put(&key, &body, None)),
                None => drop(self.objects.remove(&key)),
            }
        }
        if self
            .blow
            .killed_after
            .is_some_and(|after| after < self.requests)
        {
            self.dead.cancel();
        }
        if self.dead.is_cancelled() {
            return Err(Error::new(Kind::Interrupted, "put", "anything", "killed"));
        }
        Ok(())
    }
}

impl Store {
    pub(super) fn new(keeps_times: bool) -> Self {
        Self {
            inner: Mutex::default(),
            keeps_times,
            gone: Notify::new(),
        }
    }

    /// A request of the process. One that is gone makes no more.
    async fn request(&self) -> Result<()> {
        let gone = {
            let mut inner = self.held();
            inner.request()?;
            let after = inner.blow.gone_after;
            after.is_some_and(|after| after < inner.requests)
        };
        if gone {
            self.gone.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Comes back when the process is gone.
    pub(super) async fn gone(&self) {
        self.gone.notified().await;
    }

    /// A power loss takes bytes of an object.
    pub(super) fn tear(&self, key: &str) {
        self.held().torn.insert(key.to_owned());
    }

    pub(super) fn torn(&self) -> BTreeSet<String> {
        self.held().torn.clone()
    }

    pub(super) fn expect(&self, blow: Blow, dead: CancellationToken) {
        let mut inner = self.held();
        inner.requests = 0;
        inner.blow = blow;
        inner.dead = dead;
    }

    pub(super) fn intrusions(&self) -> u32 {
        self.held().intrusions
    }

    pub(super) fn put(&self, key: &str, body: &str, modified: Option<SystemTime>) -> SystemTime {
        self.held().put(key, body, modified)
    }

    /// A client writes.
    pub(super) fn client_puts(&self, key: &str, body: &str) {
        let mut inner = self.held();
        inner.take(key);
        inner.put(key, body, None);
    }

    /// A client deletes.
    pub(super) fn client_deletes(&self, key: &str) {
        let mut inner = self.held();
        inner.take(key);
        inner.objects.remove(key);
    }

    /// What clients replaced and deleted.
    pub(super) fn taken(&self) -> BTreeSet<(String, String)> {
        self.held().taken.clone()
    }

    pub(super) fn has(&self, quirks: Quirks) {
        let mut inner = self.held();
        inner.listings = 0;
        inner.quirks = quirks;
    }

    fn refuses(&self, key: &ObjectKey) -> Result<()> {
        let inner = self.held();
        if inner.quirks.refused.as_deref() == Some(key.as_str()) {
            let problem = "access denied";
            return Err(Error::new(Kind::Unsupported, "head", key.as_str(), problem));
        }
        Ok(())
    }

    pub(super) fn map(&self) -> BTreeMap<String, String> {
        let inner = self.held();
        let held = inner.objects.iter();
        held.map(|(key, (body, _))| (key.clone(), body.clone()))
            .collect()
    }

    pub(super) fn bodies(&self) -> BTreeSet<(String, String)> {
        self.map().into_iter().collect()
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let inner = self.held();
        inner
            .objects
            .iter()
            .map(|(key, (body, modified))| Entry {
                key: ObjectKey::new(key.as_str()).unwrap(),
                size: body.len() as u64,
                etag: Some(etag(body)),
                last_modified: *modified,
                meta: None,
                hidden: false,
            })
            .collect()
    }

    fn entry(&self, key: &ObjectKey) -> Option<Entry> {
        self.entries().into_iter().find(|entry| entry.key == *key)
    }

    fn list(&self) -> Listing {
        let quirks = {
            let mut inner = self.held();
            inner.listings += 1;
            if let (Some(key), 2) = (inner.quirks.short_lived.clone(), inner.listings) {
                inner.objects.remove(&key);
            }
            inner.quirks.clone()
        };
        let told = quirks.told.map(|key| {
            let name = format!("{}/{key}", bucket());
            Listed::Left(Left::new(Reason::Damaged, name, 1))
        });
        let objects = self.entries().into_iter();
        let objects = objects.filter(|entry| quirks.refused.as_deref() != Some(entry.key.as_str()));
        let items: Vec<_> = told
            .into_iter()
            .chain(objects.map(Listed::Object))
            .map(Ok)
            .collect();
        stream::iter(items).boxed()
    }

    fn held(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, key: &ObjectKey) -> Result<Object> {
        let inner = self.held();
        let Some((body, modified)) = inner.objects.get(key.as_str()) else {
            return Err(Error::new(
                Kind::NotFound,
                "get",
                key.as_str(),
                "no such key",
            ));
        };
        let bytes = if inner.torn.contains(key.as_str()) {
            "\0".repeat(body.len())
        } else {
            body.clone()
        };
        Ok(Object {
            info: ObjectInfo {
                size: body.len() as u64,
                last_modified: *modified,
                meta: ObjectMeta::new(etag(body)),
            },
            body: stream::iter([Ok(Bytes::from(bytes))]).boxed(),
        })
    }

    fn admits(inner: &Inner, key: &ObjectKey, expect: &Expect) -> bool {
        let held = inner.objects.get(key.as_str()).map(|(body, _)| etag(body));
        match expect {
            Expect::Any => true,
            Expect::Absent => held.is_none(),
            Expect::Same(wanted) => held.is_some() && (wanted.is_none() || held == *wanted),
        }
    }
}

#[async_trait]
impl Source for Store {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
    async fn identity(&self) -> Result<SourceIdentity> {
        unreachable!("not asked")
    }
    async fn buckets(&self) -> Result<Vec<Bucket>> {
        Ok(buckets())
    }
    fn list(&self, _bucket: &BucketName) -> Listing {
        self.list()
    }
    async fn survey(&self, _bucket: &BucketName) -> Result<Tally> {
        Ok(Tally::default())
    }
    async fn open(&self, _bucket: &BucketName, entry: &Entry) -> Result<Object> {
        self.open(&entry.key)
    }
    async fn head(&self, _bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        self.refuses(key)?;
        Ok(self.entry(key))
    }
}

#[async_trait]
impl Target for Store {
    fn traits(&self) -> Traits {
        Traits {
            kind: if self.keeps_times { "volume" } else { "s3" },
            location: "memory".into(),
            keeps_etag: true,
            keeps_last_modified: self.keeps_times,
        }
    }
    async fn check(&self) -> Result<()> {
        Ok(())
    }
    async fn buckets(&self) -> Result<Vec<Bucket>> {
        Ok(buckets())
    }
    async fn ensure_bucket(&self, _bucket: &Bucket) -> Result<()> {
        Ok(())
    }
    fn list(&self, _bucket: &BucketName) -> Listing {
        self.list()
    }
    async fn head(&self, _bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        self.request().await?;
        self.refuses(key)?;
        Ok(self.entry(key))
    }
    async fn put(
        &self,
        _bucket: &BucketName,
        key: &ObjectKey,
        object: Object,
        expect: &Expect,
    ) -> Result<()> {
        let chunks: Vec<Bytes> = object.body.try_collect().await?;
        let body = String::from_utf8_lossy(&chunks.concat()).into_owned();
        self.request().await?;
        let mut inner = self.held();
        if !Self::admits(&inner, key, expect) {
            return Err(Error::new(
                Kind::Conflict,
                "put",
                key.as_str(),
                "another one",
            ));
        }
        let modified = self.keeps_times.then_some(object.info.last_modified);
        inner.put(key.as_str(), &body, modified);
        Ok(())
    }
    async fn delete(&self, _bucket: &BucketName, key: &ObjectKey, expect: &Expect) -> Result<()> {
        self.request().await?;
        let mut inner = self.held();
        if !Self::admits(&inner, key, expect) {
            return Err(Error::new(
                Kind::Conflict,
                "delete",
                key.as_str(),
                "another one",
            ));
        }
        inner.objects.remove(key.as_str());
        Ok(())
    }
    async fn open(&self, _bucket: &BucketName, key: &ObjectKey) -> Result<Object> {
        self.request().await?;
        self.open(key)
    }
    async fn flush(&self) -> Result<()> {
        Ok(())
    }
    async fn space(&self) -> Result<Option<Space>> {
        Ok(None)
    }
    fn state_dir(&self) -> Option<PathBuf> {
        None
    }
}
