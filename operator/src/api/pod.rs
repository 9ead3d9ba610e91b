//! The pod around the server, and the Service in front of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CompatibilityName, SecretReference};

/// How clients inside the cluster reach the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSpec {
    /// Port of the Service. Default 9000.
    #[schemars(range(min = 1, max = 65535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Further names that clients know the store by: a Service each.
    #[schemars(length(max = 4))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatibility: Vec<CompatibilityName>,
}

/// User ids and restrictions of the pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "!has(self.profile) || self.profile != 'openshift' || !(has(self.runAsUser) || has(self.runAsGroup) || has(self.fsGroup))"
    )
    .message("profile openshift sets no ids, the cluster assigns them"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecuritySpec {
    /// Default `restricted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<SecurityProfile>,
    /// User id of the process. Default 1200.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<i64>,
    /// Group id of the process. Default 1200.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<i64>,
    /// Group that owns the volume. Default 1200.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs_group: Option<i64>,
}

/// Who assigns user ids. Default `restricted`: we do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecurityProfile {
    /// Pod Security Standard "restricted", ids set by us.
    #[default]
    Restricted,
    /// The same without ids: OpenShift assigns them per namespace.
    Openshift,
}

/// What else the pod carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSpec {
    /// Extra labels. They may replace `app.kubernetes.io/…`, so that the pod can wear what the
    /// Service of a legacy store selects, but not `filestore.ryax.tech/…`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Extra annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Secrets with the keys of the registry that holds the images.
    #[schemars(length(max = 8))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<SecretReference>,
    /// CPU and memory of the server and of the migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesSpec>,
    /// Seconds for open requests to end when the pod stops. Default 60.
    #[schemars(range(min = 1, max = 3600))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
}

/// CPU and memory, as in a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourcesSpec {
    /// What the scheduler keeps free for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// What it may never exceed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}
