//! Requests of a plan.

use std::net::IpAddr;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::Value;

use super::Kind;
use crate::api::WorkloadKind;
use crate::drift::{self, Path};
use crate::extras::Purpose;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make the claim for the data.
    CreateClaim(Box<PersistentVolumeClaim>),
    /// Change a claim by a merge patch.
    PatchClaim {
        /// Name of the claim.
        name: String,
        /// The patch: nothing but what changes.
        patch: Value,
        /// What for.
        why: ClaimChange,
    },
    /// Apply an object that goes with the Filestore.
    Apply(Apply),
    /// Take an optional object away that is not asked for any more.
    Remove(Removal),
    /// Make a Job of a take-over.
    CreateJob(Box<Job>),
    /// Change a Job by a merge patch.
    PatchJob {
        /// Name of the Job.
        name: String,
        /// The patch.
        patch: Value,
        /// What for.
        why: JobChange,
    },
    /// Scale the legacy store and write how its take-over stands, in one merge patch.
    PatchWorkload {
        /// Kind of its workload.
        kind: WorkloadKind,
        /// Its name.
        name: String,
        /// The patch.
        patch: Value,
        /// What for.
        why: WorkloadChange,
    },
    /// Let the final pass go on.
    Go {
        /// Its pod.
        pod: String,
        /// The patch.
        patch: Value,
    },
    /// Try the new store and hand it over to its clients.
    HandOver(Box<HandOver>),
}

/// The hand-over of a store that runs and is not ready yet.
#[derive(Clone, Debug, PartialEq)]
pub struct HandOver {
    /// Address of its pod.
    pub address: IpAddr,
    /// Name of the run.
    pub run: String,
    /// Buckets that were carried, where that is known.
    pub buckets: Option<u64>,
    /// Written between the trial and the hand-over: from then on nothing goes back by itself.
    /// `None` when that is so already; then nothing is tried any more.
    pub mark: Option<Step>,
}

/// Why a Job is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// It is given up, for this reason.
    Stop(String),
    /// It is old; the cluster may remove it.
    Trim,
}

/// Why the legacy store is scaled or its record is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadChange {
    /// To 0 for the final pass.
    Freeze,
    /// The new store is about to be handed over.
    HandOver,
    /// Up again: the cut-over failed, for this reason.
    GiveUp(String),
    /// To 0 after the hand-over: this manager had started it.
    Writers(String),
    /// Up again: all went back to it.
    RolledBack,
}

/// Why a claim is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// It grows from the first to the second size.
    Grow(String, String),
    /// Labels or the annotations that protect it were missing.
    Protect,
    /// Somebody else changed labels or annotations of a claim that we made.
    PutBack(Vec<Drift>),
}

/// An object to take away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What it is for.
    pub purpose: Purpose,
    /// Its name.
    pub name: String,
    /// Its uid: another object of that name is left.
    pub uid: String,
}

/// A server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// Kind of the object.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// All fields that we mean.
    pub object: Value,
    /// What somebody else changed; empty when the object is new or what we want has changed.
    pub drift: Vec<Drift>,
}

impl Apply {
    /// Whether somebody else added something that applying alone would leave.
    pub fn has_additions(&self) -> bool {
        let mut drift = self.drift.iter();
        drift.any(|drift| drift::is_addition(&self.object, &drift.path))
    }

    /// A merge patch that takes from `live` what stands in the way of our fields; of no use for an
    /// object that has changed since.
    pub fn clearance(&self, live: &Value) -> Value {
        let paths: Vec<_> = self.drift.iter().map(|drift| drift.path.clone()).collect();
        let mut patch = drift::restore(&self.object, live, &paths);
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        patch
    }
}

/// A field that somebody else changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The field.
    pub path: Path,
    /// Who, by the name of the field manager. `None` where the API server kept no trace: it records
    /// neither who removed a field nor who scaled to 0.
    pub manager: Option<String>,
}
