//! How much each bucket holds, and whether it may hold more.
//!
//! Kept in memory, moved by every change of an object, and found by counting what a listing
//! shows ([`tally`] says how that comes out right beside writers). Nothing on the volume depends
//! on it: [`saved`] only spares an orderly restart the time until the first count is complete.

pub(crate) mod saved;
mod tally;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::FileType;

use crate::dir;
use crate::query::{BucketUsage, ListEntry, ListQuery, Quota, Usage};
use crate::volume::Volume;
use crate::{Error, Result, Store};
use tally::Tally;

/// Keys that are counted at a time.
const PAGE: usize = 1000;
/// Counting rests as long as it worked, but at most this long at a time: it is never urgent.
const LONGEST_REST: Duration = Duration::from_millis(200);
/// Shortest time between two counts that failed changes asked for.
const BETWEEN_COUNTS: Duration = Duration::from_mins(1);

type Shared = Arc<Mutex<Tally>>;

/// The counts of a volume.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    buckets: RwLock<HashMap<String, Shared>>,
    wake: Mutex<Wake>,
    woken: Condvar,
    /// What the last process left, until counting starts.
    saved: Mutex<Option<saved::Counted>>,
}

/// What the counting thread is told.
#[derive(Debug, Default)]
struct Wake {
    /// Somebody counts at all.
    on: bool,
    /// A bucket has no count, or one in doubt.
    wanted: bool,
    stopped: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counters {
    /// Not counting yet.
    pub(crate) fn new(saved: Option<saved::Counted>) -> Self {
        Self {
            saved: Mutex::new(saved),
            ..Self::default()
        }
    }

    /// The tally of a bucket, if anything is counted.
    fn tally(&self, bucket: &BucketName) -> Option<Shared> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(bucket.as_str()).cloned()
    }

    fn tally_or_new(&self, bucket: &str) -> Shared {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(buckets.entry(bucket.to_owned()).or_default())
    }

    /// The tally of a bucket that is there.
    fn tally_of(&self, bucket: &str) -> Shared {
        let tally = self.tally_or_new(bucket);
        lock(&tally).is_there = true;
        tally
    }

    fn is_on(&self) -> bool {
        lock(&self.wake).on
    }

    fn want(&self) {
        lock(&self.wake).wanted = true;
        self.woken.notify_all();
    }

    /// Begins a change of a key; the caller holds its lock, and the bucket cannot go. A new size
    /// in bytes (`None` = the object goes) is reserved until the change ends; `old` finds the
    /// size of what it replaces, and is only asked where it matters.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`], what `old` fails with.
    pub(crate) fn begin<'a>(
        &'a self,
        bucket: &BucketName,
        key: &'a ObjectKey,
        new: Option<u64>,
        old: impl FnOnce() -> Result<Option<u64>>,
    ) -> Result<Change<'a>> {
        let tally = match self.tally(bucket) {
            Some(tally) => tally,
            // Nobody counts, or a bucket of another process that was not counted yet.
            None if !self.is_on() => return Ok(Change::uncounted(self, key, new)),
            None => {
                self.want();
                self.tally_of(bucket.as_str())
            }
        };
        if !lock(&tally).begin(key.as_str(), new, None) {
            let old = old()?;
            if !lock(&tally).begin(key.as_str(), new, Some(old)) {
                return Err(Error::QuotaExceeded);
            }
        }
        Ok(Change {
            counters: self,
            tally: Some(tally),
            key,
            new,
            over: false,
        })
    }

    /// Whether a body of `size` bytes may become an object, as far as that is known before it is
    /// received.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn admit(
        &self,
        bucket: &BucketName,
        size: u64,
        old: impl FnOnce() -> Result<Option<u64>>,
    ) -> Result<()> {
        let Some(tally) = self.tally(bucket) else {
            return Ok(());
        };
        if lock(&tally).admits(size, None) {
            return Ok(());
        }
        let old = old()?;
        if lock(&tally).admits(size, Some(old)) {
            Ok(())
        } else {
            Err(Error::QuotaExceeded)
        }
    }

    /// A bucket was made; the caller keeps objects from being published meanwhile. An `empty` one
    /// is counted from the start.
    pub(crate) fn created(&self, bucket: &BucketName, empty: bool) {
        if !self.is_on() {
            return;
        }
        let tally = self.tally_of(bucket.as_str());
        if empty {
            lock(&tally).restart(Usage::default());
        } else {
            self.want();
        }
    }

    /// Forgets a bucket that is gone.
    pub(crate) fn forget(&self, bucket: &BucketName) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let quota = buckets
            .remove(bucket.as_str())
            .and_then(|tally| lock(&tally).quota());
        // A quota is of the name: it is there for the next bucket of that name.
        if let Some(quota) = quota {
            let tally = Tally::default();
            let tally = Arc::new(Mutex::new(tally));
            lock(&tally).set_quota(Some(quota));
            buckets.insert(bucket.as_str().to_owned(), tally);
        }
    }
}

