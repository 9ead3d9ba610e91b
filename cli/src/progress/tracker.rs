//! What a migration did so far, counted from its events. No output, no clock of its own.

mod snapshot;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use filestore_migrator::Kind;
use filestore_migrator::progress::{Event, Phase};

pub(crate) use snapshot::{Amount, LeftBehind, Outcomes, Snapshot};

/// The rate is that of the last moments.
const WINDOW: Duration = Duration::from_secs(30);
/// Two samples of the rate are at least this far apart.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// Failures that are kept as text.
const FAILURES_KEPT: usize = 10;

/// Counts events.
#[derive(Debug)]
pub(crate) struct Tracker {
    began: Instant,
    phase: Phase,
    phase_began: Instant,
    /// Time spent in the phases before this one.
    spent: HashMap<Phase, Duration>,
    total: Amount,
    /// The total is of objects to compare, not to copy.
    compares: bool,
    /// Compared in this phase.
    listed: Amount,
    /// Copied (or, in a comparison, read) in this phase.
    moved: Amount,
    /// Failed in this phase.
    failed: u64,
    outcomes: Outcomes,
    copied_bytes: u64,
    retries: u64,
    current: Vec<String>,
    samples: VecDeque<(Instant, Amount)>,
    left: Option<LeftBehind>,
    failures: Vec<String>,
    last_error: Option<(SystemTime, String)>,
    waiting: Option<(Instant, String)>,
    /// What is waited for are keys that the store takes.
    keys_refused: bool,
}

impl Tracker {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: now,
            phase: Phase::Connect,
            phase_began: now,
            spent: HashMap::new(),
            total: Amount::default(),
            compares: false,
            listed: Amount::default(),
            moved: Amount::default(),
            failed: 0,
            outcomes: Outcomes::default(),
            copied_bytes: 0,
            retries: 0,
            current: Vec::new(),
            samples: VecDeque::new(),
            left: None,
            failures: Vec::new(),
            last_error: None,
            waiting: None,
            keys_refused: false,
        }
    }

    /// Takes an event into account.
    pub(crate) fn apply(&mut self, event: &Event<'_>, now: Instant) {
        match event {
            Event::Phase {
                phase,
                objects,
                bytes,
            } => {
                *self.spent.entry(self.phase).or_default() += now.duration_since(self.phase_began);
                self.phase = *phase;
                self.phase_began = now;
                self.total = Amount {
                    objects: objects.unwrap_or(0),
                    bytes: bytes.unwrap_or(0),
                };
                self.compares = false;
                self.listed = Amount::default();
                self.moved = Amount::default();
                self.failed = 0;
                self.samples.clear();
                self.waiting = None;
            }
            Event::Expected { objects } => {
                self.total.objects = *objects;
                self.compares = true;
            }
            Event::Listed { bytes } => {
                self.listed.objects += 1;
                self.listed.bytes += bytes;
            }
            Event::Bytes(bytes) => self.moved.bytes += bytes,
            Event::Copied { bytes, .. } => {
                self.moved.objects += 1;
                self.outcomes.copied += 1;
                self.copied_bytes += bytes;
            }
            Event::Skipped => self.outcomes.skipped += 1,
            Event::Deleted { .. } => self.outcomes.deleted += 1,
            Event::Started { object, .. } => self.current.push((*object).to_owned()),
            Event::Ended { object } => {
                if let Some(place) = self.current.iter().position(|name| name == object) {
                    self.current.remove(place);
                }
            }
            Event::Failed(error) => {
                self.outcomes.failed += 1;
                self.failed += 1;
                let text = error.to_string();
                if self.failures.len() < FAILURES_KEPT {
                    self.failures.push(text.clone());
                }
                self.last_error = Some((SystemTime::now(), text));
            }
            Event::Retrying(error) => {
                self.retries += 1;
                self.last_error = Some((SystemTime::now(), error.to_string()));
            }
            Event::Waiting { error, next } => {
                let text = error.to_string();
                self.last_error = Some((SystemTime::now(), text.clone()));
                self.waiting = Some((now + *next, text));
                self.keys_refused = error.kind == Kind::Auth;
            }
            Event::Left(tally) => {
                self.left = Some(LeftBehind {
                    reasons: (*tally).clone().into_marker(),
                    hash: tally.hash(),
                });
            }
            Event::Note(_) => {}
        }
        if !matches!(
            event,
            Event::Waiting { .. } | Event::Retrying(_) | Event::Note(_)
        ) {
            self.waiting = None;
            self.keys_refused = false;
        }
    }

    /// The phase counts copies where it was told how many; comparisons count what they listed.
    fn done(&self) -> Amount {
        match self.phase {
            Phase::Copy if self.total.objects > 0 && !self.compares => Amount {
                objects: self.moved.objects + self.failed,
                bytes: self.moved.bytes,
            },
            _ => Amount {
                objects: self.listed.objects,
                bytes: self.moved.bytes,
            },
        }
    }

    /// The moment `now`; also takes a sample for the rate.
    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let done = self.done();
        if self
            .samples
            .back()
            .is_none_or(|(at, _)| now.duration_since(*at) >= SAMPLE_EVERY)
        {
            self.samples.push_back((now, done));
        }
        while self.samples.len() > 2
            && self
                .samples
                .front()
                .is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            self.samples.pop_front();
        }
        let (since, before) = self
            .samples
            .front()
            .copied()
            .filter(|(at, _)| now.duration_since(*at) >= SAMPLE_EVERY)
            .unwrap_or_else(|| (self.phase_began, Amount::default()));
        let span = now.duration_since(since);
        let rate = Amount {
            objects: per_second(done.objects.saturating_sub(before.objects), span),
            bytes: per_second(done.bytes.saturating_sub(before.bytes), span),
        };
        let phase_elapsed = now.duration_since(self.phase_began);
        let mut spent = self.spent.clone();
        *spent.entry(self.phase).or_default() += phase_elapsed;
        Snapshot {
            phase: self.phase,
            elapsed: now.duration_since(self.began),
            phase_elapsed,
            spent,
            total: self.total,
            done,
            listed: self.listed,
            moved: self.moved,
            outcomes: self.outcomes,
            copied_bytes: self.copied_bytes,
            retries: self.retries,
            in_flight: self.current.len(),
            current: self.current.iter().take(3).cloned().collect(),
            rate,
            eta: eta(done, self.total, phase_elapsed),
            left: self.left.clone(),
            failures: self.failures.clone(),
            last_error: self.last_error.clone(),
            waiting: self.waiting.as_ref().map(|(_, text)| text.clone()),
            keys_refused: self.keys_refused,
        }
    }
}

