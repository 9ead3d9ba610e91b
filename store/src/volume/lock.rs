//! The locks of a volume: `flock(2)` on files of `.filestore`.
//!
//! | | `lock` | `lock.shards` |
//! |---|---|---|
//! | gateways and readers | shared | – |
//! | what must be alone | exclusive | – |
//! | workers of one migration, side by side | – | shared |
//!
//! Two kinds that each share among themselves and exclude each other cannot be told apart by
//! what they hold alone. So whoever opens a volume holds `lock.opening` exclusively from its first
//! look at the other two to its last change of them: of `lock` and `lock.shards` one at most is
//! held by anybody, whatever the order of starts. A gateway that starts alone holds its lock
//! exclusively for the moment of its sweep.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::layout;
use crate::query::Access;
use crate::{Error, Result};

/// How long a start looks whether a lock is free: this often, this long. A process that ended a
/// moment ago may still hold the lock through a child between fork and exec.
const ALONE_WAITS: usize = 20;
const ALONE_WAIT: Duration = Duration::from_millis(5);
/// How long a start waits for another one, which may have to sweep: this often, this long.
const SWEEP_WAITS: usize = 100;
const SWEEP_WAIT: Duration = Duration::from_millis(50);

/// A held lock.
#[derive(Debug)]
pub(super) struct Lock {
    /// The file whose lock is kept; closing it releases the lock.
    held: File,
    /// `lock.opening`, until the volume is open.
    opening: Option<File>,
    access: Access,
    /// Nobody else has the volume open.
    pub(super) alone: bool,
}

/// Takes the lock; the volume counts as being opened until [`Lock::settle`].
///
/// # Errors
/// [`Error::Volume`] when another process holds it in a way that excludes `access`.
pub(super) fn take(path: &Path, control: &Dir, access: Access) -> Result<Lock> {
    let unusable = |error| super::identity::unusable(path, "lock .filestore/lock", error);
    let opening = open(path, control, layout::OPENING_LOCK_FILE)?;
    if !exclusive(&opening, SWEEP_WAITS, SWEEP_WAIT).map_err(unusable)? {
        return Err(Error::Volume(format!(
            "{} is being opened by another process: try again",
            path.display()
        )));
    }
    let lock = open(path, control, layout::LOCK_FILE)?;
    let shards = open(path, control, layout::SHARDS_LOCK_FILE)?;
    let free = |file: &File| exclusive(file, ALONE_WAITS, ALONE_WAIT).map_err(unusable);
    let in_use = |by: &str| {
        Err(Error::Volume(format!(
            "{} is in use by {by}",
            path.display()
        )))
    };
    let (held, other) = match access {
        Access::Shared | Access::Exclusive => (lock, shards),
        Access::Worker => (shards, lock),
    };
    // Looked at only: while the volume is being opened nobody else comes in.
    if !free(&other)? {
        return match access {
            Access::Worker => in_use("a gateway or another migration: stop it first"),
            _ => in_use("workers of a migration: wait for their end"),
        };
    }
    drop(other);
    let alone = free(&held)?;
    if !alone {
        if access == Access::Exclusive {
            return in_use("a gateway or another migration: stop it first");
        }
        share(&held, path)?;
    }
    let name = match access {
        Access::Shared | Access::Exclusive => layout::LOCK_FILE,
        Access::Worker => layout::SHARDS_LOCK_FILE,
    };
    for (file, name) in [(&opening, layout::OPENING_LOCK_FILE), (&held, name)] {
        if !is_named(control, file, name).map_err(unusable)? {
            return Err(Error::Volume(format!(
                "{} was removed by another process meanwhile: try again",
                path.display()
            )));
        }
    }
    Ok(Lock {
        held,
        opening: Some(opening),
        access,
        alone,
    })
}

/// Whether a lock file still has its name: a volume that is unmade loses its locks, and what they
/// kept out.
fn is_named(control: &Dir, file: &File, name: &str) -> rustix::io::Result<bool> {
    let (held, named) = (rustix::fs::fstat(file)?, control.stat(name)?);
    Ok(named.is_some_and(|named| (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)))
}

impl Lock {
    /// Something else that keeps the lock of an open volume.
    pub(super) fn try_clone(&self) -> std::io::Result<File> {
        self.held.try_clone()
    }

    /// The volume is open: the lock becomes what `access` needs, and others may come in that it
    /// lets in.
    ///
    /// # Errors
    /// [`Error::Volume`].
    pub(super) fn settle(&mut self, path: &Path) -> Result<()> {
        if self.access != Access::Exclusive {
            share(&self.held, path)?;
        }
        self.opening = None;
        Ok(())
    }
}

pub(super) fn open(path: &Path, control: &Dir, name: &str) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    let file = control.open(name, flags, Mode::from_raw_mode(layout::FILE_MODE));
    file.map(File::from)
        .map_err(|error| super::identity::unusable(path, &format!("open .filestore/{name}"), error))
}

/// Takes a lock exclusively, looking `looks` times; `false` when somebody else holds it.
pub(super) fn exclusive(file: &File, looks: usize, pause: Duration) -> rustix::io::Result<bool> {
    for look in 1.. {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if look >= looks => return Ok(false),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(pause),
            Err(error) if unsupported(error) => {
                tracing::warn!(
                    %error,
                    "the file system has no locks: make sure that one process alone uses the volume"
                );
                return Ok(true);
            }
            other => return other.map(|()| true),
        }
    }
    Ok(false)
}

/// Turns the lock into a shared one, or takes it so.
///
/// # Errors
/// [`Error::Volume`] when another process holds it exclusively.
fn share(file: &File, path: &Path) -> Result<()> {
    for _ in 0..ALONE_WAITS {
        match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(ALONE_WAIT),
            Err(error) if unsupported(error) => return Ok(()),
            Err(error) => {
                return Err(super::identity::unusable(
                    path,
                    "lock .filestore/lock",
                    error,
                ));
            }
        }
    }
    Err(Error::Volume(format!(
        "{} is held by a direct migration or conversion: wait for its end",
        path.display()
    )))
}

fn unsupported(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL
    )
}
