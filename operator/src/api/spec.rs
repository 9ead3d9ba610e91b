//! The resource and its top-level fields.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AccessSpec, CredentialsSpec, FilestoreStatus, MigrationSpec, MonitoringSpec, NetworkPolicySpec,
    PlacementSpec, PodSpec, SecuritySpec, ServiceSpec, SiteSpec, StorageSpec, TlsSpec,
};

/// Rule: what a migration copies from stays, from its first object on. Field by field: the API server
/// cannot tell what comparing whole objects would cost.
const SOURCE_STAYS: &str = "!has(oldSelf.spec.migration) || !has(oldSelf.spec.migration.source) \
    || !has(self.spec.migration) || !has(self.spec.migration.source) \
    || !has(oldSelf.status) || !has(oldSelf.status.migration) \
    || !has(oldSelf.status.migration.objects) || oldSelf.status.migration.objects == 0 \
    || (has(oldSelf.spec.migration.id) ? oldSelf.spec.migration.id : '') != (has(self.spec.migration.id) ? self.spec.migration.id : '') \
    || ((has(oldSelf.spec.migration.source.endpoint) ? oldSelf.spec.migration.source.endpoint : '') == (has(self.spec.migration.source.endpoint) ? self.spec.migration.source.endpoint : '') \
    && (has(oldSelf.spec.migration.source.existingClaim) ? oldSelf.spec.migration.source.existingClaim : '') == (has(self.spec.migration.source.existingClaim) ? self.spec.migration.source.existingClaim : '') \
    && (has(oldSelf.spec.migration.source.path) ? oldSelf.spec.migration.source.path : '') == (has(self.spec.migration.source.path) ? self.spec.migration.source.path : '') \
    && (has(oldSelf.spec.migration.source.service) ? oldSelf.spec.migration.source.service : '') == (has(self.spec.migration.source.service) ? self.spec.migration.source.service : '') \
    && (has(oldSelf.spec.migration.source.workload) ? oldSelf.spec.migration.source.workload.kind : '') == (has(self.spec.migration.source.workload) ? self.spec.migration.source.workload.kind : '') \
    && (has(oldSelf.spec.migration.source.workload) ? oldSelf.spec.migration.source.workload.name : '') == (has(self.spec.migration.source.workload) ? self.spec.migration.source.workload.name : ''))";

/// Rule: no HTTPS before a legacy store in the cluster is handed over. Only what is switched on is
/// looked at: a status may change under a spec that the operator itself refuses to begin with.
const TLS_AFTER_CUT_OVER: &str = "!has(self.spec.tls) || has(oldSelf.spec.tls) || !has(self.spec.migration) \
    || !has(self.status) || !has(self.status.migration) || !has(self.status.migration.source) \
    || has(self.status.migration.handedOver)";

