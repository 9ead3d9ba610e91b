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

pub mod error;
pub mod exit;
pub mod location;
pub mod progress;
pub mod run;
pub mod source;
pub mod target;

pub use error::{Error, Kind, Result};
pub use exit::ExitCode;
pub use location::{Credentials, Endpoint, Location};
pub use progress::{Event, Progress};
pub use run::{Outcome, RunOptions, run};
