//! `run` before cut-over: waits for the source, copies, verifies, marks.

use std::sync::Arc;

use filestore_common::marker::{Marker, SourceIdentity};

use super::{Apart, Ending, Outcome, after, moved_on, within};
use crate::connect::{self, Presence, Use};
use crate::pass::Report;
use crate::plan::loss_names;
use crate::policy::Pass;
use crate::s3::Patience;
use crate::session::{Session, phase};
use crate::source::Source;
use crate::state::new_marker;
use crate::verify::{Findings, Mode};
use crate::{Endpoint, Error, Event, ExitCode, Kind, Phase, Result, RunOptions};

/// Takes a source over that is open already.
pub(super) async fn from(
    options: &RunOptions,
    source: Arc<dyn Source>,
    patience: &Patience,
) -> Result<Outcome> {
    let session = Session::open(options, source, true, patience).await?;
    within(session, take_over).await
}

/// Waits for the source, then takes it over.
pub(super) async fn run(
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
    self::from(options, source, patience).await
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
    let target = connect::target(&options.to, &options.owner, Use::Write, patience).await?;
    let session = Session::with_ends(options, source, target, identity.clone(), patience)?;
    within(session, async |session| {
        if !session.target_is_empty().await? {
            return Err(Error::new(
                Kind::Refused,
                "migrate to",
                options.to.location.to_string(),
                format!("holds objects, but its source does not exist ({why})"),
            )
            .with_cure("remove the source from the configuration if these are all objects"));
        }
        session.hold()?;
        if session.marker.is_some() {
            return Err(moved_on(options));
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
            apart: None,
            undecided: None,
        })
    })
    .await
}

/// Plan, guards, copy, final, marker.
pub(super) async fn take_over(session: &mut Session<'_>) -> Result<Outcome> {
    let plan = session.plan().await?;
    session
        .ends
        .progress
        .event(&Event::Note(plan.to_string().trim_end()));
    if let Some(refusal) = plan.refusal() {
        return Err(refusal);
    }
    session.begin(Pass::Final).await?;
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
pub(super) async fn conclude(
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
    let another = session.options.is_another_list(&findings.tally);
    if another && exit == ExitCode::Ok {
        exit = ExitCode::Refused;
    }
    let ending = if exit == ExitCode::Ok {
        Ending::Migrated
    } else {
        Ending::Incomplete
    };
    let mut summary = report.to_string();
    summary.push_str(&findings.to_string());
    summary.push_str(&session.view.unfitted());
    if ending == Ending::Migrated {
        session.conclude(&findings)?;
    } else if another {
        let hash = findings.tally.hash();
        let text = "another list stays behind than the accepted one: ";
        summary.extend([text, &hash, "\n"]);
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
        apart: Some(Apart::from(&report)),
        undecided: None,
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
