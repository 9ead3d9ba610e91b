//! S3 objects as plain files on a POSIX volume.
//!
//! ```text
//! <volume>/s3/<bucket>/<key>          objects, attributes on the file (xattr mode)
//! <volume>/.filestore/                volume.json, lock, migration.json, trash/, keys/, meta/ …
//! ```
//!
//! Every call blocks; callers decide on which thread. The store knows nothing of HTTP or of any
//! S3 protocol library: [`Store`] speaks in the types of `filestore_common::object` and
//! [`query`]. All path access is confined to the volume.

mod attributes;
mod bucket;
pub mod convert;
mod counters;
mod delete;
mod dir;
pub mod error;
mod flush;
mod layout;
mod listing;
mod locks;
mod multipart;
mod object;
mod overflow;
mod path;
mod publish;
pub mod query;
mod sidecar;
mod staged;
mod store;
mod trash;
mod volume;

pub use attributes::attribute_bytes;
pub use error::{Error, Result};
pub use query::*;
pub use staged::Staged;
pub use store::{ObjectReader, Store};
pub use volume::hand_over::HandOverError;
pub use volume::marker::read_marker;
