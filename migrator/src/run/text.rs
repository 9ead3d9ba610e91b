//! Summaries for people.

use std::fmt;

use filestore_common::BucketName;

use crate::pass::Report;
use crate::plan::{human, loss_names};
use crate::reconcile::{CHANGES_FILE, DIVERGENCE_FILE, Found, LOST_DIR};
use crate::state::State;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "copied {} new and {} changed objects ({}); {} were the same; {} deleted",
            self.created,
            self.replaced,
            human(self.bytes),
            self.skipped + self.unproven,
            self.deleted
        )?;
        if self.extraneous > 0 {
            let names = self.extraneous_examples.join(", ");
            writeln!(
                f,
                "only on the target: {} ({})",
                self.extraneous,
                names.escape_debug()
            )?;
        }
        if !self.hidden.is_empty() {
            let names = self.hidden.join(", ");
            writeln!(
                f,
                "carried although the source's listings hide them: {}",
                names.escape_debug()
            )?;
        }
        for (reason, left) in self.tally.iter() {
            let names = left.examples.join(", ");
            writeln!(
                f,
                "left behind, {}: {} ({})",
                reason.as_str(),
                left.count,
                names.escape_debug()
            )?;
        }
        if self.failed > 0 {
            writeln!(f, "{} objects failed:", self.failed)?;
            for error in &self.failures {
                writeln!(f, "  {error}")?;
            }
        }
        Ok(())
    }
}

/// A line about buckets that were made empty; nothing when there are none.
pub(super) fn made(buckets: &[BucketName]) -> String {
    if buckets.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = buckets.iter().map(BucketName::as_str).collect();
    format!("empty buckets made: {}\n", names.join(", "))
}

/// What a reconciliation found; with `dry_run` what it would do.
pub(super) fn reconciled(found: &Found, state: &State, run_id: &str, dry_run: bool) -> String {
    let run_dir = state.run_dir(run_id);
    let file = |name: &str| run_dir.join(name).display().to_string();
    let mut lines = Vec::new();
    let Found {
        objects,
        added,
        updated,
        deleted,
        ..
    } = found;
    lines.push(if dry_run {
        format!(
            "{objects} objects compared; would add {added}, replace {updated}, delete {deleted}"
        )
    } else {
        format!("{objects} objects compared; added {added}, replaced {updated}, deleted {deleted}")
    });
    if found.overruled > 0 {
        let count = found.overruled;
        let kept = format!("; the versions that lost are kept in {}", file(LOST_DIR));
        let kept = if dry_run { "" } else { &kept };
        lines.push(format!(
            "{count} of these against a change of the other side{kept}"
        ));
    }
    if found.settled > 0 {
        lines.push(format!("left out as decided: {}", found.settled));
    }
    if found.left > 0 {
        lines.push(format!("changed on the written side alone: {}", found.left));
    }
    if found.changed() && !dry_run {
        lines.push(format!("every change is listed in {}", file(CHANGES_FILE)));
    }
    if found.diverged() {
        let names = found.examples.join(", ");
        let list = format!("; all are in {}", file(DIVERGENCE_FILE));
        lines.push(format!(
            "UNDECIDED: {} deleted on one side, {} changed on both: {}{}",
            found.deleted_on_source,
            found.conflicts,
            names.escape_debug(),
            if dry_run { "" } else { &list }
        ));
    }
    if found.failed > 0 {
        lines.push(format!("{} objects failed:", found.failed));
        lines.extend(found.failures.iter().map(|failure| format!("  {failure}")));
    }
    if found.tally.losses() > 0 {
        let names = loss_names(&found.tally.clone().into_marker());
        lines.push(format!("cannot be carried: {}", names.escape_debug()));
    }
    lines.push(String::new());
    lines.join("\n")
}
