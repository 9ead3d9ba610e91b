//! `reverse`: what changed on the served store after cut-over goes back to the legacy store.

mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filestore_common::marker::{MarkerState, SourceIdentity};
use tokio_util::sync::CancellationToken;

use super::held::{Held, admitted, hold, make_new_buckets, state_beside, until_done};
use super::outside::Outside;
use super::text::{made, reconciled};
use super::{Ending, Outcome, Undecided, configured, within};
use crate::connect::{self, Use};
use crate::reconcile::{Deletes, Depth, Found, Rules, Side, Task, reconcile};
use crate::s3::Patience;
use crate::scope::{Scope, ScopedSource, ScopedTarget, View};
use crate::session::{Session, patience, phase};
use crate::source::Source;
use crate::source::volume::VolumeSource;
use crate::target::Target;
use crate::target::s3::S3Target;
use crate::{
    Endpoint, Error, ExitCode, Kind, Location, Phase, Progress, Result, RunOptions, guard,
};

/// What `reverse` may do, beside [`RunOptions::prefer`].
#[derive(Debug, Clone)]
pub struct ReverseOptions {
    /// The clients are gone from the served store: take the rest back, verify, and mark the
    /// migration as rolled back.
    pub complete: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Where a dry run lists it, as JSON lines.
    pub report: Option<PathBuf>,
}

/// Takes changes back: [`RunOptions::from`] is the served store, [`RunOptions::to`] the legacy one.
///
/// # Errors
/// [`Error`] when it could not run to its end; a rerun resumes.
pub async fn reverse(
    options: &RunOptions,
    how: &ReverseOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let served = configured(options)?;
    let mut held = hold(
        state_beside(served, options.state_dir.as_ref())?,
        "take back from",
    )?;
    if held.marker.state == MarkerState::RolledBack {
        let summary = format!(
            "rolled back at {}; nothing to do, the legacy store belongs to its clients",
            held.marker.updated_at
        );
        return Ok(outcome(ExitCode::Ok, Ending::RolledBack, &held, summary));
    }
    let patience = patience(options, &progress, &cancel);
    let legacy = legacy(&options.to, &held.marker.source, &patience).await?;
    let (source, keeps_times) = open_served(served, how, &patience).await?;
    take_back_from(
        source,
        keeps_times,
        legacy,
        options,
        &mut held,
        how,
        &patience,
    )
    .await
}

/// Takes changes back from an opened served store to a legacy one that is known to be the right one.
pub(super) async fn take_back_from(
    source: Arc<dyn Source>,
    keeps_times: bool,
    legacy: SourceIdentity,
    options: &RunOptions,
    held: &mut Held,
    how: &ReverseOptions,
    patience: &Patience,
) -> Result<Outcome> {
    let purpose = if how.dry_run { Use::Look } else { Use::Write };
    let target = connect::target(&options.to, &options.owner, purpose, patience).await?;
    let served = source.clone();
    let session = backwards(options, held, source, target, legacy, patience)?;
    within(session, async |session| {
        take_back(session, held, how, &*served, keeps_times).await
    })
    .await
}

async fn take_back(
    session: &Session<'_>,
    held: &mut Held,
    how: &ReverseOptions,
    served: &dyn Source,
    keeps_times: bool,
) -> Result<Outcome> {
    let options = session.options;
    let progress = session.ends.progress.clone();
    if !how.dry_run {
        guard::prove_different(&session.ends, &options.to.location).await?;
    }
    phase(&*progress, Phase::Reverse, None, None);
    let run_id = held.marker.run_id.clone();
    let state = held.state.clone();
    let task = Task {
        command: "reverse",
        state: &state,
        run_id: &run_id,
        rules: Rules {
            writes: Side::Legacy,
            prefer: options.prefer,
            deletes: Deletes::Apply,
        },
        keeps_times,
        depth: if how.complete {
            Depth::Metadata
        } else {
            Depth::Listings
        },
        dry_run: how.dry_run,
        report: how.report.as_deref(),
        deadline: None,
        max_delete: options.max_delete,
    };
    let found = sweeps(session, held, how, &task).await?;
    let mut exit = found.exit();
    if exit == ExitCode::Ok && found.tally.losses() > 0 && !options.accepts(&found.tally) {
        exit = ExitCode::Failures;
    }
    let mut summary = reconciled(&found, &state, &run_id, how.dry_run);
    if !how.dry_run {
        let known = held.known_buckets()?;
        summary.push_str(&made(&make_new_buckets(&session.ends, &known).await?));
    }
    let scope = Scope::recorded(held.marker.scope.as_ref())?;
    let outside = Outside::of(served, &scope, &session.ends).await?;
    if outside.count > 0 {
        summary.push_str(&outside.to_string());
        if how.complete && exit == ExitCode::Ok && !options.accept_loss {
            exit = ExitCode::Failures;
        }
    }
    if found.conflicts > 0 {
        summary.push_str(
            "decide with --prefer newest, source (the served store) or target (the legacy store)\n",
        );
    }
    let mut ending = Ending::Reversed;
    if how.complete && !how.dry_run && exit == ExitCode::Ok {
        verify::verify(session, held, &found).await?;
        phase(&*progress, Phase::Mark, None, None);
        held.enter(MarkerState::RolledBack)?;
        ending = Ending::RolledBack;
        summary.push_str(
            "verified; rolled back: the legacy store has everything and may serve again\n",
        );
    }
    Ok(Outcome {
        undecided: Undecided::of(&found),
        ..outcome(exit, ending, held, summary)
    })
}

