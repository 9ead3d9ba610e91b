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
//! never lost. A run that is stopped, cut short or broken off records what it did, the rest as it
//! was. A killed one leaves the old manifest and beside it what it did ([`done`]); after a power loss
//! that is read back first.

mod again;
mod apply;
mod carried;
mod decide;
mod done;
mod join;
mod journal;
mod lost;
mod step;
mod sweep;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use filestore_common::BucketName;
use filestore_common::marker::Counts;

pub use decide::{Action, Change, Deletes, Holds, Open, Prefer, Rules, Side, Verdict, verdict};
pub(crate) use done::carry_over;
pub use lost::LOST_DIR;

use self::apply::Applier;
use self::done::{Doubt, Overlay};
use self::join::Join;
use self::journal::Journal;
use self::step::{Came, Step};
use self::sweep::Notes;
use crate::copy::Ends;
use crate::source::{Left, Reason, Tally};
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
    /// When to stop, and record what was done.
    pub(crate) deadline: Option<Instant>,
    pub(crate) max_delete: Option<u64>,
}

/// What was written to a bucket (or would be).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Objects on the side that is read.
    pub(crate) objects: u64,
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    /// The first names of these.
    pub(crate) deleted_examples: Vec<String>,
    /// What was added and updated, by the bucket's name on the written side.
    pub(crate) brought: BTreeMap<BucketName, Brought>,
    /// Of these three, over a change of the other side.
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
    /// The worst of what failed.
    pub(crate) worst: Option<ExitCode>,
    /// What of the read side cannot travel.
    pub(crate) tally: Tally,
    /// Deletions that waited for the end of all listings.
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
        match self.worst {
            Some(ExitCode::Failures) => ExitCode::Failures,
            _ if self.conflicts > 0 => ExitCode::Conflicts,
            Some(code) => code,
            None if self.deleted_on_source > 0 => ExitCode::Differences,
            None => ExitCode::Ok,
        }
    }

    fn fail(&mut self, error: &Error) {
        // From bad to worse: the one goes away by itself, the other when writers are stopped.
        let rank = |code: ExitCode| match code {
            ExitCode::Retryable => 0,
            ExitCode::Changed => 1,
            _ => 2,
        };
        let code = match error.exit_code() {
            code @ (ExitCode::Retryable | ExitCode::Changed) => code,
            _ => ExitCode::Failures,
        };
        if self.worst.is_none_or(|worst| rank(worst) < rank(code)) {
            self.worst = Some(code);
        }
        if self.failures.len() < FAILURES {
            self.failures.push(error.to_string());
        }
        self.failed += 1;
    }

    fn count(&mut self, step: &Step) {
        let came = match &step.came {
            Came::Same | Came::Recorded | Came::Broke(_) => return,
            Came::Failed(error) => return self.fail(error),
            Came::Unnameable { bytes } => {
                let name = format!("{}/{}", step.bucket, step.key);
                let left = Left::new(Reason::Unnameable, name, 1).with_bytes(*bytes);
                return self.tally.add(left);
            }
            Came::Left => &mut self.left,
            Came::Added => &mut self.added,
            Came::Updated => &mut self.updated,
            Came::Deleted => &mut self.deleted,
            Came::Doomed => &mut self.doomed,
            Came::Settled => &mut self.settled,
            Came::Open(Open::DeletedOnSource) => &mut self.deleted_on_source,
            Came::Open(Open::ChangedOnBoth) => &mut self.conflicts,
        };
        *came += 1;
        match step.came {
            Came::Added | Came::Updated => {
                let brought = self.brought.entry(step.bucket.clone()).or_default();
                brought.objects += 1;
                brought.bytes += step.bytes;
            }
            Came::Deleted if self.deleted_examples.len() < EXAMPLES => {
                let name = format!("{}/{}", step.bucket, step.key);
                self.deleted_examples.push(name);
            }
            _ => {}
        }
        self.overruled += u64::from(step.overruled);
        if matches!(step.came, Came::Open(_)) && self.examples.len() < EXAMPLES {
            self.examples.push(format!("{}/{}", step.bucket, step.key));
        }
    }

    /// Adds what an earlier round did.
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

/// Reconciles everything. Deletions come last, after a look that showed all of them and came to
/// the proper end of every listing: those and no others.
///
/// # Errors
/// [`Kind::NotFound`] without a manifest; [`Kind::Refused`] by a guard of the deletions; whatever
/// makes going on senseless. What was done so far is in the manifest, or (after a kill) recognised
/// by a rerun.
pub(crate) async fn reconcile(ends: &Ends, task: &Task<'_>) -> Result<Found> {
    let path = task.state.manifest(task.run_id);
    let read: Vec<_> = ends.source.buckets().await?;
    let volume = ends.target.traits().kind == "volume";
    let overlay = Overlay::open(&task.state.run_dir(task.run_id), volume)?;
    let doubt = overlay.doubt();
    let list_target = task.depth != Depth::Changes;
    let join = Join::open(ends, &path, overlay, &read, list_target).await?;
    let journal = match (task.dry_run, task.report) {
        (false, _) => Some(Journal::open(&task.run_file(CHANGES_FILE))?),
        (true, Some(report)) => Some(Journal::replace(report)?),
        (true, None) => None,
    };
    let mut applier = Applier::new(ends, task, read, journal).await?;
    applier.doubt = doubt;
    applier.holds_back = task.rules.deletes == Deletes::Apply && !task.dry_run;
    let mut notes = Notes::new(task)?;
    let swept = sweep::sweep(ends, task, &applier, join, &mut notes).await;
    if swept.is_err() || notes.found.cut_short || task.dry_run {
        notes.discard();
        return swept.map(|()| notes.found);
    }
    let deleted = match admit(&notes.found, task.max_delete) {
        Ok(()) if notes.found.doomed > 0 => {
            applier.holds_back = false;
            applier.doubt = Doubt::None;
            sweep::delete(ends, task, &applier, &mut notes).await
        }
        admitted => admitted,
    };
    let found = notes.finish()?;
    deleted.map(|()| found)
}

/// Whether so many may be deleted.
fn admit(found: &Found, most: Option<u64>) -> Result<()> {
    let doomed = found.doomed;
    let problem = if doomed == 0 {
        return Ok(());
    } else if found.objects == 0 {
        format!(
            "{doomed} objects would go because the side that is read is empty; delete them by \
             hand if that is so"
        )
    } else if most.is_some_and(|most| doomed > most) {
        format!("{doomed} objects would go, more than --max-delete allows")
    } else {
        return Ok(());
    };
    let what = "objects of the other side";
    Err(Error::new(Kind::Refused, "delete", what, problem))
}

#[cfg(test)]
mod tests;
