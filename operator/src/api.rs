//! The `Filestore` resource, `filestore.ryax.tech/v1alpha1`, as people write it.
//!
//! A field exists only if it has an effect. An omitted field has the default named in its
//! description; the schema itself holds no defaults, so that an object in the cluster stays what
//! its author wrote (GitOps tools would show added fields as drift).

#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats each type inside a function, where nobody can reach it"
)]

mod access;
mod crd;
mod credentials;
mod extras;
mod migration;
mod placement;
mod pod;
mod spec;
mod status;
mod storage;
mod takeover;
mod tls;

pub use access::{AccessLevel, AccessSpec, GrantSpec, UserKeys, UserSpec};
pub use crd::{AS_IN_KUBERNETES, crd, crd_yaml};
pub use credentials::{CredentialKeys, CredentialsSpec, SecretReference};
pub use extras::{
    CompatibilityName, DashboardSpec, MonitoringSpec, NetworkPolicySpec, PrometheusRuleSpec,
    ServiceMonitorSpec, SiteSpec,
};
pub use migration::{
    CutoverPolicy, MigrationBucket, MigrationMode, MigrationSource, MigrationSpec, Prefer,
    RollbackSpec, Verify, WorkloadKind, WorkloadReference,
};
pub use placement::PlacementSpec;
pub use pod::{PodSpec, ResourcesSpec, SecurityProfile, SecuritySpec, ServiceSpec};
pub use spec::{BucketSpec, Durability, Engine, Filestore, FilestoreSpec, VersitygwSpec};
pub use status::{FilestoreStatus, Phase, StorageStatus};
pub use storage::{AccessMode, MetadataMode, StorageSpec};
pub use takeover::{FreezeStatus, MigrationStatus, NamedObject, PlanStatus, SourceStatus};
pub use tls::TlsSpec;

/// API group of the resource; also the prefix of its labels and annotations.
pub const GROUP: &str = "filestore.ryax.tech";

/// API version of the resource.
pub const VERSION: &str = "v1alpha1";

/// `apiVersion` as it stands in a manifest.
pub const API_VERSION: &str = "filestore.ryax.tech/v1alpha1";
