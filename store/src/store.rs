//! The public face of the store; the work is done in the modules beside it.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use filestore_common::{BucketName, Checksum, ETag, ObjectInfo, ObjectKey, ObjectMeta, Tags};

use crate::query::*;
use crate::{Error, Result};

/// An open volume. Cheap to share behind an `Arc`; every method may be called from any thread.
#[derive(Debug)]
pub struct Store {}

/// A body being received: invisible until published, gone when dropped.
#[derive(Debug)]
pub struct Staged {}

/// An open object. The body stays readable although the key is overwritten or deleted meanwhile.
#[derive(Debug)]
pub struct ObjectReader {
    /// Metadata, read from the same open file.
    pub info: ObjectInfo,
    /// The body, from offset 0; use positioned reads or sendfile.
    pub file: File,
}

fn missing<T>() -> Result<T> {
    Err(Error::Volume("not built yet".into()))
}

impl Staged {
    /// Appends to the body.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    pub fn write(&mut self, _bytes: &[u8]) -> Result<()> {
        missing()
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        0
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `length` bytes of `source` from `offset`, in the kernel where it can.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`] (also when the source is shorter).
    pub fn copy_from(&mut self, _source: &ObjectReader, _offset: u64, _length: u64) -> Result<()> {
        missing()
    }

    /// Reads back what was staged (digests of copied bodies).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> Result<usize> {
        missing()
    }
}

impl Store {
    /// Opens the volume at `path`, creating its layout when it is empty or was written by versitygw.
    ///
    /// # Errors
    /// [`Error::Volume`] with a one-line cure: not a directory, not writable, no xattr although
    /// asked for, mode mismatch, newer format, locked by another process.
    pub fn open(_path: &Path, _options: &StoreOptions) -> Result<Self> {
        missing()
    }

    /// The volume's path.
    pub fn path(&self) -> &Path {
        Path::new("/")
    }

    /// Metadata mode in use.
    pub fn metadata_mode(&self) -> MetadataMode {
        MetadataMode::Xattr
    }

    /// Writes, flushes, reads back and removes a small file with metadata: is the volume usable?
    ///
    /// # Errors
    /// What failed; also after a failed fsync of acknowledged data, until restart.
    pub fn probe(&self) -> Result<()> {
        missing()
    }

    /// Space and inodes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn space(&self) -> Result<Space> {
        missing()
    }

    /// Buckets in byte order of their names.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        missing()
    }

    /// Creates a bucket owned by the access key `owner` (versitygw's `acl` attribute).
    ///
    /// # Errors
    /// [`Error::BucketExists`].
    pub fn create_bucket(&self, _bucket: &BucketName, _owner: &str) -> Result<()> {
        missing()
    }

    /// Looks a bucket up.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn head_bucket(&self, _bucket: &BucketName) -> Result<BucketInfo> {
        missing()
    }

    /// Removes an empty bucket (unfinished uploads do not count).
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::BucketNotEmpty`].
    pub fn delete_bucket(&self, _bucket: &BucketName) -> Result<()> {
        missing()
    }

    /// Tags of a bucket; `None` when none were ever set.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn bucket_tags(&self, _bucket: &BucketName) -> Result<Option<Tags>> {
        missing()
    }

    /// Replaces or (`None`) removes the tags of a bucket.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn set_bucket_tags(&self, _bucket: &BucketName, _tags: Option<&Tags>) -> Result<()> {
        missing()
    }

    /// Starts a body for `key`. `size` preallocates when known.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::ReservedKey`], [`Error::NoSpace`].
    pub fn stage(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _size: Option<u64>,
    ) -> Result<Staged> {
        missing()
    }

    /// Publishes a staged body under the key it was staged for: data and metadata appear at once,
    /// or not at all. `last_modified` overrides the time (import).
    ///
    /// # Errors
    /// [`Error::PreconditionFailed`], [`Error::NoSuchKey`] (`If-Match` on a missing key),
    /// [`Error::NoSuchBucket`], [`Error::MetadataTooLarge`], [`Error::NoSpace`].
    pub fn publish(
        &self,
        _staged: Staged,
        _meta: &ObjectMeta,
        _precondition: &Precondition,
        _last_modified: Option<SystemTime>,
    ) -> Result<ObjectInfo> {
        missing()
    }

    /// Opens an object for reading.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchKey`].
    pub fn open_object(&self, _bucket: &BucketName, _key: &ObjectKey) -> Result<ObjectReader> {
        missing()
    }

    /// Metadata of an object.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchKey`].
    pub fn head_object(&self, _bucket: &BucketName, _key: &ObjectKey) -> Result<ObjectInfo> {
        missing()
    }

    /// Removes an object; returns whether it existed.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::PreconditionFailed`].
    pub fn delete_object(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _precondition: &Precondition,
    ) -> Result<bool> {
        missing()
    }

    /// Replaces or (empty) removes the tags of an object; Last-Modified stays.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchKey`].
    pub fn set_object_tags(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _tags: &Tags,
    ) -> Result<()> {
        missing()
    }

    /// A page of objects and common prefixes.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn list(&self, _bucket: &BucketName, _query: &ListQuery) -> Result<ListPage> {
        missing()
    }

    /// Starts a multipart upload and returns its id.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::ReservedKey`], [`Error::MetadataTooLarge`].
    pub fn create_upload(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _spec: &UploadSpec,
    ) -> Result<String> {
        missing()
    }

    /// Looks an upload up.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`].
    pub fn upload(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _upload_id: &str,
    ) -> Result<UploadInfo> {
        missing()
    }

    /// Starts the body of a part.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`], [`Error::NoSpace`].
    pub fn stage_part(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _upload_id: &str,
        _number: u32,
        _size: Option<u64>,
    ) -> Result<Staged> {
        missing()
    }

    /// Publishes a staged part, replacing an earlier one of that number.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] when it was completed or aborted meanwhile, [`Error::NoSpace`].
    pub fn publish_part(
        &self,
        _staged: Staged,
        _etag: &ETag,
        _checksum: Option<&Checksum>,
    ) -> Result<PartInfo> {
        missing()
    }

    /// Parts with a number greater than `after`, at most `max`, in ascending order; and whether more follow.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`].
    pub fn list_parts(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _upload_id: &str,
        _after: u32,
        _max: usize,
    ) -> Result<(Vec<PartInfo>, bool)> {
        missing()
    }

    /// A page of uploads in progress.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`].
    pub fn list_uploads(&self, _bucket: &BucketName, _query: &UploadQuery) -> Result<UploadPage> {
        missing()
    }

    /// Assembles the parts into the object. Repeating a completion that succeeded succeeds again.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`], [`Error::InvalidPart`], [`Error::InvalidPartOrder`],
    /// [`Error::PartTooSmall`], [`Error::BadDigest`], [`Error::PreconditionFailed`].
    pub fn complete_upload(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _upload_id: &str,
        _parts: &[CompletedPart],
        _options: &CompleteOptions,
    ) -> Result<ObjectInfo> {
        missing()
    }

    /// Drops an upload and its parts.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`].
    pub fn abort_upload(
        &self,
        _bucket: &BucketName,
        _key: &ObjectKey,
        _upload_id: &str,
    ) -> Result<()> {
        missing()
    }
}
