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
    /// Why that cannot be gone on with.
    pub refused: Option<Refusal>,
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
            refused: None,
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

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self {
            problem: error.message.into(),
            cure: error.cure.unwrap_or_default().into(),
        }
    }
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
    } else if let Some(again) = plan.again.as_ref().filter(|a| a.exit() != ExitCode::Ok) {
        again.exit()
    } else if (unaccepted_losses || plan.unreadable.count + plan.oversized.count > 0)
        && conditions.migration != Some(MarkerState::Cutover)
    {
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
    let mut found = Vec::from_iter(conditions.refused.clone());
    let mut refuse = |problem: String, cure: &str| {
        found.push(Refusal {
            problem,
            cure: cure.into(),
        });
    };
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
    if conditions.fail_on_versions
        && let Some((problem, cure)) = plan.versions_left()
    {
        refuse(problem, cure);
    }
    if let Some(hash) = plan.not_carried_hash.as_deref()
        && let Some(accepted) = conditions
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

#[cfg(test)]
mod tests {
    use filestore_common::marker::SourceIdentity;

    use super::*;
    use crate::plan::{Named, Room};
    use crate::reconcile::Found;
    use crate::source::{Left, Reason, Tally};
    use crate::target::Traits;

    fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
        let traits = Traits {
            kind: "volume",
            location: "volume:/data".into(),
            keeps_etag: true,
            keeps_last_modified: true,
        };
        let source = SourceIdentity {
            kind: "s3".into(),
            deployment_id: None,
            location: "http://h:1".into(),
            buckets: Vec::new(),
        };
        let mut plan = Plan::new(traits, source);
        plan.objects = 10;
        change(&mut plan);
        plan
    }

    fn left(reason: Reason) -> Tally {
        let mut tally = Tally::default();
        tally.add(Left::new(reason, "b/k", 1));
        tally
    }

    fn exit(plan: &Plan, change: impl FnOnce(&mut Conditions)) -> ExitCode {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        verdict(plan, &conditions).exit
    }

    #[test]
    fn losses_must_be_accepted_as_they_are() {
        let tally = left(Reason::Encrypted);
        let hash = tally.hash();
        let lossy = plan(|plan| plan.take(tally));
        assert_eq!(exit(&plan(|_| {}), |_| {}), ExitCode::Ok);
        assert_eq!(exit(&lossy, |_| {}), ExitCode::Failures);
        assert_eq!(exit(&lossy, |c| c.accept_loss = true), ExitCode::Ok);
        assert_eq!(exit(&lossy, |c| c.accept = Some(hash)), ExitCode::Ok);
        // What reads fail on is found out by the copy, and not part of any list.
        let encrypted = plan(|plan| plan.unreadable.add(|| "get b/k: 400".to_owned()));
        assert_eq!(
            exit(&encrypted, |c| c.accept_loss = true),
            ExitCode::Failures
        );
        let other = || Some("0123456789abcdef".to_owned());
        assert_eq!(exit(&lossy, |c| c.accept = other()), ExitCode::Refused);
        // Nothing stays behind any more: nothing needs to be accepted.
        assert_eq!(exit(&plan(|_| {}), |c| c.accept = other()), ExitCode::Ok);
    }

    #[test]
    fn a_target_with_objects_of_its_own_is_refused_until_a_migration_began() {
        let foreign = plan(|plan| plan.replace = 1);
        assert_eq!(exit(&foreign, |_| {}), ExitCode::Refused);
        assert_eq!(exit(&foreign, |c| c.delete_extraneous = true), ExitCode::Ok);
        let begun = |c: &mut Conditions| c.migration = Some(MarkerState::Copying);
        assert_eq!(exit(&foreign, begun), ExitCode::Ok);

        let goes = plan(|plan| plan.delete = 3);
        let most = |most| {
            move |c: &mut Conditions| {
                c.migration = Some(MarkerState::Copying);
                c.max_delete = Some(most);
            }
        };
        assert_eq!(exit(&goes, most(2)), ExitCode::Refused);
        assert_eq!(exit(&goes, most(3)), ExitCode::Ok);
        let emptied = plan(|plan| (plan.objects, plan.delete) = (0, 3));
        assert_eq!(exit(&emptied, begun), ExitCode::Refused);
    }

    #[test]
    fn what_does_not_fit_or_may_not_be_left_is_refused() {
        let versions = plan(|plan| plan.take(left(Reason::DeleteMarkers)));
        assert_eq!(exit(&versions, |_| {}), ExitCode::Ok);
        assert_eq!(
            exit(&versions, |c| c.fail_on_versions = true),
            ExitCode::Refused
        );
        // Nobody may look: that is not "none".
        let unknown = plan(|plan| plan.take(left(Reason::UnknownVersions)));
        assert_eq!(exit(&unknown, |_| {}), ExitCode::Ok);
        let refused = exit(&unknown, |c| c.fail_on_versions = true);
        assert_eq!(refused, ExitCode::Refused);
        let settings = plan(|plan| plan.take(left(Reason::BucketSettings)));
        assert_eq!(exit(&settings, |c| c.fail_on_versions = true), ExitCode::Ok);
        let full = plan(|plan| {
            plan.room = Some(Room {
                needed_bytes: 1,
                available_bytes: 0,
                needed_inodes: 1,
                available_inodes: None,
            });
        });
        assert_eq!(exit(&full, |_| {}), ExitCode::Refused);
        // Before any pair is known as well: a client would make one.
        let folding = plan(|plan| plan.same_but_case = Some(Named::default()));
        assert_eq!(exit(&folding, |_| {}), ExitCode::Refused);
    }

    #[test]
    fn after_cutover_nothing_is_in_the_way() {
        let everything = plan(|plan| {
            plan.replace = 1;
            plan.delete = 1;
            plan.take(left(Reason::Damaged));
        });
        let cut_over = |c: &mut Conditions| c.migration = Some(MarkerState::Cutover);
        assert_eq!(exit(&everything, cut_over), ExitCode::Ok);
    }

    #[test]
    fn a_second_take_over_ends_as_what_it_finds() {
        let over = |again: bool, found: Found| {
            let plan = plan(|plan| plan.reconcile(found, Tally::default()));
            exit(&plan, |c| {
                c.migration = Some(MarkerState::RolledBack);
                c.refused = (!again).then(|| Refusal {
                    problem: "was rolled back".into(),
                    cure: "--again".into(),
                });
            })
        };
        let kept = || Found {
            added: 1,
            deleted: 1,
            left: 5,
            ..Found::default()
        };
        assert_eq!(over(true, kept()), ExitCode::Ok);
        assert_eq!(over(false, kept()), ExitCode::Refused);
        let open = Found {
            conflicts: 1,
            ..kept()
        };
        assert_eq!(over(true, open), ExitCode::Conflicts);
    }
}
