//! The public face of the store; the work is done in the modules beside it.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use filestore_common::marker::{Marker, MarkerState};
use filestore_common::{BucketName, Checksum, ETag, ObjectInfo, ObjectKey, ObjectMeta, Tags};

use crate::listing::{self, NameCache};
use crate::publish::Publication;
use crate::query::*;
use crate::staged::{Staged, Target};
use crate::volume::Volume;
use crate::volume::hand_over::HandOverError;
use crate::{Error, Result};

/// An open volume. Cheap to share behind an `Arc`; every method may be called from any thread.
#[derive(Debug)]
pub struct Store {
    pub(crate) volume: Volume,
    names: NameCache,
}

/// An open object. The body stays readable although the key is overwritten or deleted meanwhile.
#[derive(Debug)]
pub struct ObjectReader {
    /// Metadata, read from the same open file.
    pub info: ObjectInfo,
    /// The body, from offset 0; use positioned reads or sendfile.
    pub file: File,
}

impl Store {
    /// Opens the volume at `path`, creating its layout when it is empty or was written by versitygw.
    ///
    /// # Errors
    /// [`Error::Volume`] with a one-line cure: not a directory, not writable, no xattr although
    /// asked for, mode mismatch, newer format, locked by another process.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Self> {
        Ok(Self {
            volume: Volume::open(path, options)?,
            names: NameCache::default(),
        })
    }

    /// The volume's path.
    pub fn path(&self) -> &Path {
        &self.volume.path
    }

    /// Metadata mode in use.
    pub fn metadata_mode(&self) -> MetadataMode {
        self.volume.mode
    }

    /// Writes, flushes, reads back and removes a small file with metadata: is the volume usable?
    ///
    /// # Errors
    /// What failed; also after a failed fsync of acknowledged data, until restart.
    pub fn probe(&self) -> Result<()> {
        self.volume.probe()
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn space(&self) -> Result<Space> {
        self.volume.space()
    }

    /// Flushes everything that was written to the volume's file system: makes what was stored
    /// with [`Durability::Relaxed`] survive power loss (the end of a bulk copy).
    ///
    /// # Errors
    /// [`Error::Io`]; what was written since the last success may be lost then.
    pub fn sync(&self) -> Result<()> {
        self.volume.sync()
    }

    /// The migration marker; `None` when nothing was ever migrated to this volume. A volume that
    /// the chart of Ryax 26.10 filled is adopted when it is opened.
    ///
    /// # Errors
    /// [`Error::Damaged`] when it is unreadable or newer, [`Error::Io`].
    pub fn marker(&self) -> Result<Option<Marker>> {
        self.volume.marker()
    }

    /// Replaces the migration marker, atomically and flushed whatever the durability.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    pub fn set_marker(&self, marker: &Marker) -> Result<()> {
        self.volume.set_marker(marker)
    }

    /// State of the migration marker, also when another process changed it a moment ago. Cheap
    /// enough for every request.
    ///
    /// # Errors
    /// As [`Self::marker`].
    pub fn migration_state(&self) -> Result<Option<MarkerState>> {
        self.volume.migration_state()
    }

    /// How often this process changed the marker: what was concluded from it before may be old.
    pub fn marker_changes(&self) -> u64 {
        self.volume.marker_changes()
    }

    /// Hands the volume over to its clients: the marker of migration `run_id` goes from `verified`
    /// to `cutover` and is flushed whatever the durability. Repeated it changes nothing and flushes
    /// again. Returns the marker.
    ///
    /// # Errors
    /// [`HandOverError`]: another id or no marker, another state, or a migration at work on it.
    pub fn hand_over(&self, run_id: &str) -> Result<Marker, HandOverError> {
        self.volume.hand_over(run_id)
    }

    /// Buckets in byte order of their names.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.volume.list_buckets()
    }

    /// Creates a bucket owned by the access key `owner` (versitygw's `acl` attribute).
    ///
    /// # Errors
    /// [`Error::BucketExists`].
    pub fn create_bucket(&self, bucket: &BucketName, owner: &str) -> Result<()> {
        self.volume.create_bucket(bucket, owner)
    }

    /// Looks a bucket up.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn head_bucket(&self, bucket: &BucketName) -> Result<BucketInfo> {
        self.volume.head_bucket(bucket)
    }

    /// Removes an empty bucket (unfinished uploads do not count).
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::BucketNotEmpty`].
    pub fn delete_bucket(&self, bucket: &BucketName) -> Result<()> {
        self.volume.delete_bucket(bucket)
    }

    /// Tags of a bucket; `None` when none were ever set.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn bucket_tags(&self, bucket: &BucketName) -> Result<Option<Tags>> {
        self.volume.bucket_tags(bucket)
    }

    /// Replaces or (`None`) removes the tags of a bucket.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn set_bucket_tags(&self, bucket: &BucketName, tags: Option<&Tags>) -> Result<()> {
        self.volume.set_bucket_tags(bucket, tags)
    }

    /// Settings of a bucket that somebody made (policy, CORS, object lock, versioning, website, an
    /// ACL with more than the owner, …) and that this store keeps without acting on them, each by its S3
    /// name with what it says, sorted. Tags are no setting here.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::Io`].
    pub fn bucket_settings(&self, bucket: &BucketName) -> Result<Vec<(String, Vec<u8>)>> {
        self.volume.bucket_settings(bucket)
    }

    /// Sets the creation date of a bucket (import). versitygw shows the time of the directory,
    /// which moves with its entries.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn set_bucket_created(&self, bucket: &BucketName, created: SystemTime) -> Result<()> {
        self.volume.set_bucket_created(bucket, created)
    }

    /// Starts a body for `key`. `size` preallocates when known.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::ReservedKey`], [`Error::NoSpace`],
    /// [`Error::QuotaExceeded`] when that is known already.
    pub fn stage(&self, bucket: &BucketName, key: &ObjectKey, size: Option<u64>) -> Result<Staged> {
        let target = Target::Object {
            bucket: bucket.clone(),
            key: key.clone(),
        };
        if let Some(size) = size {
            self.volume.admit(bucket, Some(key), size)?;
        }
        self.volume.stage(target, size)
    }

    /// Publishes a staged body under the key it was staged for: data and metadata appear at once,
    /// or not at all. `last_modified` overrides the time (import).
    ///
    /// # Errors
    /// [`Error::PreconditionFailed`], [`Error::NoSuchKey`] (`If-Match` on a missing key),
    /// [`Error::NoSuchBucket`], [`Error::MetadataTooLarge`], [`Error::NoSpace`],
    /// [`Error::QuotaExceeded`].
    pub fn publish(
        &self,
        staged: Staged,
        meta: &ObjectMeta,
        precondition: &Precondition,
        last_modified: Option<SystemTime>,
    ) -> Result<ObjectInfo> {
        let Target::Object { bucket, key } = &staged.target else {
            return Err(Error::Damaged("a part is no object".into()));
        };
        let new = Publication {
            bucket,
            key,
            meta,
            upload_id: None,
            precondition,
            last_modified,
        };
        self.volume.publish(staged.file, &new)
    }

    /// Opens an object for reading.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchKey`].
    pub fn open_object(&self, bucket: &BucketName, key: &ObjectKey) -> Result<ObjectReader> {
        self.volume.open_object(bucket, key)
    }

    /// Metadata of an object.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchKey`].
    pub fn head_object(&self, bucket: &BucketName, key: &ObjectKey) -> Result<ObjectInfo> {
        self.volume.head_object(bucket, key)
    }

    /// Removes an object; returns whether it existed.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::PreconditionFailed`].
    pub fn delete_object(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<bool> {
        self.volume.delete_object(bucket, key, precondition)
    }

    /// Replaces or (empty) removes the tags of an object; Last-Modified stays.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchKey`].
    pub fn set_object_tags(&self, bucket: &BucketName, key: &ObjectKey, tags: &Tags) -> Result<()> {
        self.volume.set_object_tags(bucket, key, tags)
    }

    /// A page of objects and common prefixes.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn list(&self, bucket: &BucketName, query: &ListQuery) -> Result<ListPage> {
        let source = listing::Source {
            bucket: &self.volume.bucket_dir(bucket)?,
            mode: self.volume.mode,
            cache: &self.names,
            head: &|key| self.volume.head_in_tree(bucket, key),
            head_overflow: &|key| self.volume.head_overflow(bucket, key),
            overflow: &|prefix, bound| self.volume.list_overflow(bucket, prefix, bound),
        };
        listing::list(&source, query)
    }

    /// Starts a multipart upload and returns its id.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::ReservedKey`], [`Error::MetadataTooLarge`].
    pub fn create_upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        spec: &UploadSpec,
    ) -> Result<String> {
        self.volume.create_upload(bucket, key, spec)
    }

    /// Looks an upload up.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`].
    pub fn upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload_id: &str,
    ) -> Result<UploadInfo> {
        self.volume.upload(bucket, key, upload_id)
    }

    /// Starts the body of a part.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`], [`Error::NoSpace`],
    /// [`Error::QuotaExceeded`] when not even this part would fit.
    pub fn stage_part(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload_id: &str,
        number: u32,
        size: Option<u64>,
    ) -> Result<Staged> {
        if let Some(size) = size {
            self.volume.admit(bucket, None, size)?;
        }
        self.volume.stage_part(bucket, key, upload_id, number, size)
    }

    /// Publishes a staged part, replacing an earlier one of that number.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] when it was completed or aborted meanwhile, [`Error::NoSpace`].
    pub fn publish_part(
        &self,
        staged: Staged,
        etag: &ETag,
        checksum: Option<&Checksum>,
    ) -> Result<PartInfo> {
        self.volume.publish_part(staged, etag, checksum)
    }

    /// Parts with a number greater than `after`, at most `max`, in ascending order; and whether more follow.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`].
    pub fn list_parts(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload_id: &str,
        after: u32,
        max: usize,
    ) -> Result<(Vec<PartInfo>, bool)> {
        self.volume.list_parts(bucket, key, upload_id, after, max)
    }

    /// A page of uploads in progress.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn list_uploads(&self, bucket: &BucketName, query: &UploadQuery) -> Result<UploadPage> {
        self.volume.list_uploads(bucket, query)
    }

    /// Assembles the parts into the object. Repeating a completion that succeeded succeeds again.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`], [`Error::InvalidPart`], [`Error::InvalidPartOrder`],
    /// [`Error::PartTooSmall`], [`Error::BadDigest`], [`Error::PreconditionFailed`],
    /// [`Error::QuotaExceeded`] (the parts stay).
    pub fn complete_upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload_id: &str,
        parts: &[CompletedPart],
        options: &CompleteOptions,
    ) -> Result<ObjectInfo> {
        self.volume
            .complete_upload(bucket, key, upload_id, parts, options)
    }

    /// Drops an upload and its parts.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`].
    pub fn abort_upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload_id: &str,
    ) -> Result<()> {
        self.volume.abort_upload(bucket, key, upload_id)
    }
}

#[cfg(test)]
pub(crate) mod tests;
