//! Finding and reading objects, and changing their tags.

use std::fs::File;

use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, Tags};
use rustix::fs::{FileType, MemfdFlags, Stat};

use crate::attributes::{AttributeSet, codec, xattr};
use crate::dir::{self, is_absent};
use crate::layout::attribute;
use crate::path::{Location, below};
use crate::query::{MetadataMode, Precondition};
use crate::sidecar::Record;
use crate::store::ObjectReader;
use crate::volume::Volume;
use crate::{Error, Result};

/// How often an object that is being replaced by another process is looked up again.
const ATTEMPTS: usize = 20;

/// An object as it was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The open file or directory.
    pub(crate) file: File,
    /// Its `stat`.
    pub(crate) stat: Stat,
    /// Its attributes.
    pub(crate) attributes: AttributeSet,
}

impl Found {
    /// What S3 says of it.
    pub(crate) fn info(&self) -> ObjectInfo {
        let (size, last_modified) = if self.is_directory() {
            let stored = self.attributes.get(attribute::MODIFIED);
            (0, codec::directory_modified(stored, &self.stat))
        } else {
            (dir::size(&self.stat), dir::mtime(&self.stat))
        };
        ObjectInfo {
            size,
            last_modified,
            meta: codec::decode(&self.attributes, &self.stat).meta,
        }
    }

    /// Its ETag.
    pub(crate) fn etag(&self) -> ETag {
        let stored = self.attributes.text(attribute::ETAG);
        stored.map_or_else(|| codec::foreign_etag(&self.stat), ETag::new)
    }

    fn is_directory(&self) -> bool {
        dir::file_type(&self.stat) == FileType::Directory
    }
}

impl Volume {
    /// See [`crate::Store::open_object`].
    pub(crate) fn open_object(&self, bucket: &BucketName, key: &ObjectKey) -> Result<ObjectReader> {
        let found = self.look_up(bucket, key)?;
        let info = found.info();
        let file = if found.is_directory() {
            empty_file()?
        } else {
            found.file
        };
        Ok(ObjectReader { info, file })
    }

    /// See [`crate::Store::head_object`].
    pub(crate) fn head_object(&self, bucket: &BucketName, key: &ObjectKey) -> Result<ObjectInfo> {
        self.look_up(bucket, key).map(|found| found.info())
    }

    /// Metadata of an object that the tree has, for a listing; `None` when it has none.
    pub(crate) fn head_in_tree(
        &self,
        bucket: &BucketName,
        key: &str,
    ) -> Result<Option<ObjectInfo>> {
        // A path too long to be a key, made by hand.
        let Ok(key) = ObjectKey::new(key) else {
            return Ok(None);
        };
        let _guard = match self.mode {
            MetadataMode::Xattr => None,
            MetadataMode::Sidecar => Some(self.locks.read(bucket, key.as_str())),
        };
        if self.tree_data(bucket, &key)?.is_none() {
            return Ok(None);
        }
        Ok(self.find(bucket, &key)?.map(|found| found.info()))
    }

    /// See [`crate::Store::set_object_tags`].
    pub(crate) fn set_object_tags(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        tags: &Tags,
    ) -> Result<()> {
        let _between_processes = self.exclude_processes(bucket, key, &Precondition::None)?;
        let _guard = self.locks.write(bucket, key.as_str());
        let Some(mut found) = self.find(bucket, key)? else {
            return Err(self.missing(bucket));
        };
        match self.mode {
            MetadataMode::Xattr if tags.is_empty() => {
                if !xattr::remove(&found.file, attribute::TAGS)? {
                    return Ok(());
                }
                self.flush.file(&found.file)
            }
            MetadataMode::Xattr => {
                xattr::put(&found.file, attribute::TAGS, &codec::tags_value(tags))?;
                self.flush.file(&found.file)
            }
            MetadataMode::Sidecar => {
                found.attributes.remove(attribute::TAGS);
                codec::encode_tags(&mut found.attributes, tags);
                let record = Record::new(bucket, key, &found.stat, found.attributes);
                self.put_record(&record)
            }
        }
    }

