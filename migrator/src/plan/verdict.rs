//! Whether a run would succeed. Pure; the plan prints it and `run` abides by it.

use filestore_common::marker::MarkerState;
use serde::{Serialize, Serializer};

use super::Plan;
use crate::{Error, ExitCode, Kind, RunOptions};

/// What a person allowed, and where the target stands.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Stage of a migration that was begun on the target.
    pub migration: Option<MarkerState>,
    /// Everything that cannot be carried may stay behind.
    pub accept_loss: bool,
    /// This list may stay behind, and no other.
    pub accept: Option<String>,
    /// Versions and delete markers may not stay behind.
    pub fail_on_versions: bool,
    /// Objects that were on the target before may go.
    pub delete_extraneous: bool,
    /// Most deletes.
    pub max_delete: Option<u64>,
}

impl Conditions {
    /// What the command line allows for a target at this stage.
    pub fn new(options: &RunOptions, migration: Option<MarkerState>) -> Self {
        Self {
            migration,
            accept_loss: options.accept_loss,
            accept: options.accept.clone(),
            fail_on_versions: options.fail_on_versions,
            delete_extraneous: options.delete_extraneous,
            max_delete: options.max_delete,
        }
    }
}

/// One thing that stops a run before it writes anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub cure: String,
}

/// Whether a run would succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How it would end.
    #[serde(serialize_with = "number")]
    pub exit: ExitCode,
    /// Why it would not begin.
    pub refusals: Vec<Refusal>,
    /// Whether objects stay behind that nobody accepted.
    pub unaccepted_losses: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn number<S: Serializer>(exit: &ExitCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(exit.code())
}

impl Default for Verdict {
    fn default() -> Self {
        Self {
            exit: ExitCode::Ok,
            refusals: Vec::new(),
            unaccepted_losses: false,
        }
    }
}

impl Verdict {
    /// The error of a run that is refused.
    pub(super) fn error(&self, target: &str) -> Option<Error> {
        let first = self.refusals.first()?;
        let problems: Vec<&str> = self.refusals.iter().map(|r| &*r.problem).collect();
        let problem = problems.join("; ");
        Some(Error::new(Kind::Refused, "migrate to", target, problem).with_cure(&*first.cure))
    }
}

/// Judges a plan.
pub(super) fn verdict(plan: &Plan, conditions: &Conditions) -> Verdict {
    let refusals = if conditions.migration == Some(MarkerState::Cutover) {
        // Nothing is overwritten or deleted any more, whatever the source holds.
        Vec::new()
    } else {
        refusals(plan, conditions)
    };
    let accepted = conditions.accept_loss || conditions.accept.is_some();
    let unaccepted_losses = plan.losses > 0 && !accepted;
    let exit = if !refusals.is_empty() {
        ExitCode::Refused
    } else if unaccepted_losses && conditions.migration != Some(MarkerState::Cutover) {
        ExitCode::Failures
    } else {
        ExitCode::Ok
    };
    Verdict {
        exit,
        refusals,
        unaccepted_losses,
    }
}

fn refusals(plan: &Plan, conditions: &Conditions) -> Vec<Refusal> {
    let mut found = Vec::new();
    let mut refuse = |problem: String, cure: &str| {
        found.push(Refusal {
            problem,
            cure: cure.into(),
        });
    };
    if matches!(
        conditions.migration,
        Some(MarkerState::RollingBack | MarkerState::RolledBack)
    ) {
        refuse(
            "was rolled back; the legacy store serves its clients again".into(),
            "remove the marker only when that store is gone for good",
        );
    }
    if let Some(pairs) = &plan.same_but_case {
        let problem = format!(
            "takes names that differ by case only for one; {} keys would be lost ({})",
            pairs.count,
            pairs.examples.join(", ")
        );
        refuse(problem, "use a file system that tells case apart");
    }
    if conditions.migration.is_none()
        && plan.replace + plan.delete > 0
        && !conditions.delete_extraneous
    {
        let problem = format!(
            "holds {} objects that differ from the source and {} that the source does not have, \
             and no migration began here",
            plan.replace, plan.delete
        );
        refuse(
            problem,
            "`filestore migrate copy` overwrites what differs; or use an empty volume",
        );
    }
    if plan.objects == 0 && plan.delete > 0 {
        let problem = format!("would lose {} objects: the source is empty", plan.delete);
        refuse(problem, "look whether --from names the right store");
    }
    if let Some(most) = conditions.max_delete.filter(|most| plan.delete > *most) {
        let problem = format!(
            "would lose {} objects, --max-delete allows {most}",
            plan.delete
        );
        refuse(problem, "look at the names in the plan, then allow more");
    }
    if let Some(room) = plan.room.as_ref().filter(|room| !room.fits()) {
        let files = room
            .available_inodes
            .map_or_else(|| "any number of".into(), |free| free.to_string());
        let problem = format!(
            "{} bytes and {} files are needed, {} bytes and {files} files are free",
            room.needed_bytes, room.needed_inodes, room.available_bytes
        );
        refuse(problem, "enlarge the volume");
    }
    if conditions.fail_on_versions && plan.versions() > 0 {
        let problem = format!(
            "would not get {} noncurrent versions and delete markers of the source",
            plan.versions()
        );
        refuse(problem, "go without --fail-on-versions to leave them");
    }
    let hash = plan.not_carried_hash.as_deref().unwrap_or("nothing");
    if let Some(accepted) = conditions
        .accept
        .as_deref()
        .filter(|accepted| *accepted != hash)
    {
        let problem = format!(
            "another list than the accepted one would stay behind: {hash}, accepted is {accepted}"
        );
        refuse(problem, "look at the plan and accept what it says now");
    }
    found
}
