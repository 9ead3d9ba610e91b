//! The file systems of a volume: its buckets, or directories in them, may be mounts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use filestore_common::BucketName;
use rustix::fs::FileType;

use super::Volume;
use crate::dir::{Dir, is_absent};
use crate::flush::Flush;
use crate::{Error, Result};

/// A directory on each file system.
#[derive(Debug, Default)]
pub(crate) struct Devices(HashMap<u64, Dir>);

impl Devices {
    /// Adds the file system of an open directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn note(&mut self, dir: &Dir) -> Result<()> {
        let io = |error: std::io::Error| Error::io("look at the file system of a directory", error);
        let stat = dir.stat_self().map_err(|error| io(error.into()))?;
        if let Entry::Vacant(entry) = self.0.entry(stat.st_dev) {
            entry.insert(dir.try_clone().map_err(io)?);
        }
        Ok(())
    }

    /// Flushes each once, whatever the durability.
    ///
    /// # Errors
    /// [`Error::Io`], after which the volume is unhealthy.
    pub(crate) fn sync(&self, flush: &Flush) -> Result<()> {
        self.0.values().try_for_each(|dir| flush.everything(dir))
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Volume {
    /// The file systems of the volume itself and of its buckets.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn devices(&self) -> Result<Devices> {
        let mut devices = Devices::default();
        devices.note(&self.control)?;
        devices.note(&self.root)?;
        let entries = self.root.entries();
        for (name, kind) in entries.map_err(|error| Error::io("list buckets", error))? {
            if kind != FileType::Directory || BucketName::new(&name).is_err() {
                continue;
            }
            match self.root.open_dir(&name) {
                Ok(bucket) => devices.note(&bucket)?,
                // Deleted meanwhile.
                Err(error) if is_absent(error) => {}
                Err(error) => return Err(Error::io(format!("open bucket {name}"), error)),
            }
        }
        Ok(devices)
    }
}
