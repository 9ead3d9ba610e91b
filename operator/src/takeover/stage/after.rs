//! The new store belongs to its clients: it serves, or all goes back.

use super::{Back, Facts, Stage};
use crate::takeover::{JobKind, JobView, Record};

impl Facts<'_> {
    /// The new store belongs to its clients.
    pub(super) fn after(&self, record: Option<&Record>) -> Stage {
        let back = self
            .jobs
            .iter()
            .filter(|job| matches!(job.kind, JobKind::Back | JobKind::Abandon));
        let last = back.max_by_key(|job| (job.round, job.kind));
        let asked = self.cluster.back.is_some();
        match last {
            Some(job) if job.kind == JobKind::Back && job.is_done() => {
                return Stage::Back(Back::Restore);
            }
            Some(job) if asked || (job.kind == JobKind::Back) || !job.is_done() => {
                return Stage::Back(self.back(job, asked));
            }
            None if asked => {
                return Stage::Back(self.off_or(Back::Make(JobKind::Back, 1, 0)));
            }
            _ => {}
        }
        self.served(record)
    }

    pub(super) fn served(&self, record: Option<&Record>) -> Stage {
        let legacy = self.seen.legacy();
        Stage::Served {
            writers: legacy.is_some_and(|legacy| legacy.workload.replicas > 0),
            record: legacy.is_some() && record.is_none(),
            diverged: legacy
                .and_then(|legacy| legacy.workload.writers())
                .map(str::to_owned),
        }
    }

    fn off_or(&self, next: Back) -> Back {
        let deployment = self.observed.deployment.as_ref();
        let replicas = deployment.and_then(|found| found.spec.as_ref()?.replicas);
        if self.is_clear() && replicas.unwrap_or_default() == 0 && !self.seen.legacy_runs() {
            next
        } else {
            Back::Off
        }
    }

    /// What follows the last Job of the way back or of giving it up.
    fn back(&self, last: &JobView, asked: bool) -> Back {
        let wanted = if asked {
            JobKind::Back
        } else {
            JobKind::Abandon
        };
        let boxed = || Box::new(last.clone());
        if !last.is_over() {
            return if last.kind == wanted || last.kind == JobKind::Abandon {
                Back::Runs(boxed())
            } else {
                Back::Stop(boxed())
            };
        }
        if last.kind == wanted
            && let Some(until) = self.pause(last)
        {
            return Back::Waits(boxed(), until);
        }
        let failures = if last.kind == wanted {
            self.failures(last)
        } else {
            0
        };
        self.off_or(Back::Make(wanted, last.round + 1, failures))
    }
}
