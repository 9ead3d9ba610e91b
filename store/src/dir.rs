//! Directory handles whose paths cannot lead out.
//!
//! Every access goes from an open directory downwards with symbolic links refused at each step:
//! by `openat2(2)` in one call, or component by component where the kernel or its seccomp filter
//! has no `openat2`. Opens never block (`O_NONBLOCK`), so a FIFO cannot hang a request.

mod stat;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, Stat};
use rustix::io::{Errno, Result};

pub(crate) use stat::{file_type, mtime, mtime_ns, ns_of, size, time_from_ns};

use crate::layout::DIR_MODE;

/// Size of the buffer for reading directories, in bytes.
const ENTRIES_BUFFER: usize = 64 * 1024;
/// How often an `openat2` that lost against a rename is repeated.
const RESOLVE_ATTEMPTS: usize = 64;

/// Set once `linkat(AT_EMPTY_PATH)` turned out to be refused where `/proc/self/fd` works.
static LINK_THROUGH_PROC: AtomicBool = AtomicBool::new(false);

/// How paths are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolver {
    /// `openat2`.
    Kernel,
    /// One `openat(O_NOFOLLOW)` per component.
    Walk,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    resolver: Resolver,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether an error says that nothing usable is at a path: missing, a file on the way,
/// a symbolic link, a socket, or a name the file system cannot have.
pub(crate) fn is_absent(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG | Errno::XDEV
    )
}

