//! How a migration tells what it does. The library reports; the command line picks bars, log
//! lines or JSON.

use std::fmt::Debug;
use std::time::Duration;

use crate::Error;
use crate::source::Tally;

/// Steps of a migration, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Waiting for a store to answer.
    Connect,
    /// Comparing both sides, nothing written.
    Plan,
    /// Bulk pass.
    Copy,
    /// Waiting for the word to begin with the final pass.
    Held,
    /// Difference with deletions.
    Final,
    /// Comparing what was written.
    Verify,
    /// Writing the marker.
    Mark,
    /// Comparing the source with the manifest, after cut-over.
    Recheck,
    /// Bringing together what changed on both sides.
    Merge,
    /// Taking changes back to the source.
    Reverse,
}

impl Phase {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Plan => "plan",
            Self::Copy => "copy",
            Self::Held => "held",
            Self::Final => "final",
            Self::Verify => "verify",
            Self::Mark => "mark",
            Self::Recheck => "recheck",
            Self::Merge => "merge",
            Self::Reverse => "reverse",
        }
    }
}

/// Something to show.
#[derive(Debug)]
pub enum Event<'a> {
    /// A step began; totals where a plan knows them.
    Phase {
        /// Which.
        phase: Phase,
        /// Objects that the step will touch.
        objects: Option<u64>,
        /// Bytes that the step will move.
        bytes: Option<u64>,
    },
    /// How much the step will compare, as the last pass found or a listing beside this one; no more
    /// than a guess.
    Expected {
        /// Objects.
        objects: u64,
        /// Bytes of them, where they were counted.
        bytes: Option<u64>,
    },
    /// One more object was compared.
    Listed {
        /// Its size in bytes.
        bytes: u64,
    },
    /// A copy was begun; exactly one [`Event::Ended`] follows.
    Started {
        /// `bucket/key`.
        object: &'a str,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A copy is no longer in flight, however it ended.
    Ended {
        /// `bucket/key`.
        object: &'a str,
    },
    /// Bytes were moved to the target, or read from it to be compared.
    Bytes(u64),
    /// An object is complete on the target.
    Copied {
        /// `bucket/key`.
        object: &'a str,
        /// Its size in bytes.
        bytes: u64,
    },
    /// An object was the same on both sides.
    Skipped,
    /// An object was removed from the target.
    Deleted {
        /// `bucket/key`.
        object: &'a str,
    },
    /// An object could not be carried.
    Failed(&'a Error),
    /// A request or an object is tried again.
    Retrying(&'a Error),
    /// Everything that stays behind, as known after a whole look at the source.
    Left(&'a Tally),
    /// A store does not answer; the next try follows after a while.
    Waiting {
        /// What it answered.
        error: &'a Error,
        /// Time until the next try.
        next: Duration,
    },
    /// A line for people: the plan, the outcome, a warning.
    Note(&'a str),
}

/// Receives events from any thread; must not block.
pub trait Progress: Send + Sync + Debug {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn event(&self, _event: &Event<'_>) {}
}
