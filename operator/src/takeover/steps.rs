//! From the stage of a take-over to the writes that are missing.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::attempt::Attempts;
use super::stage::{Back, Stage};
use super::{
    JobKind, JobView, Legacy, Mark, Record, Takeover, WENT_ANNOTATION, WRITERS_ANNOTATION, views,
};
use crate::drift::{Path, manager_of};
use crate::observed::Observed;
use crate::plan::{FIELD_MANAGER, HandOver, JobChange, STATUS_MANAGER, Step, WorkloadChange};
use crate::render::{self, ABORTED_ANNOTATION, ABORTED_AT_ANNOTATION, GO, GO_ANNOTATION};
use crate::validate::{InCluster, ValidatedFilestore};

/// Jobs of a kind that are kept for their logs.
const KEPT: usize = 3;

/// The requests for `stage`, apart from those about the Deployment; what is to be done before the
/// Deployment changes and after.
#[derive(Debug, Default)]
pub struct Steps {
    /// Before.
    pub first: Vec<Step>,
    /// After.
    pub then: Vec<Step>,
}

/// The requests for `stage`.
pub fn steps(
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    owner: &OwnerReference,
    observed: &Observed,
    stage: &Stage,
    now: Timestamp,
) -> Steps {
    let mut steps = Steps::default();
    let Some(seen) = &observed.takeover else {
        return steps;
    };
    let Some(legacy) = seen.legacy() else {
        if let Stage::Served { .. } = stage {
            steps.then.extend(hand_over(observed, None, None));
        }
        return steps;
    };
    let record = legacy.workload.record();
    let record = record.filter(|record| record.by == filestore.name);
    let run = seen.run(&filestore.name, cluster);
    let scene = Scene {
        filestore,
        cluster,
        owner,
        observed,
        seen,
        legacy,
        record,
        run,
        now,
    };
    match stage {
        Stage::Make {
            kind,
            round,
            failures,
        } => steps.then.push(scene.make(*kind, *round, *failures)),
        Stage::Freeze(job) => steps.then.push(scene.freeze(job)),
        Stage::Go(job) => steps.then.extend(scene.go(job)),
        Stage::HandOver(job) => {
            let mark = scene.scale(0, Some(&scene.handed_over()), WorkloadChange::HandOver);
            steps
                .then
                .extend(hand_over(observed, Some(job), Some(mark)));
        }
        Stage::GiveUp(job, why) => {
            steps
                .first
                .extend(job.as_ref().and_then(|job| abort(job, why, now)));
            let replicas = scene.record.as_ref().map_or(1, |record| record.replicas);
            let why = WorkloadChange::GiveUp(why.clone());
            steps.then.push(scene.scale(replicas, None, why));
        }
        Stage::Served {
            writers, record, ..
        } => {
            // Before anything else: it may be taking writes.
            if *writers {
                steps.first.push(scene.stop_writers());
            } else if *record {
                let mark = scene.scale(0, Some(&scene.handed_over()), WorkloadChange::HandOver);
                steps.first.push(mark);
            }
            steps.then.extend(hand_over(observed, None, None));
        }
        Stage::Back(back) => steps.then.extend(scene.way_back(back)),
        _ => {}
    }
    steps.then.extend(trim(seen, &scene.run));
    steps
}

/// What all requests are about.
struct Scene<'a> {
    filestore: &'a ValidatedFilestore,
    cluster: &'a InCluster,
    owner: &'a OwnerReference,
    observed: &'a Observed,
    seen: &'a Takeover,
    legacy: &'a Legacy,
    /// Ours.
    record: Option<Record>,
    run: String,
    now: Timestamp,
}

