//! `roll-back`: the whole way back in one command, for a Job that has the volume and a private
//! legacy store to itself.
//!
//! ```text
//! cutover ─▶ rollingBack ─▶ legacy store answers, and is the one ─▶ reverse ─▶ verify ─▶ rolledBack
//!    ▲            │ --abandon
//!    └────────────┘
//! ```
//!
//! The marker is written first: from then on no gateway serves writes from the volume, so that
//! nothing is written that the way back does not see.

use std::path::Path;
use std::sync::Arc;

use filestore_common::marker::{MarkerState, SourceIdentity};
use tokio_util::sync::CancellationToken;

use super::held::{Held, hold, state_beside};
use super::reverse::{ReverseOptions, exclusively, outcome, refuse_drive, take_back_from};
use super::{Ending, Outcome, configured};
use crate::connect::{self, Presence};
use crate::s3::Patience;
use crate::session::{patience, phase};
use crate::{
    Endpoint, Error, ExitCode, Kind, Location, Phase, Progress, Result, RunOptions, deadline, guard,
};

const WHAT: &str = "roll back";

/// Takes everything back and marks the volume: [`RunOptions::from`] is the served volume,
/// [`RunOptions::to`] the legacy store, [`RunOptions::run_id`] the migration.
///
/// # Errors
/// [`Error`] when it could not run to its end; a rerun goes on. From the marker on it stays
/// `rollingBack`.
pub async fn roll_back(
    options: &RunOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    deadline::keep(options.deadline, cancel, async |cancel| {
        let served = configured(options)?;
        refuse_drive(&options.to)?;
        let path = volume(served)?;
        let mut held = held(options)?;
        if held.marker.state == MarkerState::RolledBack {
            let summary = format!(
                "rolled back at {}; nothing to do, the legacy store belongs to its clients",
                held.marker.updated_at
            );
            return Ok(outcome(ExitCode::Ok, Ending::RolledBack, &held, summary));
        }
        let source = exclusively(path, "stop the gateway first").await?;
        if held.marker.state != MarkerState::RollingBack {
            held.enter(MarkerState::RollingBack)?;
        }
        let patience = patience(options, &progress, &cancel);
        let legacy = legacy(options, &held.marker.source, &patience).await?;
        let how = ReverseOptions {
            complete: true,
            dry_run: false,
            report: None,
        };
        let done = take_back_from(source, true, legacy, options, &mut held, &how, &patience);
        let mut done = done.await?;
        if done.exit != ExitCode::Ok {
            done.ending = Ending::Incomplete;
        }
        Ok(done)
    })
    .await
}

/// Gives a way back up that is not at its end: the volume belongs to its clients again. What the
/// legacy store was given meanwhile stays there, and is known.
///
/// # Errors
/// [`Kind::Refused`] after its end, or while it is at work.
pub fn abandon(options: &RunOptions) -> Result<Outcome> {
    let mut held = held(options)?;
    let since = |held: &Held| held.marker.cutover_at.clone().unwrap_or_default();
    let summary = match held.marker.state {
        MarkerState::RollingBack => {
            held.enter(MarkerState::Cutover)?;
            format!("given up: cut over since {}, as before", since(&held))
        }
        MarkerState::RolledBack => {
            let problem = "was rolled back; the legacy store serves its clients again";
            let run_id = held.marker.run_id.clone();
            return Err(Error::new(Kind::Refused, WHAT, run_id, problem)
                .with_cure("take it over again, with a new id"));
        }
        _ => format!("nothing to give up: cut over since {}", since(&held)),
    };
    Ok(outcome(ExitCode::Ok, Ending::Abandoned, &held, summary))
}

fn volume(served: &Endpoint) -> Result<&Path> {
    match &served.location {
        Location::Volume(path) => Ok(path),
        location => {
            let problem = "is no volume, which nobody else could write to meanwhile";
            Err(Error::new(Kind::Usage, WHAT, location.to_string(), problem)
                .with_cure("give volume:PATH; over S3 there is `reverse --complete`"))
        }
    }
}

/// The migration that is named, locked against other programs.
fn held(options: &RunOptions) -> Result<Held> {
    let served = configured(options)?;
    let Some(id) = &options.run_id else {
        let location = served.location.to_string();
        let problem = "which migration is to be undone is not given";
        return Err(Error::new(Kind::Usage, WHAT, location, problem)
            .with_cure("name it with --id; `filestore migrate status` shows it"));
    };
    let held = hold(state_beside(served, options.state_dir.as_ref())?, WHAT)?;
    if held.marker.run_id == *id {
        return Ok(held);
    }
    let problem = format!("the volume holds migration {}", held.marker.run_id);
    Err(Error::new(Kind::Refused, WHAT, id.clone(), problem)
        .with_cure("give that id, if that is the one to undo"))
}

/// Waits for the legacy store; it must be the one that was taken over.
async fn legacy(
    options: &RunOptions,
    expected: &SourceIdentity,
    patience: &Patience,
) -> Result<SourceIdentity> {
    phase(&*patience.progress, Phase::Connect, None, None);
    // A name that is not known yet is waited for like a port that is not open yet.
    let found = connect::wait_for_source(&options.to, patience, options.wait, false);
    let source = match found.await? {
        Presence::Present(source) => source,
        Presence::Absent(why) => {
            let location = options.to.location.to_string();
            return Err(Error::new(Kind::Absent, "open", location, why)
                .with_cure("start the legacy store there"));
        }
    };
    let identity = source.identity().await?;
    guard::require_source(expected, &identity)?;
    Ok(identity)
}
