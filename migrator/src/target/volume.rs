//! Straight onto a mounted volume, in the gateway's own format; the gateway is not running.
//!
//! Objects are written without a flush each; [`Target::flush`] makes the file system write
//! everything out (`syncfs`), and only then may anything be recorded as done.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use filestore_common::{BucketName, ObjectKey, ObjectMeta};
use filestore_store::{Access, MetadataMode, Precondition, Space, Staged, Store};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

use super::{Expect, Target, Traits};
use crate::connect::Use;
use crate::lanes::crowded;
use crate::naming::Naming;
use crate::scope::Keys;
use crate::source::{Body, Bucket, Entry, Listing, Object};
use crate::volume::{blocking, explain};
use crate::{Error, Kind, Result, body, casefold, volume};

/// Bodies up to this size are written by one blocking call.
const SMALL_BYTES: u64 = 1 << 20;
/// How often and how many times to look whether the volume is free.
const CLOSE_POLL: std::time::Duration = std::time::Duration::from_millis(5);
const CLOSE_POLLS: u32 = 2000;
/// `f_type` of ext2, ext3 and ext4 (linux/magic.h).
const EXT_MAGIC: i128 = 0xEF53;
/// Header and end of ext4's attribute block.
const BLOCK_OVERHEAD: u64 = 36;
/// What an inode of 1024 bytes takes besides, four times the usual size. The feature `ea_inode`,
/// which no mkfs sets by itself, would lift the limit.
const IN_INODE: u64 = 896;
/// Chunks that wait for the disk.
const CHUNKS_BEHIND: usize = 2;

/// A volume being written.
#[derive(Debug)]
pub struct VolumeTarget {
    path: PathBuf,
    owner: String,
    /// `None` while only planning onto a volume that was never used.
    store: Option<Arc<Store>>,
    root: File,
}

impl VolumeTarget {
    /// Opens the volume at `path`, creating its layout; only to look, nothing is created and
    /// gateways may keep it open.
    ///
    /// # Errors
    /// [`Kind::Refused`]: no directory, in use, or not usable, with the cure.
    pub async fn open(path: &Path, owner: &str, purpose: Use) -> Result<Self> {
        let root = File::open(path).and_then(|root| {
            if root.metadata()?.is_dir() {
                Ok(root)
            } else {
                Err(std::io::ErrorKind::NotADirectory.into())
            }
        });
        let root = root.map_err(|error| {
            Error::new(
                Kind::Refused,
                "open",
                path.display().to_string(),
                error.to_string(),
            )
            .with_cure("mount the volume there, or create the directory")
        })?;
        let used = path.join(".filestore").exists() || path.join("s3").exists();
        let access = match purpose {
            Use::Look => used.then_some(Access::Shared),
            Use::Write => Some(Access::Exclusive),
            Use::WriteBeside => Some(Access::Worker),
        };
        let store = match access {
            Some(access) => Some(volume::open_store(path, access).await?),
            None => None,
        };
        Ok(Self {
            path: path.to_owned(),
            owner: owner.to_owned(),
            store,
            root,
        })
    }

    fn is_sidecar(&self) -> bool {
        self.store
            .as_ref()
            .is_some_and(|store| store.metadata_mode() == MetadataMode::Sidecar)
    }

    fn store(&self) -> Result<Arc<Store>> {
        self.store.clone().ok_or_else(|| {
            Error::new(
                Kind::Refused,
                "write",
                self.path.display().to_string(),
                "opened to plan only",
            )
        })
    }
}

fn precondition(expect: &Expect) -> Precondition {
    match expect {
        Expect::Any => Precondition::None,
        Expect::Absent => Precondition::Absent,
        Expect::Same(None) => Precondition::Present,
        Expect::Same(Some(etag)) => Precondition::Matches(etag.clone()),
    }
}

#[async_trait]
impl Target for VolumeTarget {
    fn traits(&self) -> Traits {
        Traits {
            kind: "volume",
            location: format!("volume:{}", self.path.display()),
            keeps_etag: true,
            keeps_last_modified: true,
        }
    }

    fn naming(&self) -> Naming {
        Naming::Overflow
    }

