//! After cut-over both stores may change. Each key is looked at three ways: as the manifest
//! recorded it, as the legacy store has it, as the served store has it.
//!
//! ```text
//! manifest ─┐
//! read side ─┼─ join ─▶ view (pure) ─▶ decide (pure) ─▶ apply ─▶ written side
//! written ──┘                                            ├─▶ changes.jsonl, lost/   what was done
//!                                                        ├─▶ divergence.jsonl       what is undecided
//!                                                        └─▶ the next manifest
//! ```
//!
//! Every write and delete is conditional on what was seen, so that a client's write in between is
//! never lost. A killed run leaves the old manifest; what it did already is recognised by the next
//! one as the same change on both sides.

mod apply;
mod decide;
mod join;
mod journal;
mod lost;
mod step;
mod view;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Instant;

use filestore_common::marker::Counts;
use futures::{StreamExt, TryStreamExt, stream};

pub use decide::{Action, Change, Deletes, Holds, Open, Prefer, Rules, Side, Verdict, verdict};
pub use lost::LOST_DIR;

use self::apply::Applier;
use self::join::Join;
use self::journal::{Journal, Undecided};
use self::step::{Came, Step};
use crate::copy::Ends;
use crate::manifest;
use crate::source::Tally;
use crate::state::State;
use crate::{Error, ExitCode, Kind, Result};

/// File below `runs/<id>/` that names what is undecided.
pub const DIVERGENCE_FILE: &str = "divergence.jsonl";
/// File below `runs/<id>/` that names what was added, replaced, deleted or left out.
pub const CHANGES_FILE: &str = "changes.jsonl";
/// Names kept for the summary.
const EXAMPLES: usize = 10;
/// Failures kept in full.
const FAILURES: usize = 100;

/// How much is looked at to see what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The read side's listings; the written side is asked for the keys that changed there.
    Changes,
    /// Both sides' listings.
    Listings,
    /// And the metadata of every object that a listing does not tell and the manifest knows.
    Metadata,
}

/// What to reconcile, and how.
#[derive(Debug, Clone)]
pub(crate) struct Task<'a> {
    /// The command, for the journal.
    pub(crate) command: &'static str,
    pub(crate) state: &'a State,
    pub(crate) run_id: &'a str,
    pub(crate) rules: Rules,
    /// Whether the served store keeps Last-Modified of the legacy one.
    pub(crate) keeps_times: bool,
    pub(crate) depth: Depth,
    /// Say what would be done.
    pub(crate) dry_run: bool,
    /// Where a dry run writes what it would do.
    pub(crate) report: Option<&'a Path>,
    /// When to stop, with nothing recorded.
    pub(crate) deadline: Option<Instant>,
    pub(crate) max_delete: Option<u64>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Objects on the side that is read.
    pub(crate) objects: u64,
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    /// Of these, over a change of the other side.
    pub(crate) overruled: u64,
    /// Conflicts decided for the written side, and deletions that were not wanted.
    pub(crate) settled: u64,
    /// Changes of the written side alone.
    pub(crate) left: u64,
    /// [`Open::DeletedOnSource`].
    pub(crate) deleted_on_source: u64,
    /// [`Open::ChangedOnBoth`].
    pub(crate) conflicts: u64,
    /// The first undecided names.
    pub(crate) examples: Vec<String>,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<String>,
    /// The time was over before the end.
    pub(crate) cut_short: bool,
    /// Digest and counts of the new manifest, when one was written.
    pub(crate) manifest: Option<(String, Counts)>,
    /// What of the read side cannot travel.
    pub(crate) tally: Tally,
    /// Deletions that wait for the second sweep.
    pub(crate) doomed: u64,
}

impl Found {
    /// Whether something is undecided.
    pub(crate) fn diverged(&self) -> bool {
        self.deleted_on_source + self.conflicts > 0
    }

    /// Whether anything was written or deleted (or would be).
    pub(crate) fn changed(&self) -> bool {
        self.added + self.updated + self.deleted + self.settled > 0
    }

    pub(crate) fn exit(&self) -> ExitCode {
        if self.failed > 0 {
            ExitCode::Failures
        } else if self.conflicts > 0 {
            ExitCode::Conflicts
        } else if self.deleted_on_source > 0 {
            ExitCode::Differences
        } else {
            ExitCode::Ok
        }
    }

