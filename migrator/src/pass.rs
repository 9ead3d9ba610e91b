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
mod ledger;
mod report;
mod walk;

use crate::Result;
use crate::copy::Ends;
use crate::policy::Pass;
use crate::state::{Checkpoint, State, Unflushed, boot_id};

pub(crate) use deletes::admit;
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
    /// The pass looks at everything that is recorded there: only then doubt can end.
    pub whole: bool,
}

impl Recorder<'_> {
    pub(crate) fn save(&self) -> Result<()> {
        match self.state {
            Some(state) => state.set_checkpoint(self.run_id, &self.checkpoint),
            None => Ok(()),
        }
    }

    /// What may be lost already, by a power loss or a flush that failed.
    pub(crate) fn doubtful(&self) -> Option<&Unflushed> {
        let unflushed = self.checkpoint.unflushed.as_ref();
        unflushed.filter(|unflushed| unflushed.is_in_doubt(&boot_id()))
    }

    /// Records what a flush left, or that it failed: nobody after us is told by the system.
    pub(crate) fn flushed(&mut self, flushed: Result<()>, left: Option<Unflushed>) -> Result<()> {
        if let Err(error) = flushed {
            let unflushed = self.checkpoint.unflushed.take();
            self.checkpoint.unflushed = unflushed.map(Unflushed::failed);
            // What led here is the failure to tell.
            drop(self.save());
            return Err(error);
        }
        self.checkpoint.unflushed = left;
        self.save()
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
    walk::Walk::new(ends, pass, durability, recorder)
        .run(limits)
        .await
}
