//! Where objects come from.

pub mod drive;
pub mod s3;
mod tally;
pub mod volume;

use std::fmt::Debug;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, ObjectMeta, Tags};
use futures::stream::BoxStream;
use futures::{StreamExt, future};
use serde::Serialize;

use crate::Result;
use crate::scope::Keys;

pub use tally::Tally;
pub(crate) use tally::versions_left;

/// A bucket of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Name.
    pub name: BucketName,
    /// Creation date.
    pub created: SystemTime,
    /// Tags; empty when there are none.
    pub tags: Tags,
}

/// An object as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key.
    pub key: ObjectKey,
    /// Bytes of the body as clients see them (after decompression).
    pub size: u64,
    /// ETag as S3 shows it; `None` when the store has none or a placeholder.
    pub etag: Option<ETag>,
    /// Last-Modified.
    pub last_modified: SystemTime,
    /// Everything else, where the listing knows it at no extra cost.
    pub meta: Option<Box<ObjectMeta>>,
    /// The store holds this object but its own listings hide it (MinIO: `a/b` beside an object
    /// `a`). Carried like any other, and reported.
    pub hidden: bool,
}

impl Entry {
    /// ETag and time: which object it is of those that the key had, for [`Left::identity`].
    pub(crate) fn identity(&self) -> Vec<u8> {
        let etag = self.etag.as_ref().map_or("", |etag| etag.as_str());
        format!("{etag} {}", crate::manifest::unix(self.last_modified)).into_bytes()
    }
}

/// Why something stays behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Versions that are not the latest.
    NoncurrentVersions,
    /// Latest versions that are delete markers.
    DeleteMarkers,
    /// Older versions and delete markers, where nobody lets us look whether there are any.
    UnknownVersions,
    /// Policy, lifecycle, versioning, quota, notification, CORS, …: `bucket: setting`.
    BucketSettings,
    /// Retention or legal hold of an object.
    ObjectLock,
    /// Uploads that were never completed.
    UnfinishedUploads,
    /// Users, groups, policies and service accounts.
    Users,
    /// Encrypted by the server (SSE-C, SSE-S3, SSE-KMS): not readable here.
    Encrypted,
    /// Only a stub is here; the bytes are in another tier.
    Tiered,
    /// The bytes or the metadata fail their checksum.
    Damaged,
    /// A format that the reader refuses.
    Unsupported,
    /// A name that S3 or the target does not take.
    Unnameable,
    /// Metadata of an object that has no place on the target: `bucket/key: names`.
    Metadata,
    /// Files in the store's directories that belong to no object.
    Strays,
}

impl Reason {
    /// The key in the marker's `notCarried`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoncurrentVersions => "noncurrentVersions",
            Self::DeleteMarkers => "deleteMarkers",
            Self::UnknownVersions => "unknownVersions",
            Self::BucketSettings => "bucketSettings",
            Self::ObjectLock => "objectLock",
            Self::UnfinishedUploads => "unfinishedUploads",
            Self::Users => "users",
            Self::Encrypted => "encrypted",
            Self::Tiered => "tiered",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::Unnameable => "unnameable",
            Self::Metadata => "metadata",
            Self::Strays => "strays",
        }
    }

    /// Whether this is the current content of a key, so that leaving it behind is a failure
    /// and not only a note.
    pub fn is_loss(self) -> bool {
        matches!(
            self,
            Self::Encrypted | Self::Tiered | Self::Damaged | Self::Unsupported | Self::Unnameable
        )
    }
}

/// One thing that stays behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Why.
    pub reason: Reason,
    /// `bucket/key`, `bucket/key (3 versions)` or `bucket: setting`.
    pub name: String,
    /// How many (versions of one key count each).
    pub count: u64,
    /// Bytes of their bodies, where there are any and they are known.
    pub bytes: u64,
    /// What tells this thing from another one of the same name, count and bytes: version and ETag,
    /// upload id, the text of a setting. In the hash of the list, and nowhere shown.
    pub identity: Box<[u8]>,
}

impl Left {
    /// `count` things under one name, without bytes.
    pub fn new(reason: Reason, name: impl Into<String>, count: u64) -> Self {
        Self {
            reason,
            name: name.into(),
            count,
            bytes: 0,
            identity: Box::default(),
        }
    }

    /// The same with the bytes of its bodies.
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// The same with what tells it from another one of its name.
    #[must_use]
    pub fn with_identity(self, identity: impl Into<Box<[u8]>>) -> Self {
        let identity = identity.into();
        Self { identity, ..self }
    }
}

/// What a store says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// The server's name for itself (`Server` header); `None` for a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Region that requests are signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Seconds by which its clock is ahead of this machine's (negative: behind), to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew_seconds: Option<i64>,
    /// What may be there and cannot be seen from here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_visible: Vec<String>,
}

/// An item of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// An object; keys strictly ascend in byte order.
    Object(Entry),
    /// An object, in the same order, that is outside of the window of time that is migrated: on
    /// the source it stays out of every comparison; on the target it counts only where the source
    /// has something to put in its place.
    Outside(Entry),
    /// Something seen on the way that will not travel; in no particular order.
    Left(Left),
}

