//! Sorted names of large directories, kept between pages.
//!
//! An entry is believed as long as the directory's inode, mtime and ctime are what they were
//! when it was read. Two changes within one tick of the file system's clock leave the same
//! times, so an entry is only kept when the directory was quiet for longer than a tick before
//! it was read (git's "racy" rule): any change after the reading then carries a later time.

use std::collections::hash_map::RandomState;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;

use super::names::Names;

/// Memory for names of all directories together.
pub(super) const DEFAULT_BUDGET_BYTES: usize = 64 * 1024 * 1024;

/// Directories below this size are read faster than looked up and kept.
const SMALLEST_CACHED: usize = 128;

/// Longer than a tick of the kernel's coarse clock (10 ms at 100 Hz).
const FINE_TICK: Duration = Duration::from_millis(50);

/// For file systems that store whole seconds (ext3, some network servers) or two (FAT).
const COARSE_TICK: Duration = Duration::from_millis(2100);

/// A change this long ago is past every tick, also where the server's clock differs from ours
/// by a few seconds.
const LONG_AGO: Duration = Duration::from_secs(10);

/// Times of a directory that change whenever a name in it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    mtime: (i128, i128),
    ctime: (i128, i128),
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            mtime: (stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            ctime: (stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }

    fn tick(self) -> Duration {
        if self.mtime.1 == 0 && self.ctime.1 == 0 {
            COARSE_TICK
        } else {
            FINE_TICK
        }
    }

    fn is_long_past(self, now: SystemTime) -> bool {
        let latest = self.mtime.max(self.ctime);
        let Ok(seconds) = u64::try_from(latest.0) else {
            return false;
        };
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds + 1))
            .and_then(|changed| now.duration_since(changed).ok())
            .is_some_and(|age| age >= LONG_AGO)
    }
}

/// Names of a directory and what is known of its changes.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    /// The names.
    pub(super) names: Arc<Names>,
    /// Times before they were read.
    pub(super) stamp: Stamp,
    /// Whether any later change would show in the times.
    pub(super) settled: bool,
}

type DirectoryId = (u128, u128);

#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    /// When `stamp` was first seen.
    seen: Instant,
    names: Option<Arc<Names>>,
}

impl Entry {
    fn bytes(&self) -> usize {
        size_of::<Self>() + 64 + self.names.as_ref().map_or(0, |names| names.bytes())
    }
}

#[derive(Debug)]
struct Entries {
    map: LruCache<DirectoryId, Entry, RandomState>,
    bytes: usize,
}

/// Bounded cache of [`Names`]; shared by all listings of a store.
#[derive(Debug)]
pub(crate) struct NameCache {
    entries: Mutex<Entries>,
    budget: usize,
}

impl Default for NameCache {
    fn default() -> Self {
        Self::with_budget(DEFAULT_BUDGET_BYTES)
    }
}

impl NameCache {
    pub(super) fn with_budget(budget: usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                map: LruCache::unbounded_with_hasher(RandomState::new()),
                bytes: 0,
            }),
            budget,
        }
    }

    /// Names of a directory that was just opened, from memory when it did not change.
    pub(super) fn load(
        &self,
        directory: BorrowedFd<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Loaded, Errno> {
        self.load_at(directory, buffer, Instant::now(), SystemTime::now())
    }

    fn load_at(
        &self,
        directory: BorrowedFd<'_>,
        buffer: &mut Vec<u8>,
        now: Instant,
        wall: SystemTime,
    ) -> Result<Loaded, Errno> {
        let before = rustix::fs::fstat(directory)?;
        let id = directory_id(&before);
        let stamp = Stamp::of(&before);
        let (seen, stale) = match self.look_up(id) {
            Some((kept, _, Some(names))) if kept == stamp => {
                return Ok(Loaded {
                    names,
                    stamp,
                    settled: true,
                });
            }
            Some((kept, seen, None)) if kept == stamp => (seen, None),
            Some((_, _, names)) => (now, names),
            None => (now, None),
        };
        let settled =
            now.saturating_duration_since(seen) >= stamp.tick() || stamp.is_long_past(wall);

        let mut names = Names::read(directory, buffer)?;
        let quiet = Stamp::of(&rustix::fs::fstat(directory)?) == stamp;
        if !quiet {
            // Where a replaced name moves to another place in the directory (btrfs), one pass may
            // miss it; what an earlier pass saw is looked at once more when it is listed.
            if let Some(stale) = stale {
                names = names.union(&stale);
            }
            rustix::fs::seek(directory, SeekFrom::Start(0))?;
            names = names.union(&Names::read(directory, buffer)?);
        }
        let names = Arc::new(names);
        if names.len() >= SMALLEST_CACHED {
            self.keep(
                id,
                Entry {
                    stamp,
                    seen,
                    names: (settled && quiet).then(|| Arc::clone(&names)),
                },
            );
        }
        Ok(Loaded {
            names,
            stamp,
            settled,
        })
    }

    fn look_up(&self, id: DirectoryId) -> Option<(Stamp, Instant, Option<Arc<Names>>)> {
        let mut entries = self.lock();
        let entry = entries.map.get(&id)?;
        Some((entry.stamp, entry.seen, entry.names.clone()))
    }

    fn keep(&self, id: DirectoryId, entry: Entry) {
        let mut entries = self.lock();
        entries.bytes += entry.bytes();
        if let Some(old) = entries.map.put(id, entry) {
            entries.bytes = entries.bytes.saturating_sub(old.bytes());
        }
        while entries.bytes > self.budget {
            let Some((_, oldest)) = entries.map.pop_lru() else {
                break;
            };
            entries.bytes = entries.bytes.saturating_sub(oldest.bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Nothing panics while the lock is held; a poisoned cache is still a cache.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn kept_bytes(&self) -> usize {
        self.lock().bytes
    }
}

fn directory_id(stat: &Stat) -> DirectoryId {
    (stat.st_dev.into(), stat.st_ino.into())
}

#[cfg(test)]
mod tests;
