//! What a listing says of each object, at two system calls per key where it can.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};

use filestore_common::{ETag, ObjectInfo};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::cache::Stamp;
use crate::attributes::{codec, xattr};
use crate::dir::{self, Dir};
use crate::layout::attribute;
use crate::query::{ListedObject, MetadataMode};
use crate::{Error, Result};

/// Longest ETag attribute that is read on the fast path, in bytes.
const ETAG_BYTES: usize = 128;

/// Reads an object by its key through one open file; `None` when there is none.
pub(super) type Head<'a> = dyn Fn(&str) -> Result<Option<ObjectInfo>> + 'a;

/// Describes the objects of one bucket.
pub(super) struct Objects<'a> {
    pub(super) mode: MetadataMode,
    pub(super) head: &'a Head<'a>,
    pub(super) head_overflow: &'a Head<'a>,
}

impl fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Objects<'_> {
    /// The object that an open directory is itself; `None` for those made on the way to others.
    pub(super) fn directory_object(
        &self,
        directory: &Dir,
        key: &str,
    ) -> Result<Option<ListedObject>> {
        if self.mode == MetadataMode::Sidecar {
            return self.by_head(key);
        }
        let Some(etag) = xattr::get(directory, attribute::ETAG)? else {
            return Ok(None);
        };
        let modified = xattr::get(directory, attribute::MODIFIED)?;
        let stat = directory.stat_self().map_err(stat_failed)?;
        Ok(Some(ListedObject {
            key: key.to_owned(),
            size: 0,
            etag: ETag::new(String::from_utf8_lossy(&etag)),
            last_modified: codec::directory_modified(modified.as_deref(), &stat),
            checksum: None,
        }))
    }

    /// Describes the files with these keys, whose names in `directory` begin at `offset`; leaves
    /// out those that are gone. With the times of the directory before its names were read
    /// (`trusted`), and these still the same, none of its files was replaced meanwhile.
    pub(super) fn describe(
        &self,
        directory: &Dir,
        keys: Vec<String>,
        offset: usize,
        trusted: Option<Stamp>,
    ) -> Result<Vec<ListedObject>> {
        let mut all = Vec::with_capacity(keys.len());
        if self.mode == MetadataMode::Sidecar {
            for key in keys {
                all.extend(self.by_head(&key)?);
            }
            return Ok(all);
        }
        let mut found = Vec::with_capacity(keys.len());
        let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd());
        let base = path.len();
        for key in keys {
            let name = key.get(offset..).unwrap_or_default();
            let Some(stat) = stat_file(directory, name)? else {
                continue;
            };
            path.truncate(base);
            path.push_str(name);
            let etag = read_etag(&path, &stat)?;
            found.push((key, stat, etag));
        }
        let now = Stamp::of(&directory.stat_self().map_err(stat_failed)?);
        let replaced_none = trusted == Some(now);
        for (key, stat, etag) in found {
            let is_same = replaced_none || {
                let name = key.get(offset..).unwrap_or_default();
                stat_file(directory, name)?.is_some_and(|again| is_same_file(&stat, &again))
            };
            match etag {
                // Size and ETag may be of two different files: ask for both at once.
                _ if !is_same => all.extend(self.by_head(&key)?),
                None => all.extend(self.by_head(&key)?),
                Some(etag) => all.push(ListedObject {
                    key,
                    size: dir::size(&stat),
                    etag,
                    last_modified: dir::mtime(&stat),
                    checksum: None,
                }),
            }
        }
        Ok(all)
    }

    /// Describes a key outside the tree.
    pub(super) fn overflow(&self, key: &str) -> Result<Option<ListedObject>> {
        Ok((self.head_overflow)(key)?.map(|info| listed(key, info)))
    }

    fn by_head(&self, key: &str) -> Result<Option<ListedObject>> {
        Ok((self.head)(key)?.map(|info| listed(key, info)))
    }
}

/// A listed object from its full description.
fn listed(key: &str, info: ObjectInfo) -> ListedObject {
    ListedObject {
        key: key.to_owned(),
        size: info.size,
        etag: info.meta.etag,
        last_modified: info.last_modified,
        checksum: info
            .meta
            .checksum
            .map(|checksum| (checksum.algorithm, checksum.kind)),
    }
}

/// Whether the file with this key, whose name in `directory` begins at `offset`, is there.
pub(super) fn exists(directory: &Dir, key: &str, offset: usize) -> Result<bool> {
    let name = key.get(offset..).unwrap_or_default();
    Ok(stat_file(directory, name)?.is_some())
}

fn stat_file(directory: &Dir, name: &str) -> Result<Option<Stat>> {
    let stat = directory.stat(name).map_err(stat_failed)?;
    Ok(stat.filter(|stat| dir::file_type(stat) == FileType::RegularFile))
}

fn is_same_file(left: &Stat, right: &Stat) -> bool {
    left.st_ino == right.st_ino
        && Stamp::of(left) == Stamp::of(right)
        && left.st_size == right.st_size
}

/// The ETag attribute of the file at `path`, which leads through an open directory: the only way
/// to read an attribute without opening the file. `None` when that did not work.
fn read_etag(path: &str, stat: &Stat) -> Result<Option<ETag>> {
    let mut buffer = [0u8; ETAG_BYTES];
    match rustix::fs::lgetxattr(path, "user.etag", &mut buffer[..]) {
        Ok(0) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Some(codec::foreign_etag(stat))),
        Ok(length) => {
            let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
            Ok(Some(ETag::new(text)))
        }
        // Gone, /proc not mounted, or an ETag that is longer.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::RANGE) => Ok(None),
        Err(error) => Err(Error::io("read attribute etag", error)),
    }
}

fn stat_failed(error: Errno) -> Error {
    Error::io("look at a file", error)
}