/// A listing: ends with `None` only when it is complete; an error ends it and forbids deletes.
pub type Listing = BoxStream<'static, Result<Listed>>;

/// Of a listing, what `keys` takes.
pub(crate) fn clip(listing: Listing, keys: Keys) -> Listing {
    let wanted = move |item: &Result<Listed>| match item {
        Ok(Listed::Object(entry) | Listed::Outside(entry)) => keys.takes(entry.key.as_str()),
        _ => true,
    };
    listing
        .filter(move |item| future::ready(wanted(item)))
        .boxed()
}

/// A body: chunks in order, `info.size` bytes in all, or an error.
pub type Body = BoxStream<'static, Result<Bytes>>;

/// An object being read.
pub struct Object {
    /// Size, Last-Modified and all metadata, of the same generation as the body; `meta.tags` and
    /// `meta.part_sizes` filled in. For a `-N` ETag whose layout is unknown `part_sizes` is empty.
    pub info: ObjectInfo,
    /// The body.
    pub body: Body,
}

impl Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// What a source's listings tell of an object beside size, `ETag` and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Nothing.
    Nothing,
    /// [`Source::list_full`] tells the tags of the objects whose [`Entry::meta`] it fills, and the rest
    /// of their metadata incompletely.
    Tags,
    /// [`Source::list`] itself tells [`Entry::meta`] of every object.
    Metadata,
}

/// A store to read from. Nothing here writes, locks or touches the store in any way.
#[async_trait]
pub trait Source: Send + Sync + Debug {
    /// Looks whether the store is there and readable, once, without waiting.
    ///
    /// # Errors
    /// [`crate::Kind::Absent`], [`crate::Kind::Down`], [`crate::Kind::Auth`],
    /// [`crate::Kind::Refused`] (not a store that we read; says what to do).
    async fn check(&self) -> Result<()>;

    /// Which store this is; `buckets` sorted.
    ///
    /// # Errors
    /// As [`Source::check`].
    async fn identity(&self) -> Result<SourceIdentity>;

    /// Buckets in byte order of their names.
    ///
    /// # Errors
    /// As [`Source::check`].
    async fn buckets(&self) -> Result<Vec<Bucket>>;

    /// All current objects of a bucket. Memory does not grow with their number.
    fn list(&self, bucket: &BucketName) -> Listing;

    /// Whether a second listing beside a pass costs little: a request per page, and no look at each
    /// object.
    fn lists_cheaply(&self) -> bool {
        false
    }

    /// As [`Source::list`], with [`Entry::meta`] where that costs no request per object. Unless
    /// [`Source::tells`] all of it, it may lack something, and says only which objects to look at.
    fn list_full(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all().full())
    }

    /// What listings tell of an object beside size, `ETag` and time.
    fn tells(&self) -> Tells {
        Tells::Nothing
    }

    /// As [`Source::list`], only what `keys` takes; stores that can do so read little else.
    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        clip(self.list(bucket), keys)
    }

    /// What of this bucket will not travel and is not reported by [`Source::list`] (settings,
    /// and versions where the listing does not see them).
    ///
    /// # Errors
    /// As [`Source::check`].
    async fn survey(&self, bucket: &BucketName) -> Result<Tally>;

    /// As [`Source::survey`], of objects only what `keys` takes.
    ///
    /// # Errors
    /// As [`Source::check`].
    async fn survey_within(&self, bucket: &BucketName, _keys: &[Keys]) -> Result<Tally> {
        self.survey(bucket).await
    }

    /// What the store says of itself, as of its last answer.
    fn about(&self) -> About {
        About::default()
    }

    /// What of the whole store will not travel (users). Best effort.
    ///
    /// # Errors
    /// As [`Source::check`].
    async fn survey_store(&self) -> Result<Tally> {
        Ok(Tally::default())
    }

    /// Opens the object that `entry` listed, or what the key holds now.
    ///
    /// # Errors
    /// [`crate::Kind::NotFound`]; [`crate::Kind::Changed`] when the body moves under the read;
    /// [`crate::Kind::Damaged`], [`crate::Kind::Unsupported`].
    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object>;

    /// What the key holds now; asked again when an object moved, and before anything is deleted
    /// from the target.
    ///
    /// # Errors
    /// Anything but a clear answer.
    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>>;

    /// Whether nobody writes to the store, where that shows without asking it: a text that stays
    /// the same as long as nothing changes. `None` where nothing can be said (any store that
    /// serves clients). May take a while.
    ///
    /// # Errors
    /// [`crate::Kind::Refused`] when somebody writes.
    async fn still(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// What the store itself calls the bucket that is shown as `bucket`.
    fn own_name(&self, bucket: &BucketName) -> BucketName {
        bucket.clone()
    }

    /// Directories on this machine that the store lives in, to prove that the target is not in
    /// them.
    fn local_paths(&self) -> Vec<std::path::PathBuf> {
        Vec::new()
    }
}
