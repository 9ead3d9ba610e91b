//! What may not have reached the disk: the rules, without any I/O.
//!
//! A checkpoint names one place; whatever comes before it is on the disk. *In doubt* is what an
//! earlier start of the machine, or a flush that failed, may have lost: it stays so until each
//! object of it was proved or written again, and a flush came after.

use std::collections::BTreeMap;

use filestore_common::{BucketName, ObjectKey};

use crate::state::{Place, Unflushed};

/// See the module.
#[derive(Debug)]
pub(super) struct Ledger {
    /// This start of the machine.
    boot: String,
    doubt: Option<Unflushed>,
    /// The pass looks at everything that may be in doubt.
    whole: bool,
    next: u64,
    /// Copies under way, in the order in which they were begun.
    open: BTreeMap<u64, Place>,
    /// First object in doubt that could be neither proved nor written again.
    unproven: Option<Place>,
}

impl Ledger {
    /// At the beginning of a pass; `recorded` is what the last one left.
    pub(super) fn new(boot: String, recorded: Option<&Unflushed>, whole: bool) -> Self {
        let doubt = recorded.filter(|unflushed| unflushed.is_in_doubt(&boot));
        Self {
            doubt: doubt.cloned(),
            boot,
            whole,
            next: 0,
            open: BTreeMap::new(),
            unproven: None,
        }
    }

    /// What is in doubt.
    pub(super) fn doubt(&self) -> Option<&Unflushed> {
        self.doubt.as_ref()
    }

    fn from(&self, (bucket, key): Place) -> Unflushed {
        let doubt = self.doubt.as_ref();
        Unflushed {
            boot_id: doubt.map_or_else(|| self.boot.clone(), |doubt| doubt.boot_id.clone()),
            bucket,
            key,
            failed: doubt.is_some_and(|doubt| doubt.failed),
        }
    }

    /// To be recorded before anything is written at or after `place`.
    pub(super) fn begin(&self, place: Place, recorded: Option<Unflushed>) -> Unflushed {
        let new = self.from(place);
        match recorded {
            Some(recorded) => recorded.and(new, &self.boot),
            None => new,
        }
    }

    /// A copy begins; its number goes to [`Ledger::ended`]. Copies begin in the order of keys.
    pub(super) fn copying(&mut self, bucket: &BucketName, key: &ObjectKey) -> u64 {
        let number = self.next;
        self.next += 1;
        let place = (bucket.clone(), Some(key.clone()));
        self.open.insert(number, place);
        number
    }

    /// A copy came to its end; `right` when the target's object is what it should be, or counts
    /// no more.
    pub(super) fn ended(&mut self, number: u64, right: bool) {
        let Some(place) = self.open.remove(&number) else {
            return;
        };
        // Out of doubt, a copy that failed left nothing, or what the next pass sees to differ.
        let doubtful = self.doubt.as_ref().is_some_and(|doubt| {
            let (bucket, key) = &place;
            key.as_ref().is_some_and(|key| doubt.covers(bucket, key))
        });
        if doubtful && !right {
            let earlier = self.unproven.take().into_iter().chain([place]).min();
            self.unproven = earlier;
        }
    }

    /// Up to where a flush that begins now reaches; `next` is the first place that was not looked
    /// at. Whatever is not complete may miss it.
    pub(super) fn reach(&self, next: Option<&Place>) -> Option<Place> {
        self.open.values().next().or(next).cloned()
    }

