//! From a checked Filestore to the Kubernetes objects that it stands for.
//!
//! Pure functions, one file per object or container. `filestore up` runs [`pod_template`] on one
//! machine; charts and the operator apply the same pod in a cluster.

mod access;
mod claim;
mod container;
mod deployment;
mod extras;
mod gateway;
mod job;
mod labels;
mod migrate;
mod minio;
mod monitoring;
mod network_policy;
mod pod;
mod prepare;
mod service;
mod service_account;
mod tls;

pub use access::{ACCESS_PATH, followed};
pub use claim::claim;
pub use deployment::{deployment, required_marker, source_keys, with_source_keys};
pub use extras::{endpoint, extras};
pub use job::{
    ABORTED_ANNOTATION, ABORTED_AT_ANNOTATION, AFTER_ANNOTATION, FAILURES_ANNOTATION, GO,
    GO_ANNOTATION, JOB_LABEL, JobRequest, NUMBER_ANNOTATION, ROUND_ANNOTATION, RUN_LABEL,
    USED_ANNOTATION, job,
};
pub use labels::{COMPONENT_LABEL, GATEWAY, NAME_LABEL, labels, selector};
pub use migrate::MIGRATE_CONTAINER;
pub(crate) use migrate::chosen_buckets;
pub use pod::pod_template;
pub use prepare::LAYOUT_CONTAINER;
pub use service::service;
pub use service_account::service_account;
pub use tls::CERTIFICATE_ANNOTATION;

/// Port of the S3 API inside the pod.
pub const API_PORT: u16 = 9000;

/// Name of the S3 port, the one that MinIO's chart uses: a Service of the legacy store whose
/// `targetPort` is this name reaches our pod without being changed.
pub const API_PORT_NAME: &str = "api";

/// Port of `/metrics`, `/healthz` and `/readyz` inside the pod.
pub const ADMIN_PORT: u16 = 9090;

/// Name of the admin port.
pub const ADMIN_PORT_NAME: &str = "admin";

/// Where the volume is mounted.
pub const DATA_PATH: &str = "/data";

/// Where a legacy drive is mounted, read-only.
pub const SOURCE_PATH: &str = "/source";

/// Name of the container that serves.
pub const GATEWAY_CONTAINER: &str = "gateway";

#[cfg(test)]
mod tests;
