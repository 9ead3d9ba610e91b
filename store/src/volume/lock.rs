//! The lock of a volume: `flock(2)` on `.filestore/lock`, shared by gateways, exclusive for what
//! must be alone. A gateway that starts alone holds it exclusively for the moment of its sweep.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::layout;
use crate::query::Access;
use crate::{Error, Result};

/// How long a start looks whether it is alone: this often, this long. A process that ended a
/// moment ago may still hold the lock through a child between fork and exec.
const ALONE_WAITS: usize = 20;
const ALONE_WAIT: Duration = Duration::from_millis(5);
/// How long a gateway waits for another one's sweep: this often, this long.
const SWEEP_WAITS: usize = 100;
const SWEEP_WAIT: Duration = Duration::from_millis(50);

/// A held lock.
#[derive(Debug)]
pub(super) struct Lock {
    /// The open lock file; closing it releases the lock.
    pub(super) file: File,
    /// Nobody else has the volume open: the lock is exclusive for now.
    pub(super) alone: bool,
}

/// Takes the lock.
///
/// # Errors
/// [`Error::Volume`] when another process holds it in a way that excludes `access`.
pub(super) fn take(path: &Path, control: &Dir, access: Access) -> Result<Lock> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    let file = control
        .open(
            layout::LOCK_FILE,
            flags,
            Mode::from_raw_mode(layout::FILE_MODE),
        )
        .map(File::from)
        .map_err(|error| super::identity::unusable(path, "open .filestore/lock", error))?;
    match lock_alone(&file) {
        Ok(()) => Ok(Lock { file, alone: true }),
        Err(Errno::WOULDBLOCK) if access == Access::Exclusive => Err(Error::Volume(format!(
            "{} is in use by a gateway or another migration: stop it first",
            path.display()
        ))),
        Err(Errno::WOULDBLOCK) => {
            share(&file, path)?;
            Ok(Lock { file, alone: false })
        }
        Err(error) if unsupported(error) => {
            tracing::warn!(
                %error,
                "the file system has no locks: make sure that one process alone uses the volume"
            );
            Ok(Lock { file, alone: true })
        }
        Err(error) => Err(super::identity::unusable(
            path,
            "lock .filestore/lock",
            error,
        )),
    }
}

fn lock_alone(file: &File) -> rustix::io::Result<()> {
    for _ in 1..ALONE_WAITS {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(ALONE_WAIT),
            other => return other,
        }
    }
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Turns the lock into a shared one, or takes it so.
///
/// # Errors
/// [`Error::Volume`] when another process holds it exclusively.
pub(super) fn share(file: &File, path: &Path) -> Result<()> {
    for _ in 0..SWEEP_WAITS {
        match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(SWEEP_WAIT),
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
