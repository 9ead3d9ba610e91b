//! Bodies being received: invisible files that get their name when they are complete.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::dir::{Dir, is_absent};
use crate::layout::{self, FILE_MODE, TEMP_DIR};
use crate::store::ObjectReader;
use crate::volume::Volume;
use crate::{Error, Result};

/// From this size in bytes on, space is allocated before it is written.
const PREALLOCATE: u64 = 256 * 1024;
/// Attempts to enter a temporary area that others keep removing.
const ATTEMPTS: usize = 100;
/// Buffer of copies that the kernel does not do, in bytes.
const COPY_BUFFER: usize = 256 * 1024;

/// A body being received: invisible until published, gone when dropped.
#[derive(Debug)]
pub struct Staged {
    /// The file.
    pub(crate) file: StagedFile,
    /// What it is to become.
    pub(crate) target: Target,
    length: u64,
}

/// What a staged body is to become.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// An object.
    Object {
        /// Bucket.
        bucket: BucketName,
        /// Key.
        key: ObjectKey,
    },
    /// A part of a multipart upload.
    Part {
        /// Bucket.
        bucket: BucketName,
        /// Key.
        key: ObjectKey,
        /// Upload.
        upload_id: String,
        /// Part number.
        number: u32,
    },
}

impl Staged {
    /// Appends to the body.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .file
            .write_all(bytes)
            .map_err(|error| Error::io("write a body", error))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends `length` bytes of `source` from `offset`, in the kernel where it can.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`] (also when the source is shorter).
    pub fn copy_from(&mut self, source: &ObjectReader, offset: u64, length: u64) -> Result<()> {
        self.append(&source.file, offset, length)
    }

    /// As [`Self::copy_from`], from any file.
    pub(crate) fn append(&mut self, source: &File, offset: u64, length: u64) -> Result<()> {
        copy(source, offset, &self.file.file, length)
            .map_err(|error| Error::io("copy into a body", error))?;
        self.length += length;
        Ok(())
    }

    /// Reads back what was staged (digests of copied bodies).
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file
            .file
            .read_at(buffer, offset)
            .map_err(|error| Error::io("read a staged body", error))
    }
}

/// The file behind a staged body.
#[derive(Debug)]
pub(crate) struct StagedFile {
    /// Open for reading and writing.
    pub(crate) file: File,
    /// Its temporary name, unless it has none.
    temp: Option<(Dir, String)>,
}

/// What happened to a file that was to get a new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    /// It has the name.
    Yes,
    /// Something else has it.
    Taken,
}

impl StagedFile {
    /// A new empty file in the directory `temp_dir`, a path below the data root.
    ///
    /// # Errors
    /// The operating system's; [`Errno::NOENT`] when the directory is missing.
    pub(crate) fn create(volume: &Volume, temp_dir: &str) -> rustix::io::Result<Self> {
        if volume.unnamed_files {
            let flags = OFlags::TMPFILE | OFlags::RDWR;
            let mode = Mode::from_raw_mode(FILE_MODE);
            match volume.root.open(temp_dir, flags, mode) {
                Ok(fd) => {
                    return Ok(Self {
                        file: File::from(fd),
                        temp: None,
                    });
                }
                // The bucket lies on another file system than the control directory; or (PERM, on
                // ext4) the directory went away after it was found, which is told below.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        Self::create_named(volume.root.open_dir(temp_dir)?)
    }

    /// A file that has a name already and is to get another.
    pub(crate) fn existing(file: File) -> Self {
        Self { file, temp: None }
    }

    /// A new empty file with a temporary name in `dir`.
    pub(crate) fn create_named(dir: Dir) -> rustix::io::Result<Self> {
        let name = layout::temp_name();
        let file = dir.create_file(&name, FILE_MODE)?;
        let temp = Some((dir, name));
        Ok(Self { file, temp })
    }

    /// Gives the file the name `name` in `target` unless something has it.
    pub(crate) fn link_new(&mut self, target: &Dir, name: &str) -> rustix::io::Result<Linked> {
        let outcome = match &self.temp {
            None => target.link(&self.file, name),
            Some((dir, temp)) => {
                match rustix::fs::linkat(dir, temp.as_str(), target, name, AtFlags::empty()) {
                    // No hard links here.
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                        rename_new(dir, temp, target, name)
                    }
                    other => other,
                }
            }
        };
        match outcome {
            Ok(()) => {
                self.forget_temp();
                Ok(Linked::Yes)
            }
            Err(Errno::EXIST) => Ok(Linked::Taken),
            Err(error) => Err(error),
        }
    }

    /// Gives the file the name `name` in `target`, replacing what has it; `temp_dir` opens the
    /// directory for a temporary name. [`Errno::ISDIR`] when it is a directory.
    pub(crate) fn replace(
        &mut self,
        target: &Dir,
        name: &str,
        temp_dir: impl FnOnce() -> rustix::io::Result<Dir>,
    ) -> rustix::io::Result<()> {
        let (dir, temp) = if let Some(named) = self.temp.take() {
            named
        } else {
            let dir = temp_dir()?;
            let temp = layout::temp_name();
            dir.link(&self.file, &temp)?;
            (dir, temp)
        };
        let outcome = dir.rename(&temp, target, name);
        if outcome.is_err() {
            self.temp = Some((dir, temp));
        }
        outcome
    }

    /// A copy of the file, without attributes, with a temporary name in `dir`.
    pub(crate) fn copy_to(&self, dir: Dir, stat: &Stat) -> std::io::Result<Self> {
        let copied = Self::create_named(dir)?;
        copy(&self.file, 0, &copied.file, crate::dir::size(stat))?;
        Ok(copied)
    }

    /// Removes the temporary name, if it still has one.
    fn forget_temp(&mut self) {
        if let Some((dir, name)) = self.temp.take()
            && let Err(error) = dir.remove_file(&name)
        {
            tracing::warn!(%error, name, "remove a temporary file");
        }
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        self.forget_temp();
    }
}

/// Renames without replacing, as far as the file system can; callers hold the lock of the key.
fn rename_new(dir: &Dir, temp: &str, target: &Dir, name: &str) -> rustix::io::Result<()> {
    match dir.rename_new(temp, target, name) {
        Err(Errno::INVAL | Errno::NOSYS) => match target.stat(name)? {
            Some(_) => Err(Errno::EXIST),
            None => dir.rename(temp, target, name),
        },
        other => other,
    }
}

impl Volume {
    /// See [`crate::Store::stage`].
    pub(crate) fn stage(&self, target: Target, size: Option<u64>) -> Result<Staged> {
        let (Target::Object { bucket, .. } | Target::Part { bucket, .. }) = &target;
        let file = self.stage_in_bucket(bucket)?;
        if let Some(size) = size.filter(|size| *size >= PREALLOCATE) {
            preallocate(&file.file, size)?;
        }
        Ok(Staged {
            file,
            target,
            length: 0,
        })
    }

    /// A new file in the temporary area of a bucket.
    pub(crate) fn stage_in_bucket(&self, bucket: &BucketName) -> Result<StagedFile> {
        let temp_dir = crate::path::below(bucket, TEMP_DIR);
        let io = |error| Error::io("create a temporary file", error);
        for _ in 0..ATTEMPTS {
            match StagedFile::create(self, &temp_dir) {
                Err(Errno::NOENT) => {
                    self.open_temp(bucket)?;
                }
                other => return other.map_err(io),
            }
        }
        Err(io(Errno::NOENT))
    }

    /// Opens the temporary area of a bucket, making it when it is missing.
    pub(crate) fn open_temp(&self, bucket: &BucketName) -> Result<Dir> {
        self.bucket_dir(bucket)?
            .open_or_make_dir(TEMP_DIR)
            .map_err(|error| match error {
                Errno::NOENT => Error::NoSuchBucket,
                error => Error::io("open the temporary area", error),
            })
    }

    /// Opens the directory of a bucket.
    pub(crate) fn bucket_dir(&self, bucket: &BucketName) -> Result<Dir> {
        match self.root.open_dir(bucket.as_str()) {
            Ok(dir) => Ok(dir),
            Err(error) if is_absent(error) => Err(Error::NoSuchBucket),
            Err(error) => Err(Error::io("open a bucket", error)),
        }
    }
}

/// Allocates space without changing the size; a full disk is found before the first byte.
fn preallocate(file: &File, size: u64) -> Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, size) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
            Err(Error::io("allocate space for a body", error))
        }
        _ => Ok(()),
    }
}

/// Appends `length` bytes of `source` from `offset` to `target` at its file position.
fn copy(source: &File, mut offset: u64, target: &File, length: u64) -> std::io::Result<()> {
    let mut left = length;
    while left > 0 {
        let step = usize::try_from(left).unwrap_or(usize::MAX).min(1 << 30);
        match rustix::fs::copy_file_range(source, Some(&mut offset), target, None, step) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => left -= copied as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                return copy_through_memory(source, offset, target, left);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_through_memory(
    source: &File,
    mut offset: u64,
    mut target: &File,
    mut left: u64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; COPY_BUFFER];
    while left > 0 {
        let step = usize::try_from(left).unwrap_or(usize::MAX).min(COPY_BUFFER);
        let read = source.read_at(&mut buffer[..step], offset)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        target.write_all(&buffer[..read])?;
        offset += read as u64;
        left -= read as u64;
    }
    Ok(())
}
