//! A Filestore that was checked; only [`super::validate`] makes one.

use std::collections::BTreeMap;

use filestore_common::BucketName;

use super::access::Access;
use crate::api::{
    AccessMode, CutoverPolicy, Durability, MetadataMode, NetworkPolicySpec, PlacementSpec, Prefer,
    ResourcesSpec, Verify, WorkloadReference,
};

/// Everything the builders need, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidatedFilestore {
    /// Name; also of the Deployment, the Service and a new claim.
    pub name: String,
    /// Namespace, when the manifest names one.
    pub namespace: Option<String>,
    /// Server on the volume.
    pub server: Server,
    /// Image of `filestore`.
    pub image: String,
    /// Region that the store answers with.
    pub region: String,
    /// Flush rule.
    pub durability: Durability,
    /// No server runs.
    pub suspend: bool,
    /// Root access key and secret key.
    pub root: KeyPair,
    /// Port of the Service.
    pub service_port: u16,
    /// The certificate that clients are answered with; `None` = plain HTTP.
    pub tls: Option<Tls>,
    /// Further names that clients know the store by.
    pub compatibility: Vec<Name>,
    /// The volume.
    pub storage: Storage,
    /// Buckets that exist from the start.
    pub buckets: Vec<BucketName>,
    /// Users and quotas.
    pub access: Access,
    /// The take-over, if any.
    pub migration: Option<Migration>,
    /// User ids.
    pub security: Security,
    /// What else the pod carries.
    pub pod: Pod,
    /// Where the pod may run.
    pub placement: PlacementSpec,
    /// Who may reach the pod; `None` = no policy.
    pub network_policy: Option<NetworkPolicySpec>,
    /// Objects for Prometheus and Grafana.
    pub monitoring: Monitoring,
    /// The site, where it is told.
    pub site: Option<Site>,
    /// The pod is ready only when the marker on the volume says that this run was handed over.
    pub require_marker: Option<String>,
}

/// A certificate, checked; its key stays in the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Name of the Secret.
    pub secret: String,
    /// The certificate itself, DER.
    pub certificate: Vec<u8>,
    /// Names all that the Secret holds as certificates; 16 hexadecimal digits.
    pub hash: String,
}

/// A further name of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Name of the Service.
    pub name: String,
    /// Its port.
    pub port: u16,
}

/// Objects for Prometheus and Grafana; `None` = not wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monitoring {
    /// A ServiceMonitor.
    pub scrape: Option<Scrape>,
    /// A PrometheusRule.
    pub alerts: Option<Alerts>,
    /// A ConfigMap with a dashboard.
    pub dashboard: Option<Dashboard>,
}

/// What a ServiceMonitor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// Time between two scrapes, as Prometheus writes it.
    pub interval: String,
    /// Extra labels.
    pub labels: BTreeMap<String, String>,
}

/// What a PrometheusRule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alerts {
    /// Percent of the volume in use from which an alert warns; below 95.
    pub capacity_warn_percent: u8,
    /// Extra labels.
    pub labels: BTreeMap<String, String>,
}

/// How Grafana finds the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dashboard {
    /// Extra labels.
    pub labels: BTreeMap<String, String>,
}

/// The site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Endpoint to tell, without trailing slash; `None` = that of the Service.
    pub endpoint: Option<String>,
}

/// Server on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// `filestore gateway`.
    Bundled,
    /// versitygw over the same files.
    Versitygw {
        /// Its image.
        image: String,
    },
}

/// Where a pair of keys is; never the keys themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// Name of the Secret.
    pub secret: String,
    /// Its key that holds the access key.
    pub access_key: String,
    /// Its key that holds the secret key.
    pub secret_key: String,
}

/// The volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Name of the claim.
    pub claim: String,
    /// How to make it; `None` when it exists.
    pub new: Option<NewClaim>,
    /// Where object metadata lives.
    pub metadata: MetadataMode,
}

/// A claim to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// Size, as written.
    pub size: String,
    /// Storage class; `None` = the cluster's default.
    pub storage_class: Option<String>,
    /// Access modes.
    pub access_modes: Vec<AccessMode>,
}

/// A take-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Names the run in the marker.
    pub id: Option<String>,
    /// A legacy store that the pod itself takes over before it serves; `None` = one in the
    /// cluster, see [`Migration::cluster`].
    pub source: Option<Source>,
    /// A legacy store in the namespace, which the operator takes over; exactly when `source` is
    /// `None`.
    pub cluster: Option<InCluster>,
    /// How closely both sides are compared before cut-over.
    pub verify: Verify,
    /// Objects copied at the same time; `None` = as the migrator does by itself.
    pub parallelism: Option<u16>,
    /// Buckets to take over, with their names here where these differ; empty = all.
    pub buckets: Vec<(BucketName, Option<BucketName>)>,
    /// Bytes a second to read from the legacy store, as written; `None` = no limit.
    pub bandwidth: Option<String>,
    /// Workers that share a round of copying; 1 = no shards.
    pub shards: u16,
    /// How long a round of copying may last, as written; `None` = no limit.
    pub deadline: Option<String>,
    /// How many objects may be deleted; `None` = no limit.
    pub max_delete: Option<u32>,
}

/// A take-over of a legacy store in the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InCluster {
    /// Names the run.
    pub run: String,
    /// Which store; `Any` = the only one that there is.
    pub wanted: Wanted,
    /// Its keys; `None` = those that it is started with.
    pub keys: Option<KeyPair>,
    /// Whether the cut-over waits.
    pub cutover: CutoverPolicy,
    /// Hash of the plan that was approved.
    pub approve: Option<String>,
    /// The way back is asked for; who wins where both sides changed an object.
    pub back: Option<Option<Prefer>>,
}

/// Which MinIO of the namespace is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The only one.
    Any,
    /// The one that this Service leads to.
    Service(String),
    /// This one.
    Workload(WorkloadReference),
}

/// The legacy store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A running store.
    Online {
        /// URL without trailing slash.
        endpoint: String,
        /// Its keys.
        keys: KeyPair,
    },
    /// The drive of a stopped MinIO.
    Offline {
        /// Claim with the drive.
        claim: String,
        /// Folder inside the claim, without slashes around; empty = its root.
        path: String,
    },
}

/// User ids of the pod; `None` = assigned by the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    /// User id.
    pub run_as_user: Option<i64>,
    /// The spec names the user id.
    pub user_is_set: bool,
    /// Group id.
    pub run_as_group: Option<i64>,
    /// Group of the volume.
    pub fs_group: Option<i64>,
}

/// What else the pod carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Extra labels.
    pub labels: BTreeMap<String, String>,
    /// Extra annotations.
    pub annotations: BTreeMap<String, String>,
    /// Secrets with the keys of the registry.
    pub image_pull_secrets: Vec<String>,
    /// CPU and memory.
    pub resources: ResourcesSpec,
    /// Seconds for open requests to end.
    pub grace_seconds: i64,
}
