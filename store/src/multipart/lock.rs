//! Completing and aborting exclude each other per upload, in this process and between processes.
//!
//! Parts take no lock: a part is published into the directory of the upload, and then the
//! directory must still be in its place.

use std::collections::HashSet;
use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::area::Upload;
use crate::layout::FILE_MODE;
use crate::{Error, Result};

/// File in the directory of an upload that carries the lock between processes; it goes with the
/// upload, and the lock goes with the process.
pub(super) const LOCK_FILE: &str = "filestore.lock";

/// Uploads that are being completed or aborted by this process.
#[derive(Debug, Default)]
pub(crate) struct UploadLocks {
    held: Mutex<HashSet<String>>,
    released: Condvar,
}

/// The right to complete or abort an upload, until dropped.
#[derive(Debug)]
pub(super) struct UploadLock<'a> {
    locks: &'a UploadLocks,
    id: String,
    /// Its lock ends when it is closed.
    between_processes: Option<File>,
}

impl Drop for UploadLock<'_> {
    fn drop(&mut self) {
        let mut held = self
            .locks
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        held.remove(&self.id);
        drop(held);
        self.locks.released.notify_all();
    }
}

impl UploadLocks {
    /// Waits for the lock of an upload.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] when it was completed or aborted meanwhile, [`Error::Io`].
    pub(super) fn lock(&self, upload: &Upload) -> Result<UploadLock<'_>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.contains(&upload.id) {
            held = self
                .released
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
        }
        held.insert(upload.id.clone());
        drop(held);
        // From here on dropping the lock gives the upload free again.
        let mut lock = UploadLock {
            locks: self,
            id: upload.id.clone(),
            between_processes: None,
        };
        lock.between_processes = lock_file(upload)?;
        if upload.is_alive()? {
            Ok(lock)
        } else {
            Err(Error::NoSuchUpload)
        }
    }
}

/// Locks the file; `None` where the file system has no locks (said once when the volume's own
/// lock is taken).
fn lock_file(upload: &Upload) -> Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    let mode = Mode::from_raw_mode(FILE_MODE);
    let file = match upload.dir.open(LOCK_FILE, flags, mode) {
        Ok(file) => File::from(file),
        // The directory was removed.
        Err(Errno::NOENT) => return Err(Error::NoSuchUpload),
        // An upload must be abortable to make room; this process excludes itself all the same.
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(None),
        Err(error) => return Err(Error::io("open the lock of an upload", error)),
    };
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::INTR) => {}
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(Error::io("lock an upload", error)),
        }
    }
}
