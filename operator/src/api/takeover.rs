//! The take-over, as found.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkloadKind;

/// The take-over, as found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrationStatus {
    /// Name of the run, from the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How much is copied, in percent: of the bytes that were counted when the first round began, in
    /// later ones of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_percent: Option<i32>,
    /// Objects that were carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// Bytes that were carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// How often the take-over was started again in the present pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i32>,
    /// Rounds of copying that were begun beside the running legacy store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<i32>,
    /// The Job at work, or the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The legacy store in the cluster. All later steps are about exactly these objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStatus>,
    /// What the cut-over would do, to be approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanStatus>,
    /// How the time was spent in which clients had no store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze: Option<FreezeStatus>,
    /// Name of the run that was handed over to the clients; its legacy store stays at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_over: Option<String>,
}

/// The legacy store in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// Kind of its workload.
    pub kind: WorkloadKind,
    /// The workload.
    pub workload: NamedObject,
    /// Services that lead to it and will lead to the new store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<NamedObject>,
    /// The claim with its drive.
    pub claim: NamedObject,
    /// Folder of the claim that holds the drive; empty = its root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Secret with the keys that it is started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Image that serves it.
    pub image: String,
    /// Labels that its Services select, which the new pod wears.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// User id of its files, with which the new pod runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<i64>,
    /// Replicas when it was scaled to 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// An object by name and UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedObject {
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// What the cut-over would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Names the plan; `spec.migration.approve` approves it.
    pub hash: String,
    /// Whether the image of the legacy store could be started for a way back.
    pub way_back: bool,
    /// What stays behind, by reason; docs/migration.md says what each means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

/// How the time was spent in which clients had no store; in whole seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FreezeStatus {
    /// When the legacy store was scaled to 0, RFC 3339.
    pub started_at: String,
    /// Until its pods were gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_seconds: Option<i64>,
    /// The final pass: the rest copied, deletions, both sides compared, the marker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_seconds: Option<i64>,
    /// Until the new store was ready, canary and hand-over among it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_seconds: Option<i64>,
    /// All of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<i64>,
}
