//! The state machine.

mod after;
mod before;
mod frozen;

use std::time::Duration;

use filestore_common::marker::MarkerState;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;

use super::attempt::Attempts;
use super::{JobKind, JobView, Mark, Takeover, views};
use crate::api::PlanStatus;
use crate::observed::Observed;
use crate::render::required_marker;
use crate::status::Problem;
use crate::validate::{InCluster, ValidatedFilestore};

/// Why nothing is cut over to a store that speaks HTTPS alone.
const HTTPS_TOO_EARLY: &str = "its clients use plain HTTP, which a store with spec.tls does not answer; remove tls until the legacy store is handed over, or remove migration";

/// Which step is next, or what is waited for.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Nothing to take over: a fresh store. With words where there is something that is not.
    Fresh(Option<String>),
    /// It cannot begin or go on before a person does something.
    Blocked(Problem),
    /// Nothing happens, as asked; the legacy store serves.
    Suspended,
    /// A Job is to be made: its round and the failures before it.
    Make {
        /// What for.
        kind: JobKind,
        /// Round of its run.
        round: u32,
        /// Failed ones before it.
        failures: u32,
    },
    /// A Job runs, or starts.
    Runs(Box<JobView>),
    /// A Job failed; the next is made at this time.
    Waits(Box<JobView>, Timestamp),
    /// Pods of the gateway are in the way of the next Job.
    Clears,
    /// The plan waits for approval.
    Approval(PlanStatus),
    /// The final pass waits for the word: the legacy store is to be scaled to 0.
    Freeze(Box<JobView>),
    /// Pods of the legacy store are going.
    Stops,
    /// They are gone: the final pass may go on.
    Go(Box<JobView>),
    /// The final pass works.
    Final(Box<JobView>),
    /// It ended well: the new store starts.
    Start,
    /// The new store runs and is to be tried and handed over.
    HandOver(Box<JobView>),
    /// It failed before the hand-over: the legacy store is to serve again.
    GiveUp(Option<Box<JobView>>, String),
    /// Handed over.
    Served {
        /// The legacy store came back and is to be stopped.
        writers: bool,
        /// Its record has to be written (anew).
        record: bool,
        /// Somebody wrote to the legacy store after the hand-over.
        diverged: Option<String>,
    },
    /// On the way back.
    Back(Back),
    /// The legacy store serves again.
    RolledBack,
}

/// Steps of the way back, and of giving it up.
#[derive(Clone, Debug)]
pub enum Back {
    /// The new store is stopped.
    Off,
    /// A Job is to be made: its round, and the failures before it.
    Make(JobKind, u32, u32),
    /// It runs.
    Runs(Box<JobView>),
    /// It failed; the next is made at this time.
    Waits(Box<JobView>, Timestamp),
    /// It is to end: the way back is given up.
    Stop(Box<JobView>),
    /// All is back: the legacy store is to be started.
    Restore,
}

/// Until the next look, where nothing else wakes us.
pub fn pace(stage: &Stage, now: Timestamp) -> Option<Duration> {
    let until = |at: &Timestamp| {
        let left = at.duration_since(now);
        Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1)
    };
    match stage {
        Stage::Fresh(_)
        | Stage::Approval(_)
        | Stage::Suspended
        | Stage::RolledBack
        | Stage::Served { .. }
        | Stage::Blocked(_) => None,
        Stage::Waits(_, at) | Stage::Back(Back::Waits(_, at)) => Some(until(at)),
        Stage::Make { .. } | Stage::Runs(_) | Stage::Clears | Stage::Back(_) => {
            Some(Duration::from_secs(5))
        }
        // Clients wait, and what we wait for bears no label of ours.
        Stage::Freeze(_)
        | Stage::Stops
        | Stage::Go(_)
        | Stage::Final(_)
        | Stage::Start
        | Stage::HandOver(_)
        | Stage::GiveUp(..) => Some(Duration::from_millis(500)),
    }
}

/// What is known at the beginning of a decision.
struct Facts<'a> {
    filestore: &'a ValidatedFilestore,
    cluster: &'a InCluster,
    observed: &'a Observed,
    seen: &'a Takeover,
    run: &'a str,
    jobs: Vec<JobView>,
    now: Timestamp,
}

