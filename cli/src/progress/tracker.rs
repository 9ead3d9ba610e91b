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
    /// Of it, in this phase.
    phase_copied_bytes: u64,
    retries: u64,
    /// What is being copied, with its size in bytes.
    current: Vec<(String, u64)>,
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
            phase_copied_bytes: 0,
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
                self.phase_copied_bytes = 0;
                self.samples.clear();
                self.waiting = None;
            }
            Event::Expected { objects, bytes } => self.expect(*objects, bytes.unwrap_or(0)),
            Event::Listed { bytes } => {
                self.listed.objects += 1;
                self.listed.bytes += bytes;
            }
            Event::Bytes(bytes) => self.moved.bytes += bytes,
            Event::Copied { bytes, .. } => {
                self.moved.objects += 1;
                self.outcomes.copied += 1;
                self.copied_bytes += bytes;
                self.phase_copied_bytes += bytes;
            }
            Event::Skipped => self.outcomes.skipped += 1,
            Event::Deleted { .. } => self.outcomes.deleted += 1,
            Event::Started { object, bytes } => self.current.push(((*object).to_owned(), *bytes)),
            Event::Ended { object } => {
                if let Some(place) = self.current.iter().position(|(name, _)| name == object) {
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

    /// So much is to be compared.
    fn expect(&mut self, objects: u64, bytes: u64) {
        self.total = Amount { objects, bytes };
        self.compares = true;
        self.samples.clear();
    }

    /// The phase counts copies where it was told how many; comparisons count what they listed. Of a
    /// pass whose bytes were counted beforehand, what is being copied is not done yet.
    fn done(&self) -> Amount {
        match self.phase {
            Phase::Copy if self.total.objects > 0 && !self.compares => Amount {
                objects: self.moved.objects + self.failed,
                bytes: self.moved.bytes,
            },
            Phase::Copy if self.total.bytes > 0 => {
                let under_way: u64 = self.current.iter().map(|(_, bytes)| bytes).sum();
                // Also what was moved in vain: never more than what it was for.
                let moved = self.moved.bytes.saturating_sub(self.phase_copied_bytes);
                let left = under_way.saturating_sub(moved);
                Amount {
                    objects: self
                        .listed
                        .objects
                        .saturating_sub(self.current.len() as u64),
                    bytes: self.listed.bytes.saturating_sub(left),
                }
            }
            _ => Amount {
                objects: self.listed.objects,
                bytes: self.moved.bytes,
            },
        }
    }

    /// The moment `now`; also takes a sample for the rate.
    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let done = self.done();
        // What is skipped is done, and was not moved.
        let sample = Amount {
            bytes: self.moved.bytes,
            ..done
        };
        if self
            .samples
            .back()
            .is_none_or(|(at, _)| now.duration_since(*at) >= SAMPLE_EVERY)
        {
            self.samples.push_back((now, sample));
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
            objects: per_second(sample.objects.saturating_sub(before.objects), span),
            bytes: per_second(sample.bytes.saturating_sub(before.bytes), span),
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
            current: self
                .current
                .iter()
                .take(3)
                .map(|(object, _)| object.clone())
                .collect(),
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
mod tests;
