//! The commands: each opens a session, makes its steps, and says how it ended.

mod after;
mod status;
mod text;

use std::path::Path;
use std::sync::Arc;

use filestore_common::marker::{Marker, MarkerState, SourceIdentity};
use tokio_util::sync::CancellationToken;

use crate::connect::{self, Presence};
use crate::pass::Report;
use crate::plan::{Plan, loss_names};
use crate::policy::Pass;
use crate::s3::Patience;
use crate::session::{Session, patience, phase, state_of};
use crate::source::Source;
use crate::state::new_marker;
use crate::verify::{self, Findings, Mode, Outputs};
use crate::{Endpoint, Error, Event, ExitCode, Kind, Phase, Progress, Result, RunOptions};

pub use status::{Status, status};

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
    /// Not finished: see `exit`.
    Incomplete,
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
}

fn configured(options: &RunOptions) -> Result<&Endpoint> {
    options.from.as_ref().ok_or_else(|| {
        Error::new(Kind::Usage, "open", "the source", "is not given")
            .with_cure("give it with --from")
    })
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
    let patience = patience(options, &progress, &cancel);
    let source = connect::source(configured(options)?, &patience).await?;
    let session = Session::open(options, source, false, &patience).await?;
    let plan = session.planned(Some(options.measure)).await;
    session.close().await;
    plan
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
    let patience = patience(options, &progress, &cancel);
    let source = connect::source(configured(options)?, &patience).await?;
    copy_from(source, options, progress, cancel).await
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
    let mut session = Session::open(options, source, true, &patience).await?;
    let outcome = async {
        session.precheck().await?;
        session.begin().await?;
        phase(&*progress, Phase::Copy, None, None);
        let report = session.pass(Pass::Copy).await?;
        Ok(Outcome {
            exit: report.exit(options.accepts(&report.tally)),
            ending: Ending::Incomplete,
            marker: session.marker.clone(),
            summary: report.to_string(),
        })
    };
    let outcome = outcome.await;
    session.close().await;
    outcome
}

/// The final pass, writers stopped: difference with deletions, verification, marker.
///
/// # Errors
/// [`Error`] when it could not run to its end.
pub async fn finish(
    options: &RunOptions,
    mode: Mode,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let patience = patience(options, &progress, &cancel);
    let source = connect::source(configured(options)?, &patience).await?;
    finish_from(source, options, mode, progress, cancel).await
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
    let patience = patience(options, &progress, &cancel);
    let mut session = Session::open(options, source, true, &patience).await?;
    let outcome = async {
        session.precheck().await?;
        session.begin().await?;
        conclude(&mut session, mode, None).await
    };
    let outcome = outcome.await;
    session.close().await;
    outcome
}

