//! What can go wrong in the store, as a caller can act on it.

use std::io;

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the store. `context` is `verb object`, for logs; it never reaches an S3 client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bucket does not exist.
    #[error("bucket does not exist")]
    NoSuchBucket,
    /// The bucket exists already.
    #[error("bucket exists")]
    BucketExists,
    /// The bucket still holds objects.
    #[error("bucket is not empty")]
    BucketNotEmpty,
    /// The key names no object.
    #[error("object does not exist")]
    NoSuchKey,
    /// The upload id is unknown.
    #[error("multipart upload does not exist")]
    NoSuchUpload,
    /// A part named in a completion is missing or has another ETag or checksum.
    #[error("part {0} is missing or differs from what was uploaded")]
    InvalidPart(u32),
    /// Parts of a completion are not in ascending order.
    #[error("parts are not in ascending order")]
    InvalidPartOrder,
    /// A part other than the last is below 5 MiB.
    #[error("part {number} has {size} bytes, at least 5 MiB are needed")]
    PartTooSmall {
        /// Part number.
        number: u32,
        /// Its size in bytes.
        size: u64,
    },
    /// The whole does not have the size or checksum that the client announced.
    #[error("completed object differs from what was announced: {0}")]
    BadDigest(String),
    /// A precondition on the current object does not hold (HTTP 412).
    #[error("precondition failed")]
    PreconditionFailed,
    /// A conditional write lost against a concurrent one (HTTP 409).
    #[error("a concurrent write to the same key won")]
    Conflict,
    /// The key is reserved for the store's own files.
    #[error("key is reserved")]
    ReservedKey,
    /// Metadata does not fit what the file system takes.
    #[error("metadata too large for the file system: {0}")]
    MetadataTooLarge(String),
    /// The volume, or a quota of its file system, is full.
    #[error("no space left: {context}")]
    NoSpace {
        /// Verb and object.
        context: String,
    },
    /// The bucket may not hold more ([`crate::Quota`]).
    #[error("quota of the bucket exceeded")]
    QuotaExceeded,
    /// The volume cannot be used as asked; the text says what to do.
    #[error("{0}")]
    Volume(String),
    /// Something on the volume is not as this format says.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Any other failure of the file system.
    #[error("{context}")]
    Io {
        /// Verb and object.
        context: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Wraps an I/O error with `verb object`; full disks and quotas become [`Error::NoSpace`].
    pub fn io(context: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let context = context.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { context },
            _ => Self::Io { context, source },
        }
    }
}