/// A change under way. Dropped without [`Change::end`] it is in doubt, and the bucket is counted
/// again.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    counters: &'a Counters,
    tally: Option<Shared>,
    key: &'a ObjectKey,
    new: Option<u64>,
    over: bool,
}

impl<'a> Change<'a> {
    fn uncounted(counters: &'a Counters, key: &'a ObjectKey, new: Option<u64>) -> Self {
        Self {
            counters,
            tally: None,
            key,
            new,
            over: false,
        }
    }

    /// The change is done; `old` is the size of what was there before.
    pub(crate) fn end(mut self, old: Option<u64>) {
        self.over = true;
        if let Some(tally) = &self.tally {
            lock(tally).end(self.key.as_str(), old, self.new);
        }
    }

    /// Nothing was changed.
    pub(crate) fn cancel(mut self) {
        self.over = true;
        if let Some(tally) = &self.tally {
            lock(tally).cancel(self.key.as_str());
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if let (false, Some(tally)) = (self.over, &self.tally) {
            lock(tally).doubt(self.key.as_str());
            self.counters.want();
        }
    }
}

impl Store {
    /// Sets what buckets may hold, by their names. A bucket that is not named may hold anything.
    pub fn set_quotas(&self, quotas: &BTreeMap<String, Quota>) {
        let counters = &self.volume.counters;
        for name in quotas.keys() {
            counters.tally_or_new(name);
        }
        let buckets = counters.buckets.read();
        for (name, tally) in &*buckets.unwrap_or_else(PoisonError::into_inner) {
            lock(tally).set_quota(quotas.get(name).copied());
        }
    }

    /// Usage and quotas of the buckets, in order of their names.
    pub fn usage(&self) -> Vec<BucketUsage> {
        let buckets = self.volume.counters.buckets.read();
        let buckets = buckets.unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = buckets
            .iter()
            .filter_map(|(name, tally)| {
                let tally = lock(tally);
                tally.is_there.then(|| BucketUsage {
                    bucket: name.clone(),
                    usage: tally.usage(),
                    quota: tally.quota().unwrap_or_default(),
                })
            })
            .collect();
        all.sort_by(|a, b| a.bucket.cmp(&b.bucket));
        all
    }

    /// Turns counting on: what an orderly end of the last process left counts at once, until
    /// [`Self::count`] has looked for itself. Call before the first change.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn start_counting(&self) -> Result<()> {
        let counters = &self.volume.counters;
        let mut saved = lock(&counters.saved).take().unwrap_or_default();
        for bucket in self.list_buckets()? {
            let tally = counters.tally_of(bucket.name.as_str());
            if let Some(usage) = saved.remove(bucket.name.as_str()) {
                lock(&tally).trust(usage);
            }
        }
        let mut wake = lock(&counters.wake);
        wake.on = true;
        wake.wanted = true;
        Ok(())
    }

