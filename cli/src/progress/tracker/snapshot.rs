//! A moment of a migration, for whoever shows it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use filestore_common::marker::NotCarried;
use filestore_migrator::progress::Phase;

/// Objects and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// Objects by what became of them, over all phases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) copied: u64,
    pub(crate) skipped: u64,
    pub(crate) deleted: u64,
    pub(crate) failed: u64,
}

/// What stays behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftBehind {
    pub(crate) reasons: BTreeMap<String, NotCarried>,
    pub(crate) hash: String,
}

/// A moment of it.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) phase: Phase,
    /// Since the command began.
    pub(crate) elapsed: Duration,
    /// Since the phase began.
    pub(crate) phase_elapsed: Duration,
    /// Of each phase so far, all its rounds together.
    pub(crate) spent: HashMap<Phase, Duration>,
    /// What the phase will touch, where a plan said so; 0 = unknown.
    pub(crate) total: Amount,
    /// What it did of that.
    pub(crate) done: Amount,
    pub(crate) listed: Amount,
    pub(crate) moved: Amount,
    pub(crate) outcomes: Outcomes,
    pub(crate) copied_bytes: u64,
    pub(crate) retries: u64,
    pub(crate) in_flight: usize,
    /// The first few of those in flight.
    pub(crate) current: Vec<String>,
    /// A second, over the last moments.
    pub(crate) rate: Amount,
    pub(crate) eta: Option<Duration>,
    pub(crate) left: Option<LeftBehind>,
    pub(crate) failures: Vec<String>,
    pub(crate) last_error: Option<(SystemTime, String)>,
    /// A store does not answer.
    pub(crate) waiting: Option<String>,
    /// It refuses the keys, and others are waited for.
    pub(crate) keys_refused: bool,
}

impl Snapshot {
    /// How much of the phase is done, in thousandths; `None` where nobody knows.
    pub(crate) fn permille(&self) -> Option<u64> {
        permille(self.done, self.total)
    }
}

/// By objects or by bytes, whichever is further behind.
pub(super) fn permille(done: Amount, total: Amount) -> Option<u64> {
    let part = |done: u64, total: u64| {
        (total > 0).then(|| {
            let part = u128::from(done) * 1000 / u128::from(total);
            u64::try_from(part.min(1000)).unwrap_or(1000)
        })
    };
    let (objects, bytes) = (
        part(done.objects, total.objects),
        part(done.bytes, total.bytes),
    );
    match (objects, bytes) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
