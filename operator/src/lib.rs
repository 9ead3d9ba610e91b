//! The Filestore resource: types, validation and the pod it stands for.
//!
//! ```text
//! YAML ──manifest──▶ Filestore + Secrets ──validate──▶ ValidatedFilestore ──render──▶ Kubernetes objects
//! ```
//!
//! `filestore up` runs the rendered pod on one machine; charts and the operator hand the same
//! objects to a cluster. The operator goes on from there:
//!
//! ```text
//! ValidatedFilestore + Observed ──plan──▶ requests ──controller──▶ cluster
//!                               ──status─▶ FilestoreStatus ──notices──▶ events
//! ```
//!
//! Everything but `controller` and `preflight::read` is pure: no client, no clock, no file access.

pub mod access;
pub mod api;
pub mod controller;
pub mod drift;
pub mod extras;
pub mod images;
pub mod manifest;
pub mod minio;
pub mod notices;
pub mod observed;
pub mod plan;
pub mod preflight;
pub mod quantity;
pub mod render;
pub mod secret;
pub mod status;
pub mod summary;
pub mod takeover;
pub mod told;
pub mod validate;

pub use api::{Filestore, FilestoreSpec};
pub use manifest::Manifest;
pub use secret::Secrets;
pub use validate::{ValidatedFilestore, validate};
