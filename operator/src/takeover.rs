//! The take-over of a legacy MinIO in the namespace: which step is next, by what the cluster shows.
//!
//! ```text
//! copy … copy ─▶ gate ─▶ approval ─▶ final pass waits ─▶ legacy to 0 ─▶ go ─▶ start ─▶ hand-over ─▶ served
//!                                          ▲                │                  │                    │
//!                                          └── legacy up ◀──┴──────────────────┘         way back ◀─┘
//! ```
//!
//! Pure: [`stage`] decides on facts alone (Jobs and their pods, replicas, the [`Record`] on the
//! legacy workload), never on what an earlier round remembered. So an operator that was killed
//! goes on wherever it was. docs/cutover.md draws it.

mod attempt;
mod job;
mod legacy;
mod stage;
mod steps;
mod wear;
mod workload;

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use sha2::{Digest as _, Sha256};

pub use attempt::source_keys;
pub use job::{
    JobKind, JobState, JobView, WorkerView, Workers, next_number, views, workers_at_work,
};
pub use legacy::{Legacy, Namespace, find};
pub use stage::{Back, Stage, pace, stage};
pub use steps::steps;
pub use workload::{Mark, RECORD_ANNOTATION, Record, WRITERS_ANNOTATION, Workload};

use crate::api::{MigrationStatus, PlanStatus, SourceStatus};
use crate::observed::Observed;
use crate::render;
use crate::status::Problem;
use crate::validate::{InCluster, ValidatedFilestore};

/// Annotation of the final pass's pod: when it got the word, RFC 3339.
pub const WENT_ANNOTATION: &str = "filestore.ryax.tech/went-at";

/// What the cluster shows of a take-over.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// The legacy store, if it was found.
    pub legacy: Result<Option<Legacy>, Problem>,
    /// Pods that its workload selects, ours apart.
    pub legacy_pods: Vec<Pod>,
    /// Jobs of the Filestore.
    pub jobs: Vec<Job>,
    /// Their pods.
    pub job_pods: Vec<Pod>,
    /// What was known before.
    pub recorded: Option<MigrationStatus>,
    /// Versions of the Secrets with the keys of the legacy store and of this one, by name; `None` =
    /// not looked at.
    pub secrets: Option<BTreeMap<String, Option<String>>>,
    /// Why the new store could not be handed over in this round.
    pub trouble: Option<String>,
}

impl Takeover {
    /// The legacy store, if there is one that is understood.
    pub fn legacy(&self) -> Option<&Legacy> {
        self.legacy.as_ref().ok()?.as_ref()
    }

    /// What we wrote on its workload.
    pub fn record(&self) -> Option<Record> {
        self.legacy()?.workload.record()
    }

    /// The run that is under way: what was begun under one id ends under it.
    pub fn run(&self, filestore: &str, cluster: &InCluster) -> String {
        let ours = self.record().filter(|record| record.by == filestore);
        match ours {
            Some(record) if record.stage != Mark::RolledBack => record.run,
            _ => cluster.run.clone(),
        }
    }

    /// Whether any pod of the legacy store is left.
    pub fn legacy_runs(&self) -> bool {
        !self.legacy_pods.is_empty()
    }

    /// Address of a Job's pod that runs.
    pub fn working(&self) -> Option<IpAddr> {
        let running = self.job_pods.iter().filter(|pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        });
        let mut addresses = running.filter_map(|pod| pod.status.as_ref()?.pod_ip.as_deref());
        addresses.find_map(|address| address.parse().ok())
    }

    /// The legacy store as it is, or as it was known. What was handed over goes on as it was known,
    /// whatever becomes of the legacy objects: another label would start the pod anew.
    pub fn source(&self) -> Option<SourceStatus> {
        let recorded = self.recorded.as_ref();
        let known = recorded.and_then(|known| known.source.clone());
        let now = self.legacy().map(|legacy| legacy.source.clone());
        let is_over = recorded.is_some_and(|known| known.handed_over.is_some());
        if is_over {
            known.or(now)
        } else {
            now.or(known)
        }
    }
}

/// The Filestore as its pods are to be during and after the take-over of `source`: they wear the
/// labels that the legacy Services select and run as the user whose files they take over.
pub fn dressed(
    filestore: &ValidatedFilestore,
    source: &SourceStatus,
    run: &str,
) -> ValidatedFilestore {
    let mut dressed = filestore.clone();
    let own = std::mem::take(&mut dressed.pod.labels);
    dressed.pod.labels.clone_from(&source.labels);
    dressed.pod.labels.extend(own);
    if !filestore.security.user_is_set
        && filestore.security.run_as_user.is_some()
        && source.user.is_some()
    {
        dressed.security.run_as_user = source.user;
    }
    dressed.require_marker = Some(run.to_owned());
    dressed
}

/// What the cut-over would do, by the last round of copying and the gate.
pub fn plan_of(
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    source: &SourceStatus,
    copied: Option<&JobView>,
    way_back: bool,
) -> PlanStatus {
    let buckets = filestore.migration.as_ref().map(render::chosen_buckets);
    let buckets = buckets.unwrap_or_default();
    let left_behind = copied
        .map(|job| job.summary.left_behind.clone())
        .unwrap_or_default();
    // Kinds of things that stay behind, not how many: clients go on writing while a person reads.
    let mut text = vec![
        json!(cluster.run),
        json!(source.workload.name),
        json!(source.claim.name),
        json!(left_behind),
        json!(way_back),
    ];
    if !buckets.is_empty() {
        // Which buckets get lost to clients is a decision.
        text.push(json!(buckets));
    }
    let text = serde_json::Value::from(text);
    let digest = Sha256::digest(text.to_string().as_bytes());
    PlanStatus {
        hash: hex::encode(digest.get(..8).unwrap_or_default()),
        way_back,
        left_behind,
    }
}

/// Access modes of the claim for the data, as it is or will be.
pub(crate) fn access_modes<'a>(
    filestore: &'a ValidatedFilestore,
    observed: &'a Observed,
) -> Vec<&'a str> {
    let claim = observed.claim.as_ref();
    if let Some(modes) = claim.and_then(|claim| claim.spec.as_ref()?.access_modes.as_ref()) {
        return modes.iter().map(String::as_str).collect();
    }
    let new = filestore.storage.new.iter();
    new.flat_map(|new| new.access_modes.iter().map(|mode| mode.as_str()))
        .collect()
}

/// The stage for `observed`, when a take-over in the cluster is asked for.
pub fn current<'a>(
    filestore: &'a ValidatedFilestore,
    observed: &'a Observed,
    now: Timestamp,
) -> Option<Stage> {
    let cluster = filestore.migration.as_ref()?.cluster.as_ref()?;
    Some(stage(filestore, cluster, observed, now))
}
