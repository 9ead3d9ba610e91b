//! Locks on keys: within the process, and between processes for conditional writes.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::layout::{FILE_MODE, LOCKS_DIR};
use crate::path::hash_name;
use crate::query::{MetadataMode, Precondition};
use crate::volume::Volume;
use crate::{Error, Result};

/// Number of in-process locks; keys share them.
const STRIPES: usize = 1024;

/// In-process locks, striped over keys. Nobody holds two of them, but by `try_write`.
#[derive(Debug)]
pub(crate) struct KeyLocks {
    stripes: Vec<RwLock<()>>,
}

impl KeyLocks {
    /// None held.
    pub(crate) fn new() -> Self {
        let stripes = (0..STRIPES).map(|_| RwLock::new(())).collect();
        Self { stripes }
    }

    /// Excludes every other change of the key.
    pub(crate) fn write(&self, bucket: &BucketName, key: &str) -> RwLockWriteGuard<'_, ()> {
        let stripe = self.stripe(bucket, key);
        stripe.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::write`], or `None` when somebody holds it.
    pub(crate) fn try_write(
        &self,
        bucket: &BucketName,
        key: &str,
    ) -> Option<RwLockWriteGuard<'_, ()>> {
        self.stripe(bucket, key).try_write().ok()
    }

    /// Excludes changes of the key, not other readers.
    pub(crate) fn read(&self, bucket: &BucketName, key: &str) -> RwLockReadGuard<'_, ()> {
        let stripe = self.stripe(bucket, key);
        stripe.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn stripe(&self, bucket: &BucketName, key: &str) -> &RwLock<()> {
        let mut hasher = DefaultHasher::new();
        (bucket.as_str(), key).hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % STRIPES as u64).unwrap_or(0);
        &self.stripes[index]
    }
}

impl Volume {
    /// Keeps other processes from changing a key, where this process alone cannot see to it:
    /// for conditional changes, and in sidecar mode, whose changes take several steps. Released
    /// when the file is closed.
    pub(crate) fn exclude_processes(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        precondition: &Precondition,
    ) -> Result<Option<File>> {
        if *precondition == Precondition::None && self.mode == MetadataMode::Xattr {
            return Ok(None);
        }
        // Buckets that do not exist get no lock files.
        self.bucket_dir(bucket)?;
        lock_between_processes(&self.root, bucket, key)
    }
}

/// Takes the publication lock of a key that versitygw 1.8.0 takes too
/// (`backend/posix/objlock.go`): `flock` on `.vgwlocks/<sha256(bucket)>/<first byte of
/// sha256(key)>`, released when the file is closed. `None` where the file system has no locks.
///
/// # Errors
/// [`Error::Io`].
fn lock_between_processes(
    root: &Dir,
    bucket: &BucketName,
    key: &ObjectKey,
) -> Result<Option<File>> {
    static WARNED: AtomicBool = AtomicBool::new(false);

    let context = |error| Error::io("take the publication lock", error);
    let file = open_lock(root, bucket, key).map_err(context)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::INTR) => {}
            Err(error @ (Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) => {
                if !WARNED.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "no file locks: conditional writes are atomic within this process only");
                }
                return Ok(None);
            }
            Err(error) => return Err(context(error)),
        }
    }
}

fn open_lock(root: &Dir, bucket: &BucketName, key: &ObjectKey) -> rustix::io::Result<File> {
    let bucket = hash_name(bucket.as_str());
    let shard = &hash_name(key.as_str())[..2];
    let path = format!("{LOCKS_DIR}/{bucket}/{shard}");
    let flags = OFlags::RDWR | OFlags::CREATE;
    let open = || {
        root.open(&path, flags, Mode::from_raw_mode(FILE_MODE))
            .map(File::from)
    };
    match open() {
        Err(Errno::NOENT) => {
            root.open_or_make_dir(LOCKS_DIR)?
                .open_or_make_dir(&bucket)?;
            open()
        }
        other => other,
    }
}
