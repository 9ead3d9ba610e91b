//! Where a finished body goes: its place in the tree, or overflow.

use std::os::fd::OwnedFd;
use std::time::SystemTime;

use filestore_common::BucketName;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Finished, Placed, Publication};
use crate::attributes::{AttributeSet, xattr};
use crate::dir::{self, Dir};
use crate::layout::{FILE_MODE, TEMP_DIR, attribute};
use crate::path::{Location, below, split};
use crate::query::{MetadataMode, Precondition};
use crate::sidecar::{Record, set_mtime};
use crate::staged::Linked;
use crate::volume::Volume;
use crate::{Error, Result, trash};

/// Attempts to enter a directory that deletes keep removing.
const ATTEMPTS: usize = 1000;

impl Volume {
    /// Gives a body its name.
    pub(super) fn place(
        &self,
        finished: &mut Finished<'_>,
        new: &Publication<'_>,
        location: &Location,
    ) -> Result<Placed> {
        match location {
            Location::Tree {
                path,
                directory_object: false,
            } if self.belongs_to_tree(new)? => {
                if let Some(placed) = self.place_file(finished, new, path)? {
                    return Ok(placed);
                }
            }
            Location::Tree {
                path,
                directory_object: true,
            } => {
                // The body of a directory object takes the place of the directory's attributes.
                let mut placed = self.place_overflow(finished, new)?;
                self.flush_place(new.bucket, &placed)?;
                if let Some((dir, _)) = self.remove_directory_object(new.bucket, new.key, path)? {
                    self.flush.directory(&dir)?;
                    placed.old = Some(0);
                }
                return Ok(placed);
            }
            _ => {}
        }
        self.place_overflow(finished, new)
    }

    /// A key that is in overflow stays there, unless the tree, which counts, has it too.
    fn belongs_to_tree(&self, new: &Publication<'_>) -> Result<bool> {
        Ok(!self.overflow.contains(new.bucket, new.key)?
            || self.tree_data(new.bucket, new.key)?.is_some())
    }

    /// In the tree; `None` when something there is in the way.
    fn place_file(
        &self,
        finished: &mut Finished<'_>,
        new: &Publication<'_>,
        path: &str,
    ) -> Result<Option<Placed>> {
        let (parent_path, name) = split(path);
        let whole = below(new.bucket, parent_path);
        let io = |error| Error::io("give an object its name", error);
        for _ in 0..ATTEMPTS {
            let Some(parent) = self.enter(new.bucket, &whole)? else {
                return Ok(None);
            };
            let placed = |parent, old| {
                let path = Some(whole.clone());
                Ok(Some(Placed { parent, path, old }))
            };
            match finished.file.link_new(&parent, name) {
                Ok(Linked::Yes) => return placed(parent, None),
                Ok(Linked::Taken) => {}
                Err(Errno::NOENT) => continue,
                // Some file systems take fewer than 255 bytes.
                Err(Errno::NAMETOOLONG) => return Ok(None),
                Err(Errno::XDEV) => {
                    self.move_across(finished, &parent)?;
                    continue;
                }
                Err(error) => return Err(io(error)),
            }
            let Some(old) = parent.stat(name).map_err(io)? else {
                continue;
            };
            match dir::file_type(&old) {
                FileType::Directory => {
                    if self.remove_if_empty(new.bucket, path, &parent, name)? {
                        continue;
                    }
                    return Ok(None);
                }
                // Of another process, since the condition was checked.
                FileType::RegularFile if *new.precondition == Precondition::Absent => {
                    return Err(Error::PreconditionFailed);
                }
                _ => {}
            }
            let handle = self.large_handle(&parent, name, &old);
            let temp = || self.root.open_dir(&below(new.bucket, TEMP_DIR));
            match finished.file.replace(&parent, name, temp) {
                Ok(()) => {
                    if let Some(handle) = handle {
                        self.trash.close(handle);
                    }
                    // Links, FIFOs and devices are no objects.
                    let was_object = dir::file_type(&old) == FileType::RegularFile;
                    return placed(parent, was_object.then(|| dir::size(&old)));
                }
                Err(Errno::ISDIR) => {}
                Err(Errno::NOENT) => drop(self.open_temp(new.bucket)?),
                Err(Errno::XDEV) => self.move_across(finished, &parent)?,
                Err(error) => return Err(io(error)),
            }
        }
        Err(io(Errno::AGAIN))
    }

    /// Opens the directory `path` (below the data root) in a bucket, making it where it is
    /// missing; `None` when something in the way is no directory.
    fn enter(&self, bucket: &BucketName, path: &str) -> Result<Option<Dir>> {
        for _ in 0..ATTEMPTS {
            match self.flush.open_or_make(&self.root, path, 1) {
                Ok(dir) => return Ok(Some(dir)),
                Err(Errno::NOENT) => {
                    self.bucket_dir(bucket)?;
                    std::thread::yield_now();
                }
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => return Ok(None),
                Err(error) => return Err(Error::io("make the directory of an object", error)),
            }
        }
        Err(Error::io("make the directory of an object", Errno::AGAIN))
    }

    /// Keeps a large file that is about to be overwritten from being freed by the rename.
    fn large_handle(&self, parent: &Dir, name: &str, old: &Stat) -> Option<OwnedFd> {
        let large = dir::file_type(old) == FileType::RegularFile && dir::size(old) >= trash::LARGE;
        // NFS gives a removed file that is open a name in its directory.
        let local = large && self.mode == MetadataMode::Xattr;
        local
            .then(|| parent.open(name, OFlags::PATH, Mode::empty()).ok())
            .flatten()
    }

