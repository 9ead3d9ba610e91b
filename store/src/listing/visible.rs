//! Whether anything below a directory is an object: decides if it is a common prefix.

use std::os::fd::AsFd;

use filestore_common::MAX_KEY_BYTES;
use rustix::fs::RawDir;
use rustix::io::Errno;

use super::cursor::absent_is_none;
use super::names::{Kind, classify};
use crate::dir::Dir;

/// One read of this size shows some hundred entries: enough, as nearly every directory has a
/// file or a subdirectory with one among them.
const BUFFER_BYTES: usize = 16 * 1024;

/// Looks for one object in or below `directory`, whose key is `key`. Reads no more of any
/// directory than it takes to find a file; descends into the first subdirectories at once.
///
/// `is_object` says whether a directory with that key is an object itself.
pub(super) fn holds_object(
    directory: &Dir,
    key: &mut String,
    is_object: &mut impl FnMut(&Dir, &str) -> crate::Result<bool>,
) -> crate::Result<bool> {
    if is_object(directory, key)? {
        return Ok(true);
    }
    if key.len() > MAX_KEY_BYTES {
        return Ok(false);
    }
    let failed = |error: Errno| crate::Error::io("read a directory", error);
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    let mut below: Vec<String> = Vec::new();
    loop {
        if entries.is_buffer_empty() {
            for name in below.drain(..) {
                if child_holds_object(directory, &name, key, is_object)? {
                    return Ok(true);
                }
            }
        }
        let entry = match entries.next() {
            None | Some(Err(Errno::NOENT)) => break,
            Some(entry) => entry.map_err(failed)?,
        };
        match classify(directory.as_fd(), &entry).map_err(failed)? {
            Some(Kind::File) => return Ok(true),
            Some(Kind::Directory) => {
                below.push(entry.file_name().to_string_lossy().into_owned());
            }
            None => {}
        }
    }
    Ok(false)
}

fn child_holds_object(
    directory: &Dir,
    name: &str,
    key: &mut String,
    is_object: &mut impl FnMut(&Dir, &str) -> crate::Result<bool>,
) -> crate::Result<bool> {
    let opened = absent_is_none(directory.open_dir(name))
        .map_err(|error| crate::Error::io("open a directory", error))?;
    let Some(child) = opened else {
        return Ok(false);
    };
    let length = key.len();
    key.push_str(name);
    key.push('/');
    let found = holds_object(&child, key, is_object);
    key.truncate(length);
    found
}