    /// To be recorded after a flush that reached up to `reach`, or everything.
    pub(super) fn flushed(&self, reach: Option<Place>) -> Option<Unflushed> {
        let mut places: Vec<Place> = reach.into_iter().collect();
        if let Some(doubt) = &self.doubt {
            places.extend(self.unproven.clone());
            if !self.whole {
                places.push(doubt.place());
            }
        }
        places.into_iter().min().map(|place| self.from(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "this start";
    const EARLIER: &str = "an earlier start";

    fn bucket() -> BucketName {
        BucketName::new("bkt").unwrap()
    }

    fn key(key: &str) -> ObjectKey {
        ObjectKey::new(key).unwrap()
    }

    fn place(name: &str) -> Place {
        (bucket(), Some(key(name)))
    }

    fn unflushed(boot: &str, name: &str) -> Unflushed {
        Unflushed {
            boot_id: boot.into(),
            bucket: bucket(),
            key: Some(key(name)),
            failed: false,
        }
    }

    fn ledger(recorded: Option<&Unflushed>, whole: bool) -> Ledger {
        Ledger::new(NOW.into(), recorded, whole)
    }

    #[test]
    fn an_object_in_doubt_that_could_not_be_proved_stays_in_doubt() {
        let recorded = unflushed(EARLIER, "c");
        let mut ledger = ledger(Some(&recorded), true);
        let before = ledger.copying(&bucket(), &key("a"));
        let [d, e, f] = ["d", "e", "f"].map(|name| ledger.copying(&bucket(), &key(name)));
        ledger.ended(f, false);
        ledger.ended(e, false);
        ledger.ended(d, true);
        // It was never in doubt: the next pass sees that it is missing or differs.
        ledger.ended(before, false);

        let left = Some(unflushed(EARLIER, "e"));
        assert_eq!(ledger.flushed(Some(place("x"))), left);
        assert_eq!(ledger.flushed(None), left);
    }

    #[test]
    fn doubt_ends_when_all_of_it_was_looked_at() {
        let recorded = unflushed(EARLIER, "c");
        let mut ledger = ledger(Some(&recorded), true);
        let d = ledger.copying(&bucket(), &key("d"));
        assert_eq!(ledger.reach(Some(&place("x"))), Some(place("d")));
        ledger.ended(d, true);
        assert_eq!(ledger.reach(Some(&place("x"))), Some(place("x")));
        assert_eq!(
            ledger.flushed(Some(place("x"))),
            Some(unflushed(EARLIER, "x"))
        );
        assert_eq!(ledger.flushed(None), None);
    }

    #[test]
    fn a_pass_over_a_part_leaves_the_doubt_of_the_whole() {
        let recorded = unflushed(EARLIER, "c");
        let ledger = ledger(Some(&recorded), false);
        assert_eq!(
            ledger.begin(place("logs/1"), Some(recorded.clone())),
            recorded
        );
        assert_eq!(
            ledger.flushed(Some(place("logs/7"))),
            Some(recorded.clone())
        );
        assert_eq!(ledger.flushed(None), Some(recorded.clone()));
        // What it wrote before the place is in doubt as well until it is flushed.
        let written = ledger.begin(place("a"), Some(recorded));
        assert_eq!(written, unflushed(EARLIER, "a"));
    }

    #[test]
    fn a_pass_over_a_part_flushes_what_this_start_of_the_machine_wrote() {
        let recorded = unflushed(NOW, "c");
        let ledger = ledger(Some(&recorded), false);
        assert_eq!(ledger.doubt(), None);
        assert_eq!(ledger.flushed(Some(place("x"))), Some(unflushed(NOW, "x")));
        assert_eq!(ledger.flushed(None), None);
    }

    #[test]
    fn what_an_earlier_pass_left_unflushed_is_kept_by_the_next() {
        let recorded = unflushed(NOW, "a");
        let ledger = ledger(Some(&recorded), true);
        assert_eq!(ledger.begin(place("x"), Some(recorded.clone())), recorded);
        let beginning = ledger.begin((bucket(), None), Some(recorded));
        assert_eq!((beginning.key, beginning.boot_id.as_str()), (None, NOW));
    }

    #[test]
    fn a_failed_flush_is_a_doubt_of_the_same_start() {
        let failed = unflushed(NOW, "c").failed();
        let mut ledger = ledger(Some(&failed), true);
        assert_eq!(ledger.doubt(), Some(&failed));
        let d = ledger.copying(&bucket(), &key("d"));
        ledger.ended(d, false);
        let left = ledger.flushed(None).unwrap();
        assert_eq!((left.place(), left.failed), (place("d"), true));
    }
}
