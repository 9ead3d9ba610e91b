//! `plan` of a target that was rolled back: what taking it over again would do.

use filestore_common::marker::{Marker, MarkerState};

use super::{Way, asked, left, new_id, same_run, task};
use crate::plan::{self, Conditions, Plan, Refusal};
use crate::reconcile::{Task, reconcile};
use crate::run::stage::{Stage, marker, stage};
use crate::session::{Session, phase, state_of};
use crate::{Phase, Result, RunOptions, guard};

/// A second take-over that a plan is asked for.
pub(in crate::run) struct Foreseen {
    /// As `run --again` would have them.
    pub(in crate::run) options: RunOptions,
    marker: Marker,
    /// Why the command that was asked for would not begin with it.
    refused: Option<Refusal>,
}

/// Whether a plan is about taking a store over again that was rolled back, or is being rolled back.
///
/// # Errors
/// Of a marker that cannot be read.
pub(in crate::run) fn foreseen(options: &RunOptions) -> Result<Option<Foreseen>> {
    let options = asked(options)?.unwrap_or_else(|| options.clone());
    let Some(marker) = marker(&options)? else {
        return Ok(None);
    };
    let over = matches!(
        marker.state,
        MarkerState::RollingBack | MarkerState::RolledBack
    );
    let refused = match stage(&options, Some(&marker)) {
        Ok(Stage::Again(_)) if !over => same_run(&options, &marker),
        Ok(Stage::Again(_)) => state_of(&options)
            .map_or(Ok(String::new()), |state| new_id(&options, &state, &marker))
            .map(drop),
        Ok(Stage::Before | Stage::After(_)) => return Ok(None),
        Err(error) => Err(error),
    };
    Ok(Some(Foreseen {
        refused: refused.err().map(Refusal::from),
        options,
        marker,
    }))
}

impl Foreseen {
    /// The plan, in a session over all that was migrated.
    ///
    /// # Errors
    /// Of another source than the one that was taken over, and whatever either side answers instead.
    pub(in crate::run) async fn plan(&self, session: &Session<'_>) -> Result<Plan> {
        guard::require_source(&self.marker.source, &session.identity)?;
        phase(&*session.ends.progress, Phase::Plan, None, None);
        let conditions = Conditions {
            refused: self.refused.clone(),
            ..Conditions::new(session.options, Some(self.marker.state))
        };
        let mut plan = plan::plan(&session.ends, &conditions, None).await?;
        if let Some(state) = &session.state {
            let look = Task {
                dry_run: true,
                ..task(session, state, &self.marker.run_id, Way::Run)
            };
            let found = reconcile(&session.ends, &look).await?;
            let tally = left::behind(session, &found).await?;
            plan.reconcile(found, tally);
            plan.judge(&conditions);
        }
        Ok(plan)
    }
}