    async fn folds_case(&self) -> Result<bool> {
        let data = self.path.join("s3");
        let directory = if data.is_dir() {
            data
        } else {
            self.path.clone()
        };
        let name = self.path.display().to_string();
        blocking("look at", &name, move || Ok(casefold::folds(&directory))).await
    }

    fn attribute_limit(&self) -> Option<u64> {
        let stat = rustix::fs::fstatfs(&self.root).ok()?;
        let block = u64::try_from(stat.f_bsize).ok()?;
        let ext = i128::from(stat.f_type) == EXT_MAGIC;
        (ext && !self.is_sidecar()).then(|| (block + IN_INODE).saturating_sub(BLOCK_OVERHEAD))
    }

    fn metadata_limit(&self) -> Option<String> {
        (!self.is_sidecar()).then(|| {
            "headers, metadata and tags of an object are extended attributes: ext4 has room for \
             about 4000 bytes of them; an object with more is named when it is copied"
                .into()
        })
    }

    async fn check(&self) -> Result<()> {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        let name = self.path.display().to_string();
        blocking("probe", &name.clone(), move || {
            store.probe().map_err(|error| explain("probe", name, error))
        })
        .await
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        match &self.store {
            Some(store) => volume::buckets(store).await,
            None => Ok(Vec::new()),
        }
    }

    async fn ensure_bucket(&self, bucket: &Bucket) -> Result<()> {
        let (store, owner, bucket) = (self.store()?, self.owner.clone(), bucket.clone());
        let name = bucket.name.to_string();
        blocking("create bucket", &name.clone(), move || {
            let failed = |error| explain("create bucket", &*name, error);
            match store.create_bucket(&bucket.name, &owner) {
                Ok(()) | Err(filestore_store::Error::BucketExists) => {}
                Err(error) => return Err(failed(error)),
            }
            // A bucket is as old as its oldest copy; a source that does not tell says 1970.
            let dated = bucket.created > std::time::SystemTime::UNIX_EPOCH;
            let has = store.head_bucket(&bucket.name).map_err(failed)?.created;
            if dated && bucket.created < has {
                store
                    .set_bucket_created(&bucket.name, bucket.created)
                    .map_err(failed)?;
            }
            let wanted = (!bucket.tags.is_empty()).then_some(&bucket.tags);
            if store.bucket_tags(&bucket.name).map_err(failed)?.as_ref() != wanted {
                store
                    .set_bucket_tags(&bucket.name, wanted)
                    .map_err(failed)?;
            }
            Ok(())
        })
        .await
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all())
    }

    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        match &self.store {
            Some(store) => volume::list(store.clone(), bucket.clone(), keys),
            None => stream::empty().boxed(),
        }
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        match &self.store {
            Some(store) => volume::head(store, bucket, key).await,
            None => Ok(None),
        }
    }

    async fn put(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        object: Object,
        expect: &Expect,
    ) -> Result<()> {
        let name = format!("{bucket}/{key}");
        let object = body::checked(object, &name);
        let writing = Writing {
            store: self.store()?,
            bucket: bucket.clone(),
            key: key.clone(),
            name,
            size: object.info.size,
            meta: object.info.meta,
            modified: object.info.last_modified,
            precondition: precondition(expect),
        };
        if writing.size <= SMALL_BYTES {
            let chunks: Vec<Bytes> = object.body.try_collect().await?;
            let name = writing.name.clone();
            blocking("put", &name, move || {
                writing.publish(chunks.into_iter().map(Ok))
            })
            .await
        } else if crowded() {
            here(writing, object.body).await
        } else {
            large(writing, object.body).await
        }
    }

    async fn delete(&self, bucket: &BucketName, key: &ObjectKey, expect: &Expect) -> Result<()> {
        let (store, bucket, key) = (self.store()?, bucket.clone(), key.clone());
        let precondition = precondition(expect);
        let name = format!("{bucket}/{key}");
        blocking("delete", &name.clone(), move || {
            let deleted = store.delete_object(&bucket, &key, &precondition);
            deleted
                .map(drop)
                .map_err(|error| explain("delete", name, error))
        })
        .await
    }

    async fn open(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Object> {
        volume::open(&self.store()?, bucket, key).await
    }

    async fn flush(&self) -> Result<()> {
        let (store, name) = (self.store()?, self.path.display().to_string());
        blocking("flush", &name.clone(), move || {
            let flushed = store.sync();
            // Written out or lost, nobody knows: nothing may be recorded as done.
            flushed.map_err(|error| Error {
                kind: Kind::Refused,
                ..explain("flush", name, error)
            })
        })
        .await
    }

    async fn space(&self) -> Result<Option<Space>> {
        let stat = rustix::fs::fstatvfs(&self.root).map_err(|error| {
            let path = self.path.display().to_string();
            Error::new(Kind::Other, "measure", path, error.to_string())
        })?;
        Ok(Some(Space {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_inodes: stat.f_files,
            available_inodes: stat.f_favail,
        }))
    }

    fn state_dir(&self) -> Option<PathBuf> {
        Some(self.path.join(".filestore"))
    }

    async fn close(&self) {
        let Some(store) = &self.store else {
            return;
        };
        // Listings that were not read to their end let go within one page.
        for _ in 0..CLOSE_POLLS {
            if Arc::strong_count(store) == 1 {
                return;
            }
            tokio::time::sleep(CLOSE_POLL).await;
        }
        tracing::warn!("The volume is still in use by this process");
    }
}

