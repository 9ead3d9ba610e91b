//! The count of one bucket: what is there, what is on its way, and a count that goes on beside
//! both.
//!
//! Every change is announced before it can be seen and ended after it was done, both under the
//! lock of its key, so that a key has at most one change under way. A count reads the bucket in
//! order of keys, page by page. Of a key at or before its position it knows the size, and follows
//! its changes; of a key behind it knows nothing yet. What changes while a page is read may have
//! been read before or after its change:
//!
//! - a change that ended meanwhile is in the log with the size that it left: the log counts;
//! - a change under way when the page ends is noted with the size that was counted for its key,
//!   and when it ends that size is replaced, whatever it was.

use std::collections::HashMap;

use crate::query::{Quota, Usage};

/// A size of an object, `None` = no object.
type Size = Option<u64>;

/// A change under way.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    /// Reserved bytes and objects.
    bytes: u64,
    objects: u64,
    /// What the usage in force holds for the key, if that is not what the change replaces.
    counted: Option<Size>,
    /// The same of the count that goes on.
    recounted: Option<Size>,
}

/// A count that goes on.
#[derive(Debug, Default)]
struct Count {
    usage: Usage,
    /// Keys up to this one are counted; `None` = none yet.
    position: Option<String>,
    /// Sizes that changes left behind the position since the page was begun.
    log: HashMap<String, Size>,
}

/// The count of one bucket.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The bucket exists; only its quota may be known of one that does not.
    pub(super) is_there: bool,
    /// In force; `None` before the first count.
    usage: Option<Usage>,
    quota: Option<Quota>,
    count: Option<Count>,
    pending: HashMap<String, Pending>,
    reserved: Usage,
}

fn replace(usage: &mut Usage, old: Size, new: Size) {
    usage.bytes = usage.bytes.saturating_sub(old.unwrap_or(0));
    usage.bytes = usage.bytes.saturating_add(new.unwrap_or(0));
    usage.objects = usage.objects.saturating_sub(u64::from(old.is_some()));
    usage.objects = usage.objects.saturating_add(u64::from(new.is_some()));
}

impl Tally {
    /// What is there, once it is known.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub(super) fn quota(&self) -> Option<Quota> {
        self.quota
    }

    pub(super) fn set_quota(&mut self, quota: Option<Quota>) {
        self.quota = quota;
    }

    /// Takes over a count of before this process, if there is none yet.
    pub(super) fn trust(&mut self, usage: Usage) {
        self.usage.get_or_insert(usage);
    }

    /// Begins anew with what is there for certain.
    pub(super) fn restart(&mut self, usage: Usage) {
        self.usage = Some(usage);
        self.count = None;
    }

    /// What an object of `new` bytes adds; `old` as in [`Self::admits`].
    fn growth(new: u64, old: Option<Size>) -> Usage {
        let old = old.flatten();
        Usage {
            bytes: new.saturating_sub(old.unwrap_or(0)),
            objects: u64::from(old.is_none()),
        }
    }

    /// Whether there is room for an object of `new` bytes, beside all that is under way. `old` is
    /// the size of what it replaces; unknown (`None`), it counts as nothing.
    pub(super) fn admits(&self, new: u64, old: Option<Size>) -> bool {
        let (Some(quota), Some(usage)) = (self.quota, self.usage) else {
            return true;
        };
        let growth = Self::growth(new, old);
        let fits = |limit: Option<u64>, used: u64, reserved: u64, more: u64| {
            more == 0
                || limit
                    .is_none_or(|limit| used.saturating_add(reserved).saturating_add(more) <= limit)
        };
        fits(quota.bytes, usage.bytes, self.reserved.bytes, growth.bytes)
            && fits(
                quota.objects,
                usage.objects,
                self.reserved.objects,
                growth.objects,
            )
    }

    /// Begins a change; `false` when there is no room for it, and nothing was begun.
    pub(super) fn begin(&mut self, key: &str, new: Size, old: Option<Size>) -> bool {
        let mut pending = Pending::default();
        if let Some(new) = new {
            if !self.admits(new, old) {
                return false;
            }
            let growth = Self::growth(new, old);
            pending.bytes = growth.bytes;
            pending.objects = growth.objects;
        }
        self.reserved.bytes = self.reserved.bytes.saturating_add(pending.bytes);
        self.reserved.objects = self.reserved.objects.saturating_add(pending.objects);
        self.pending.insert(key.to_owned(), pending);
        true
    }

    fn take(&mut self, key: &str) -> Pending {
        let pending = self.pending.remove(key).unwrap_or_default();
        self.reserved.bytes = self.reserved.bytes.saturating_sub(pending.bytes);
        self.reserved.objects = self.reserved.objects.saturating_sub(pending.objects);
        pending
    }

    /// Ends a change that replaced `old` by `new`.
    pub(super) fn end(&mut self, key: &str, old: Size, new: Size) {
        let pending = self.take(key);
        if let Some(usage) = &mut self.usage {
            replace(usage, pending.counted.unwrap_or(old), new);
        }
        let Some(count) = &mut self.count else {
            return;
        };
        if let Some(recounted) = pending.recounted {
            replace(&mut count.usage, recounted, new);
        } else if count.position.as_deref().is_some_and(|at| key <= at) {
            replace(&mut count.usage, old, new);
        } else {
            count.log.insert(key.to_owned(), new);
        }
    }

    /// Ends a change that changed nothing.
    pub(super) fn cancel(&mut self, key: &str) {
        // Whatever was counted for the key meanwhile is its size.
        self.take(key);
    }

    /// Ends a change of which nobody knows what it did: only another count can say.
    pub(super) fn doubt(&mut self, key: &str) {
        self.take(key);
    }

    /// Starts a count; `false` when one goes on.
    pub(super) fn start(&mut self) -> bool {
        if self.count.is_some() {
            return false;
        }
        for pending in self.pending.values_mut() {
            pending.recounted = None;
        }
        self.count = Some(Count::default());
        true
    }

    /// Gives a count up.
    pub(super) fn abandon(&mut self) {
        self.count = None;
    }

    /// Takes a page of a count: all objects behind its position up to the key `end`, or all that
    /// are left (`None`), which ends the count and puts it in force.
    pub(super) fn page(&mut self, found: &[(String, u64)], end: Option<&str>) {
        let Some(count) = &mut self.count else {
            return;
        };
        let in_page = |key: &str| {
            count.position.as_deref().is_none_or(|at| key > at) && end.is_none_or(|end| key <= end)
        };
        let mut sizes: HashMap<&str, Size> = HashMap::new();
        for (key, size) in found {
            if count.log.contains_key(key) || self.pending.contains_key(key) {
                sizes.insert(key, Some(*size));
            } else {
                replace(&mut count.usage, None, Some(*size));
            }
        }
        for (key, size) in &count.log {
            if in_page(key) {
                sizes.insert(key, *size);
            }
        }
        for (key, pending) in &mut self.pending {
            if in_page(key) {
                pending.recounted = Some(sizes.get(key.as_str()).copied().flatten());
            }
        }
        for size in sizes.into_values() {
            replace(&mut count.usage, None, size);
        }
        count.log.clear();
        if let Some(end) = end {
            count.position = Some(end.to_owned());
            return;
        }
        self.usage = Some(count.usage);
        self.count = None;
        for pending in self.pending.values_mut() {
            pending.counted = pending.recounted.take();
        }
    }
}

#[cfg(test)]
mod tests;
