//! `run --again`, and `copy` and `final` with a new id: a store that was rolled back is taken over
//! again. The target holds what the run before carried and what its clients wrote, so both sides
//! are brought together key by key instead of making one equal to the other.

mod foreseen;
mod left;
mod read;
mod round;

use std::sync::Arc;
use std::time::SystemTime;

use filestore_common::marker::{Marker, MarkerState, SourceIdentity};

use super::held::{known_buckets, make_new_buckets, record, refresh, until_done};
use super::text::{made, reconciled};
use super::{Ending, Outcome, Stage, Undecided, hold, moved_on, stage, within};
use crate::connect::{self, Presence};
use crate::plan::loss_names;
use crate::reconcile::{Deletes, Depth, Rules, Side, Task, carry_over, reconcile};
use crate::s3::Patience;
use crate::session::{Session, phase, state_of};
use crate::source::Source;
use crate::state::{State, new_marker, rfc3339};
use crate::verify::Mode;
use crate::{Endpoint, Error, ExitCode, Kind, Phase, Result, RunOptions, guard, manifest};

pub(super) use foreseen::foreseen;
pub(super) use round::asked;

/// Which command takes it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `run --again`: to its end.
    Run,
    /// `copy`: what the legacy store got meanwhile, while it serves; nothing is deleted.
    Copy,
    /// `final`: the rest, its writers stopped.
    Final,
}

impl Way {
    fn command(self) -> &'static str {
        match self {
            Self::Run => "run --again",
            Self::Copy => "copy",
            Self::Final => "final",
        }
    }
}

/// Waits for the source first.
pub(super) async fn run(
    options: &RunOptions,
    from: &Endpoint,
    expected: &SourceIdentity,
    patience: &Patience,
) -> Result<Outcome> {
    phase(&*patience.progress, Phase::Connect, None, None);
    let (absent_after, patient) = (options.absent_after, options.wait_for_credentials);
    match connect::wait_for_source(from, patience, absent_after, patient).await? {
        Presence::Present(source) => self::from(options, source, patience, Way::Run).await,
        Presence::Absent(why) => {
            let problem = format!("the store to take over again does not exist ({why})");
            Err(
                Error::new(Kind::Absent, "open", expected.location.clone(), problem)
                    .with_cure("bring it back, or mount its volume"),
            )
        }
    }
}

/// Takes over from a source that is open already.
pub(super) async fn from(
    options: &RunOptions,
    source: Arc<dyn Source>,
    patience: &Patience,
    way: Way,
) -> Result<Outcome> {
    let Some(state) = state_of(options) else {
        let target = options.to.location.to_string();
        return Err(
            Error::new(Kind::Usage, "migrate to", target, "has no state")
                .with_cure("give the directory of marker and manifest with --state-dir"),
        );
    };
    // First, so that the marker and what follows from it stay as they are read.
    let lock = state.lock("migrate to", false)?;
    let marker = state.marker()?;
    let Stage::Again(marker) = stage(options, marker.as_ref())? else {
        return Err(moved_on(options));
    };
    if way != Way::Run && marker.state == MarkerState::RollingBack {
        return Err(moved_on(options));
    }
    let mut session = Session::open_migrated(options, source, true, patience).await?;
    session.lock = Some(lock);
    within(session, async |session| {
        guard::require_source(&marker.source, &session.identity)?;
        guard::prove_different(&session.ends, &options.to.location).await?;
        if options.needs_plan() {
            precheck(session, &state, marker, way).await?;
        }
        let over = matches!(
            marker.state,
            MarkerState::RollingBack | MarkerState::RolledBack
        );
        let marker = if over {
            begin(session, &state, marker)?
        } else {
            same_run(options, marker)?;
            marker.clone()
        };
        proceed(session, &state, marker, way).await
    })
    .await
}

/// Goes on with a run that was begun, under its own name.
fn same_run(options: &RunOptions, marker: &Marker) -> Result<()> {
    match &options.run_id {
        Some(id) if *id != marker.run_id => {
            let target = options.to.location.to_string();
            let problem = format!("holds the unfinished migration {}, not {id}", marker.run_id);
            Err(Error::new(Kind::Refused, "migrate to", target, problem)
                .with_cure("go on with that id, or without --id"))
        }
        _ => Ok(()),
    }
}

async fn proceed(
    session: &mut Session<'_>,
    state: &State,
    mut marker: Marker,
    way: Way,
) -> Result<Outcome> {
    let hold_file = session.options.hold_file.clone();
    if way != Way::Copy && hold_file.is_none() {
        return take_over(session, state, marker, way).await;
    }
    let round = round::round(session, state, &mut marker).await?;
    match hold_file.filter(|_| way == Way::Final && round.exit == ExitCode::Ok) {
        Some(file) => {
            hold::wait(session, &file).await?;
            take_over(session, state, marker, way).await
        }
        None => Ok(round),
    }
}

/// The name of a new run, which no run on this volume had.
fn new_id(options: &RunOptions, state: &State, old: &Marker) -> Result<String> {
    let now = rfc3339(SystemTime::now()).replace([':', '-'], "");
    let given = options.run_id.clone();
    let run_id = given.unwrap_or_else(|| format!("run-{now}"));
    if run_id == old.run_id {
        let problem = "is the id of the run that was rolled back";
        return Err(
            Error::new(Kind::Refused, "take over again as", run_id, problem)
                .with_cure("give another one with --id"),
        );
    }
    if state.has_ended(&run_id) {
        let problem = "is the id of an earlier run on this volume";
        return Err(
            Error::new(Kind::Refused, "take over again as", run_id, problem)
                .with_cure("give another one with --id"),
        );
    }
    Ok(run_id)
}

