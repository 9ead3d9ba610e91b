//! Where objects go.

pub mod s3;
pub mod volume;

use std::fmt::Debug;

use async_trait::async_trait;
use filestore_common::{BucketName, ETag, ObjectKey};
use filestore_store::Space;

use crate::Result;
use crate::naming::Naming;
use crate::scope::Keys;
use crate::source::{About, Bucket, Entry, Listing, Object, clip};

/// What a target is and keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// `volume`, `filestore` (our gateway) or `s3`.
    pub kind: &'static str,
    /// Endpoint or path, without credentials.
    pub location: String,
    /// Takes the source's ETag as it is.
    pub keeps_etag: bool,
    /// Takes the source's Last-Modified.
    pub keeps_last_modified: bool,
}

/// What must hold of the key for a write or delete to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Anything: the target belongs to the migration.
    Any,
    /// No object there.
    Absent,
    /// This object there.
    Same(Option<ETag>),
}

/// A store to write to.
#[async_trait]
pub trait Target: Send + Sync + Debug {
    /// What it is and keeps.
    fn traits(&self) -> Traits;

    /// How it takes keys.
    fn naming(&self) -> Naming {
        Naming::Any
    }

    /// What the store says of itself, as of its last answer.
    fn about(&self) -> About {
        About::default()
    }

    /// Whether names that differ by case only are one there.
    ///
    /// # Errors
    /// [`crate::Kind::Other`].
    async fn folds_case(&self) -> Result<bool> {
        Ok(false)
    }

    /// What of an object's metadata may not fit, for people; only the copy can tell of which
    /// object.
    fn metadata_limit(&self) -> Option<String> {
        None
    }

    /// Bytes of extended attributes that surely do not fit beside an object any more, counted as
    /// [`filestore_store::attribute_bytes`] does; `None` where that is not known.
    fn attribute_limit(&self) -> Option<u64> {
        None
    }

    /// Looks whether the store is there and writable, once, without waiting.
    ///
    /// # Errors
    /// [`crate::Kind::Down`], [`crate::Kind::Auth`], [`crate::Kind::Refused`].
    async fn check(&self) -> Result<()>;

    /// Buckets in byte order of their names.
    ///
    /// # Errors
    /// As [`Target::check`].
    async fn buckets(&self) -> Result<Vec<Bucket>>;

    /// Makes the bucket exist with exactly these tags.
    ///
    /// # Errors
    /// As [`Target::check`].
    async fn ensure_bucket(&self, bucket: &Bucket) -> Result<()>;

    /// All objects of a bucket in byte order of keys.
    fn list(&self, bucket: &BucketName) -> Listing;

    /// As [`Target::list`], with [`Entry::meta`] where that costs no request per object.
    fn list_full(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all().full())
    }

    /// As [`Target::list`], only what `keys` takes; stores that can do so read little else.
    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        clip(self.list(bucket), keys)
    }

    /// The object under a key now, `None` when there is none.
    ///
    /// # Errors
    /// Anything but a clear answer.
    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>>;

    /// Waits until the target takes writes, where it is known that it does not at the moment.
    ///
    /// # Errors
    /// [`crate::Kind::Outage`] when that takes too long, and whatever it answers at last.
    async fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// Writes an object with all its metadata; appears complete or not at all. Checks the body
    /// against the source's ETag where that can be computed, before it becomes visible.
    /// Not durable before [`Target::flush`].
    ///
    /// # Errors
    /// [`crate::Kind::Damaged`] when the body is not what the ETag says,
    /// [`crate::Kind::Conflict`] when `expect` does not hold, errors of the body.
    async fn put(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        object: Object,
        expect: &Expect,
    ) -> Result<()>;

    /// Removes an object.
    ///
    /// # Errors
    /// [`crate::Kind::Conflict`] when `expect` does not hold.
    async fn delete(&self, bucket: &BucketName, key: &ObjectKey, expect: &Expect) -> Result<()>;

    /// Reads an object back.
    ///
    /// # Errors
    /// [`crate::Kind::NotFound`] and what reading meets.
    async fn open(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Object>;

    /// Makes everything that was put or deleted before survive power loss.
    ///
    /// # Errors
    /// Any failure means that nothing since the last flush may be counted as done.
    async fn flush(&self) -> Result<()>;

    /// Free space, where it can be known.
    ///
    /// # Errors
    /// [`crate::Kind::Other`].
    async fn space(&self) -> Result<Option<Space>>;

    /// Where marker, manifest and checkpoint are kept: `.filestore` of a volume.
    fn state_dir(&self) -> Option<std::path::PathBuf>;

    /// Waits until nothing holds the store open any more, so that another program may open it.
    async fn close(&self) {}
}
