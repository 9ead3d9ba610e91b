//! What two or more of Filestore's crates share: names, object metadata, digests,
//! the migration marker, logging and shutdown.

pub mod digest;
pub mod key;
pub mod marker;
mod md5_stream;
pub mod object;
pub mod shutdown;
pub mod telemetry;

pub use key::{BucketName, MAX_KEY_BYTES, ObjectKey};
pub use md5_stream::{Md5Pool, Md5Stream};
pub use object::{
    Checksum, ChecksumAlgorithm, ChecksumKind, ContentHeaders, ETag, ObjectInfo, ObjectMeta, Tags,
    UserMetadata,
};
