//! Keys that a file tree cannot hold: `.filestore/keys/<bucket>/<2 hex>/<sha256 of key>`, with
//! the key beside the data (attribute [`attribute::KEY`], or the record of sidecar mode).
//!
//! A key lives in its tree place or here. Once here it stays here until deleted, so an overwrite
//! is one rename; where both exist (another program wrote the tree), the tree counts.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use filestore_common::{BucketName, ObjectInfo, ObjectKey};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::attributes::xattr;
use crate::dir::Dir;
use crate::layout::attribute;
use crate::path::{hash_dir, hash_name};
use crate::query::MetadataMode;
use crate::volume::Volume;
use crate::{Error, Result};

/// Attempts to enter a directory that deletes keep removing.
const ATTEMPTS: usize = 100;
/// Keys that are remembered by their hash: some 20 MiB with keys of usual length.
const REMEMBERED: usize = 100_000;
/// A directory changed more recently than this may change again within one tick of its clock.
const RACY: Duration = Duration::from_secs(2);

/// The overflow area of a volume.
#[derive(Debug)]
pub(crate) struct Overflow {
    dir: Dir,
    buckets: Mutex<Known>,
    /// Keys by the name of their file, which is their hash: true for ever once read.
    keys: Mutex<HashMap<String, ObjectKey>>,
}

/// Buckets that have an overflow directory, as of a state of [`Overflow::dir`].
#[derive(Debug, Default)]
struct Known {
    as_of: Option<(i128, i128)>,
    buckets: HashSet<String>,
}

impl Overflow {
    /// In the directory `keys`.
    pub(crate) fn new(dir: Dir) -> Self {
        Self {
            dir,
            buckets: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    fn known_key(&self, name: &str) -> Option<ObjectKey> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(name).cloned()
    }

    fn remember_key(&self, name: String, key: &ObjectKey) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= REMEMBERED {
            keys.clear();
        }
        keys.entry(name).or_insert_with(|| key.clone());
    }

    /// Whether the bucket may have overflow keys; one `fstat` when nothing changed.
    pub(crate) fn has_bucket(&self, bucket: &BucketName) -> Result<bool> {
        let io = |error| Error::io("look at the overflow keys", error);
        let stat = self.dir.stat_self().map_err(io)?;
        let state = (crate::dir::mtime_ns(&stat), i128::from(stat.st_nlink));
        let mut known = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_of != Some(state) {
            let entries = self.dir.entries().map_err(io)?;
            known.buckets = entries.into_iter().map(|(name, _)| name).collect();
            let age = SystemTime::now().duration_since(crate::dir::mtime(&stat));
            let settled = age.is_ok_and(|age| age > RACY);
            known.as_of = settled.then_some(state);
        }
        Ok(known.buckets.contains(bucket.as_str()))
    }

