//! What can go wrong on a MinIO drive, in one line that names the object and the cure.

use std::io;
use std::path::PathBuf;

/// Result of a drive operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the offline source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory is not a drive that can be read offline.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The process may not read something.
    #[error(
        "cannot read {}: permission denied for uid {uid}; it belongs to uid {owner}: run as that user or as root",
        path.display()
    )]
    Denied {
        /// What could not be read.
        path: PathBuf,
        /// The process's effective user id.
        uid: u32,
        /// Owner of `path`, or of the nearest directory above it that can be looked at.
        owner: u32,
    },
    /// Any other failure of the file system.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// `open`, `list`, `read`.
        operation: &'static str,
        /// Of what.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// One object cannot be read; the others may well be.
    #[error("{object}: {reason}")]
    Object {
        /// `bucket/key`.
        object: String,
        /// Why.
        reason: Unreadable,
    },
    /// An object changed after it was listed: somebody writes to the drive.
    #[error(
        "{object}: changed on the drive after it was listed; stop MinIO before reading its drive"
    )]
    Changed {
        /// `bucket/key`.
        object: String,
    },
}

/// Why a directory cannot be used as an offline source.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The path does not exist or is not a directory.
    #[error("{}: {problem}; give the directory that MinIO was started on", path.display())]
    NotADirectory {
        /// Path that was given.
        path: PathBuf,
        /// What it is instead.
        problem: String,
    },
    /// `.minio.sys/format.json` is missing.
    #[error(
        "{}: no .minio.sys/format.json: not a MinIO drive, or an incomplete copy of one; give the directory that MinIO was started on",
        path.display()
    )]
    Missing {
        /// Path that was given.
        path: PathBuf,
    },
    /// `format.json` is there but makes no sense.
    #[error(
        "{}/.minio.sys/format.json is unreadable ({problem}); restore it, or serve the drive with MinIO and use the online source",
        path.display()
    )]
    Unreadable {
        /// Path that was given.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// One drive of several.
    #[error(
        "{}: one of {drives} drives in {sets} erasure set(s); one drive holds no complete object: start MinIO on all of them and use the online source",
        path.display()
    )]
    ErasureSet {
        /// Path that was given.
        path: PathBuf,
        /// Number of erasure sets.
        sets: usize,
        /// Drives in all sets.
        drives: usize,
    },
    /// The plain-file mode of old releases.
    #[error(
        "{}: written in MinIO's FS mode (format \"fs\"); serve it with a MinIO release from before October 2022 and use the online source",
        path.display()
    )]
    FsMode {
        /// Path that was given.
        path: PathBuf,
    },
    /// Some other format.
    #[error(
        "{}: unknown drive format {format:?}; serve it with the MinIO release that wrote it and use the online source",
        path.display()
    )]
    Unknown {
        /// Path that was given.
        path: PathBuf,
        /// Format and version found.
        format: String,
    },
}

/// How MinIO encrypted an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// With a key that only the client has.
    SseC,
    /// With keys that the server manages.
    SseS3,
    /// With a key of a key management service.
    SseKms,
}

impl std::fmt::Display for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SseC => "SSE-C",
            Self::SseS3 => "SSE-S3",
            Self::SseKms => "SSE-KMS",
        })
    }
}

/// Why one object cannot be read offline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Bytes on the drive contradict each other.
    #[error("damaged: {0}")]
    Damaged(String),
    /// Encrypted; the keys are not on the drive.
    #[error("encrypted ({0}), its key is not on the drive: needs the S3 path")]
    Encrypted(Encryption),
    /// Moved to a remote tier.
    #[error("its body is on the remote tier {0:?}: needs the S3 path")]
    Tiered(String),
    /// Spread over several drives.
    #[error("erasure {data}+{parity}, needs the S3 path")]
    Erasure {
        /// Data shards.
        data: u64,
        /// Parity shards.
        parity: u64,
    },
    /// In the format of before 2020.
    #[error("in the xl.json format of before 2020; serve the drive with MinIO and copy by S3")]
    Legacy,
    /// A feature that this reader does not know.
    #[error("not supported: {0}; serve the drive with MinIO and copy by S3")]
    Unsupported(String),
}

/// Bytes that contradict the format; becomes [`Unreadable::Damaged`] once the object is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Damaged(pub(super) String);

impl Damaged {
    /// Damage described by `text`.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As an I/O error, for readers below [`std::io::Read`].
    pub(super) fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self)
    }
}

impl From<Damaged> for Unreadable {
    fn from(damage: Damaged) -> Self {
        Self::Damaged(damage.0)
    }
}
