//! The legacy store serves: rounds of copying, the gate, the approval, the final pass that waits.

use super::{Facts, HTTPS_TOO_EARLY, Stage, fresh_serves};
use crate::api::CutoverPolicy;
use crate::minio;
use crate::status::{Problem, reason};
use crate::takeover::{JobKind, JobState, Record, access_modes, plan_of};
use crate::validate::Server;

/// Rounds after which the rest is left to the final pass, however much clients write.
const MOST_ROUNDS: u32 = 5;

/// So few objects that differed are little, whatever the size of the store.
const FEW: u64 = 100;

fn refused(message: String) -> Stage {
    Stage::Blocked(Problem {
        reason: reason::REFUSED,
        message,
    })
}

impl Facts<'_> {
    pub(super) fn without_legacy(&self) -> Stage {
        let recorded = self.seen.recorded.as_ref();
        match recorded.and_then(|known| known.source.as_ref()) {
            Some(source) if !fresh_serves(self.observed) => Stage::Blocked(Problem {
                reason: reason::SOURCE_MISSING,
                message: format!(
                    "{} {:?} was being taken over and is gone; restore it, or remove migration to serve what was copied so far",
                    source.kind.as_str(),
                    source.workload.name
                ),
            }),
            _ => Stage::Fresh(None),
        }
    }

    /// The legacy store serves.
    pub(super) fn before(&self, record: Option<&Record>) -> Stage {
        let Some(legacy) = self.seen.legacy() else {
            return Stage::Fresh(None);
        };
        let title = legacy.workload.title();
        if fresh_serves(self.observed) {
            return Stage::Fresh(Some(format!(
                "this store serves its own clients already; {title} is not taken over by it"
            )));
        }
        if let Some(other) = record.filter(|record| record.by != self.filestore.name) {
            return refused(format!(
                "{title} is being taken over by Filestore {:?}",
                other.by
            ));
        }
        if let Some(conflict) = &legacy.conflict {
            return Stage::Blocked(Problem {
                reason: reason::COMPAT_SERVICE_CONFLICT,
                message: format!("the new pod cannot take the place of {title}: {conflict}"),
            });
        }
        let drive = self.observed.source_claim.as_ref();
        let modes = drive.and_then(|claim| claim.spec.as_ref()?.access_modes.as_deref());
        if legacy.workload.replicas > 0
            && let Some(why) =
                minio::not_beside(&legacy.source.claim.name, modes.unwrap_or_default())
        {
            return Stage::Blocked(Problem {
                reason: reason::SOURCE_UNSUPPORTED,
                message: format!(
                    "{title} cannot be taken over while it runs: {why}; scale it to 0 at a time that suits its clients, and the take-over goes on by itself"
                ),
            });
        }
        if self.filestore.server != Server::Bundled {
            return Stage::Blocked(Problem {
                reason: reason::ENGINE_LACKS,
                message: "a cut-over needs engine bundled, which waits for the hand-over; change the engine afterwards".to_owned(),
            });
        }
        if self.filestore.tls.is_some() {
            return refused(format!("{title} is not taken over: {HTTPS_TOO_EARLY}"));
        }
        if self.filestore.suspend {
            return Stage::Suspended;
        }
        if let Some(stage) = self.cannot_be_shared() {
            return stage;
        }
        // One that is stopped already is read from its drive alone.
        if legacy.workload.replicas > 0
            && let Some(stage) = self.copy()
        {
            return stage;
        }
        let gate = match self.last(JobKind::Gate) {
            None => return self.make(JobKind::Gate, 1, 0),
            Some(gate) if !gate.is_over() => return Stage::Runs(Box::new(gate.clone())),
            Some(gate) if !gate.is_done() && self.has_changed(gate) => {
                return self.make(JobKind::Gate, gate.round + 1, 0);
            }
            Some(gate) => gate.is_done(),
        };
        let copied = self.last(JobKind::Copy);
        let plan = plan_of(self.filestore, self.cluster, &legacy.source, copied, gate);
        let approved = self.cluster.approve.as_ref() == Some(&plan.hash);
        if !approved && (self.cluster.cutover == CutoverPolicy::Manual || !gate) {
            return Stage::Approval(plan);
        }
        match self.last(JobKind::Final) {
            None => self.make(JobKind::Final, 1, 0),
            Some(last) if last.aborted.is_some() || last.is_over() => {
                let next = self.again(last, last.round + 1);
                // A pass that ended well was of no use: the new store did not start.
                if self.is_clear() { next } else { Stage::Clears }
            }
            Some(last) => match last.state {
                JobState::Running { held: true, .. } => Stage::Freeze(Box::new(last.clone())),
                _ => Stage::Runs(Box::new(last.clone())),
            },
        }
    }

    /// Several workers are asked for, and one pod alone can mount the volume.
    fn cannot_be_shared(&self) -> Option<Stage> {
        let migration = self.filestore.migration.as_ref();
        let shared = migration.is_some_and(|migration| migration.shards > 1);
        let modes = access_modes(self.filestore, self.observed);
        (shared && modes == ["ReadWriteOncePod"]).then(|| {
            refused(format!(
                "PersistentVolumeClaim {:?} is ReadWriteOncePod, one pod alone can mount it; remove migration.shards",
                self.filestore.storage.claim
            ))
        })
    }

    fn make(&self, kind: JobKind, round: u32, failures: u32) -> Stage {
        if self.is_clear() {
            Stage::Make {
                kind,
                round,
                failures,
            }
        } else {
            Stage::Clears
        }
    }

    /// Rounds beside the running store, until little is left; `None` when it is.
    fn copy(&self) -> Option<Stage> {
        let Some(last) = self.last(JobKind::Copy) else {
            return Some(self.make(JobKind::Copy, 1, 0));
        };
        if !last.is_over() {
            return Some(Stage::Runs(Box::new(last.clone())));
        }
        if last.is_out_of_time() {
            // Not a whole round: the same one goes on.
            return Some(self.again(last, last.round));
        }
        if !last.is_done() {
            return Some(self.again(last, last.round + 1));
        }
        let little = last
            .summary
            .copied
            .is_some_and(|(copied, same)| copied <= FEW.max((copied + same) / 100));
        (!little && last.round < MOST_ROUNDS).then(|| self.make(JobKind::Copy, last.round + 1, 0))
    }
}
