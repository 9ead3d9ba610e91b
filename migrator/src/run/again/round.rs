//! `copy` and the begin of `final`, of a store that was rolled back.

use std::fmt::Write as _;

use filestore_common::marker::{Marker, MarkerState};

use super::left;
use super::{Way, task};
use crate::reconcile::{Deletes, Depth, reconcile};
use crate::run::held::{known_buckets, make_new_buckets, record, refresh};
use crate::run::text::{made, reconciled};
use crate::run::{Apart, Ending, Outcome, Undecided, marker};
use crate::session::{Session, phase};
use crate::state::State;
use crate::{Error, ExitCode, Kind, Phase, Result, RunOptions};

/// Whether `copy` or `final` is about a store that was rolled back: a new id asks to take it over
/// again, or that was begun. The options for it.
///
/// # Errors
/// [`Kind::Usage`] for a part of the work, which several workers cannot share here.
pub(in crate::run) fn asked(options: &RunOptions) -> Result<Option<RunOptions>> {
    let Some(marker) = marker(options)? else {
        return Ok(None);
    };
    let begun = marker.follows.is_some()
        && matches!(marker.state, MarkerState::Copying | MarkerState::Verified);
    let new = marker.state == MarkerState::RolledBack
        && options
            .run_id
            .as_ref()
            .is_some_and(|id| *id != marker.run_id);
    if !begun && !new {
        return Ok(None);
    }
    if let Some(shard) = options.shard {
        let target = options.to.location.to_string();
        let problem = "a store that was rolled back is taken over again by one worker";
        let error = Error::new(Kind::Usage, "migrate to", target, problem);
        return Err(error.with_cure(format!("leave --shard {shard} out")));
    }
    Ok(Some(RunOptions {
        again: true,
        ..options.clone()
    }))
}

/// A round while the legacy store serves: what it got since is brought over where no client of the
/// target changed it. Conflicts are listed, deletions are left for the end.
pub(super) async fn round(
    session: &Session<'_>,
    state: &State,
    marker: &mut Marker,
) -> Result<Outcome> {
    phase(&*session.ends.progress, Phase::Copy, None, None);
    let run_id = marker.run_id.clone();
    let mut task = task(session, state, &run_id, Way::Copy);
    task.rules.deletes = Deletes::List;
    task.depth = Depth::Changes;
    let found = reconcile(&session.ends, &task).await;
    if found.is_err() {
        refresh(state, marker)?;
    }
    let mut found = found?;
    let gone = std::mem::take(&mut found.deleted_on_source);
    record(state, marker, &found)?;
    let made_now = make_new_buckets(&session.ends, &known_buckets(marker)?).await?;
    let tally = left::behind(session, &found).await?;
    let mut exit = found.exit();
    let mut summary = reconciled(&found, state, &run_id, false) + &made(&made_now);
    if gone > 0 {
        writeln!(summary, "deleted on the source, left for the end: {gone}").ok();
    }
    if exit == ExitCode::Ok {
        exit = left::judge(session.options, &tally, &mut summary);
    }
    if found.conflicts > 0 {
        summary.push_str("decide with --prefer newest, source or target\n");
    }
    Ok(Outcome {
        exit,
        ending: Ending::Incomplete,
        marker: Some(marker.clone()),
        summary,
        apart: Some(Apart {
            differed: found.added + found.updated + found.conflicts + found.failed,
            only_on_target: gone,
        }),
        undecided: Undecided::of(&found),
    })
}
