//! `merge`: what changed on the legacy store after cut-over is brought to the target on request,
//! conflicts by preference.

use std::path::PathBuf;
use std::sync::Arc;

use filestore_common::marker::MarkerState;
use tokio_util::sync::CancellationToken;

use super::held::{Held, admitted, hold, state_beside};
use super::text::reconciled;
use super::{Ending, Outcome, Undecided, configured, within};
use crate::reconcile::{Deletes, Depth, Rules, Side, Task, reconcile};
use crate::session::{Session, patience, phase};
use crate::source::Source;
use crate::{Error, ExitCode, Kind, Phase, Progress, Result, RunOptions, connect, guard};

/// What `merge` may do, beside [`RunOptions::prefer`].
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Deletions on the source.
    pub deletes: Deletes,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Where a dry run lists it, as JSON lines.
    pub report: Option<PathBuf>,
}

/// Resolves a divergence.
///
/// # Errors
/// [`Error`] when it could not run to its end.
pub async fn merge(
    options: &RunOptions,
    how: &MergeOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let held = held(options)?;
    let patience = patience(options, &progress, &cancel);
    let source = connect::source(configured(options)?, &patience).await?;
    merge_held(held, source, options, how, progress, cancel).await
}

/// [`merge`] from a source that is open already.
///
/// # Errors
/// As [`merge`].
pub async fn merge_from(
    source: Arc<dyn Source>,
    options: &RunOptions,
    how: &MergeOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    merge_held(held(options)?, source, options, how, progress, cancel).await
}

fn held(options: &RunOptions) -> Result<Held> {
    let held = hold(
        state_beside(&options.to, options.state_dir.as_ref())?,
        "merge into",
    )?;
    if held.marker.state == MarkerState::Cutover {
        return Ok(held);
    }
    let target = options.to.location.to_string();
    let problem = "was rolled back, or is about to be; the legacy store is the one with clients";
    Err(
        Error::new(Kind::Refused, "merge into", target, problem).with_cure(
            "`filestore migrate run --again` takes it over again, writes of both sides kept",
        ),
    )
}

async fn merge_held(
    mut held: Held,
    source: Arc<dyn Source>,
    options: &RunOptions,
    how: &MergeOptions,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> Result<Outcome> {
    let patience = patience(options, &progress, &cancel);
    let session = Session::open_migrated(options, source, !how.dry_run, &patience).await?;
    within(session, async |session| {
        guard::require_source(&held.marker.source, &session.identity)?;
        if !how.dry_run {
            guard::prove_different(&session.ends, &options.to.location).await?;
            session.ends.source.still().await?;
        }
        phase(&*progress, Phase::Merge, None, None);
        let (state, run_id) = (held.state.clone(), held.marker.run_id.clone());
        let task = Task {
            command: "merge",
            state: &state,
            run_id: &run_id,
            rules: Rules {
                writes: Side::Served,
                prefer: options.prefer,
                deletes: how.deletes,
            },
            keeps_times: session.ends.target.traits().keeps_last_modified,
            depth: Depth::Changes,
            dry_run: how.dry_run,
            report: how.report.as_deref(),
            deadline: None,
            max_delete: options.max_delete,
        };
        let found = reconcile(&session.ends, &task).await;
        if found.is_err() && !how.dry_run {
            held.refresh()?;
        }
        let mut found = found?;
        if how.dry_run {
            found = admitted(found, &task)?;
        } else {
            held.record(&found)?;
        }
        let mut exit = found.exit();
        if exit == ExitCode::Ok && found.tally.losses() > 0 && !options.accepts(&found.tally) {
            exit = ExitCode::Failures;
        }
        let mut summary = reconciled(&found, &held.state, &run_id, how.dry_run);
        if found.conflicts > 0 {
            summary.push_str("decide with --prefer newest, source or target\n");
        }
        if found.deleted_on_source > 0 {
            summary.push_str(
                "--deletes deletes on the target what went from the source, --deletes=keep keeps it\n",
            );
        }
        Ok(Outcome {
            exit,
            ending: Ending::Merged,
            marker: Some(held.marker.clone()),
            summary,
            apart: None,
            undecided: Undecided::of(&found),
        })
    })
    .await
}
