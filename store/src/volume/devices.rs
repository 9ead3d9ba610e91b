//! The file systems of a volume: its buckets, or directories in them, may be mounts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use filestore_common::BucketName;
use rustix::fs::FileType;

use super::Volume;
use crate::dir::{Dir, is_absent};
use crate::flush::Flush;
use crate::{Error, Result};

/// A directory on each file system.
#[derive(Debug, Default)]
pub(crate) struct Devices(HashMap<u64, Dir>);

impl Devices {
    /// Adds the file system of an open directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn note(&mut self, dir: &Dir) -> Result<()> {
        let io = |error: std::io::Error| Error::io("look at the file system of a directory", error);
        let stat = dir.stat_self().map_err(|error| io(error.into()))?;
        if let Entry::Vacant(entry) = self.0.entry(stat.st_dev) {
            entry.insert(dir.try_clone().map_err(io)?);
        }
        Ok(())
    }

    /// Flushes each once, whatever the durability.
    ///
    /// # Errors
    /// [`Error::Io`], after which the volume is unhealthy.
    pub(crate) fn sync(&self, flush: &Flush) -> Result<()> {
        self.0.values().try_for_each(|dir| flush.everything(dir))
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// What this process sees mounted where (proc_pid_mountinfo(5)).
const MOUNTS: &str = "/proc/self/mountinfo";

/// Mount points, the fifth field of each line; blanks and backslashes are escaped in octal.
fn mount_points(table: &[u8]) -> Vec<PathBuf> {
    let fields = table.split(|byte| *byte == b'\n');
    let fields = fields.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fields
        .map(|escaped| {
            let mut path = Vec::with_capacity(escaped.len());
            let mut rest = escaped;
            while let Some((first, more)) = rest.split_first() {
                let octal = more.get(..3).and_then(|digits| {
                    let digits = std::str::from_utf8(digits).ok()?;
                    u8::from_str_radix(digits, 8).ok()
                });
                if let Some(byte) = octal.filter(|_| *first == b'\\') {
                    path.push(byte);
                    rest = &more[3..];
                } else {
                    path.push(*first);
                    rest = more;
                }
            }
            PathBuf::from(OsString::from_vec(path))
        })
        .collect()
}

/// Where an open directory is, for this process.
fn place(dir: &Dir) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd())).ok()
}

/// Whether a path below the data root lies in a bucket.
fn in_bucket(path: &Path) -> bool {
    let first = path.components().next();
    let name = first.and_then(|first| first.as_os_str().to_str());
    name.is_some_and(|name| BucketName::new(name).is_ok())
}

impl Devices {
    /// Adds what is mounted below a directory, at paths that `wanted` takes.
    fn note_mounts(&mut self, dir: &Dir, wanted: impl Fn(&Path) -> bool) -> Result<()> {
        // Without /proc there is nobody to ask.
        let (Some(place), Ok(table)) = (place(dir), std::fs::read(MOUNTS)) else {
            return Ok(());
        };
        for mount in mount_points(&table) {
            let Ok(below) = mount.strip_prefix(&place) else {
                continue;
            };
            let Some(path) = below.to_str().filter(|path| !path.is_empty()) else {
                // No key is outside of UTF-8.
                continue;
            };
            if !wanted(below) {
                continue;
            }
            match dir.open_dir(path) {
                Ok(mounted) => self.note(&mounted)?,
                // A file, or unmounted meanwhile.
                Err(error) if is_absent(error) => {}
                Err(error) => return Err(Error::io(format!("open the mount {path}"), error)),
            }
        }
        Ok(())
    }
}

impl Volume {
    /// The file systems of the volume itself, of its buckets, and of what is mounted in them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn devices(&self) -> Result<Devices> {
        let mut devices = Devices::default();
        devices.note(&self.control)?;
        devices.note(&self.root)?;
        let entries = self.root.entries();
        for (name, kind) in entries.map_err(|error| Error::io("list buckets", error))? {
            if kind != FileType::Directory || BucketName::new(&name).is_err() {
                continue;
            }
            match self.root.open_dir(&name) {
                Ok(bucket) => devices.note(&bucket)?,
                // Deleted meanwhile.
                Err(error) if is_absent(error) => {}
                Err(error) => return Err(Error::io(format!("open bucket {name}"), error)),
            }
        }
        devices.note_mounts(&self.root, in_bucket)?;
        devices.note_mounts(&self.control, |_| true)?;
        Ok(devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            35 22 0:31 / /data/s3/abc/dir\\040with\\134all rw,noatime shared:4 - tmpfs tmpfs rw\n";
        let points = mount_points(table);
        assert_eq!(
            points,
            [Path::new("/"), Path::new("/data/s3/abc/dir with\\all")]
        );
    }

    #[test]
    fn only_what_lies_in_a_bucket_counts() {
        assert!(in_bucket(Path::new("abc/x/y")));
        assert!(!in_bucket(Path::new("no_bucket/x")));
        assert!(!in_bucket(Path::new(".vgwlocks")));
    }
}
