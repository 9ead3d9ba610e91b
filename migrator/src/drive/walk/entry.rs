//! What a walk finds.

use filestore_common::ObjectKey;

use super::super::error::Unreadable;
use super::super::object::DriveObject;

/// One find of a walk.
#[derive(Debug)]
pub enum WalkItem {
    /// A key; keys ascend in byte order.
    Key(Box<WalkedKey>),
    /// Something that belongs to no key; in no particular order.
    Stray(Stray),
}

/// Something in the tree that is no part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stray {
    /// A file that no `xl.meta` speaks of.
    File(String),
    /// A symbolic link or special file, never followed or opened.
    NotFollowed(String),
    /// A directory whose name cannot be part of an S3 key.
    Name(String),
}

impl Stray {
    /// Path relative to the drive.
    pub fn path(&self) -> &str {
        match self {
            Self::File(path) | Self::NotFollowed(path) | Self::Name(path) => path,
        }
    }
}

impl std::fmt::Display for Stray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{path}: belongs to no object"),
            Self::NotFollowed(path) => write!(f, "{path}: a link or special file, not followed"),
            Self::Name(path) => write!(f, "{path}: not a name that S3 can hold"),
        }
    }
}

/// A key that has an `xl.meta`.
#[derive(Debug)]
pub struct WalkedKey {
    /// Key.
    pub key: ObjectKey,
    /// What the key holds now.
    pub content: Content,
    /// Older object versions.
    pub noncurrent: u64,
    /// Their bytes as S3 shows them.
    pub noncurrent_bytes: u64,
    /// Delete markers, a current one included.
    pub delete_markers: u64,
    /// Book-keeping of tiering, not S3 versions.
    pub free_versions: u64,
    /// Tells these versions and markers, and a current one that cannot be read, from others;
    /// empty when there are none.
    pub left_identity: Vec<u8>,
    /// MinIO's own listings hide this key, because this other key above it is an object (or was
    /// one and is delete-marked).
    pub hidden_by: Option<ObjectKey>,
}

/// The current version of a key.
#[derive(Debug)]
pub enum Content {
    /// An object.
    Object(Box<DriveObject>),
    /// Deleted, older versions are kept.
    DeleteMarker,
    /// No version is left.
    Gone,
    /// Something that cannot be read offline.
    Unreadable(Unreadable),
    /// No `xl.meta`; never given out.
    Nothing,
}