fn per_second(count: u64, span: Duration) -> u64 {
    let millis = span.as_millis();
    if millis == 0 {
        return 0;
    }
    u64::try_from(u128::from(count) * 1000 / millis).unwrap_or(u64::MAX)
}

/// As the phase went so far.
fn eta(done: Amount, total: Amount, elapsed: Duration) -> Option<Duration> {
    let left = |done: u64, total: u64| {
        if total == 0 {
            return Some(Duration::ZERO);
        }
        (done > 0).then(|| {
            let left = u128::from(total.saturating_sub(done));
            let millis = elapsed.as_millis() * left / u128::from(done);
            Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
        })
    };
    if total == Amount::default() {
        return None;
    }
    let (objects, bytes) = (
        left(done.objects, total.objects)?,
        left(done.bytes, total.bytes)?,
    );
    Some(objects.max(bytes))
}

#[cfg(test)]
mod tests {
    use filestore_migrator::{Error, Kind};

    use super::snapshot::permille;
    use super::*;

    fn amount(objects: u64, bytes: u64) -> Amount {
        Amount { objects, bytes }
    }

    fn phase(phase: Phase, objects: Option<u64>, bytes: Option<u64>) -> Event<'static> {
        Event::Phase {
            phase,
            objects,
            bytes,
        }
    }

    #[test]
    fn the_time_left_is_that_of_what_is_further_behind() {
        let second = Duration::from_secs(10);
        assert_eq!(eta(amount(5, 0), amount(10, 0), second), Some(second));
        assert_eq!(
            eta(amount(5, 10), amount(10, 100), second),
            Some(Duration::from_secs(90))
        );
        assert_eq!(eta(amount(0, 10), amount(10, 100), second), None);
        assert_eq!(eta(amount(7, 7), amount(0, 0), second), None);
        assert_eq!(permille(amount(5, 10), amount(10, 100)), Some(100));
        assert_eq!(permille(amount(5, 10), amount(0, 0)), None);
    }

    #[test]
    fn a_store_that_does_not_answer_is_the_last_error_also_later() {
        let now = Instant::now();
        let mut tracker = Tracker::new(now);
        let error = Error::new(Kind::Down, "list buckets", "http://m:9000", "refused");
        let next = Duration::from_secs(2);
        tracker.apply(
            &Event::Waiting {
                error: &error,
                next,
            },
            now,
        );
        let seen = tracker.snapshot(now);
        assert_eq!(seen.phase, Phase::Connect);
        assert_eq!(seen.last_error.unwrap().1, seen.waiting.unwrap());
        tracker.apply(&Event::Listed { bytes: 1 }, now);
        let seen = tracker.snapshot(now);
        assert_eq!(seen.waiting, None);
        assert!(seen.last_error.is_some());
    }

    #[test]
    fn the_rate_is_of_the_last_moments() {
        let begin = Instant::now();
        let mut tracker = Tracker::new(begin);
        tracker.apply(&phase(Phase::Copy, Some(1000), Some(1_000_000)), begin);
        for second in 0..100u64 {
            let now = begin + Duration::from_secs(second);
            // Fast for a minute, then ten times slower.
            for _ in 0..if second < 60 { 100 } else { 10 } {
                tracker.apply(&Event::Bytes(7), now);
                tracker.apply(
                    &Event::Copied {
                        object: "b/k",
                        bytes: 7,
                    },
                    now,
                );
            }
            tracker.snapshot(now);
        }
        let last = tracker.snapshot(begin + Duration::from_secs(99));
        assert_eq!((last.rate.objects, last.rate.bytes), (10, 70));
        assert_eq!(last.outcomes.copied, 60 * 100 + 40 * 10);
    }

    #[test]
    fn the_time_of_a_phase_is_that_of_all_its_rounds() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut tracker = Tracker::new(begin);
        for (second, next) in [
            (1, Phase::Held),
            (4, Phase::Final),
            (6, Phase::Verify),
            (7, Phase::Final),
            (12, Phase::Verify),
        ] {
            tracker.apply(&phase(next, None, None), at(second));
        }
        let spent = tracker.snapshot(at(20)).spent;
        for (phase, seconds) in [
            (Phase::Connect, 1),
            (Phase::Held, 3),
            (Phase::Final, 7),
            (Phase::Verify, 9),
        ] {
            assert_eq!(spent[&phase], Duration::from_secs(seconds), "{phase:?}");
        }
        assert!(!spent.contains_key(&Phase::Mark));
    }

    #[test]
    fn a_comparison_counts_what_it_compared() {
        let now = Instant::now();
        let mut tracker = Tracker::new(now);
        tracker.apply(&phase(Phase::Verify, Some(2), None), now);
        tracker.apply(&Event::Listed { bytes: 5 }, now);
        let seen = tracker.snapshot(now);
        assert_eq!((seen.done.objects, seen.permille()), (1, Some(500)));
    }

    /// A pass that no plan precedes is counted against the pass before it.
    #[test]
    fn an_expected_number_is_of_objects_to_compare() {
        let now = Instant::now();
        let mut tracker = Tracker::new(now);
        tracker.apply(&phase(Phase::Copy, None, None), now);
        tracker.apply(&Event::Expected { objects: 4 }, now);
        tracker.apply(&Event::Listed { bytes: 5 }, now);
        let copied = Event::Copied {
            object: "b/k",
            bytes: 5,
        };
        tracker.apply(&copied, now);
        tracker.apply(&Event::Listed { bytes: 5 }, now);
        let seen = tracker.snapshot(now + Duration::from_secs(10));
        assert_eq!((seen.done.objects, seen.permille()), (2, Some(500)));
        assert_eq!(seen.eta, Some(Duration::from_secs(10)));
        // The next step knows nothing of it.
        tracker.apply(&phase(Phase::Copy, Some(1), Some(5)), now);
        tracker.apply(&Event::Listed { bytes: 5 }, now);
        let seen = tracker.snapshot(now);
        assert_eq!((seen.done.objects, seen.total.objects), (0, 1));
    }

    #[test]
    fn what_is_in_flight_leaves_whatever_became_of_it() {
        let now = Instant::now();
        let mut tracker = Tracker::new(now);
        for object in ["b/1", "b/2"] {
            tracker.apply(&Event::Started { object, bytes: 1 }, now);
        }
        tracker.apply(&Event::Ended { object: "b/1" }, now);
        let seen = tracker.snapshot(now);
        assert_eq!(
            (seen.in_flight, &*seen.current),
            (1, &["b/2".to_owned()][..])
        );
    }
}
