//! The result for one key.

use filestore_common::{BucketName, ObjectKey};

use super::decide::Open;
use super::journal::Version;
use crate::manifest::Line;
use crate::{Error, Kind};

/// What became of a key.
#[derive(Debug)]
pub(super) enum Came {
    Same,
    Recorded,
    Left,
    Added,
    Updated,
    Deleted,
    /// Will be deleted when all listings came to their end.
    Doomed,
    Settled,
    Open(Open),
    Failed(Error),
    /// The written side cannot hold a key like this one.
    Unnameable {
        bytes: u64,
    },
    /// Going on makes no sense.
    Broke(Error),
}

/// The result for one key.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) bucket: BucketName,
    pub(super) key: ObjectKey,
    pub(super) came: Came,
    /// Size of what was written.
    pub(super) bytes: u64,
    /// A change of the written side was undone.
    pub(super) overruled: bool,
    /// Legacy and served version, for the list of what is undecided.
    pub(super) sides: (Option<Version>, Option<Version>),
    /// For the next manifest.
    pub(super) line: Option<Line>,
}

impl Step {
    /// Whether the manifest has to tell something else of it.
    pub(super) fn is_news(&self) -> bool {
        match self.came {
            Came::Same | Came::Left | Came::Doomed | Came::Open(_) | Came::Unnameable { .. } => {
                false
            }
            Came::Recorded
            | Came::Added
            | Came::Updated
            | Came::Deleted
            | Came::Settled
            | Came::Failed(_)
            | Came::Broke(_) => true,
        }
    }

    /// As it was.
    pub(super) fn new(bucket: BucketName, key: ObjectKey, line: Option<Line>) -> Self {
        Self {
            bucket,
            key,
            came: Came::Same,
            bytes: 0,
            overruled: false,
            sides: (None, None),
            line,
        }
    }
}

/// What of a write or delete that did not come through.
pub(super) enum Missed {
    /// The written side moved: look again.
    Moved,
    Failed(Error),
}

impl Missed {
    pub(super) fn of(error: Error) -> Self {
        match error.kind {
            Kind::Conflict | Kind::NotFound => Self::Moved,
            _ => Self::Failed(error),
        }
    }
}
