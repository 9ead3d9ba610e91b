//! Reading the drive's files: never written, never beyond a symbolic link, access times left
//! alone where the kernel lets us.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

use super::error::{Error, FormatError, Result};

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    // A FIFO in place of a file must not hang us.
    .union(OFlags::NONBLOCK);

/// Size and time of a file; replaced files differ in at least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) len: u64,
    pub(super) modified: (i64, i64),
}

impl Stamp {
    fn new(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (
                stat.st_mtime,
                i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
            ),
        }
    }

    /// Of the file `name` in an open directory, without opening it; `None` when it is gone.
    pub(super) fn of(directory: &OwnedFd, name: &str) -> Option<Self> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.ok().map(|stat| Self::new(&stat))
    }
}

/// The drive's root directory, open.
#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    /// `O_NOATIME` is allowed (owner or `CAP_FOWNER`).
    no_atime: AtomicBool,
    /// The kernel has `openat2` (5.6) and no filter forbids it.
    openat2: AtomicBool,
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
                Error::Format(FormatError::NotADirectory {
                    path: path.to_owned(),
                    problem: match errno {
                        Errno::NOENT => "does not exist".to_owned(),
                        _ => "is not a directory".to_owned(),
                    },
                })
            }
            Errno::ACCESS | Errno::PERM => denied(path.to_owned()),
            _ => io_error("open", path.to_owned(), errno),
        })?;
        Ok(Self {
            fd,
            path: path.to_owned(),
            no_atime: AtomicBool::new(true),
            openat2: AtomicBool::new(true),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file below the root; `None` when there is none (or something else).
    pub(super) fn open_file(&self, path: &str) -> Result<Option<(File, Stamp)>> {
        let fd = match self.open_beneath(path, FLAGS) {
            Ok(fd) => fd,
            // A symbolic link, a socket and a directory in between are no files either.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Ok(None);
            }
            Err(errno) => return Err(self.error("open", path, errno)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| self.error("look at", path, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        Ok(Some((File::from(fd), Stamp::new(&stat))))
    }

    /// Calls `entry` with name and type of everything in a directory, unordered; returns the open
    /// directory, `None` when there is none.
    pub(super) fn read_dir(
        &self,
        path: &str,
        mut entry: impl FnMut(&[u8], FileType),
    ) -> Result<Option<OwnedFd>> {
        let fd = match self.open_beneath(path, FLAGS | OFlags::DIRECTORY) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(self.error("list", path, errno)),
        };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(next) = entries.next() {
            let next = next.map_err(|errno| self.error("list", path, errno))?;
            let name = next.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match next.file_type() {
                FileType::Unknown => rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| FileType::from_raw_mode(stat.st_mode))
                    .map_err(|errno| self.error("look at", path, errno))?,
                known => known,
            };
            entry(name.to_bytes(), kind);
        }
        Ok(Some(fd))
    }

    /// Modification time of a directory; `None` when there is none.
    pub(super) fn dir_modified(&self, path: &str) -> Result<Option<SystemTime>> {
        match self.open_beneath(path, FLAGS | OFlags::DIRECTORY) {
            Ok(fd) => {
                let stat =
                    rustix::fs::fstat(&fd).map_err(|errno| self.error("look at", path, errno))?;
                let nanos = Duration::from_nanos(stat.st_mtime_nsec);
                let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
                Ok(Some(
                    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
                ))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(self.error("open", path, errno)),
        }
    }

    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.no_atime.load(Ordering::Relaxed) {
            match self.open_with(path, flags | OFlags::NOATIME) {
                Err(Errno::PERM) => self.no_atime.store(false, Ordering::Relaxed),
                other => return other,
            }
        }
        self.open_with(path, flags)
    }

    fn open_with(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.openat2.load(Ordering::Relaxed) {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            match rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve) {
                Err(Errno::NOSYS) => self.openat2.store(false, Ordering::Relaxed),
                // Container runtimes' filters answer EPERM to calls they do not know.
                Err(Errno::PERM) if !flags.contains(OFlags::NOATIME) => {
                    self.openat2.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        open_by_segments(&self.fd, path, flags)
    }

    /// An error about something below the root.
    pub(super) fn error(&self, operation: &'static str, path: &str, errno: Errno) -> Error {
        let full = self.path.join(path);
        match errno {
            Errno::ACCESS | Errno::PERM => denied(full),
            _ => io_error(operation, full, errno),
        }
    }

    /// The same for an [`io::Error`].
    pub(super) fn io_error(&self, operation: &'static str, path: &str, source: io::Error) -> Error {
        Error::Io {
            operation,
            path: self.path.join(path),
            source,
        }
    }
}

/// `openat2` with `RESOLVE_NO_SYMLINKS` by hand: one `openat` per segment.
fn open_by_segments(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let between = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (directories, last) = path.rsplit_once('/').unwrap_or(("", path));
    let mut at: Option<OwnedFd> = None;
    for segment in directories.split('/').filter(|segment| !segment.is_empty()) {
        if segment == ".." {
            return Err(Errno::XDEV);
        }
        let parent = at.as_ref().map_or_else(|| root.as_fd(), AsFd::as_fd);
        at = Some(rustix::fs::openat(parent, segment, between, Mode::empty())?);
    }
    if last == ".." {
        return Err(Errno::XDEV);
    }
    let parent = at.as_ref().map_or_else(|| root.as_fd(), AsFd::as_fd);
    rustix::fs::openat(parent, last, flags, Mode::empty())
}

fn denied(path: PathBuf) -> Error {
    let owner = path
        .ancestors()
        .find_map(|path| rustix::fs::lstat(path).ok())
        .map_or(0, |stat| stat.st_uid);
    Error::Denied {
        path,
        uid: rustix::process::geteuid().as_raw(),
        owner,
    }
}

fn io_error(operation: &'static str, path: PathBuf, errno: Errno) -> Error {
    Error::Io {
        operation,
        path,
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn symbolic_links_lead_nowhere_with_and_without_openat2() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("file"), "secret").unwrap();
        let drive = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(drive.path().join("a/b")).unwrap();
        std::fs::write(drive.path().join("a/b/file"), "ours").unwrap();
        symlink(outside.path(), drive.path().join("link")).unwrap();
        symlink(outside.path().join("file"), drive.path().join("a/flink")).unwrap();

        let root = Root::open(drive.path()).unwrap();
        for openat2 in [true, false] {
            root.openat2.store(openat2, Ordering::Relaxed);

            assert!(root.open_file("a/b/file").unwrap().is_some());
            assert!(root.open_file("link/file").unwrap().is_none());
            assert!(root.open_file("a/flink").unwrap().is_none());
            assert!(root.open_file("a/b").unwrap().is_none(), "a directory");
            assert!(root.open_file("../file").is_err());
            assert!(root.read_dir("link", |_, _| ()).unwrap().is_none());
            assert!(root.read_dir("a/b", |_, _| ()).unwrap().is_some());
        }
    }
}
