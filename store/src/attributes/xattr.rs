//! Attributes as extended attributes of an open file or directory (xattr(7)).

use std::borrow::Cow;
use std::os::fd::AsFd;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::AttributeSet;
use crate::layout::attribute::{self, XATTR_PREFIX};
use crate::{Error, Result};

/// First try of a buffer for names and values, in bytes; larger ones are asked for.
const BUFFER: usize = 1024;

/// Attribute names that every object may have, so that reading them allocates no name.
const KNOWN: [&str; 12] = {
    use crate::layout::attribute as a;
    [
        a::ETAG,
        a::CONTENT_TYPE,
        a::METADATA,
        a::TAGS,
        a::CHECKSUMS,
        a::MULTIPART,
        a::CONTENT_ENCODING,
        a::CONTENT_LANGUAGE,
        a::CONTENT_DISPOSITION,
        a::CACHE_CONTROL,
        a::EXPIRES,
        a::WEBSITE_REDIRECT,
    ]
};

/// All `user.` attributes of an open file.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn read(file: impl AsFd) -> Result<AttributeSet> {
    let mut set = AttributeSet::default();
    let names = list(&file).map_err(|error| Error::io("list attributes", error))?;
    for name in names.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let Some(short) = name.strip_prefix(XATTR_PREFIX) else {
            continue;
        };
        let value = get_named(&file, name)
            .map_err(|error| Error::io(format!("read attribute {name}"), error))?;
        if let Some(value) = value {
            let known = KNOWN.iter().find(|known| **known == short);
            let short = known.map_or_else(|| Cow::Owned(short.to_owned()), |k| Cow::Borrowed(*k));
            set.0.push((short, value));
        }
    }
    Ok(set)
}

/// One attribute of an open file; `None` when it does not have it.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn get(file: impl AsFd, name: &str) -> Result<Option<Vec<u8>>> {
    get_named(&file, &format!("{XATTR_PREFIX}{name}"))
        .map_err(|error| Error::io(format!("read attribute {name}"), error))
}

/// Sets every attribute of `set`, leaving others alone.
///
/// # Errors
/// [`Error::MetadataTooLarge`] when the file system does not take them, [`Error::NoSpace`],
/// [`Error::Io`].
pub(crate) fn write(file: impl AsFd, set: &AttributeSet) -> Result<()> {
    set.iter()
        .try_for_each(|(name, value)| put(&file, name, value))
}

/// Sets one attribute.
///
/// # Errors
/// As [`write`].
pub(crate) fn put(file: impl AsFd, name: &str, value: &[u8]) -> Result<()> {
    let full = format!("{XATTR_PREFIX}{name}");
    rustix::fs::fsetxattr(&file, full, value, XattrFlags::empty())
        .map_err(|error| refused(file, name, value.len(), error))
}

/// Removes one attribute; `false` when there was none.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn remove(file: impl AsFd, name: &str) -> Result<bool> {
    match rustix::fs::fremovexattr(file, format!("{XATTR_PREFIX}{name}")) {
        Ok(()) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(error) => Err(Error::io(format!("remove attribute {name}"), error)),
    }
}

/// Makes the attributes that `is_own` names exactly `wanted`, which has only such; others stay.
/// The ETag, which makes a directory an object, comes last.
///
/// # Errors
/// As [`write`].
pub(crate) fn make_exact(
    file: impl AsFd,
    wanted: &AttributeSet,
    is_own: impl Fn(&str) -> bool,
) -> Result<()> {
    let present = read(&file)?;
    for (name, _) in present.iter() {
        if is_own(name) && wanted.get(name).is_none() {
            remove(&file, name)?;
        }
    }
    let missing = |(name, value): &(&str, &[u8])| present.get(name) != Some(*value);
    let (last, first): (Vec<_>, Vec<_>) = wanted
        .iter()
        .filter(missing)
        .partition(|(name, _)| *name == attribute::ETAG);
    first
        .into_iter()
        .chain(last)
        .try_for_each(|(name, value)| put(&file, name, value))
}

/// Removes the attributes that `is_own` names.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn strip(file: impl AsFd, is_own: impl Fn(&str) -> bool) -> Result<()> {
    make_exact(file, &AttributeSet::default(), is_own)
}

/// ext4 says "no space" both for a full disk and for a full attribute block.
fn refused(file: impl AsFd, name: &str, length: usize, error: Errno) -> Error {
    let limit = match error {
        Errno::RANGE | Errno::NAMETOOLONG => Some("a name may have 255 bytes".to_owned()),
        Errno::TOOBIG => Some("a value may have 65536 bytes".to_owned()),
        Errno::NOSPC => rustix::fs::fstatvfs(file)
            .ok()
            .filter(|space| space.f_bavail > 0)
            .map(|space| format!("all attributes of a file share {} bytes", space.f_bsize)),
        _ => None,
    };
    match limit {
        Some(limit) => {
            Error::MetadataTooLarge(format!("attribute {name} of {length} bytes; {limit}"))
        }
        None => Error::io(format!("set attribute {name}"), error),
    }
}

fn list(file: impl AsFd) -> rustix::io::Result<Vec<u8>> {
    let mut names = Vec::with_capacity(BUFFER);
    loop {
        match rustix::fs::flistxattr(&file, rustix::buffer::spare_capacity(&mut names)) {
            Ok(_) => return Ok(names),
            Err(Errno::RANGE) => {
                let needed = rustix::fs::flistxattr_query(&file)?;
                names.reserve(needed.max(names.capacity() * 2));
            }
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
    }
}

fn get_named(file: impl AsFd, name: &str) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut buffer = [0u8; BUFFER];
    match rustix::fs::fgetxattr(&file, name, &mut buffer[..]) {
        Ok(length) => return Ok(Some(buffer[..length].to_vec())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
        Err(Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    let mut value = Vec::new();
    loop {
        let needed = match rustix::fs::fgetxattr_query(&file, name) {
            Ok(needed) => needed,
            Err(Errno::NODATA) => return Ok(None),
            Err(error) => return Err(error),
        };
        value.clear();
        value.reserve(needed.max(1));
        match rustix::fs::fgetxattr(&file, name, rustix::buffer::spare_capacity(&mut value)) {
            Ok(_) => return Ok(Some(value)),
            Err(Errno::NODATA) => return Ok(None),
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error),
        }
    }
}