    /// Opens the file of a key.
    pub(crate) fn open(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<Option<(File, Stat)>> {
        if !self.has_bucket(bucket)? {
            return Ok(None);
        }
        let name = hash_name(key.as_str());
        let path = format!("{}/{name}", hash_dir(bucket, &name));
        self.dir
            .open_file(&path)
            .map_err(|error| Error::io("open an overflow key", error))
    }

    /// Whether the key is here.
    pub(crate) fn contains(&self, bucket: &BucketName, key: &ObjectKey) -> Result<bool> {
        Ok(self.open(bucket, key)?.is_some())
    }

    /// Directory and name of the file of a key, making the directory.
    pub(crate) fn place(&self, bucket: &BucketName, key: &ObjectKey) -> Result<(Dir, String)> {
        let name = hash_name(key.as_str());
        let io = |error| Error::io("make an overflow directory", error);
        for _ in 0..ATTEMPTS {
            let made = self
                .dir
                .open_or_make_dir(bucket.as_str())
                .and_then(|dir| dir.open_or_make_dir(&name[..2]));
            match made {
                Ok(dir) => return Ok((dir, name)),
                // Removed by a delete in between.
                Err(Errno::NOENT) => std::thread::yield_now(),
                Err(error) => return Err(io(error)),
            }
        }
        Err(io(Errno::NOENT))
    }

    /// The directories from the top to that of a key, for flushing.
    pub(crate) fn flush(&self, volume: &Volume, bucket: &BucketName) -> Result<()> {
        match self.dir.open_dir(bucket.as_str()) {
            Ok(dir) => volume.flush.directory(&dir)?,
            Err(error) if crate::dir::is_absent(error) => {}
            Err(error) => return Err(Error::io("open an overflow directory", error)),
        }
        volume.flush.directory(&self.dir)
    }

    /// Removes the file of a key; returns its size, `None` when it is not here.
    pub(crate) fn remove(
        &self,
        volume: &Volume,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<Option<u64>> {
        let Some((file, stat)) = self.open(bucket, key)? else {
            return Ok(None);
        };
        drop(file);
        let io = |error| Error::io("delete an overflow key", error);
        let name = hash_name(key.as_str());
        let dir = match self.dir.open_dir(&hash_dir(bucket, &name)) {
            Ok(dir) => dir,
            Err(error) if crate::dir::is_absent(error) => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let removed = volume.unlink(&dir, &name, &stat).map_err(io)?;
        volume.flush.directory(&dir)?;
        self.tidy(bucket, &name[..2]).map_err(io)?;
        Ok(removed.then(|| crate::dir::size(&stat)))
    }

    /// Removes the directories of a bucket that are empty, so that the others know at once that
    /// it has no overflow keys.
    fn tidy(&self, bucket: &BucketName, shard: &str) -> rustix::io::Result<()> {
        let parent = match self.dir.open_dir(bucket.as_str()) {
            Ok(parent) => parent,
            Err(error) if crate::dir::is_absent(error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if parent.remove_dir(shard)? && self.dir.remove_dir(bucket.as_str())? {
            tracing::debug!(bucket = bucket.as_str(), "no more overflow keys");
        }
        // Emptied directories that come back after a crash do no harm: nothing to flush.
        Ok(())
    }

    /// The directory of all of them.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Names of the files of a bucket.
    pub(crate) fn names(&self, bucket: &BucketName) -> Result<Vec<String>> {
        let mut names = Vec::new();
        if !self.has_bucket(bucket)? {
            return Ok(names);
        }
        let io = |error| Error::io("list overflow keys", error);
        let parent = match self.dir.open_dir(bucket.as_str()) {
            Ok(parent) => parent,
            Err(error) if crate::dir::is_absent(error) => return Ok(names),
            Err(error) => return Err(io(error)),
        };
        for (shard, _) in parent.entries().map_err(io)? {
            match parent.open_dir(&shard) {
                Ok(dir) => names.extend(
                    dir.entries()
                        .map_err(io)?
                        .into_iter()
                        .filter(|(name, kind)| *kind == FileType::RegularFile && name.len() == 64)
                        .map(|(name, _)| name),
                ),
                Err(error) if crate::dir::is_absent(error) => {}
                Err(error) => return Err(io(error)),
            }
        }
        Ok(names)
    }
}

impl Volume {
    /// Overflow keys of a bucket in byte order. Costs nothing when there are none; otherwise the
    /// names are read, and each file that was not seen before. The tree may have some of them too.
    pub(crate) fn overflow_keys(&self, bucket: &BucketName) -> Result<Vec<ObjectKey>> {
        let mut keys = Vec::new();
        for name in self.overflow.names(bucket)? {
            let key = match self.overflow.known_key(&name) {
                Some(key) => Some(key),
                None => self.overflow_key(bucket, &name)?,
            };
            if let Some(key) = key {
                self.overflow.remember_key(name, &key);
                keys.push(key);
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// [`Self::overflow_keys`] with a prefix and not below a bound, for a listing.
    pub(crate) fn list_overflow(
        &self,
        bucket: &BucketName,
        prefix: &str,
        bound: &[u8],
    ) -> Result<Vec<String>> {
        let keys = self.overflow_keys(bucket)?.into_iter().map(String::from);
        Ok(keys
            .filter(|key| key.starts_with(prefix) && key.as_bytes() >= bound)
            .collect())
    }

    /// Metadata of a listed overflow key; `None` when it is gone or the tree has it as well.
    pub(crate) fn head_overflow(
        &self,
        bucket: &BucketName,
        key: &str,
    ) -> Result<Option<ObjectInfo>> {
        let Ok(key) = ObjectKey::new(key) else {
            return Ok(None);
        };
        Ok(self.find_overflow(bucket, &key)?.map(|found| found.info()))
    }

    fn overflow_key(&self, bucket: &BucketName, name: &str) -> Result<Option<ObjectKey>> {
        let path = format!("{}/{name}", hash_dir(bucket, name));
        let opened = self.overflow.dir.open_file(&path);
        let Some((file, stat)) = opened.map_err(|e| Error::io("open an overflow key", e))? else {
            return Ok(None);
        };
        let key = match self.mode {
            MetadataMode::Xattr => {
                xattr::get(&file, attribute::KEY)?.and_then(|key| String::from_utf8(key).ok())
            }
            MetadataMode::Sidecar => self.record_by_name(bucket, name, &stat)?.map(|r| r.key),
        };
        let key = key.and_then(|key| ObjectKey::new(key).ok());
        if key.is_none() {
            tracing::warn!(
                bucket = bucket.as_str(),
                name,
                "overflow file without its key"
            );
        }
        Ok(key.filter(|key| hash_name(key.as_str()) == name))
    }
}
