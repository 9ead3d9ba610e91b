//! The legacy store to take over.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CredentialsSpec;

/// A migration; it runs once, and its marker on the volume says how far it got.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "!has(self.mode) || self.mode != 'online' || (has(self.source) && has(self.source.endpoint))"
    )
    .message("mode online needs source.endpoint"),
    validation = Rule::new(
        "!has(self.mode) || self.mode != 'offline' || (has(self.source) && has(self.source.existingClaim))"
    )
    .message("mode offline needs source.existingClaim"),
    validation = Rule::new(
        "!(has(self.cutover) || has(self.approve) || has(self.rollback)) || !has(self.source) || !(has(self.source.endpoint) || has(self.source.existingClaim))"
    )
    .message("cutover, approve and rollback go with a legacy store in the cluster, not with endpoint or existingClaim"),
    validation = Rule::new(
        "!has(self.shards) || !has(self.source) || !(has(self.source.endpoint) || has(self.source.existingClaim))"
    )
    .message("shards go with a legacy store in the cluster: from endpoint or existingClaim it is taken over by the one pod that serves afterwards"),
    validation = Rule::new(
        "!has(self.rollback) || !has(self.id) || self.rollback.requestID == self.id"
    )
    .message("rollback.requestID must be the id of the migration that is to be undone"),
    validation = Rule::new(
        "!has(self.buckets) || self.buckets.all(one, self.buckets.exists_one(other, (has(other.target) ? other.target : other.name) == (has(one.target) ? one.target : one.name)))"
    )
    .message("two buckets of migration.buckets would get one name"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrationSpec {
    /// Names the run in the marker. Default: the name of the Filestore for a legacy store in the
    /// cluster, else a generated one.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How the legacy store is read. Default `auto`: as `source` says, and without `source`
    /// whatever the operator finds in the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<MigrationMode>,
    /// The legacy store; only ever read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<MigrationSource>,
    /// Buckets to take over. Default: all. The others stay on the legacy store alone.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<MigrationBucket>,
    /// How closely both sides are compared before cut-over. Default `listing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Objects copied at the same time. Default 16.
    #[schemars(range(min = 1, max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u16>,
    /// Bytes of objects to read from the legacy store in a second, at most, for example `20Mi`; all
    /// workers of a round together. From the stop of a legacy store in the cluster on there is no limit: clients wait. Default:
    /// none.
    #[schemars(length(max = 16), regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|k|M|G)?$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// Pods that share each round of copying, each of which copies `parallelism` objects at the
    /// same time; of a legacy store in the cluster. They run on one node, unless several can mount
    /// the volume. Default 1.
    #[schemars(range(min = 1, max = 16))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,
    /// How long a round of copying (or, from `endpoint` and `existingClaim`, a start of the
    /// take-over) may last, for example `6h` or `1h30m`; the next one goes on where it was. Does
    /// not bound the cut-over. Default: no limit.
    #[schemars(
        length(min = 2, max = 24),
        regex(pattern = r"^([1-9][0-9]*h)?([1-9][0-9]*m)?([1-9][0-9]*s)?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// How many objects, copied before and deleted on the legacy store since, the take-over may
    /// delete here at most. More stop it, before the legacy store is stopped. Default: no limit.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delete: Option<u32>,
    /// Whether the cut-over waits for `approve`. Default `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutover: Option<CutoverPolicy>,
    /// Approves the plan of this hash (`status.migration.plan.hash`); of no effect for another.
    #[schemars(length(equal = 16), regex(pattern = r"^[0-9a-f]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<String>,
    /// Asks for the way back to the legacy store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RollbackSpec>,
}

/// A bucket to take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrationBucket {
    /// Its name on the legacy store.
    #[schemars(
        length(min = 3, max = 63),
        regex(pattern = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    )]
    pub name: String,
    /// Its name here. Default: the same.
    #[schemars(
        length(min = 3, max = 63),
        regex(pattern = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// How the legacy store is read. Default `auto`: as `source` says, and without `source` whatever
/// the operator finds in the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MigrationMode {
    /// As `source` says.
    #[default]
    Auto,
    /// Over its S3 API.
    Online,
    /// From the drive of a stopped MinIO.
    Offline,
}

/// The legacy store: a MinIO in the namespace (which one may be said by its `service` or
/// `workload`), an S3 endpoint, or the claim of a stopped single-drive MinIO.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "[has(self.endpoint), has(self.existingClaim), has(self.service), has(self.workload)].filter(set, set).size() <= 1"
    )
    .message("at most one of endpoint, existingClaim, service and workload"),
    validation = Rule::new("!has(self.existingClaim) || !has(self.credentials)")
        .message("a drive needs no credentials"),
    validation = Rule::new("!has(self.path) || has(self.existingClaim)")
        .message("path belongs to existingClaim"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrationSource {
    /// URL of the S3 API of a running store.
    #[schemars(length(max = 256), regex(pattern = r"^https?://[^/]+/?$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Service of a legacy MinIO in the namespace.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Deployment or StatefulSet of a legacy MinIO in the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadReference>,
    /// Keys of the source. Default: for a MinIO in the namespace those that it is started with,
    /// else those of the Filestore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<CredentialsSpec>,
    /// Claim with the drive of a stopped MinIO (`.minio.sys/` in it); mounted read-only.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,
    /// Folder of the claim that holds the drive. Default: its root.
    #[schemars(length(min = 1, max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A Deployment or StatefulSet by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkloadReference {
    /// Kind of the object.
    pub kind: WorkloadKind,
    /// Its name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
}

/// Kind of the object.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum WorkloadKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

impl WorkloadKind {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// Whether the cut-over waits for `approve`. Default `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CutoverPolicy {
    /// As soon as little is left to copy. Without a way back it waits for `approve` all the same.
    #[default]
    Auto,
    /// When the plan was approved.
    Manual,
}

/// The way back to the legacy store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollbackSpec {
    /// The id of the migration that is to be undone: a value that is right once. Removed before the
    /// legacy store is up again, the way back is abandoned.
    #[serde(rename = "requestID")]
    #[schemars(length(min = 1, max = 40))]
    pub request_id: String,
    /// Who wins where both stores changed an object; without it such objects stop the way back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefer: Option<Prefer>,
}

/// Who wins where both stores changed an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// The later one.
    Newest,
    /// What Filestore holds.
    Filestore,
    /// What the legacy store holds.
    Legacy,
}

/// How closely both sides are compared before cut-over. Default `listing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// ETag and size in both listings.
    #[default]
    Listing,
    /// The target is read and its ETags are computed.
    Etag,
    /// Both sides are read and every byte is compared.
    Bytes,
}

impl Verify {
    /// The value of `--verify`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Etag => "etag",
            Self::Bytes => "bytes",
        }
    }
}
