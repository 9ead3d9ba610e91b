//! An open volume: its directories, identity, lock and the state shared by all operations.
//!
//! The operations are `impl Volume` blocks in the modules named after them.

mod change;
mod devices;
pub(crate) mod hand_over;
mod identity;
mod lock;
pub(crate) mod marker;
pub(crate) mod probe;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::RwLock;

use crate::counters::{self, Counters};
use crate::dir::Dir;
use crate::flush::Flush;
use crate::layout;
use crate::locks::KeyLocks;
use crate::multipart::UploadLocks;
use crate::overflow::Overflow;
use crate::query::{MetadataMode, Space, StoreOptions};
use crate::trash::Trash;
use crate::{Error, Result};

pub(crate) use devices::Devices;
pub(crate) use identity::is_new;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    /// Path it was opened by, for messages.
    pub(crate) path: PathBuf,
    /// Data root: the directory whose sub-directories are buckets.
    pub(crate) root: Dir,
    /// `.filestore`.
    pub(crate) control: Dir,
    /// `.filestore/meta`.
    pub(crate) meta: Dir,
    /// `.filestore/intents`.
    pub(crate) intents: Dir,
    /// Where metadata is kept.
    pub(crate) mode: MetadataMode,
    /// Flush rule.
    pub(crate) flush: Flush,
    /// Whether unnamed temporary files can be made and linked here.
    pub(crate) unnamed_files: bool,
    /// Serialises changes of one key.
    pub(crate) locks: KeyLocks,
    /// Serialises completing and aborting an upload.
    pub(crate) upload_locks: UploadLocks,
    /// Keys that a tree cannot hold.
    pub(crate) overflow: Overflow,
    /// Deferred frees.
    pub(crate) trash: Trash,
    /// Held shared while an object becomes visible, exclusively while a bucket is removed.
    pub(crate) bucket_gate: RwLock<()>,
    /// What buckets hold and may hold.
    pub(crate) counters: Counters,
    /// What is known of the migration marker.
    migration: marker::Known,
    /// Keeps the lock of the volume.
    lock: lock::Lock,
}

impl Volume {
    /// See [`crate::Store::open`].
    pub(crate) fn open(path: &Path, options: &StoreOptions) -> Result<Self> {
        let base = identity::open_base(path)?;
        let claim = identity::Claim::take(path, &base, options, identity::Purpose::Use)?;
        claim.identity.check_import(path)?;
        Self::open_claimed(path, options, &base, claim)
    }

    /// As [`Self::open`], also while an import is not at its end. What this makes a volume nobody
    /// else opens before the end of the import, or [`Self::unmake`].
    pub(crate) fn open_to_import(path: &Path, options: &StoreOptions) -> Result<Self> {
        let base = identity::open_base(path)?;
        let claim = identity::Claim::take(path, &base, options, identity::Purpose::Import)?;
        let io = |error| Error::io("open .filestore", error);
        let control = claim.control.try_clone().map_err(io)?;
        // Until it is gone again.
        let _held = claim.lock.try_clone().map_err(io)?;
        let fresh = claim.identity.fresh;
        let opened = Self::open_claimed(path, options, &base, claim);
        if opened.is_err()
            && fresh
            && let Err(error) = change::unmake(path, &control)
        {
            tracing::warn!(%error, "remove a new .filestore");
        }
        opened
    }

    fn open_claimed(
        path: &Path,
        options: &StoreOptions,
        base: &Dir,
        claim: identity::Claim,
    ) -> Result<Self> {
        let control = &claim.control;
        let sub = |name: &str| {
            control.open_or_make_dir(name).map_err(|error| {
                identity::unusable(path, &format!("open .filestore/{name}"), error)
            })
        };
        let (meta, intents, keys, trash) = (
            sub(layout::META_DIR)?,
            sub(layout::INTENTS_DIR)?,
            sub(layout::OVERFLOW_DIR)?,
            sub(layout::TRASH_DIR)?,
        );
        let unnamed_files = probe::unnamed_files(control)
            .map_err(|error| identity::unusable(path, "write to .filestore", error))?;
        let mut volume = Self {
            path: path.to_owned(),
            root: identity::open_data_root(path, base, &claim.identity)?,
            meta,
            intents,
            mode: claim.identity.metadata,
            flush: Flush::new(options.durability),
            unnamed_files,
            locks: KeyLocks::new(),
            upload_locks: UploadLocks::default(),
            overflow: Overflow::new(keys),
            trash: Trash::start(trash)?,
            bucket_gate: RwLock::new(()),
            counters: Counters::new(counters::saved::take(control, claim.lock.alone)?),
            migration: marker::Known::default(),
            control: claim.control,
            lock: claim.lock,
        };
        if volume.lock.alone {
            sweep::sweep(&volume)?;
        }
        if volume.flush.is_durable() {
            volume.sync()?;
        }
        marker::adopt(&volume, base)?;
        volume.lock.settle(path)?;
        Ok(volume)
    }

    /// Whether no other process had the volume open when this one opened it.
    pub(crate) fn was_alone(&self) -> bool {
        self.lock.alone
    }

    /// See [`crate::Store::sync`].
    pub(crate) fn sync(&self) -> Result<()> {
        self.devices()?.sync(&self.flush)
    }

    /// Space and inodes of the file system.
    pub(crate) fn space(&self) -> Result<Space> {
        let stat = rustix::fs::fstatvfs(&self.root)
            .map_err(|error| Error::io("read the space of the volume", error))?;
        Ok(Space {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_inodes: stat.f_files,
            available_inodes: stat.f_favail,
        })
    }
}

#[cfg(test)]
mod tests;
