//! What a target's marker and checkpoint say.

use std::fmt;

use filestore_common::marker::{Marker, MarkerState};
use serde::Serialize;

use crate::plan::human;
use crate::session::state_of;
use crate::state::Checkpoint;
use crate::{Error, Kind, Result, RunOptions};

/// Where a target's migration stands.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Marker; `None` when no migration was begun.
    pub marker: Option<Marker>,
    /// Checkpoint of the run that the marker names.
    pub checkpoint: Option<Checkpoint>,
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
    Ok(Status { marker, checkpoint })
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
        let since = marker.cutover_at.as_deref().unwrap_or(&marker.updated_at);
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
        for (reason, left) in &marker.not_carried {
            writeln!(f, "left    {reason}: {}", left.count)?;
        }
        Ok(())
    }
}
