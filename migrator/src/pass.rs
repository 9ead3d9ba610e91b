//! One pass over all buckets: both listings merged, differences copied with bounded concurrency,
//! deletes held back until every listing came to its proper end.
//!
//! ```text
//! both listings ─▶ walk ─ decide ─▶ lanes (copy) ─▶ report
//!                    │                 │
//!                    ▼                 ▼ finished
//!                  spool            flusher: what is on the disk up to which key ─▶ checkpoint
//!                    └────── at the end, after the guards ─▶ deletes
//! ```

mod deletes;
mod flusher;
mod report;
mod walk;

use crate::Result;
use crate::copy::Ends;
use crate::policy::Pass;
use crate::state::{Checkpoint, State, Unflushed, boot_id};

pub use report::Report;

/// What the guards allow.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Objects that were on the target before the migration may be deleted.
    pub delete_foreign: bool,
    /// Most deletes.
    pub max_delete: Option<u64>,
}

/// When what was copied is made to survive power loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every few seconds, and at the end of every pass.
    #[default]
    Durable,
    /// Only at the end of the final pass. What a power loss before that may have cost is read
    /// back and copied again by the next pass.
    Relaxed,
}

/// Where the checkpoint goes.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// State of the target.
    pub state: Option<&'a State>,
    /// The run.
    pub run_id: &'a str,
    /// Last checkpoint.
    pub checkpoint: Checkpoint,
}

impl Recorder<'_> {
    pub(crate) fn save(&self) -> Result<()> {
        match self.state {
            Some(state) => state.set_checkpoint(self.run_id, &self.checkpoint),
            None => Ok(()),
        }
    }

    /// What an earlier start of the machine may have lost.
    pub(crate) fn doubtful(&self) -> Option<Unflushed> {
        let unflushed = self.checkpoint.unflushed.clone()?;
        let boot = boot_id();
        (boot.is_empty() || unflushed.boot_id != boot).then_some(unflushed)
    }
}

/// Runs `pass` over everything.
///
/// # Errors
/// Only what makes going on senseless; failures of single objects are in the report.
pub async fn run<'a>(
    ends: &Ends,
    pass: Pass,
    limits: Limits,
    durability: Durability,
    recorder: &'a mut Recorder<'a>,
) -> Result<Report> {
    walk::Walk::new(ends, pass, durability, recorder)?
        .run(limits)
        .await
}