/// Makes the legacy store hold what the served one does: once, or until nothing is left to do.
async fn sweeps(
    session: &Session<'_>,
    held: &mut Held,
    how: &ReverseOptions,
    task: &Task<'_>,
) -> Result<Found> {
    if !how.complete || how.dry_run {
        let found = reconcile(&session.ends, task).await;
        if how.dry_run {
            return admitted(found?, task);
        }
        if found.is_err() {
            held.refresh()?;
        }
        let found = found?;
        held.record(&found)?;
        return Ok(found);
    }
    if held.marker.state != MarkerState::RollingBack {
        held.enter(MarkerState::RollingBack)?;
    }
    let found = until_done(&session.ends, task, Phase::Reverse, |found| {
        held.record(found)
    });
    let found = found.await;
    if found.is_err() {
        held.refresh()?;
    }
    found?.ok_or_else(|| {
        let from = session.options.from.as_ref();
        let served = from.map(|from| from.location.to_string());
        let problem = "keeps changing: its clients are still at work";
        Error::new(
            Kind::Refused,
            "take back from",
            served.unwrap_or_default(),
            problem,
        )
        .with_cure("lead them away from it first, then run this again")
    })
}

/// The way back of the same objects, to buckets of their old names.
fn backwards<'a>(
    options: &'a RunOptions,
    held: &Held,
    source: Arc<dyn Source>,
    target: Arc<dyn Target>,
    legacy: SourceIdentity,
    patience: &Patience,
) -> Result<Session<'a>> {
    let scope = Scope::recorded(held.marker.scope.as_ref())?;
    let view = Arc::new(View::backwards(scope));
    let source = ScopedSource::wrap(source, &view);
    let target = ScopedTarget::wrap(target, &view, true);
    let whole = Scope::default();
    let mut session = Session::seen(options, source.clone(), target, legacy, patience, whole)?;
    // Whatever it may hide from its listings, the old store is asked to take everything.
    session.ends.source = source;
    Ok(session)
}

pub(super) fn outcome(exit: ExitCode, ending: Ending, held: &Held, summary: String) -> Outcome {
    Outcome {
        exit,
        ending,
        marker: Some(held.marker.clone()),
        summary,
        apart: None,
        undecided: None,
    }
}

/// Which store `--to` is: it must be the one that was taken over.
async fn legacy(
    to: &Endpoint,
    expected: &SourceIdentity,
    patience: &Patience,
) -> Result<SourceIdentity> {
    refuse_drive(to)?;
    let identity = connect::source(to, patience).await?.identity().await?;
    guard::require_source(expected, &identity)?;
    Ok(identity)
}

/// A drive is never written.
pub(super) fn refuse_drive(to: &Endpoint) -> Result<()> {
    let Location::MinioDrive(path) = &to.location else {
        return Ok(());
    };
    let object = path.display().to_string();
    let problem = "a MinIO drive is only read";
    Err(Error::new(Kind::Usage, "write to", object, problem)
        .with_cure("start that MinIO and give its URL"))
}

/// The served store, and whether it keeps the legacy store's times. With `complete` a volume is
/// held alone: no gateway may be at work on it.
async fn open_served(
    served: &Endpoint,
    how: &ReverseOptions,
    patience: &Patience,
) -> Result<(Arc<dyn Source>, bool)> {
    match &served.location {
        Location::Volume(path) if how.complete && !how.dry_run => {
            let cure = "stop the gateway first; without --complete it may serve meanwhile";
            Ok((exclusively(path, cure).await?, true))
        }
        Location::Http { .. } => {
            let source = connect::source(served, patience).await?;
            let looked = S3Target::connect(served, patience.clone()).await?;
            Ok((source, looked.traits().keeps_last_modified))
        }
        _ => Ok((connect::source(served, patience).await?, true)),
    }
}

/// A volume that nobody else has open.
pub(super) async fn exclusively(path: &Path, cure: &'static str) -> Result<Arc<dyn Source>> {
    let source = VolumeSource::alone(path).await.map_err(|error| {
        if error.kind == Kind::Refused {
            error.with_cure(cure)
        } else {
            error
        }
    })?;
    Ok(Arc::new(source))
}
