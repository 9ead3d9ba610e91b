//! Sidecar mode: one JSON record per object, for file systems without extended attributes.
//!
//! The record of a key is `.filestore/meta/<bucket>/<2 hex>/<sha256 of key>.json`. It names size
//! and modification time of the data file that it belongs to; where they differ, the file was
//! changed by another program and its metadata is that of a file put there by hand.
//!
//! Data and record change together by an intent: the new record is flushed to
//! `.filestore/intents`, the data gets its name, then the intent is renamed to be the record.
//! After a crash in between, the data tells which record is right. Readers of this process
//! are kept out meanwhile by the lock of the key; those of another find the intent.

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{FileType, Stat, Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use crate::attributes::{AttributeSet, json};
use crate::dir::{self, Dir, is_absent};
use crate::path::{hash_dir, hash_name};
use crate::volume::Volume;
use crate::{Error, Result, layout};

/// Version of the record.
const RECORD_VERSION: u32 = 1;
/// First part of the names of intents; then the hash of the key and something unique.
const INTENT_PREFIX: &str = "intent.";

/// Metadata of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    version: u32,
    /// Bucket.
    bucket: BucketName,
    /// Key.
    pub(crate) key: String,
    /// Size in bytes of the data that this belongs to.
    size: u64,
    /// Its modification time, nanoseconds since 1970.
    mtime_ns: i64,
    /// The object is a directory; size and time mean nothing.
    #[serde(default)]
    directory: bool,
    /// What xattr mode keeps on the file.
    pub(crate) attributes: AttributeSet,
}

impl Record {
    /// Of data with this `stat`.
    pub(crate) fn new(
        bucket: &BucketName,
        key: &ObjectKey,
        stat: &Stat,
        attributes: AttributeSet,
    ) -> Self {
        Self {
            version: RECORD_VERSION,
            bucket: bucket.clone(),
            key: key.as_str().to_owned(),
            size: dir::size(stat),
            mtime_ns: i64::try_from(dir::mtime_ns(stat)).unwrap_or(0),
            directory: dir::file_type(stat) == FileType::Directory,
            attributes,
        }
    }

    /// Whether it belongs to data with this `stat`.
    fn matches(&self, stat: &Stat) -> bool {
        if self.directory {
            return dir::file_type(stat) == FileType::Directory;
        }
        dir::file_type(stat) == FileType::RegularFile
            && self.size == dir::size(stat)
            && i128::from(self.mtime_ns) == dir::mtime_ns(stat)
    }
}

/// A record that is flushed and waits for its data.
#[derive(Debug)]
pub(crate) struct Intent {
    name: String,
    bucket: BucketName,
    /// Hash of the key.
    hash: String,
}

impl Volume {
    /// The record of a key that belongs to data with this `stat`.
    pub(crate) fn record(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        stat: &Stat,
    ) -> Result<Option<Record>> {
        self.record_by_name(bucket, &hash_name(key.as_str()), stat)
    }

    /// As [`Self::record`], by the hash of the key.
    pub(crate) fn record_by_name(
        &self,
        bucket: &BucketName,
        hash: &str,
        stat: &Stat,
    ) -> Result<Option<Record>> {
        let settled = || -> Result<Option<Record>> {
            let path = format!("{}/{hash}.json", hash_dir(bucket, hash));
            let record: Option<Record> = json::read(&self.meta, &path)?;
            Ok(record.filter(|record| record.matches(stat)))
        };
        if let Some(record) = settled()? {
            return Ok(Some(record));
        }
        for name in self.intents_of(hash)? {
            match json::read::<Record>(&self.intents, &name) {
                Ok(Some(record)) if record.bucket == *bucket && record.matches(stat) => {
                    return Ok(Some(record));
                }
                // Being written, or settled meanwhile.
                Ok(_) | Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // An intent may have become the record between the two looks.
        settled()
    }

    fn intents_of(&self, hash: &str) -> Result<Vec<String>> {
        let prefix = format!("{INTENT_PREFIX}{hash}.");
        let entries = self.intents.entries();
        let entries = entries.map_err(|error| Error::io("list intents", error))?;
        let names = entries.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| name.starts_with(&prefix)).collect())
    }

    /// Writes and flushes the intent to give data its record.
    pub(crate) fn intend(&self, record: &Record) -> Result<Intent> {
        let hash = hash_name(&record.key);
        let name = format!("{INTENT_PREFIX}{hash}.{}", layout::temp_name());
        json::write_as(&self.intents, &name, record, self.flush.is_durable())?;
        let intent = Intent {
            name,
            bucket: record.bucket.clone(),
            hash,
        };
        if let Err(error) = self.flush.directory(&self.intents) {
            self.abandon(&intent);
            return Err(error);
        }
        Ok(intent)
    }

    /// Makes the intent the record. Call when the data has its name, durably.
    pub(crate) fn fulfil(&self, intent: &Intent) -> Result<()> {
        self.settle(&intent.name, &intent.bucket, &intent.hash)
    }

    /// Forgets an intent whose data did not get its name.
    pub(crate) fn abandon(&self, intent: &Intent) {
        if let Err(error) = self.intents.remove_file(&intent.name) {
            tracing::warn!(%error, "remove an intent");
        }
    }

    /// Replaces a record whose data stays as it is.
    pub(crate) fn put_record(&self, record: &Record) -> Result<()> {
        let name = json::write_new(&self.intents, record, self.flush.is_durable())?;
        self.settle(&name, &record.bucket, &hash_name(&record.key))
            .inspect_err(|_| {
                if let Err(error) = self.intents.remove_file(&name) {
                    tracing::warn!(%error, "remove a temporary record");
                }
            })
    }