/// What a Filestore should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "filestore.ryax.tech",
    version = "v1alpha1",
    kind = "Filestore",
    namespaced,
    shortname = "fst",
    status = "FilestoreStatus",
    derive = "PartialEq",
    selectable = ".spec.engine",
    doc = "An S3 store over plain files on one volume, which can take over from a legacy MinIO.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Copied%",
        type_ = "integer",
        json_path = ".status.migration.copiedPercent"
    ),
    printcolumn(
        name = "Used%",
        type_ = "integer",
        json_path = ".status.storage.usedPercent"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = "1"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.endpoint",
        priority = "1"
    ),
    printcolumn(
        name = "Engine",
        type_ = "string",
        json_path = ".spec.engine",
        priority = "1"
    ),
    printcolumn(
        name = "Claim",
        type_ = "string",
        json_path = ".status.storage.claimName",
        priority = "1"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    annotation("helm.sh/resource-policy", "keep"),
    annotation(
        "argocd.argoproj.io/sync-options",
        "Prune=false,Delete=false,ServerSideApply=true"
    ),
    validation = Rule::new(
        "!has(self.spec.service) || !has(self.spec.service.compatibility) || self.spec.service.compatibility.all(one, one.name != self.metadata.name)"
    )
    .message("service.compatibility holds further names, not that of the Filestore itself"),
    // By its namespace as well it could be that of another one.
    validation = Rule::new(
        "!has(self.spec.migration) || !has(self.spec.migration.source) || !has(self.spec.migration.source.endpoint) || !isURL(self.spec.migration.source.endpoint) || url(self.spec.migration.source.endpoint).getHostname() != self.metadata.name"
    )
    .message("migration.source.endpoint is the new store itself: the Filestore needs another name than the legacy Service"),
    validation = Rule::new(
        "!has(self.spec.migration) || !has(self.spec.migration.source) || !has(self.spec.migration.source.service) || self.spec.migration.source.service != self.metadata.name"
    )
    .message("migration.source.service is the new store itself: the Filestore needs another name than the legacy Service"),
    // What was copied from one store is no part of a copy of another.
    validation = Rule::new(SOURCE_STAYS)
    .message("migration.source cannot change once objects were copied from it; another source needs another migration.id"),
    validation = Rule::new(TLS_AFTER_CUT_OVER)
    .message("clients of the legacy store use plain HTTP: remove tls until it is handed over, or remove migration")
)]
#[x_kube(
    validation = Rule::new("(has(self.engine) && self.engine == 'versitygw') == has(self.versitygw)")
        .message("versitygw is set exactly when engine is versitygw"),
    validation = Rule::new(
        "!has(self.migration) || !has(self.migration.shards) || self.migration.shards == 1 || !has(self.storage.accessModes) || !self.storage.accessModes.exists(mode, mode == 'ReadWriteOncePod')"
    )
    .message("migration.shards needs a volume that several pods can mount, not access mode ReadWriteOncePod"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilestoreSpec {
    /// Server on the volume; both use the same files. Default `bundled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Image of `filestore`, with tag or digest. Default: the one released with this version.
    #[x_kube(validation = Rule::new("!self.endsWith(':latest')").message("tag latest is not allowed"))]
    #[schemars(length(min = 1, max = 512))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Settings of engine `versitygw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versitygw: Option<VersitygwSpec>,
    /// Region that the store answers with; requests signed for another are accepted.
    /// Default `us-east-1`.
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^[a-z0-9-]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Whether an acknowledged change survives power loss. Default `durable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Stops the server; the claim and everything on it stays. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Root access key and secret key.
    pub credentials: CredentialsSpec,
    /// How clients inside the cluster reach the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
    /// HTTPS instead of HTTP on the S3 port; metrics stay on HTTP. Default: HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// The volume.
    pub storage: StorageSpec,
    /// Buckets that exist from the start; existing ones are left as they are.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<BucketSpec>,
    /// Users of the store beside root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessSpec>,
    /// The legacy store to take over; omitted for a fresh store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration: Option<MigrationSpec>,
    /// User ids and restrictions of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<SecuritySpec>,
    /// What else the pod carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSpec>,
    /// Where the pod may run; each field is that of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementSpec>,
    /// Who may reach the pod. The pod itself may only reach the source of a migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySpec>,
    /// Objects for Prometheus and Grafana.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<MonitoringSpec>,
    /// Where the store is, for consumers that choose a store by site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteSpec>,
}

/// Server on the volume; both use the same files. Default `bundled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// `filestore gateway`.
    #[default]
    Bundled,
    /// versitygw over the same files.
    Versitygw,
}

/// Settings of engine `versitygw`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VersitygwSpec {
    /// Image of versitygw, with tag or digest.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
}

/// Whether an acknowledged change survives power loss. Default `durable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Files and directories are flushed before the answer.
    #[default]
    Durable,
    /// Page cache only: faster, what was just acknowledged may be lost with the machine.
    Relaxed,
}

impl Durability {
    /// The value of `--durability`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Relaxed => "relaxed",
        }
    }
}

/// A bucket that exists from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BucketSpec {
    /// Name by S3's rules.
    #[schemars(
        length(min = 3, max = 63),
        regex(pattern = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    )]
    #[x_kube(
        validation = Rule::new("!self.contains('..') && !self.matches('^[0-9]+([.][0-9]+){3}$')")
            .message("a bucket's name has no two dots in a row and is no IP address"),
    )]
    pub name: String,
    /// Bytes that the bucket may hold, for example `20Gi`. Default: no limit.
    #[schemars(length(min = 1, max = 32))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
}
