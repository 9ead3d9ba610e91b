//! When an acknowledged change is on stable storage.
//!
//! Durable: the file is flushed before it is linked (`fsync`, since its attributes changed), then
//! its directory, then the parent of every directory on the way up that was made recently and is
//! not known to be flushed, whoever made it. A flush that failed once may have dropped the pages
//! while the next call reports success (fsync(2), "errors"): nothing is acknowledged after it.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::dir::Dir;
use crate::query::Durability;
use crate::{Error, Result};

/// The flush rule of a volume and what it knows.
#[derive(Debug)]
pub(crate) struct Flush {
    durability: Durability,
    failed: AtomicBool,
    generation: AtomicU64,
    /// Directories (paths below the data root) whose entry in their parent may not be flushed,
    /// with the generation of their latest creation.
    pending: Mutex<HashMap<String, u64>>,
    /// Number of entries in `pending`, to look without the lock.
    pending_count: AtomicUsize,
}

impl Flush {
    /// A healthy volume's.
    pub(crate) fn new(durability: Durability) -> Self {
        Self {
            durability,
            failed: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            pending: Mutex::new(HashMap::new()),
            pending_count: AtomicUsize::new(0),
        }
    }

    /// Whether changes are flushed at all.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Durable
    }

    /// Fails once any flush has failed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn healthy(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            let cause =
                std::io::Error::other("an earlier flush failed; restart after checking the disk");
            return Err(Error::io("flush the volume", cause));
        }
        Ok(())
    }

    /// Flushes a file with its attributes.
    ///
    /// # Errors
    /// [`Error::Io`], after which the volume is unhealthy.
    pub(crate) fn file(&self, file: impl AsFd) -> Result<()> {
        if !self.is_durable() {
            return Ok(());
        }
        self.healthy()?;
        self.checked("flush a file", rustix::fs::fsync(file))
    }

    /// Flushes the entries of a directory (and its attributes).
    ///
    /// # Errors
    /// [`Error::Io`], after which the volume is unhealthy.
    pub(crate) fn directory(&self, dir: impl AsFd) -> Result<()> {
        if !self.is_durable() {
            return Ok(());
        }
        self.healthy()?;
        match rustix::fs::fsync(dir) {
            // File systems that write directories through do not take fsync on them.
            Err(Errno::INVAL) => Ok(()),
            other => self.checked("flush a directory", other),
        }
    }

    /// Flushes the whole file system, whatever the durability, so that what earlier processes
    /// left, or a bulk copy wrote, is a durable base.
    ///
    /// # Errors
    /// [`Error::Io`], after which the volume is unhealthy.
    pub(crate) fn everything(&self, any: impl AsFd) -> Result<()> {
        self.healthy()?;
        self.checked("flush the file system", rustix::fs::syncfs(any))
    }

    fn checked(&self, what: &str, outcome: rustix::io::Result<()>) -> Result<()> {
        outcome.map_err(|error| {
            self.failed.store(true, Ordering::Release);
            tracing::error!(%error, what, "flush failed, the volume is unhealthy until restart");
            Error::io(what, error)
        })
    }

    /// Opens the directory `path` below `root`, making those directories on the way that are
    /// missing below the first `fixed` components (which are never made).
    pub(crate) fn open_or_make(
        &self,
        root: &Dir,
        path: &str,
        fixed: usize,
    ) -> rustix::io::Result<Dir> {
        match root.open_dir(path) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([path.len()])
            .skip(fixed);
        for end in ends {
            let prefix = &path[..end];
            let (parent, name) = crate::path::split(prefix);
            self.note_made(prefix);
            let made = if parent.is_empty() {
                root.make_dir(name)?
            } else {
                root.open_dir(parent)?.make_dir(name)?
            };
            tracing::trace!(made, path = prefix, "directory");
        }
        root.open_dir(path)
    }

    /// Remembers that `path` below the data root is being made. Call before making it.
    pub(crate) fn note_made(&self, path: &str) {
        if !self.is_durable() {
            return;
        }
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(path.to_owned(), generation);
        self.pending_count.store(pending.len(), Ordering::Release);
    }

    /// Flushes the parents of all directories on the way to `path` (itself included) that may
    /// not be flushed yet. Free when there are none. Call after linking something into `path`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn ancestors(&self, root: &Dir, path: &str) -> Result<()> {
        if self.pending_count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([path.len()]);
        for prefix in ends.map(|end| &path[..end]) {
            let lock = || self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(generation) = lock().get(prefix).copied() else {
                continue;
            };
            let (parent, _) = crate::path::split(prefix);
            if parent.is_empty() {
                self.directory(root)?;
            } else {
                match root.open_dir(parent) {
                    Ok(parent) => self.directory(&parent)?,
                    // Removed again by a delete, which flushed that itself.
                    Err(error) if crate::dir::is_absent(error) => {}
                    Err(error) => return Err(Error::io("open a directory to flush it", error)),
                }
            }
            let mut pending = lock();
            if pending.get(prefix) == Some(&generation) {
                pending.remove(prefix);
            }
            self.pending_count.store(pending.len(), Ordering::Release);
        }
        Ok(())
    }

    /// Makes every later flush fail, as a failing disk would.
    #[cfg(test)]
    pub(crate) fn break_for_test(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Directories not known to be flushed.
    #[cfg(test)]
    pub(crate) fn pending_for_test(&self) -> usize {
        self.pending_count.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_directories_are_pending_until_somebody_flushes_them() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Dir::open_root(scratch.path()).unwrap();
        root.make_dir("bucket").unwrap();
        let flush = Flush::new(Durability::Durable);
        flush.open_or_make(&root, "bucket/a/b", 1).unwrap();
        assert_eq!(flush.pending_for_test(), 2);
        // Another request, through the same directories, to a deeper one that it did not make.
        flush.ancestors(&root, "bucket/a").unwrap();
        assert_eq!(flush.pending_for_test(), 1);
        flush.ancestors(&root, "bucket/a/b").unwrap();
        assert_eq!(flush.pending_for_test(), 0);
    }

    #[test]
    fn fixed_components_are_not_made() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Dir::open_root(scratch.path()).unwrap();
        let flush = Flush::new(Durability::Relaxed);
        let made = flush.open_or_make(&root, "bucket/a", 1);
        assert_eq!(made.map(|_| ()), Err(Errno::NOENT));
        assert!(!scratch.path().join("bucket").exists());
    }

    #[test]
    fn nothing_is_flushed_after_a_failure() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Dir::open_root(scratch.path()).unwrap();
        let flush = Flush::new(Durability::Durable);
        flush.directory(&root).unwrap();
        flush.break_for_test();
        assert!(flush.directory(&root).is_err());
        assert!(flush.file(&root).is_err());
        assert!(flush.healthy().is_err());
    }
}
