//! What a pass did.

use crate::source::Tally;
use crate::{Error, ExitCode, Kind};

/// Failures that are kept in full; more are only counted.
pub(super) const FAILURES_KEPT: usize = 100;

/// What a pass did.
#[derive(Debug, Default)]
pub struct Report {
    /// Buckets compared.
    pub buckets: u64,
    /// Objects of the source that were compared.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// Objects written that the target did not have.
    pub created: u64,
    /// Objects written over another one.
    pub replaced: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Objects that were the same.
    pub skipped: u64,
    /// Objects that were the same by size and time, their ETag being unknown.
    pub unproven: u64,
    /// Objects removed from the target.
    pub deleted: u64,
    /// Objects only on the target that stayed.
    pub extraneous: u64,
    /// Names of the first of them.
    pub extraneous_examples: Vec<String>,
    /// Objects that the source's listings hide.
    pub hidden: Vec<String>,
    /// What stays behind.
    pub tally: Tally,
    /// How many objects failed.
    pub failed: u64,
    /// How many of them kept changing.
    pub changed: u64,
    /// The first failures.
    pub failures: Vec<Error>,
}

impl Report {
    /// Adds what an earlier pass did; what that wrote was the same for this one.
    pub(crate) fn add(&mut self, earlier: &Self) {
        let written = earlier.created + earlier.replaced;
        self.skipped = self.skipped.saturating_sub(written);
        self.created += earlier.created;
        self.replaced += earlier.replaced;
        self.bytes += earlier.bytes;
        self.deleted += earlier.deleted;
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.failed += 1;
        self.changed += u64::from(error.kind == Kind::Changed);
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(error);
        }
    }

    /// What the failures mean for the exit code; losses count unless accepted.
    pub fn exit(&self, accept_loss: bool) -> ExitCode {
        if self.failed > self.changed || (self.tally.losses() > 0 && !accept_loss) {
            ExitCode::Failures
        } else if self.failed > 0 {
            ExitCode::Changed
        } else {
            ExitCode::Ok
        }
    }
}