    /// Copies a body to the file system of `parent`: a mount inside the bucket.
    fn move_across(&self, finished: &mut Finished<'_>, parent: &Dir) -> Result<()> {
        let io = |error: std::io::Error| Error::io("copy a body to another file system", error);
        let temp = parent
            .open_or_make_dir(TEMP_DIR)
            .map_err(|e| io(e.into()))?;
        let copied = finished.file.copy_to(temp, &finished.stat).map_err(io)?;
        if self.mode == MetadataMode::Xattr {
            xattr::write(&copied.file, finished.attributes)?;
        }
        set_mtime(&copied.file, dir::mtime_ns(&finished.stat)).map_err(|e| io(e.into()))?;
        rustix::fs::fchmod(&copied.file, Mode::from_raw_mode(FILE_MODE))
            .map_err(|e| io(e.into()))?;
        self.flush.file(&copied.file)?;
        finished.file = copied;
        Ok(())
    }

    /// A directory object without a body; `None` for everything else, and when something in the
    /// way is no directory.
    pub(super) fn place_directory(
        &self,
        finished: &mut Finished<'_>,
        new: &Publication<'_>,
        location: &Location,
    ) -> Result<Option<Placed>> {
        let Location::Tree {
            path,
            directory_object: true,
        } = location
        else {
            return Ok(None);
        };
        if dir::size(&finished.stat) > 0 || !self.belongs_to_tree(new)? {
            return Ok(None);
        }
        let io = |error| Error::io("make a directory object", error);
        let whole = below(new.bucket, path);
        let modified = dir::ns_of(new.last_modified.unwrap_or_else(SystemTime::now));
        let mut attributes = finished.attributes.clone();
        attributes.set(attribute::MODIFIED, modified.to_string());
        let old = self.tree_data(new.bucket, new.key)?.map(|_| 0);
        for _ in 0..ATTEMPTS {
            let Some(made) = self.enter(new.bucket, &whole)? else {
                return Ok(None);
            };
            if self.mode == MetadataMode::Xattr {
                replace_attributes(&made, &attributes)?;
            }
            // For versitygw, which goes by the directory's own time.
            set_mtime(&made, modified).map_err(io)?;
            let stat = made.stat_self().map_err(io)?;
            if stat.st_nlink == 0 {
                continue;
            }
            if self.mode == MetadataMode::Sidecar {
                self.put_record(&Record::new(new.bucket, new.key, &stat, attributes))?;
            }
            finished.stat = stat;
            finished.stat.st_size = 0;
            return Ok(Some(Placed {
                parent: made,
                path: Some(whole),
                old,
            }));
        }
        Err(io(Errno::AGAIN))
    }

    fn place_overflow(&self, finished: &mut Finished<'_>, new: &Publication<'_>) -> Result<Placed> {
        let io = |error| Error::io("give an overflow key its name", error);
        self.bucket_dir(new.bucket)?;
        if !finished.has_key {
            self.add_key(finished, new)?;
            self.flush.file(&finished.file.file)?;
        }
        for _ in 0..ATTEMPTS {
            let (parent, name) = self.overflow.place(new.bucket, new.key)?;
            let mut old = None;
            let outcome = match finished.file.link_new(&parent, &name) {
                Ok(Linked::Yes) => Ok(()),
                // Of another process, since the condition was checked.
                Ok(Linked::Taken) if *new.precondition == Precondition::Absent => {
                    return Err(Error::PreconditionFailed);
                }
                Ok(Linked::Taken) => {
                    old = parent.stat(&name).map_err(io)?.as_ref().map(dir::size);
                    let temp = || parent.try_clone().map_err(|_| Errno::MFILE);
                    finished.file.replace(&parent, &name, temp)
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => {
                    let path = None;
                    return Ok(Placed { parent, path, old });
                }
                Err(Errno::NOENT) => {}
                Err(Errno::XDEV) => {
                    self.move_across(finished, &parent)?;
                    finished.has_key = false;
                    self.add_key(finished, new)?;
                    self.flush.file(&finished.file.file)?;
                }
                Err(error) => return Err(io(error)),
            }
        }
        Err(io(Errno::AGAIN))
    }
}

/// Makes the object attributes of a directory exactly `wanted`. The ETag, which makes it an
/// object, comes last.
fn replace_attributes(made: &Dir, wanted: &AttributeSet) -> Result<()> {
    let stale = xattr::read(made)?;
    let was_object = stale.get(attribute::ETAG).is_some();
    let write = || -> Result<()> {
        for (name, value) in wanted.iter().filter(|(name, _)| *name != attribute::ETAG) {
            xattr::put(made, name, value)?;
        }
        for (name, _) in stale.iter().filter(|(name, _)| wanted.get(name).is_none()) {
            if attribute::is_of_object(name) {
                xattr::remove(made, name)?;
            }
        }
        xattr::put(
            made,
            attribute::ETAG,
            wanted.get(attribute::ETAG).unwrap_or_default(),
        )
    };
    write().inspect_err(|_| {
        if !was_object {
            for (name, _) in wanted.iter() {
                if let Err(error) = xattr::remove(made, name) {
                    tracing::warn!(%error, name, "remove an attribute of a failed directory object");
                }
            }
        }
    })
}