/// One object on its way to the disk.
struct Writing {
    store: Arc<Store>,
    bucket: BucketName,
    key: ObjectKey,
    name: String,
    size: u64,
    meta: ObjectMeta,
    modified: std::time::SystemTime,
    precondition: Precondition,
}

impl Writing {
    fn stage(&self) -> Result<Staged> {
        let staged = self.store.stage(&self.bucket, &self.key, Some(self.size));
        staged.map_err(|error| explain("put", &*self.name, error))
    }

    /// Writes all chunks and publishes; any error before the end leaves nothing visible.
    fn publish(self, chunks: impl Iterator<Item = Result<Bytes>>) -> Result<()> {
        let mut staged = self.stage()?;
        for chunk in chunks {
            self.write(&mut staged, &chunk?)?;
        }
        self.end(staged)
    }

    fn write(&self, staged: &mut Staged, chunk: &Bytes) -> Result<()> {
        let written = staged.write(chunk);
        written.map_err(|error| explain("put", &*self.name, error))
    }

    fn end(self, staged: Staged) -> Result<()> {
        let published =
            self.store
                .publish(staged, &self.meta, &self.precondition, Some(self.modified));
        published
            .map(drop)
            .map_err(|error| explain("put", self.name, error))
    }
}

/// Bodies that do not fit into memory, written by the thread that reads them.
async fn here(writing: Writing, mut body: Body) -> Result<()> {
    let mut staged = writing.stage()?;
    while let Some(chunk) = body.try_next().await? {
        writing.write(&mut staged, &chunk)?;
        // Neither of the two waits for anything: signals would not be heard.
        tokio::task::yield_now().await;
    }
    writing.end(staged)
}

/// Bodies that do not fit into memory: a blocking writer fed through a bounded channel. The body's
/// error travels through it, so that the writer never takes a torn body for a short one.
async fn large(writing: Writing, mut body: Body) -> Result<()> {
    let name = writing.name.clone();
    let (sender, mut receiver) = mpsc::channel::<Option<Result<Bytes>>>(CHUNKS_BEHIND);
    let object = name.clone();
    let writer = tokio::task::spawn_blocking(move || {
        let mut ended = false;
        let chunks = std::iter::from_fn(|| match receiver.blocking_recv() {
            Some(Some(chunk)) => Some(chunk),
            Some(None) => {
                ended = true;
                None
            }
            // The sender was dropped in the middle: the copy was cancelled.
            None if ended => None,
            None => Some(Err(Error::new(
                Kind::Interrupted,
                "put",
                &*object,
                "stopped",
            ))),
        });
        writing.publish(chunks)
    });
    loop {
        let chunk = body.next().await;
        let last = !matches!(chunk, Some(Ok(_)));
        if sender.send(chunk).await.is_err() || last {
            break;
        }
    }
    drop(sender);
    match writer.await {
        Ok(done) => done,
        Err(error) => Err(Error::new(Kind::Other, "put", name, error.to_string())),
    }
}
