//! What the operator found and did; written by it alone.
//!
//! Nothing here is needed to go on: it is computed anew from the cluster and may be lost (a
//! restored backup has none). Unknown fields are let pass, so that an older operator can read
//! what a newer one wrote.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MigrationStatus;

/// What the operator found and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilestoreStatus {
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions in one word, for people; programs read the conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// URL of the store for clients in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Image that the pod runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageStatus>,
    /// The take-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationStatus>,
    /// Conditions by the conventions of the Kubernetes API; see docs/operator.md for each type
    /// and reason.
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The volume, as found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageStatus {
    /// Name of the claim.
    pub claim_name: String,
    /// Name of the volume that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_name: Option<String>,
    /// Size of that volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// How full the file system is, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<i32>,
}

/// The conditions in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Objects are being made or the pod starts.
    Provisioning,
    /// The legacy store is being taken over.
    Migrating,
    /// The store serves.
    Ready,
    /// The store serves, and something needs a person.
    Degraded,
    /// The store does not serve, and something needs a person.
    Failed,
    /// The store is stopped, as asked.
    Suspended,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 6] = [
        Self::Provisioning,
        Self::Migrating,
        Self::Ready,
        Self::Degraded,
        Self::Failed,
        Self::Suspended,
    ];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