    /// Counts all buckets, again every `period`, and whenever a count is in doubt; returns after
    /// [`Self::stop_counting`]. Blocks: a thread of its own calls it.
    pub fn count(&self, period: Duration) {
        let counters = &self.volume.counters;
        let mut last = None;
        loop {
            match self.count_once() {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "Buckets could not be counted"),
            }
            let began = Instant::now();
            let mut wake = lock(&counters.wake);
            loop {
                let elapsed = began.elapsed();
                if wake.stopped {
                    return;
                }
                if elapsed >= period || wake.wanted && (last.is_none() || elapsed >= BETWEEN_COUNTS)
                {
                    last = Some(began);
                    break;
                }
                let limit = if wake.wanted { BETWEEN_COUNTS } else { period };
                let rest = limit.saturating_sub(elapsed);
                let waited = counters.woken.wait_timeout(wake, rest);
                wake = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Ends [`Self::count`]. What was counted is left for the next start, unless other processes
    /// may have changed the volume meanwhile.
    pub fn stop_counting(&self) {
        lock(&self.volume.counters.wake).stopped = true;
        self.volume.counters.woken.notify_all();
    }

    /// Leaves what was counted for the next start. Call when nothing changes the volume any more.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoSpace`].
    pub fn save_counts(&self) -> Result<()> {
        let counted: Option<BTreeMap<String, Usage>> = self
            .usage()
            .into_iter()
            .map(|bucket| Some((bucket.bucket, bucket.usage?)))
            .collect();
        let in_doubt = lock(&self.volume.counters.wake).wanted;
        match counted {
            Some(counted) if !in_doubt && !counted.is_empty() => saved::put(&self.volume, counted),
            _ => Ok(()),
        }
    }

    fn count_once(&self) -> Result<()> {
        // What comes into doubt from here on is counted again.
        lock(&self.volume.counters.wake).wanted = false;
        let buckets = self.list_buckets()?;
        for bucket in &buckets {
            if lock(&self.volume.counters.wake).stopped {
                return Ok(());
            }
            self.count_bucket(&bucket.name)?;
        }
        self.volume
            .forget_missing(&buckets.iter().map(|b| b.name.as_str()).collect::<Vec<_>>());
        Ok(())
    }

    fn count_bucket(&self, bucket: &BucketName) -> Result<()> {
        let counters = &self.volume.counters;
        let tally = counters.tally_of(bucket.as_str());
        if !lock(&tally).start() {
            return Ok(());
        }
        let mut after = None;
        loop {
            let began = Instant::now();
            let query = ListQuery {
                prefix: String::new(),
                delimiter: None,
                after,
                max_keys: PAGE,
            };
            let page = match self.list(bucket, &query) {
                Ok(page) => page,
                Err(error) => {
                    lock(&tally).abandon();
                    return match error {
                        Error::NoSuchBucket => Ok(()),
                        error => Err(error),
                    };
                }
            };
            let sizes: Vec<(String, u64)> = page
                .entries
                .into_iter()
                .filter_map(|entry| match entry {
                    ListEntry::Object(object) => Some((object.key, object.size)),
                    ListEntry::Prefix(_) => None,
                })
                .collect();
            lock(&tally).page(&sizes, page.next.as_deref());
            let Some(next) = page.next else {
                return Ok(());
            };
            after = Some(next);
            if counters.rest(began.elapsed().min(LONGEST_REST)) {
                lock(&tally).abandon();
                return Ok(());
            }
        }
    }
}

impl Counters {
    /// Waits; returns whether counting is to stop.
    fn rest(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut wake = lock(&self.wake);
        while !wake.stopped {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.woken.wait_timeout(wake, left);
            wake = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Volume {
    /// Size of the object of a key now, `None` when there is none.
    pub(crate) fn size_now(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<u64>> {
        let found = self.data(bucket, key)?;
        Ok(found.map(|(_, stat)| match dir::file_type(&stat) {
            FileType::RegularFile => dir::size(&stat),
            // A directory object.
            _ => 0,
        }))
    }

    /// Whether a bucket has room for `size` bytes: as the object `key`, or as a part of one.
    pub(crate) fn admit(
        &self,
        bucket: &BucketName,
        key: Option<&ObjectKey>,
        size: u64,
    ) -> Result<()> {
        self.counters.admit(bucket, size, || match key {
            Some(key) => self.size_now(bucket, key),
            None => Ok(None),
        })
    }

    /// Forgets buckets that another process removed.
    fn forget_missing(&self, there: &[&str]) {
        let mut gone = Vec::new();
        {
            let buckets = self.counters.buckets.read();
            for name in buckets.unwrap_or_else(PoisonError::into_inner).keys() {
                if !there.contains(&name.as_str()) {
                    gone.push(name.clone());
                }
            }
        }
        for name in gone {
            // One made since the list was read stays.
            if let Ok(bucket) = BucketName::new(name)
                && matches!(self.bucket_dir(&bucket), Err(Error::NoSuchBucket))
            {
                self.counters.forget(&bucket);
            }
        }
    }
}

#[cfg(test)]
mod tests;
