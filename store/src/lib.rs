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
mod dir;
pub mod error;
mod flush;
mod layout;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "called by the store once it is assembled")
)]
mod listing;
mod path;
pub mod query;
mod store;

pub use error::{Error, Result};
pub use query::*;
pub use store::{ObjectReader, Staged, Store};