impl Scene<'_> {
    fn scale(&self, replicas: i32, record: Option<&Record>, why: WorkloadChange) -> Step {
        let workload = &self.legacy.workload;
        Step::PatchWorkload {
            kind: workload.kind,
            name: workload.name().to_owned(),
            patch: workload.patch(replicas, record),
            why,
        }
    }

    fn freeze(&self, job: &JobView) -> Step {
        let record = Record {
            by: self.filestore.name.clone(),
            run: self.run.clone(),
            stage: Mark::Frozen,
            replicas: self.legacy.workload.replicas,
            at: self.now,
            job: job.name.clone(),
        };
        self.scale(0, Some(&record), WorkloadChange::Freeze)
    }

    fn go(&self, job: &JobView) -> Option<Step> {
        let annotations = json!({GO_ANNOTATION: GO, WENT_ANNOTATION: self.now.to_string()});
        Some(Step::Go {
            pod: job.pod.clone()?,
            patch: json!({"metadata": {"annotations": annotations}}),
        })
    }

    /// The record of a store that was handed over, made anew where it is missing.
    fn handed_over(&self) -> Record {
        let known = self.record.clone().map(|record| Record {
            stage: Mark::HandedOver,
            ..record
        });
        known.unwrap_or_else(|| Record {
            by: self.filestore.name.clone(),
            run: self.run.clone(),
            stage: Mark::HandedOver,
            replicas: self.legacy.workload.replicas.max(1),
            at: self.now,
            job: String::new(),
        })
    }

    fn stop_writers(&self) -> Step {
        let workload = &self.legacy.workload;
        let who = started_by(self.legacy);
        let mut patch = workload.patch(0, Some(&self.handed_over()));
        patch["metadata"]["annotations"][WRITERS_ANNOTATION] =
            json!(format!("{who} at {:.0}", self.now));
        Step::PatchWorkload {
            kind: workload.kind,
            name: workload.name().to_owned(),
            patch,
            why: WorkloadChange::Writers(who),
        }
    }

    fn way_back(&self, back: &Back) -> Option<Step> {
        match back {
            Back::Make(kind, round, failures) => Some(self.make(*kind, *round, *failures)),
            Back::Stop(job) => abort(job, "the way back was given up", self.now),
            Back::Restore => {
                let record = Record {
                    stage: Mark::RolledBack,
                    ..self.handed_over()
                };
                let replicas = record.replicas.max(1);
                Some(self.scale(replicas, Some(&record), WorkloadChange::RolledBack))
            }
            Back::Off | Back::Runs(_) | Back::Waits(..) => None,
        }
    }

    fn make(&self, kind: JobKind, round: u32, failures: u32) -> Step {
        let attempts = Attempts {
            filestore: self.filestore,
            cluster: self.cluster,
            observed: self.observed,
            seen: self.seen,
            legacy: self.legacy,
            run: &self.run,
        };
        let before = views(&self.seen.jobs, &self.seen.job_pods, &self.run);
        let last = before.iter().rfind(|job| job.kind == kind);
        let mut job = attempts.job(kind, round, failures, last);
        job.metadata.owner_references = Some(vec![self.owner.clone()]);
        Step::CreateJob(Box::new(job))
    }
}

/// Who started the legacy store again.
fn started_by(legacy: &Legacy) -> String {
    let managed = legacy.workload.metadata.managed_fields.as_deref();
    let path = Path::fields(&["spec", "replicas"]);
    manager_of(
        &path,
        managed.unwrap_or_default(),
        &[FIELD_MANAGER, STATUS_MANAGER],
    )
    .unwrap_or("somebody")
    .to_owned()
}

/// Says on the Job why it was given up, and ends it where it still runs.
fn abort(job: &JobView, why: &str, now: Timestamp) -> Option<Step> {
    let stop = !job.is_over() && !job.suspended;
    if job.aborted.is_some() && !stop {
        return None;
    }
    let mut patch = json!({"metadata": {"annotations": {
        ABORTED_ANNOTATION: why,
        ABORTED_AT_ANNOTATION: now.to_string(),
    }}});
    if stop {
        patch["spec"] = json!({"suspend": true});
    }
    Some(Step::PatchJob {
        name: job.name.clone(),
        patch,
        why: JobChange::Stop(why.to_owned()),
    })
}

/// Tries the new store (before the hand-over) and hands it over.
fn hand_over(observed: &Observed, job: Option<&JobView>, mark: Option<Step>) -> Option<Step> {
    if observed.pod_ready() || !observed.serves() {
        return None;
    }
    // Another engine waits for nobody.
    let run = observed
        .deployment
        .as_ref()
        .and_then(render::required_marker)?;
    let carried = job.and_then(|job| job.summary.carried.as_ref());
    Some(Step::HandOver(Box::new(HandOver {
        address: observed.address()?,
        run,
        buckets: carried.map(|carried| carried.buckets),
        mark,
    })))
}

/// Lets the cluster remove Jobs beyond those that are kept for their logs.
fn trim(seen: &Takeover, run: &str) -> Vec<Step> {
    let jobs = views(&seen.jobs, &seen.job_pods, run);
    let mut steps = Vec::new();
    for kind in JobKind::ALL {
        let of_kind = jobs.iter().filter(|job| job.kind == kind);
        for old in of_kind.rev().skip(KEPT).filter(|job| job.is_over()) {
            let live = seen
                .jobs
                .iter()
                .find(|job| job.metadata.name.as_ref() == Some(&old.name));
            let spec = live.and_then(|job| job.spec.as_ref());
            if spec.is_some_and(|spec| spec.ttl_seconds_after_finished.is_none()) {
                steps.push(Step::PatchJob {
                    name: old.name.clone(),
                    patch: json!({"spec": {"ttlSecondsAfterFinished": 0}}),
                    why: JobChange::Trim,
                });
            }
        }
    }
    steps
}