impl Facts<'_> {
    fn last(&self, kind: JobKind) -> Option<&JobView> {
        self.jobs.iter().rfind(|job| job.kind == kind)
    }

    fn is_clear(&self) -> bool {
        self.observed.pods.is_empty()
    }

    /// Whether what a failed Job used is another by now: somebody may have corrected it.
    fn has_changed(&self, job: &JobView) -> bool {
        let attempts = self.seen.legacy().map(|legacy| Attempts {
            filestore: self.filestore,
            cluster: self.cluster,
            observed: self.observed,
            seen: self.seen,
            legacy,
            run: self.run,
        });
        attempts.is_some_and(|attempts| attempts.has_changed(job))
    }

    /// What comes after a failed Job: a pause that grows with each failure, then the next one; at
    /// once, and counted anew, when what it used has changed.
    fn again(&self, job: &JobView, round: u32) -> Stage {
        let failures = self.failures(job);
        match self.pause(job) {
            Some(until) => Stage::Waits(Box::new(job.clone()), until),
            None => Stage::Make {
                kind: job.kind,
                round,
                failures,
            },
        }
    }

    /// Failures in a row up to `job`.
    fn failures(&self, job: &JobView) -> u32 {
        if self.has_changed(job) {
            0
        } else {
            job.failed_in_a_row()
        }
    }

    fn pause(&self, job: &JobView) -> Option<Timestamp> {
        if self.has_changed(job) {
            return None;
        }
        let doubled = 10_i64 << job.failures.min(5);
        let until = job.at? + SignedDuration::from_secs(doubled.min(300));
        (until > self.now).then_some(until)
    }

    fn late(&self, since: Option<Timestamp>, limit: SignedDuration) -> bool {
        since.is_some_and(|since| self.now.duration_since(since) > limit)
    }
}

/// The stage of the take-over.
pub fn stage(
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    observed: &Observed,
    now: Timestamp,
) -> Stage {
    let Some(seen) = &observed.takeover else {
        return Stage::Fresh(None);
    };
    let record = seen.record();
    let by_us = record.as_ref().filter(|record| record.by == filestore.name);
    let run = seen.run(&filestore.name, cluster);
    let run = run.as_str();
    let facts = Facts {
        filestore,
        cluster,
        observed,
        seen,
        run,
        jobs: views(&seen.jobs, &seen.job_pods, run),
        now,
    };
    match by_us {
        Some(record) if record.stage == Mark::Frozen => return facts.frozen(record),
        Some(record) if record.stage == Mark::HandedOver => return facts.after(Some(record)),
        Some(record) if record.run == cluster.run => return Stage::RolledBack,
        _ => {}
    }
    if facts.was_handed_over(run) {
        return facts.after(None);
    }
    match &seen.legacy {
        Err(problem) if fresh_serves(observed) => Stage::Fresh(Some(problem.message.clone())),
        Err(problem) => Stage::Blocked(problem.clone()),
        Ok(None) => facts.without_legacy(),
        Ok(Some(_)) => facts.before(record.as_ref()),
    }
}

/// A store that serves its own clients already.
fn fresh_serves(observed: &Observed) -> bool {
    let plain = |deployment: &Deployment| required_marker(deployment).is_none();
    observed.deployment.as_ref().is_some_and(plain)
}

impl Facts<'_> {
    /// The hand-over leaves more than one trace; each is enough, since to go back to the legacy
    /// store by mistake would lose what clients wrote.
    fn was_handed_over(&self, run: &str) -> bool {
        let recorded = self.seen.recorded.as_ref();
        let known = recorded.and_then(|known| known.handed_over.as_deref()) == Some(run);
        let told = self.jobs.iter().any(|job| {
            if !matches!(job.kind, JobKind::Copy | JobKind::Final) {
                return false;
            }
            let marker = job.summary.marker.as_ref();
            marker.is_some_and(|(state, of)| *state == MarkerState::Cutover && of == run)
        });
        let deployment = self.observed.deployment.as_ref();
        let serves = deployment.and_then(required_marker).as_deref() == Some(run)
            && self.observed.pod_ready();
        known || told || serves
    }
}
