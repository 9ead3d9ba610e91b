//! The commands: each opens a session, makes its steps, and says how it ended.

mod after;
mod again;
mod before;
mod held;
mod hold;
mod merge;
mod outside;
mod reverse;
mod roll_back;
mod stage;
mod status;
mod text;

use std::path::Path;
use std::sync::Arc;

use filestore_common::marker::Marker;
use tokio_util::sync::CancellationToken;

use crate::connect;
use crate::deadline;
use crate::pass::Report;
use crate::plan::Plan;
use crate::policy::Pass;
use crate::reconcile::Found;
use crate::session::{Session, patience, phase};
use crate::source::Source;
use crate::verify::{self, Depth, Findings, Mode, Outputs};
use crate::{Endpoint, Error, Event, ExitCode, Kind, Phase, Progress, Result, RunOptions};

use again::Way;
use hold::Hold;
pub use merge::{MergeOptions, merge, merge_from};
pub use reverse::{ReverseOptions, reverse};
pub use roll_back::{abandon, roll_back};
use stage::{Stage, marker, moved_on, stage};
pub use status::{Divergence, Status, status};

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// There is no legacy store.
    NothingToMigrate,
    /// Copied, verified, marked.
    Migrated,
    /// Was cut over before; the source was compared with the manifest.
    Rechecked,
    /// Was cut over before; the source was not (or not completely) compared.
    NotRechecked,
    /// A divergence was resolved, or what is left of it is listed.
    Merged,
    /// What changed on the target was taken back to the legacy store, which may do so again.
    Reversed,
    /// The legacy store has everything and serves again.
    RolledBack,
    /// A way back was given up; the target belongs to its clients again.
    Abandoned,
    /// Not finished: see `exit`.
    Incomplete,
}

/// How far apart both sides were, as a pass found them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Apart {
    /// Objects that the target did not have, or another version of; copied since, or failed.
    pub differed: u64,
    /// Objects that only the target has; a final pass deletes them.
    pub only_on_target: u64,
}

impl From<&Report> for Apart {
    fn from(report: &Report) -> Self {
        Self {
            differed: report.created + report.replaced + report.failed,
            only_on_target: report.extraneous,
        }
    }
}

/// What waits for a decision, both sides having changed since the hand-over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undecided {
    /// Keys that both sides changed.
    pub changed_on_both: u64,
    /// Keys that one side deleted.
    pub deleted_on_one: u64,
    /// The first names of them.
    pub examples: Vec<String>,
}

impl Undecided {
    fn of(found: &Found) -> Option<Self> {
        found.diverged().then(|| Self {
            changed_on_both: found.conflicts,
            deleted_on_one: found.deleted_on_source,
            examples: found.examples.clone(),
        })
    }
}

/// The result of a command that ran to its end.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit code.
    pub exit: ExitCode,
    /// What came of it.
    pub ending: Ending,
    /// Marker as it is on the target now.
    pub marker: Option<Marker>,
    /// A few lines for people.
    pub summary: String,
    /// What `copy` and `final` found.
    pub apart: Option<Apart>,
    /// What `merge`, `reverse`, `roll-back` and a second take-over could not decide.
    pub undecided: Option<Undecided>,
}

fn configured(options: &RunOptions) -> Result<&Endpoint> {
    options.from.as_ref().ok_or_else(|| {
        Error::new(Kind::Usage, "open", "the source", "is not given")
            .with_cure("give it with --from")
    })
}