    fn count(&mut self, step: &Step) {
        let came = match &step.came {
            Came::Same | Came::Recorded => return,
            Came::Left => &mut self.left,
            Came::Added => &mut self.added,
            Came::Updated => &mut self.updated,
            Came::Deleted => &mut self.deleted,
            Came::Doomed => &mut self.doomed,
            Came::Settled => &mut self.settled,
            Came::Open(Open::DeletedOnSource) => &mut self.deleted_on_source,
            Came::Open(Open::ChangedOnBoth) => &mut self.conflicts,
            Came::Failed(error) => {
                if self.failures.len() < FAILURES {
                    self.failures.push(error.to_string());
                }
                &mut self.failed
            }
        };
        *came += 1;
        self.overruled += u64::from(step.overruled);
        if matches!(step.came, Came::Open(_)) && self.examples.len() < EXAMPLES {
            self.examples.push(format!("{}/{}", step.bucket, step.key));
        }
    }

    /// Adds what an earlier sweep did.
    pub(crate) fn add(&mut self, earlier: &Self) {
        self.added += earlier.added;
        self.updated += earlier.updated;
        self.deleted += earlier.deleted;
        self.overruled += earlier.overruled;
        self.settled += earlier.settled;
    }
}

impl Task<'_> {
    fn run_file(&self, name: &str) -> PathBuf {
        self.state.run_dir(self.run_id).join(name)
    }
}

/// Reconciles everything. Deletions come last, after a sweep that showed all of them and came to
/// the proper end of every listing.
///
/// # Errors
/// [`Kind::NotFound`] without a manifest; [`Kind::Refused`] by a guard of the deletions; whatever
/// makes going on senseless. What was done so far is recognised by a rerun.
pub(crate) async fn reconcile(ends: &Ends, task: &Task<'_>) -> Result<Found> {
    let held_back = task.rules.deletes == Deletes::Apply && !task.dry_run;
    let first = sweep(ends, task, held_back).await?;
    if first.doomed == 0 || first.cut_short {
        return Ok(first);
    }
    let refuse = |message: String| {
        let what = "objects of the other side";
        Err(Error::new(Kind::Refused, "delete", what, message))
    };
    if first.objects == 0 {
        return refuse(format!(
            "{} objects would go because the side that is read is empty; delete them by hand if \
             that is so",
            first.doomed
        ));
    }
    if task.max_delete.is_some_and(|most| first.doomed > most) {
        return refuse(format!(
            "{} objects would go, more than --max-delete allows",
            first.doomed
        ));
    }
    let mut second = sweep(ends, task, false).await?;
    second.add(&first);
    Ok(second)
}

async fn sweep(ends: &Ends, task: &Task<'_>, held_back: bool) -> Result<Found> {
    let path = task.state.manifest(task.run_id);
    let read: Vec<_> = ends.source.buckets().await?;
    let join = Join::open(ends, &path, &read, task.depth != Depth::Changes).await?;
    let journal = match (task.dry_run, task.report) {
        (false, _) => Some(Journal::open(&task.run_file(CHANGES_FILE))?),
        (true, Some(report)) => Some(Journal::replace(report)?),
        (true, None) => None,
    };
    let applier = Applier::new(ends, task, read, journal, held_back).await?;
    let mut next = manifest::Writer::create(&path)?;
    let mut undecided = Undecided::create(&task.run_file(DIVERGENCE_FILE))?;
    let mut found = Found::default();
    let (seen, cut_short) = (Cell::new(0), Cell::new(false));
    let tally = RefCell::new(Tally::default());
    {
        let keys = stream::try_unfold(join, |mut join| async {
            ends.go_on()?;
            if task.deadline.is_some_and(|end| Instant::now() >= end) {
                cut_short.set(true);
                return Ok(None);
            }
            let key = join.next().await?;
            seen.set(join.seen);
            if key.is_none() {
                tally.replace(std::mem::take(&mut join.tally));
            }
            Ok::<_, Error>(key.map(|key| (key, join)))
        });
        let mut steps = std::pin::pin!(
            keys.map_ok(|key| applier.settle(key))
                .try_buffered(ends.parallel.max(1))
        );
        // In the order of keys, whichever is done first.
        while let Some(step) = steps.next().await {
            let step = step?;
            found.count(&step);
            if let Came::Open(how) = step.came {
                undecided.add(how, &step.bucket, &step.key, step.sides)?;
            }
            if let Some(line) = &step.line {
                next.add(line)?;
            }
        }
    }
    found.objects = seen.get();
    found.tally = tally.into_inner();
    found.cut_short = cut_short.get();
    if found.cut_short || task.dry_run {
        next.discard();
        undecided.discard();
        return Ok(found);
    }
    ends.target.flush().await?;
    undecided.finish()?;
    found.manifest = Some(next.finish()?);
    Ok(found)
}

#[cfg(test)]
mod tests;