/// The new run begins with the manifest of the old one.
fn begin(session: &Session<'_>, state: &State, old: &Marker) -> Result<Marker> {
    let run_id = new_id(session.options, state, old)?;
    state.keep(old)?;
    manifest::copy(&state.manifest(&old.run_id), &state.manifest(&run_id))?;
    carry_over(&state.run_dir(&old.run_id), &state.run_dir(&run_id))?;
    let mut marker = new_marker(&run_id, session.identity.clone());
    marker.follows = Some(old.run_id.clone());
    marker.scope.clone_from(&old.scope);
    // Until it is done: those that both sides had.
    marker.source.buckets.clone_from(&old.source.buckets);
    state.set_marker(&mut marker)?;
    Ok(marker)
}

fn task<'a>(session: &Session<'_>, state: &'a State, run_id: &'a str, way: Way) -> Task<'a> {
    Task {
        command: way.command(),
        state,
        run_id,
        rules: Rules {
            writes: Side::Served,
            prefer: session.options.prefer,
            deletes: Deletes::Apply,
        },
        keeps_times: session.ends.target.traits().keeps_last_modified,
        depth: Depth::Metadata,
        dry_run: false,
        report: None,
        deadline: None,
        max_delete: session.options.max_delete,
    }
}

async fn take_over(
    session: &Session<'_>,
    state: &State,
    mut marker: Marker,
    way: Way,
) -> Result<Outcome> {
    let options = session.options;
    let run_id = marker.run_id.clone();
    let task = task(session, state, &run_id, way);
    let step = match way {
        Way::Final => Phase::Final,
        _ => Phase::Merge,
    };
    phase(&*session.ends.progress, step, None, None);
    let still = session.ends.source.still().await?;
    let found = until_done(&session.ends, &task, step, |found| {
        record(state, &mut marker, found)
    });
    let found = found.await;
    if found.is_err() {
        refresh(state, &mut marker)?;
    }
    let Some(found) = found? else {
        return Err(moving(session));
    };
    let new_buckets = make_new_buckets(&session.ends, &known_buckets(&marker)?).await?;
    let mut exit = found.exit();
    let mut summary = reconciled(&found, state, &run_id, false) + &made(&new_buckets);
    if exit == ExitCode::Ok && options.verify != Mode::Listing {
        exit = read::agreed(session, found.objects, &mut summary).await?;
    }
    if exit == ExitCode::Ok && session.ends.source.still().await? != still {
        return Err(moving(session));
    }
    let tally = left::behind(session, &found).await?;
    if exit == ExitCode::Ok {
        exit = left::judge(options, &tally, &mut summary);
    }
    if found.conflicts > 0 {
        summary.push_str("decide with --prefer newest, source or target\n");
    }
    let mut ending = Ending::Incomplete;
    if exit == ExitCode::Ok {
        ending = Ending::Migrated;
        marker.carried.buckets = session.identity.buckets.len() as u64;
        phase(&*session.ends.progress, Phase::Mark, None, None);
        let hash = tally.hash();
        marker.not_carried = tally.into_marker();
        let left = !marker.not_carried.is_empty();
        marker.not_carried_hash = left.then_some(hash);
        marker.accepted_by = left.then(|| options.acceptance()).flatten();
        marker.source = session.identity.clone();
        marker.state = MarkerState::Verified;
        if options.cutover {
            marker.state = MarkerState::Cutover;
            marker.cutover_at = Some(rfc3339(SystemTime::now()));
        }
        state.set_marker(&mut marker)?;
        summary.push_str("verified; taken over again, what clients wrote to either side is kept\n");
    }
    Ok(Outcome {
        exit,
        ending,
        marker: Some(marker),
        summary,
        apart: None,
        undecided: Undecided::of(&found),
    })
}

/// Refuses before anything is written, where the flags ask for what only a look at everything tells.
async fn precheck(session: &Session<'_>, state: &State, marker: &Marker, way: Way) -> Result<()> {
    phase(&*session.ends.progress, Phase::Plan, None, None);
    let look = Task {
        dry_run: true,
        ..task(session, state, &marker.run_id, way)
    };
    let found = reconcile(&session.ends, &look).await?;
    let tally = left::behind(session, &found).await?;
    let options = session.options;
    let (problem, cure) = if let Some(left) = tally.versions_left()
        && options.fail_on_versions
    {
        left
    } else if options.is_another_list(&tally) {
        let names = loss_names(&tally.clone().into_marker());
        let problem = format!(
            "another list than the accepted one would stay behind: {} ({names})",
            tally.hash()
        );
        (problem, "accept that one, if it may")
    } else {
        return Ok(());
    };
    let target = options.to.location.to_string();
    Err(Error::new(Kind::Refused, "migrate to", target, problem).with_cure(cure))
}

fn moving(session: &Session<'_>) -> Error {
    let location = session.identity.location.clone();
    let problem = "changed during the final pass: somebody writes to it";
    Error::new(Kind::Refused, "read", location, problem).with_cure("stop its writers first")
}