    fn settle(&self, name: &str, bucket: &BucketName, hash: &str) -> Result<()> {
        let io = |error| Error::io("settle a record", error);
        let parent = self.meta.open_or_make_dir(bucket.as_str()).map_err(io)?;
        let shard = parent.open_or_make_dir(&hash[..2]).map_err(io)?;
        // Somebody else may have made them just now; flushing what is clean costs little.
        self.flush.directory(&self.meta)?;
        self.flush.directory(&parent)?;
        let target = format!("{hash}.json");
        self.intents.rename(name, &shard, &target).map_err(io)?;
        self.flush.directory(&shard)
    }

    /// Removes the record of a key whose data is gone; `false` when it had none.
    pub(crate) fn remove_record(&self, bucket: &BucketName, key: &ObjectKey) -> Result<bool> {
        let hash = hash_name(key.as_str());
        let io = |error| Error::io("remove a record", error);
        match self.meta.open_dir(&hash_dir(bucket, &hash)) {
            Ok(shard) => {
                let removed = shard.remove_file(&format!("{hash}.json")).map_err(io)?;
                // Without its data a record says nothing, unless it makes a directory an object.
                if removed && key.as_str().ends_with('/') {
                    self.flush.directory(&shard)?;
                }
                Ok(removed)
            }
            Err(error) if is_absent(error) => Ok(false),
            Err(error) => Err(io(error)),
        }
    }

    /// Removes all records of a bucket that is gone.
    pub(crate) fn remove_records(&self, bucket: &BucketName) -> Result<()> {
        self.meta
            .remove_tree(bucket.as_str())
            .map_err(|error| Error::io("remove the records of a bucket", error))
    }

    /// Finishes what a crash interrupted. No other process may have the volume open.
    pub(crate) fn replay_intents(&self) -> Result<()> {
        let entries = self.intents.entries();
        let entries = entries.map_err(|error| Error::io("list intents", error))?;
        for (name, _) in entries {
            if !name.starts_with(INTENT_PREFIX) {
                continue;
            }
            let record = match json::read::<Record>(&self.intents, &name) {
                Ok(record) => record,
                // Its data cannot have its name yet.
                Err(Error::Damaged(_)) => None,
                Err(error) => return Err(error),
            };
            if let Some(record) = record
                && let Ok(key) = ObjectKey::new(record.key.as_str())
                && let Some((_, stat)) = self.data(&record.bucket, &key)?
                && record.matches(&stat)
            {
                tracing::info!(
                    bucket = record.bucket.as_str(),
                    "finished an interrupted change"
                );
                self.settle(&name, &record.bucket, &hash_name(&record.key))?;
            } else {
                self.intents
                    .remove_file(&name)
                    .map_err(|error| Error::io("remove an intent", error))?;
            }
        }
        Ok(())
    }

    /// Gives staged data a modification time that differs from that of the data it replaces, if
    /// both have the same size: size and time tell whose record is whose.
    pub(crate) fn make_distinct(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        staged: &std::fs::File,
        stat: Stat,
    ) -> Result<Stat> {
        let Some((_, old)) = self.data(bucket, key)? else {
            return Ok(stat);
        };
        let io = |error| Error::io("set the time of a body", error);
        let same = |new: &Stat| {
            dir::size(new) == dir::size(&old) && dir::mtime_ns(new) == dir::mtime_ns(&old)
        };
        let mut new = stat;
        // File systems keep times in steps of 1 ns to 2 s.
        let mut step = 1;
        while same(&new) && step <= 10_000_000_000 {
            set_mtime(staged, dir::mtime_ns(&stat) + step).map_err(io)?;
            new = rustix::fs::fstat(staged).map_err(io)?;
            step *= 10;
        }
        if dir::mtime_ns(&new) != dir::mtime_ns(&stat) {
            self.flush.file(staged)?;
        }
        Ok(new)
    }
}

/// Sets the modification time of an open file, nanoseconds since 1970.
pub(crate) fn set_mtime(file: impl std::os::fd::AsFd, ns: i128) -> rustix::io::Result<()> {
    let seconds = i64::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(0);
    let rest = i64::try_from(ns.rem_euclid(1_000_000_000)).unwrap_or(0);
    #[expect(
        clippy::useless_conversion,
        reason = "the field's type differs between targets"
    )]
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: rest.try_into().unwrap_or(0),
    };
    let omit = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_OMIT,
    };
    let times = Timestamps {
        last_access: omit,
        last_modification: time,
    };
    rustix::fs::futimens(file, &times)
}

/// Reads the attributes of a bucket in sidecar mode.
pub(crate) fn read_bucket(meta: &Dir, bucket: &BucketName) -> Result<Option<AttributeSet>> {
    json::read(meta, &format!("{bucket}/{}", layout::BUCKET_META_FILE))
}

/// Writes the attributes of a bucket in sidecar mode.
pub(crate) fn write_bucket(volume: &Volume, bucket: &BucketName, set: &AttributeSet) -> Result<()> {
    let dir = volume
        .meta
        .open_or_make_dir(bucket.as_str())
        .map_err(|error| Error::io("open the records of a bucket", error))?;
    json::write(
        &dir,
        layout::BUCKET_META_FILE,
        set,
        volume.flush.is_durable(),
    )?;
    volume.flush.directory(&dir)?;
    volume.flush.directory(&volume.meta)
}
