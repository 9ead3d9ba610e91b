//! JSON files of sidecar mode, replaced atomically.

use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dir::Dir;
use crate::layout::{self, FILE_MODE};
use crate::{Error, Result};

/// Writes `value` to a new file beside `name` and renames it over; `flush` flushes the file
/// before. The caller flushes the directory.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn write(dir: &Dir, name: &str, value: &impl Serialize, flush: bool) -> Result<()> {
    let temp = write_new(dir, value, flush)?;
    dir.rename(&temp, dir, name).map_err(|error| {
        discard(dir, &temp);
        Error::io(format!("rename a new {name}"), error)
    })
}

/// Writes `value` to a new file with a name of its own and returns the name.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn write_new(dir: &Dir, value: &impl Serialize, flush: bool) -> Result<String> {
    let name = layout::temp_name();
    write_as(dir, &name, value, flush)?;
    Ok(name)
}

/// Writes `value` to the new file `name`, which must not exist; a failed write leaves nothing.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn write_as(dir: &Dir, name: &str, value: &impl Serialize, flush: bool) -> Result<()> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| Error::io("encode a metadata file", std::io::Error::other(error)))?;
    let write = || -> std::io::Result<()> {
        let mut file = dir.create_file(name, FILE_MODE)?;
        file.write_all(&bytes)?;
        if flush {
            file.sync_all()?;
        }
        Ok(())
    };
    write().map_err(|error| {
        discard(dir, name);
        Error::io("write a metadata file", error)
    })
}

/// Reads a JSON file; `None` when it is missing.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`].
pub(crate) fn read<T: DeserializeOwned>(dir: &Dir, path: &str) -> Result<Option<T>> {
    let opened = dir
        .open_file(path)
        .map_err(|e| Error::io(format!("open {path}"), e))?;
    let Some((mut file, stat)) = opened else {
        return Ok(None);
    };
    let mut bytes = Vec::with_capacity(usize::try_from(crate::dir::size(&stat)).unwrap_or(0) + 1);
    file.read_to_end(&mut bytes)
        .map_err(|error| Error::io(format!("read {path}"), error))?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(Error::Damaged(format!("{path}: {error}"))),
    }
}

fn discard(dir: &Dir, name: &str) {
    if let Err(error) = dir.remove_file(name) {
        tracing::warn!(%error, name, "remove a temporary file");
    }
}
