//! Making a staged body an object: at once, or not at all.

mod place;

use std::sync::PoisonError;
use std::time::SystemTime;

use filestore_common::{BucketName, ObjectInfo, ObjectKey, ObjectMeta};
use rustix::fs::{Mode, Stat};

use crate::attributes::{AttributeSet, codec, xattr};
use crate::dir::{self, Dir};
use crate::layout::{FILE_MODE, attribute};
use crate::path::Location;
use crate::query::{MetadataMode, Precondition};
use crate::sidecar::{Record, set_mtime};
use crate::staged::StagedFile;
use crate::volume::Volume;
use crate::{Error, Result};

/// An object to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publication<'a> {
    /// Bucket.
    pub(crate) bucket: &'a BucketName,
    /// Key.
    pub(crate) key: &'a ObjectKey,
    /// Metadata.
    pub(crate) meta: &'a ObjectMeta,
    /// Multipart upload that made it.
    pub(crate) upload_id: Option<&'a str>,
    /// Condition on the object that it replaces.
    pub(crate) precondition: &'a Precondition,
    /// Its Last-Modified, if not now.
    pub(crate) last_modified: Option<SystemTime>,
}

/// A body that is complete: attributes set and flushed.
struct Finished<'a> {
    file: StagedFile,
    stat: Stat,
    attributes: &'a AttributeSet,
    /// The key is among its attributes, as overflow wants.
    has_key: bool,
}

/// Where an object went: the directory to flush, and its path below the data root unless it is
/// an overflow directory.
struct Placed {
    parent: Dir,
    path: Option<String>,
    /// Size in bytes of the object that was there before.
    old: Option<u64>,
}

impl Volume {
    /// See [`crate::Store::publish`].
    pub(crate) fn publish(&self, file: StagedFile, new: &Publication<'_>) -> Result<ObjectInfo> {
        let attributes = codec::encode(new.meta, new.upload_id);
        let location = Location::of(new.key);
        let stat = self.finish(&file, &attributes, new.last_modified)?;
        let mut finished = Finished {
            file,
            stat,
            attributes: &attributes,
            has_key: false,
        };
        if location == Location::Overflow {
            self.add_key(&mut finished, new)?;
        }
        self.flush.file(&finished.file.file)?;

        let between_processes = self.exclude_processes(new.bucket, new.key, new.precondition)?;
        let gate = self
            .bucket_gate
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let guard = self.locks.write(new.bucket, new.key.as_str());
        self.check(new.bucket, new.key, new.precondition)?;
        let size = dir::size(&finished.stat);
        let change = self.counters.begin(new.bucket, new.key, Some(size), || {
            self.size_now(new.bucket, new.key)
        })?;
        let (old, to_flush) = match self.place_anywhere(&mut finished, new, &location) {
            Ok(placed) => placed,
            Err(error @ (Error::PreconditionFailed | Error::NoSuchBucket)) => {
                change.cancel();
                return Err(error);
            }
            // It may have its name: the change stays in doubt.
            Err(error) => return Err(error),
        };
        change.end(old);
        drop((guard, gate, between_processes));
        if let Some(placed) = to_flush {
            self.flush_place(new.bucket, &placed)?;
        }
        Ok(ObjectInfo {
            size: dir::size(&finished.stat),
            last_modified: dir::mtime(&finished.stat),
            meta: new.meta.clone(),
        })
    }

    /// Gives a body its name. Returns the size of the object that was there before, and what is
    /// yet to be flushed.
    fn place_anywhere(
        &self,
        finished: &mut Finished<'_>,
        new: &Publication<'_>,
        location: &Location,
    ) -> Result<(Option<u64>, Option<Placed>)> {
        if let Some(placed) = self.place_directory(finished, new, location)? {
            return Ok((placed.old, Some(placed)));
        }
        match self.mode {
            MetadataMode::Xattr => {
                let placed = self.place(finished, new, location)?;
                Ok((placed.old, Some(placed)))
            }
            MetadataMode::Sidecar => Ok((self.place_with_record(finished, new, location)?, None)),
        }
    }

    /// Gives a body its attributes, time and mode.
    fn finish(
        &self,
        staged: &StagedFile,
        attributes: &AttributeSet,
        last_modified: Option<SystemTime>,
    ) -> Result<Stat> {
        let io = |error| Error::io("finish a body", error);
        let file = &staged.file;
        let time = match self.mode {
            MetadataMode::Xattr => {
                xattr::write(file, attributes)?;
                last_modified
            }
            // A time of our own is kept as it is; that of a last write, a network file system
            // may still change.
            MetadataMode::Sidecar => Some(last_modified.unwrap_or_else(SystemTime::now)),
        };
        if let Some(time) = time {
            set_mtime(file, dir::ns_of(time)).map_err(io)?;
        }
        let stat = rustix::fs::fstat(file).map_err(io)?;
        if stat.st_mode & 0o7777 != FILE_MODE {
            rustix::fs::fchmod(file, Mode::from_raw_mode(FILE_MODE)).map_err(io)?;
        }
        Ok(stat)
    }

    /// Adds the key to the attributes of what goes to overflow.
    fn add_key(&self, finished: &mut Finished<'_>, new: &Publication<'_>) -> Result<()> {
        if !finished.has_key && self.mode == MetadataMode::Xattr {
            let key = new.key.as_str().as_bytes();
            xattr::put(&finished.file.file, attribute::KEY, key)?;
        }
        finished.has_key = true;
        Ok(())
    }

    /// Gives a body its name and, in sidecar mode, its record; flushes both. Returns the size of
    /// the object that was there before.
    fn place_with_record(
        &self,
        finished: &mut Finished<'_>,
        new: &Publication<'_>,
        location: &Location,
    ) -> Result<Option<u64>> {
        let staged = &finished.file.file;
        finished.stat = self.make_distinct(new.bucket, new.key, staged, finished.stat)?;
        let attributes = finished.attributes.clone();
        let record = Record::new(new.bucket, new.key, &finished.stat, attributes);
        let intent = self.intend(&record)?;
        let placed = match self.place(finished, new, location) {
            Ok(placed) => placed,
            Err(error) => {
                self.abandon(&intent);
                return Err(error);
            }
        };
        // The record must not outrun its data. If this fails, the intent stays for the next start.
        self.flush_place(new.bucket, &placed)?;
        self.fulfil(&intent)?;
        Ok(placed.old)
    }

    fn flush_place(&self, bucket: &BucketName, placed: &Placed) -> Result<()> {
        self.flush.directory(&placed.parent)?;
        match &placed.path {
            Some(path) => self.flush.ancestors(&self.root, path),
            None => self.overflow.flush(self, bucket),
        }
    }
}
