//! The Filestore resource: types, validation and the pod it stands for.
//!
//! ```text
//! YAML ──manifest──▶ Filestore + Secrets ──validate──▶ ValidatedFilestore ──render──▶ Kubernetes objects
//! ```
//!
//! Everything here is pure: no client, no clock, no file access. `filestore up` runs the rendered
//! pod on one machine; charts and the operator hand the same objects to a cluster.

pub mod api;
pub mod manifest;
pub mod render;
pub mod secret;
pub mod validate;

pub use api::{Filestore, FilestoreSpec};
pub use manifest::Manifest;
pub use secret::Secrets;
pub use validate::{ValidatedFilestore, validate};
