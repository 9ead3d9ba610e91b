//! Takes a legacy S3 store over: plan, copy, verify, marker.
//!
//! ```text
//! Source ──ordered listing──▶ merge ──▶ policy ──▶ copy ──▶ Target
//!   drive · s3 · volume        (pure)    (pure)      │        volume · s3
//!                                                    ▼
//!                              .filestore/{migration.json, runs/<id>/…}
//! ```
//!
//! [`source::Source`] and [`target::Target`] are the two ends; everything between them knows
//! neither S3 nor files. Both listings are streamed in byte order of keys, so that memory does
//! not grow with the number of objects.

pub mod body;
mod casefold;
pub mod connect;
pub mod copy;
mod deadline;
pub mod drive;
pub mod error;
pub mod exit;
mod fit;
pub mod guard;
mod lanes;
pub mod location;
pub mod manifest;
pub mod merge;
pub mod naming;
pub mod options;
pub mod pace;
pub mod pass;
pub mod plan;
pub mod policy;
pub mod progress;
pub mod reconcile;
pub mod run;
pub mod s3;
pub mod scope;
mod session;
pub mod source;
mod spool;
pub mod state;
pub mod target;
pub mod verify;
mod volume;

pub use error::{Error, Kind, Result};
pub use exit::ExitCode;
pub use location::{Addressing, Credentials, Endpoint, Location};
pub use options::RunOptions;
pub use progress::{Event, Phase, Progress};
pub use run::{Ending, Outcome, run};
pub use scope::{Scope, Shard};