impl Dir {
    /// Opens a directory by an ordinary path; symbolic links in it are followed, since the
    /// administrator wrote it.
    pub(crate) fn open_root(path: &Path) -> Result<Self> {
        let fd = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let probe = rustix::fs::openat2(
            &fd,
            ".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        );
        let resolver = if probe.is_ok() {
            Resolver::Kernel
        } else {
            Resolver::Walk
        };
        Ok(Self { fd, resolver })
    }

    /// Resolves paths in another way from now on.
    #[cfg(test)]
    pub(crate) fn set_resolver(&mut self, resolver: Resolver) {
        self.resolver = resolver;
    }

    /// A second handle on the same open directory.
    pub(crate) fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            resolver: self.resolver,
        })
    }

    /// Opens `path` below this directory. `path` has no empty, `.` or `..` component.
    pub(crate) fn open(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match self.resolver {
            Resolver::Kernel => self.open_by_kernel(path, flags, mode),
            Resolver::Walk => self.open_by_walk(path, flags, mode),
        }
    }

    fn open_by_kernel(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // openat2 takes a mode only with flags that may create.
        let mode = if flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE) {
            mode
        } else {
            Mode::empty()
        };
        let flags = if flags.contains(OFlags::PATH) {
            flags - OFlags::NONBLOCK
        } else {
            flags
        };
        let mut attempts = 0;
        loop {
            match rustix::fs::openat2(&self.fd, path, flags, mode, resolve) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if attempts < RESOLVE_ATTEMPTS => attempts += 1,
                other => return other,
            }
        }
    }

    fn open_by_walk(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (parents, name) = crate::path::split(path);
        let mut at: Option<OwnedFd> = None;
        for component in parents.split('/').filter(|c| !c.is_empty()) {
            if component == ".." {
                return Err(Errno::XDEV);
            }
            let from = at.as_ref().map_or_else(|| self.fd.as_fd(), AsFd::as_fd);
            at = Some(rustix::fs::openat(from, component, step, Mode::empty())?);
        }
        if name == ".." {
            return Err(Errno::XDEV);
        }
        let from = at.as_ref().map_or_else(|| self.fd.as_fd(), AsFd::as_fd);
        if flags.contains(OFlags::TMPFILE) {
            // O_TMPFILE with O_NOFOLLOW still names a directory: step into it first.
            let inside = rustix::fs::openat(from, name, step, Mode::empty())?;
            return retry(|| rustix::fs::openat(&inside, ".", flags, mode));
        }
        retry(|| rustix::fs::openat(from, name, flags, mode))
    }

    /// Opens a directory below this one.
    pub(crate) fn open_dir(&self, path: &str) -> Result<Self> {
        let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self {
            fd,
            resolver: self.resolver,
        })
    }

    /// Opens the regular file at `path` for reading; `None` when nothing is there or something
    /// that is no regular file.
    pub(crate) fn open_file(&self, path: &str) -> Result<Option<(File, Stat)>> {
        let fd = match self.open(path, OFlags::RDONLY, Mode::empty()) {
            Ok(fd) => fd,
            Err(error) if is_absent(error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&fd)?;
        if file_type(&stat) == FileType::RegularFile {
            Ok(Some((File::from(fd), stat)))
        } else {
            Ok(None)
        }
    }

    /// Creates a new file named `name` directly below, open for reading and writing.
    pub(crate) fn create_file(&self, name: &str, mode: u32) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let fd = self.open(name, flags, Mode::from_raw_mode(mode))?;
        Ok(File::from(fd))
    }

    /// `lstat` of the entry `name` directly below; `None` when there is none.
    pub(crate) fn stat(&self, name: &str) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_absent(error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The open directory itself.
    pub(crate) fn into_file(self) -> File {
        File::from(self.fd)
    }

    /// `fstat` of the directory itself.
    pub(crate) fn stat_self(&self) -> Result<Stat> {
        rustix::fs::fstat(&self.fd)
    }

    /// Makes the directory `name` directly below; `false` when something has that name.
    pub(crate) fn make_dir(&self, name: &str) -> Result<bool> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(DIR_MODE)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the directory `name` directly below, making it when it is missing.
    pub(crate) fn open_or_make_dir(&self, name: &str) -> Result<Self> {
        match self.open_dir(name) {
            Err(Errno::NOENT) => {
                self.make_dir(name)?;
                self.open_dir(name)
            }
            other => other,
        }
    }

    /// Unlinks the file `name` directly below; `false` when it is missing.
    pub(crate) fn remove_file(&self, name: &str) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the empty directory `name` directly below; `false` when it is missing or not empty.
    pub(crate) fn remove_dir(&self, name: &str) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::BUSY) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Renames `name` directly below to `new_name` directly below `target`, replacing it.
    pub(crate) fn rename(&self, name: &str, target: &Self, new_name: &str) -> Result<()> {
        rustix::fs::renameat(&self.fd, name, &target.fd, new_name)
    }

    /// Renames without replacing: `Errno::EXIST` when `new_name` is taken, `Errno::INVAL` where
    /// the file system cannot do it.
    pub(crate) fn rename_new(&self, name: &str, target: &Self, new_name: &str) -> Result<()> {
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.fd, name, &target.fd, new_name, flags)
    }

    /// Gives the unnamed file (`O_TMPFILE`) the name `name` directly below.
    pub(crate) fn link(&self, file: &File, name: &str) -> Result<()> {
        if !LINK_THROUGH_PROC.load(Ordering::Relaxed) {
            match rustix::fs::linkat(file, "", &self.fd, name, AtFlags::EMPTY_PATH) {
                // Before Linux 6.10 without CAP_DAC_READ_SEARCH; or the directory is gone.
                Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {}
                other => return other,
            }
        }
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        rustix::fs::linkat(CWD, path, &self.fd, name, AtFlags::SYMLINK_FOLLOW)?;
        LINK_THROUGH_PROC.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Calls `each` with name and type of every entry but `.` and `..`, in no order, until it
    /// returns `false`.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&[u8], FileType) -> bool) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?;
        let mut buffer = Vec::with_capacity(ENTRIES_BUFFER);
        let mut entries = RawDir::new(&fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => file_type(&stat),
                        Err(Errno::NOENT) => continue,
                        Err(error) => return Err(error),
                    }
                }
                known => known,
            };
            if !each(name.to_bytes(), kind) {
                break;
            }
        }
        Ok(())
    }

    /// Names and types of all entries that are valid UTF-8, in no order.
    pub(crate) fn entries(&self) -> Result<Vec<(String, FileType)>> {
        let mut all = Vec::new();
        self.for_each(|name, kind| {
            if let Ok(name) = std::str::from_utf8(name) {
                all.push((name.to_owned(), kind));
            }
            true
        })?;
        Ok(all)
    }

    /// Removes the directory `name` directly below with all it holds; symbolic links inside are
    /// removed, not followed. Succeeds when it is missing.
    pub(crate) fn remove_tree(&self, name: &str) -> std::io::Result<()> {
        remove_tree(self.fd.as_fd(), name.as_bytes()).map_err(Into::into)
    }
}

fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let gone = |outcome| match outcome {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        other => other,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(fd) => Dir {
            fd,
            resolver: Resolver::Walk,
        },
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return gone(rustix::fs::unlinkat(parent, name, AtFlags::empty()));
        }
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    inside.for_each(|entry, kind| {
        entries.push((entry.to_vec(), kind));
        true
    })?;
    for (entry, kind) in entries {
        if kind == FileType::Directory {
            remove_tree(inside.as_fd(), &entry)?;
        } else {
            gone(rustix::fs::unlinkat(
                &inside,
                entry.as_slice(),
                AtFlags::empty(),
            ))?;
        }
    }
    gone(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR))
}

fn retry<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