/// Makes the steps of a command in an opened session and lets go of the target, however they end.
async fn within<T>(
    mut session: Session<'_>,
    steps: impl AsyncFnOnce(&mut Session<'_>) -> Result<T>,
) -> Result<T> {
    let done = steps(&mut session).await;
    session.close().await;
    done
}

/// Compares both sides and writes nothing.
///
/// # Errors
/// [`Error`] of either side.
pub async fn plan(
    options: &RunOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Plan> {
    deadline::keep(options.deadline, cancel, async |cancel| {
        let patience = patience(options, &progress, &cancel);
        let source = connect::source(configured(options)?, &patience).await?;
        if let Some(again) = again::foreseen(options)? {
            let options = &again.options;
            let session = Session::open_migrated(options, source, false, &patience).await?;
            return within(session, async |session| again.plan(session).await).await;
        }
        let session = Session::open(options, source, false, &patience).await?;
        within(session, async |session| {
            let plan = session.planned(Some(options.measure)).await;
            let unfitted = session.view.unfitted();
            if !unfitted.is_empty() {
                progress.event(&Event::Note(unfitted.trim_end()));
            }
            plan
        })
        .await
    })
    .await
}

/// The bulk pass: copies what differs, deletes nothing; may be repeated while writers are at work.
///
/// # Errors
/// [`Error`] when it could not run to its end.
pub async fn copy(
    options: &RunOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    deadline::keep(options.deadline, cancel, async |cancel| {
        let patience = patience(options, &progress, &cancel);
        let source = connect::source(configured(options)?, &patience).await?;
        copy_from(source, options, progress.clone(), cancel).await
    })
    .await
}

/// [`copy`] from a source that is open already.
///
/// # Errors
/// As [`copy`].
pub async fn copy_from(
    source: Arc<dyn Source>,
    options: &RunOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let patience = patience(options, &progress, &cancel);
    if let Some(options) = again::asked(options)? {
        return Box::pin(again::from(&options, source, &patience, Way::Copy)).await;
    }
    let session = Session::open(options, source, true, &patience).await?;
    within(session, async |session| {
        session.precheck().await?;
        session.begin(Pass::Copy).await?;
        phase(&*progress, Phase::Copy, None, None);
        let report = session.copy_pass().await?;
        Ok(Outcome {
            exit: report.exit(options.accepts(&report.tally)),
            ending: Ending::Incomplete,
            marker: session.marker.clone(),
            summary: report.to_string() + &session.view.unfitted(),
            apart: Some(Apart::from(&report)),
            undecided: None,
        })
    })
    .await
}

/// The final pass, writers stopped: difference with deletions, verification, marker. With
/// [`RunOptions::hold_file`] it waits for that before it begins, everything else being done.
///
/// # Errors
/// [`Error`] when it could not run to its end.
pub async fn finish(
    options: &RunOptions,
    mode: Mode,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    deadline::keep(options.deadline, cancel, async |cancel| {
        let patience = patience(options, &progress, &cancel);
        let source = connect::source(configured(options)?, &patience).await?;
        finish_from(source, options, mode, progress.clone(), cancel).await
    })
    .await
}

/// [`finish`] from a source that is open already.
///
/// # Errors
/// As [`finish`].
pub async fn finish_from(
    source: Arc<dyn Source>,
    options: &RunOptions,
    mode: Mode,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    if let Some(file) = &options.hold_file {
        hold::check(file)?;
    }
    let patience = patience(options, &progress, &cancel);
    if let Some(options) = again::asked(options)? {
        let options = RunOptions {
            verify: mode,
            ..options
        };
        return Box::pin(again::from(&options, source, &patience, Way::Final)).await;
    }
    let session = Session::open(options, source, true, &patience).await?;
    within(session, async |session| {
        session.precheck().await?;
        session.begin(Pass::Final).await?;
        let mut copied = None;
        if let Some(file) = &options.hold_file {
            match hold::hold(session, file).await? {
                Hold::Go(report) => copied = Some(*report),
                Hold::Ended(outcome) => return Ok(*outcome),
            }
        }
        before::conclude(session, mode, copied).await
    })
    .await
}

/// Compares both sides key by key.
///
/// # Errors
/// [`Error`] when it could not run to its end.
pub async fn verify(
    options: &RunOptions,
    depth: Depth,
    report: Option<&Path>,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<(ExitCode, Findings)> {
    let findings = deadline::keep(options.deadline, cancel, async |cancel| {
        let patience = patience(options, &progress, &cancel);
        let source = connect::source(configured(options)?, &patience).await?;
        let mut session = Session::open(options, source, false, &patience).await?;
        session.look_at_shard().await?;
        phase(&*progress, Phase::Verify, None, None);
        let outputs = Outputs {
            report,
            manifest: None,
        };
        within(session, async |session| {
            verify::verify(&session.ends, depth, &outputs).await
        })
        .await
    })
    .await?;
    let exit = if findings.failed > 0 {
        ExitCode::Failures
    } else if findings.differences() > 0 {
        ExitCode::Differences
    } else {
        ExitCode::Ok
    };
    Ok((exit, findings))
}

/// Brings the target to where a gateway may serve from it: nothing to migrate; copy, verify and
/// mark; or, after cut-over, a bounded and never destructive comparison. Can be killed and
/// repeated at any point. The target is closed when this returns.
///
/// # Errors
/// [`Error`] when it could not run to its end; its [`Error::exit_code`] is the exit code.
pub async fn run(
    options: &RunOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let marker = marker(options)?;
    match (&options.from, stage(options, marker.as_ref())?) {
        // Bounded by itself, and not to fail: a gateway waits behind it.
        (from, Stage::After(marker)) => {
            let patience = patience(options, &progress, &cancel);
            let source = from.as_ref().map(|from| connect::source(from, &patience));
            after::run(options, marker.clone(), &patience, source).await
        }
        (Some(from), Stage::Again(marker)) => {
            deadline::keep(options.deadline, cancel, async |cancel| {
                let patience = patience(options, &progress, &cancel);
                again::run(options, from, &marker.source, &patience).await
            })
            .await
        }
        (Some(from), Stage::Before) => {
            deadline::keep(options.deadline, cancel, async |cancel| {
                let patience = patience(options, &progress, &cancel);
                before::run(options, from, marker, &patience).await
            })
            .await
        }
        (None, Stage::Before | Stage::Again(_)) => match marker {
            None => Ok(Outcome {
                exit: ExitCode::Ok,
                ending: Ending::NothingToMigrate,
                marker: None,
                summary: "nothing to migrate: no source is configured".into(),
                apart: None,
                undecided: None,
            }),
            Some(marker) => {
                let target = options.to.location.to_string();
                let problem = format!(
                    "holds an unfinished migration from {}",
                    marker.source.location
                );
                Err(Error::new(Kind::Refused, "migrate to", target, problem)
                    .with_cure("configure that source again to finish it"))
            }
        },
    }
}

/// [`run`] from a source that is open already.
///
/// # Errors
/// As [`run`].
pub async fn run_from(
    source: Arc<dyn Source>,
    options: &RunOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let patience = patience(options, &progress, &cancel);
    let marker = marker(options)?;
    match stage(options, marker.as_ref())? {
        Stage::After(marker) => {
            after::run(
                options,
                marker.clone(),
                &patience,
                Some(async { Ok(source) }),
            )
            .await
        }
        Stage::Again(_) => again::from(options, source, &patience, Way::Run).await,
        Stage::Before => before::from(options, source, &patience).await,
    }
}