    /// Finds an object on behalf of a reader.
    fn look_up(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Found> {
        let found = match self.mode {
            MetadataMode::Xattr => self.find(bucket, key)?,
            MetadataMode::Sidecar => {
                let _guard = self.locks.read(bucket, key.as_str());
                self.find(bucket, key)?
            }
        };
        found.ok_or_else(|| self.missing(bucket))
    }

    /// [`Error::NoSuchKey`], or [`Error::NoSuchBucket`] when it is the bucket that is missing.
    pub(crate) fn missing(&self, bucket: &BucketName) -> Error {
        match self.bucket_dir(bucket) {
            Ok(_) => Error::NoSuchKey,
            Err(error) => error,
        }
    }

    /// Finds an object: in the tree, else in overflow. In sidecar mode the caller holds the
    /// lock of the key.
    pub(crate) fn find(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Found>> {
        for attempt in 0.. {
            let Some((file, stat)) = self.data(bucket, key)? else {
                return Ok(None);
            };
            match self.mode {
                MetadataMode::Xattr => {
                    let attributes = xattr::read(&file)?;
                    return Ok(visible(file, stat, attributes));
                }
                MetadataMode::Sidecar => {
                    let record = self.record(bucket, key, &stat)?;
                    // Without a record it was put there by hand, or replaced by another process
                    // since it was opened.
                    if record.is_some()
                        || attempt == ATTEMPTS
                        || self.is_current(bucket, key, &stat)?
                    {
                        let attributes = record.map(|r| r.attributes).unwrap_or_default();
                        return Ok(visible(file, stat, attributes));
                    }
                }
            }
        }
        Ok(None)
    }

    fn is_current(&self, bucket: &BucketName, key: &ObjectKey, stat: &Stat) -> Result<bool> {
        let now = self.data(bucket, key)?;
        Ok(now.is_some_and(|(_, now)| {
            now.st_ino == stat.st_ino && dir::mtime_ns(&now) == dir::mtime_ns(stat)
        }))
    }

    /// The overflow object of a key that the tree does not have.
    pub(crate) fn find_overflow(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<Option<Found>> {
        let _guard = match self.mode {
            MetadataMode::Xattr => None,
            MetadataMode::Sidecar => Some(self.locks.read(bucket, key.as_str())),
        };
        if self.tree_data(bucket, key)?.is_some() {
            return Ok(None);
        }
        self.find(bucket, key)
    }

    /// The open data of a key.
    pub(crate) fn data(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<Option<(File, Stat)>> {
        match self.tree_data(bucket, key)? {
            None => self.overflow.open(bucket, key),
            found => Ok(found),
        }
    }

    /// The open data of a key in the tree.
    pub(crate) fn tree_data(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<Option<(File, Stat)>> {
        match Location::of(key) {
            Location::Overflow => Ok(None),
            Location::Tree {
                path,
                directory_object: false,
            } => self
                .root
                .open_file(&below(bucket, &path))
                .map_err(|error| Error::io("open an object", error)),
            Location::Tree {
                path,
                directory_object: true,
            } => self.directory_object(bucket, key, &path),
        }
    }

    /// The open directory of a directory object.
    fn directory_object(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        path: &str,
    ) -> Result<Option<(File, Stat)>> {
        let io = |error| Error::io("open a directory object", error);
        let dir = match self.root.open_dir(&below(bucket, path)) {
            Ok(dir) => dir,
            Err(error) if is_absent(error) => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let stat = dir.stat_self().map_err(io)?;
        let is_object = match self.mode {
            MetadataMode::Xattr => xattr::get(&dir, attribute::ETAG)?.is_some(),
            MetadataMode::Sidecar => self.record(bucket, key, &stat)?.is_some(),
        };
        Ok(is_object.then(|| (dir.into_file(), stat)))
    }

    /// Checks a precondition; the caller holds the lock of the key.
    pub(crate) fn check(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<()> {
        if *precondition == Precondition::None {
            return Ok(());
        }
        match (precondition, self.find(bucket, key)?) {
            (Precondition::Absent, Some(_)) => Err(Error::PreconditionFailed),
            (Precondition::Present | Precondition::Matches(_), None) => Err(self.missing(bucket)),
            (Precondition::Matches(wanted), Some(found)) if found.etag() != *wanted => {
                Err(Error::PreconditionFailed)
            }
            _ => Ok(()),
        }
    }
}

/// versitygw keeps the bytes of what was deleted in a versioned bucket.
fn visible(file: File, stat: Stat, attributes: AttributeSet) -> Option<Found> {
    let deleted = attributes.get(attribute::DELETE_MARKER).is_some();
    (!deleted).then_some(Found {
        file,
        stat,
        attributes,
    })
}

/// A file without content, as the body of a directory object.
fn empty_file() -> Result<File> {
    rustix::fs::memfd_create("empty", MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(|error| Error::io("make an empty body", error))
}
