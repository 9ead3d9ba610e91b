//! Removing objects, and the directories that they leave empty.

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::attributes::xattr;
use crate::dir::{self, Dir, is_absent};
use crate::layout::attribute;
use crate::path::{Location, below, split};
use crate::query::{MetadataMode, Precondition};
use crate::volume::Volume;
use crate::{Error, Result, trash};

impl Volume {
    /// See [`crate::Store::delete_object`].
    pub(crate) fn delete_object(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<bool> {
        let between_processes = self.exclude_processes(bucket, key, precondition)?;
        let guard = self.locks.write(bucket, key.as_str());
        self.check(bucket, key, precondition)?;
        let change = self.counters.begin(bucket, key, None, || Ok(None))?;
        let location = Location::of(key);
        let mut size = None;
        let from_tree = match &location {
            Location::Overflow => None,
            Location::Tree {
                path,
                directory_object: false,
            } => self.remove_file(bucket, path)?.map(|(removed, place)| {
                size = Some(removed);
                place
            }),
            Location::Tree {
                path,
                directory_object: true,
            } => {
                let place = self.remove_directory_object(bucket, key, path)?;
                size = place.as_ref().map(|_| 0);
                place
            }
        };
        let from_overflow = self.overflow.remove(self, bucket, key)?;
        let removed = from_tree.is_some() || from_overflow.is_some();
        if removed && self.mode == MetadataMode::Sidecar {
            // The data must be gone first: a record that outlives it is no object.
            if let Some((parent, _)) = &from_tree {
                self.flush.directory(parent)?;
            }
            self.remove_record(bucket, key)?;
        }
        change.end(size.or(from_overflow));
        drop((guard, between_processes));
        if let Some((parent, path)) = from_tree {
            self.settle_removal(bucket, &parent, &path)?;
        } else if from_overflow.is_none() {
            self.bucket_dir(bucket)?;
        }
        Ok(removed)
    }

    /// Unlinks the file at `path` in a bucket; returns its size, its directory and that one's path.
    fn remove_file(&self, bucket: &BucketName, path: &str) -> Result<Option<(u64, (Dir, String))>> {
        let io = |error| Error::io("delete an object", error);
        let (parent_path, name) = split(path);
        let parent = match self.root.open_dir(&below(bucket, parent_path)) {
            Ok(parent) => parent,
            Err(error) if is_absent(error) => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        match parent.stat(name).map_err(io)? {
            Some(stat) if dir::file_type(&stat) == FileType::RegularFile => {
                let removed = self.unlink(&parent, name, &stat).map_err(io)?;
                Ok(removed.then(|| (dir::size(&stat), (parent, parent_path.to_owned()))))
            }
            // Links, FIFOs and devices are no objects.
            _ => Ok(None),
        }
    }

    /// Makes a directory object a plain directory; returns it and its path.
    pub(crate) fn remove_directory_object(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        path: &str,
    ) -> Result<Option<(Dir, String)>> {
        let io = |error| Error::io("delete a directory object", error);
        let dir = match self.root.open_dir(&below(bucket, path)) {
            Ok(dir) => dir,
            Err(error) if is_absent(error) => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let was_object = match self.mode {
            MetadataMode::Sidecar => {
                // The record may be that of a body in overflow.
                self.is_directory_object(bucket, path, &dir)? && self.remove_record(bucket, key)?
            }
            MetadataMode::Xattr => {
                let had = xattr::remove(&dir, attribute::ETAG)?;
                if had {
                    for (name, _) in xattr::read(&dir)?.iter() {
                        if attribute::is_of_object(name) {
                            xattr::remove(&dir, name)?;
                        }
                    }
                }
                had
            }
        };
        Ok(was_object.then(|| (dir, path.to_owned())))
    }

    /// Unlinks the file `name` with this `stat`; a large one is freed behind.
    pub(crate) fn unlink(&self, parent: &Dir, name: &str, stat: &Stat) -> rustix::io::Result<bool> {
        if dir::size(stat) >= trash::LARGE {
            self.trash.take(parent, name)
        } else {
            parent.remove_file(name)
        }
    }

    /// Removes the directories that a delete in `parent` (at `path` in the bucket) left empty and
    /// flushes what remains.
    fn settle_removal(&self, bucket: &BucketName, parent: &Dir, path: &str) -> Result<()> {
        let survivor = self.prune(bucket, parent, path)?;
        if let Some(survivor) = survivor {
            return self.flush.directory(&survivor);
        }
        self.flush.directory(parent)?;
        if !self.flush.is_durable() {
            return Ok(());
        }
        // Another delete may have removed it: then that one's place is what must be flushed.
        let stat = parent
            .stat_self()
            .map_err(|error| Error::io("look at a directory", error))?;
        let mut above = path;
        while stat.st_nlink == 0 && !above.is_empty() {
            above = split(above).0;
            match self.root.open_dir(&below(bucket, above)) {
                Ok(dir) => return self.flush.directory(&dir),
                Err(error) if is_absent(error) => {}
                Err(error) => return Err(Error::io("open a directory to flush it", error)),
            }
        }
        Ok(())
    }

    /// Removes `dir` (at `path` in the bucket) and its parents as long as they are empty and no
    /// directory objects. Returns the directory that lost an entry last.
    fn prune(&self, bucket: &BucketName, dir: &Dir, path: &str) -> Result<Option<Dir>> {
        let io = |error| Error::io("remove an empty directory", error);
        let mut survivor: Option<Dir> = None;
        let mut path = path;
        while !path.is_empty() {
            let (parent_path, name) = split(path);
            let _guard = self.locks.write(bucket, &format!("{path}/"));
            if self.is_directory_object(bucket, path, survivor.as_ref().unwrap_or(dir))? {
                break;
            }
            match self.root.open_dir(&below(bucket, parent_path)) {
                Ok(parent) => {
                    if !parent.remove_dir(name).map_err(io)? {
                        break;
                    }
                    survivor = Some(parent);
                }
                Err(error) if is_absent(error) => break,
                Err(error) => return Err(io(error)),
            }
            path = parent_path;
        }
        Ok(survivor)
    }

    pub(crate) fn is_directory_object(
        &self,
        bucket: &BucketName,
        path: &str,
        dir: &Dir,
    ) -> Result<bool> {
        match self.mode {
            MetadataMode::Xattr => Ok(xattr::get(dir, attribute::ETAG)?.is_some()),
            MetadataMode::Sidecar => {
                let Ok(key) = ObjectKey::new(format!("{path}/")) else {
                    return Ok(false);
                };
                let stat = dir.stat_self();
                let stat = stat.map_err(|error| Error::io("look at a directory", error))?;
                Ok(self.record(bucket, &key, &stat)?.is_some())
            }
        }
    }

    /// Removes the directory `name` in `parent` (at `path` in the bucket) if it is empty and no
    /// object: something else is to have its name. The caller holds the lock of another key.
    pub(crate) fn remove_if_empty(
        &self,
        bucket: &BucketName,
        path: &str,
        parent: &Dir,
        name: &str,
    ) -> Result<bool> {
        let Some(_guard) = self.locks.try_write(bucket, &format!("{path}/")) else {
            return Ok(false);
        };
        let dir = match parent.open_dir(name) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(true),
            Err(error) if is_absent(error) => return Ok(false),
            Err(error) => return Err(Error::io("open a directory", error)),
        };
        if self.is_directory_object(bucket, path, &dir)? {
            return Ok(false);
        }
        parent
            .remove_dir(name)
            .map_err(|error| Error::io("remove an empty directory", error))
    }
}