/// Compares both sides key by key.
///
/// # Errors
/// [`Error`] when it could not run to its end.
pub async fn verify(
    options: &RunOptions,
    mode: Mode,
    report: Option<&Path>,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<(ExitCode, Findings)> {
    let patience = patience(options, &progress, &cancel);
    let source = connect::source(configured(options)?, &patience).await?;
    let session = Session::open(options, source, false, &patience).await?;
    phase(&*progress, Phase::Verify, None, None);
    let outputs = Outputs {
        report,
        manifest: None,
    };
    let findings = verify::verify(&session.ends, mode, &outputs).await;
    session.close().await;
    let findings = findings?;
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
    let patience = patience(options, &progress, &cancel);
    match (&options.from, marker(options)?) {
        (from, Some(marker)) if marker.state == MarkerState::Cutover => {
            let source = from.as_ref().map(|from| connect::source(from, &patience));
            after::run(options, marker, &patience, source).await
        }
        (Some(from), marker) => before(options, from, marker, &patience).await,
        (None, Some(marker)) => {
            let target = options.to.location.to_string();
            let problem = format!(
                "holds an unfinished migration from {}",
                marker.source.location
            );
            Err(Error::new(Kind::Refused, "migrate to", target, problem)
                .with_cure("configure that source again to finish it"))
        }
        (None, None) => Ok(Outcome {
            exit: ExitCode::Ok,
            ending: Ending::NothingToMigrate,
            marker: None,
            summary: "nothing to migrate: no source is configured".into(),
        }),
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
    match marker(options)? {
        Some(marker) if marker.state == MarkerState::Cutover => {
            after::run(options, marker, &patience, Some(async { Ok(source) })).await
        }
        _ => open_and_take_over(options, source, &patience).await,
    }
}

/// The target's marker, unless its migration was rolled back.
fn marker(options: &RunOptions) -> Result<Option<Marker>> {
    let marker = match state_of(options) {
        Some(state) => state.marker()?,
        None => None,
    };
    let rolled_back = |marker: &Marker| {
        matches!(
            marker.state,
            MarkerState::RollingBack | MarkerState::RolledBack
        )
    };
    if marker.as_ref().is_some_and(rolled_back) {
        let target = options.to.location.to_string();
        let problem = "was rolled back; the legacy store serves its clients again";
        return Err(Error::new(Kind::Refused, "migrate to", target, problem));
    }
    Ok(marker)
}

async fn open_and_take_over(
    options: &RunOptions,
    source: Arc<dyn Source>,
    patience: &Patience,
) -> Result<Outcome> {
    let mut session = Session::open(options, source, true, patience).await?;
    let outcome = take_over(&mut session).await;
    session.close().await;
    outcome
}

/// Before cut-over: waits for the source, then takes it over.
async fn before(
    options: &RunOptions,
    from: &Endpoint,
    marker: Option<Marker>,
    patience: &Patience,
) -> Result<Outcome> {
    phase(&*patience.progress, Phase::Connect, None, None);
    let absent_after = options.absent_after;
    let patient = options.wait_for_credentials;
    let source = match connect::wait_for_source(from, patience, absent_after, patient).await? {
        Presence::Present(source) => source,
        Presence::Absent(why) => return absent(options, from, marker, &why, patience).await,
    };
    open_and_take_over(options, source, patience).await
}

/// There is no legacy store. Recorded, so that a store that appears later is not copied over what
/// clients wrote meanwhile.
async fn absent(
    options: &RunOptions,
    from: &Endpoint,
    marker: Option<Marker>,
    why: &str,
    patience: &Patience,
) -> Result<Outcome> {
    if let Some(marker) = marker {
        let problem = format!(
            "the source of the unfinished migration {} is gone",
            marker.run_id
        );
        return Err(
            Error::new(Kind::Absent, "open", marker.source.location, problem)
                .with_cure("bring it back, or mount its volume"),
        );
    }
    let source = Arc::new(after::NoSource);
    let identity = SourceIdentity {
        kind: "none".into(),
        deployment_id: None,
        location: from.location.to_string(),
        buckets: Vec::new(),
    };
    let target = connect::target(&options.to, &options.owner, true, patience).await?;
    let mut session = Session::with_ends(options, source, target, identity.clone(), patience)?;
    let outcome = async {
        if !session.target_is_empty().await? {
            return Err(Error::new(
                Kind::Refused,
                "migrate to",
                options.to.location.to_string(),
                format!("holds objects, but its source does not exist ({why})"),
            )
            .with_cure("remove the source from the configuration if these are all objects"));
        }
        session.marker = Some(new_marker(&session.run_id(), identity));
        let nothing = Findings {
            digest: crate::manifest::CarriedDigest::default().finish(),
            ..Findings::default()
        };
        session.conclude(&nothing)?;
        Ok(Outcome {
            exit: ExitCode::Ok,
            ending: Ending::NothingToMigrate,
            marker: session.marker.clone(),
            summary: format!("nothing to migrate: there is no legacy store ({why})"),
        })
    };
    let outcome = outcome.await;
    session.close().await;
    outcome
}

/// Plan, guards, copy, final, marker.
async fn take_over(session: &mut Session<'_>) -> Result<Outcome> {
    let plan = session.plan().await?;
    session
        .ends
        .progress
        .event(&Event::Note(plan.to_string().trim_end()));
    if let Some(refusal) = plan.refusal() {
        return Err(refusal);
    }
    session.begin().await?;
    let mut copied = None;
    if plan.create + plan.replace > 0 {
        let copy = Some(plan.create + plan.replace);
        phase(
            &*session.ends.progress,
            Phase::Copy,
            copy,
            Some(plan.copy_bytes),
        );
        copied = Some(session.pass(Pass::Copy).await?);
    }
    let mode = session.options.verify;
    conclude(session, mode, copied).await
}

/// Final passes, then the marker if both sides are equal and nothing was lost.
async fn conclude(
    session: &mut Session<'_>,
    mode: Mode,
    copied: Option<Report>,
) -> Result<Outcome> {
    let (mut report, findings) = session.settle(mode).await?;
    if let Some(copied) = &copied {
        report.add(copied);
    }
    let accept = session.options.accepts(&findings.tally);
    let mut exit = verdict(&report, &findings, accept);
    let ending = if exit == ExitCode::Ok {
        Ending::Migrated
    } else {
        Ending::Incomplete
    };
    let mut summary = report.to_string();
    summary.push_str(&findings.to_string());
    if ending == Ending::Migrated {
        session.conclude(&findings)?;
    } else if findings.tally.losses() > 0 && !accept {
        let hash = findings.tally.hash();
        let names = loss_names(&findings.tally.into_marker());
        summary.extend([
            "not carried: ",
            &names,
            "; go on without them by --accept ",
            &hash,
            ", or whatever they are by --accept-loss\n",
        ]);
        exit = ExitCode::Failures;
    }
    Ok(Outcome {
        exit,
        ending,
        marker: session.marker.clone(),
        summary,
    })
}

fn verdict(report: &Report, findings: &Findings, accept_loss: bool) -> ExitCode {
    let pass = report.exit(accept_loss);
    if pass != ExitCode::Ok {
        pass
    } else if findings.failed > 0 || (findings.tally.losses() > 0 && !accept_loss) {
        ExitCode::Failures
    } else if findings.differences() > 0 {
        ExitCode::Differences
    } else {
        ExitCode::Ok
    }
}
