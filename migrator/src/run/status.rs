//! What a target's marker and checkpoint say.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use filestore_common::marker::{Marker, MarkerState};
use serde::Serialize;

use crate::plan::human;
use crate::reconcile::{CHANGES_FILE, DIVERGENCE_FILE};
use crate::session::state_of;
use crate::state::{Checkpoint, State};
use crate::{Error, Kind, Result, RunOptions};

/// Where a target's migration stands.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Marker; `None` when no migration was begun.
    pub marker: Option<Marker>,
    /// Checkpoint of the run that the marker names.
    pub checkpoint: Option<Checkpoint>,
    /// What is undecided since the hand-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Divergence>,
    /// File that lists what `run`, `merge` and `reverse` changed since the hand-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<PathBuf>,
}

/// Keys that wait for a decision.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Divergence {
    /// Changed on both sides.
    pub conflicts: u64,
    /// Deleted on one side only.
    pub deleted: u64,
    /// File that lists them.
    pub report: PathBuf,
}

fn divergence(state: &State, run_id: &str) -> Result<Option<Divergence>> {
    let report = state.run_dir(run_id).join(DIVERGENCE_FILE);
    let failed = |error: std::io::Error| {
        let path = report.display().to_string();
        Error::new(Kind::Other, "read", path, error.to_string())
    };
    let file = match std::fs::File::open(&report) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let (mut conflicts, mut deleted) = (0, 0);
    for line in BufReader::new(file).lines() {
        let line = line.map_err(failed)?;
        let line: serde_json::Value = serde_json::from_str(&line)
            .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        match line.get("how").and_then(serde_json::Value::as_str) {
            Some("deletedOnSource") => deleted += 1,
            _ => conflicts += 1,
        }
    }
    Ok((conflicts + deleted > 0).then_some(Divergence {
        conflicts,
        deleted,
        report,
    }))
}

/// Reads marker and checkpoint; the target is not opened, a gateway or a copy may be at work.
///
/// # Errors
/// [`Kind::Usage`] when the target has no state of its own and no directory is given.
pub fn status(options: &RunOptions) -> Result<Status> {
    let Some(state) = state_of(options) else {
        let location = options.to.location.to_string();
        return Err(Error::new(
            Kind::Usage,
            "read",
            location,
            "an S3 target keeps no marker",
        )
        .with_cure("give the directory with --state-dir"));
    };
    let marker = state.marker()?;
    let checkpoint = marker
        .as_ref()
        .map(|marker| state.checkpoint(&marker.run_id))
        .transpose()?;
    let run = marker.as_ref().map(|marker| marker.run_id.as_str());
    let divergence = match run {
        Some(run) => divergence(&state, run)?,
        None => None,
    };
    let changes = run.map(|run| state.run_dir(run).join(CHANGES_FILE));
    Ok(Status {
        marker,
        checkpoint,
        divergence,
        // Empty while nothing was changed.
        changes: changes.filter(|path| path.metadata().is_ok_and(|about| about.len() > 0)),
    })
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(marker) = &self.marker else {
            return writeln!(f, "no migration was begun here");
        };
        let state = match marker.state {
            MarkerState::Copying => "copying",
            MarkerState::Verified => "verified",
            MarkerState::Cutover => "cut over",
            MarkerState::RollingBack => "rolling back",
            MarkerState::RolledBack => "rolled back",
        };
        writeln!(f, "run     {} ({})", marker.run_id, marker.holder)?;
        let since = match marker.state {
            MarkerState::RollingBack | MarkerState::RolledBack => &marker.updated_at,
            _ => marker.cutover_at.as_ref().unwrap_or(&marker.updated_at),
        };
        let diverged = if marker.diverged { ", diverged" } else { "" };
        writeln!(f, "state   {state} since {since}{diverged}")?;
        writeln!(
            f,
            "source  {} ({})",
            marker.source.location, marker.source.kind
        )?;
        if let (MarkerState::Copying, Some(checkpoint)) = (marker.state, &self.checkpoint) {
            writeln!(
                f,
                "copied  {} objects, {} so far, in pass {}",
                checkpoint.copied,
                human(checkpoint.bytes),
                checkpoint.pass
            )?;
        }
        if let Some(digest) = &marker.digest {
            let carried = &marker.carried;
            writeln!(
                f,
                "carried {} buckets, {} objects, {}",
                carried.buckets,
                carried.objects,
                human(carried.bytes)
            )?;
            writeln!(f, "digest  {digest}")?;
        }
        if let Some(open) = &self.divergence {
            writeln!(
                f,
                "open    {} changed on both sides, {} deleted on one: {}",
                open.conflicts,
                open.deleted,
                open.report.display()
            )?;
        }
        if let Some(changes) = &self.changes {
            writeln!(f, "changes {}", changes.display())?;
        }
        for (reason, left) in &marker.not_carried {
            writeln!(f, "left    {reason}: {}", left.count)?;
        }
        Ok(())
    }
}
