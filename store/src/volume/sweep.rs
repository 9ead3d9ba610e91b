//! What a start does before it serves, while no other process has the volume open: finishes
//! interrupted changes of sidecar mode, removes temporary files of crashed processes, frees the
//! trash.

use filestore_common::BucketName;
use rustix::fs::FileType;

use super::Volume;
use crate::dir::{Dir, is_absent};
use crate::layout::{self, TEMP_PREFIX};
use crate::query::MetadataMode;
use crate::{Error, Result};

/// Runs the sweep.
pub(super) fn sweep(volume: &Volume) -> Result<()> {
    if volume.mode == MetadataMode::Sidecar {
        volume.replay_intents()?;
    }
    remove_temp_files(&volume.control)?;
    remove_temp_files(&volume.intents)?;
    let entries = |dir: &Dir| {
        dir.entries()
            .map_err(|e| Error::io("list the data root", e))
    };
    for (name, kind) in entries(&volume.root)? {
        if kind != FileType::Directory || BucketName::new(&name).is_err() {
            continue;
        }
        match volume
            .root
            .open_dir(&format!("{name}/{}", layout::TEMP_DIR))
        {
            Ok(temp) => remove_temp_files(&temp)?,
            Err(error) if is_absent(error) => {}
            Err(error) => {
                return Err(Error::io(
                    format!("open the temporary area of {name}"),
                    error,
                ));
            }
        }
    }
    volume.trash.empty()
}

/// Removes our own temporary files and directories directly in `dir`.
fn remove_temp_files(dir: &Dir) -> Result<()> {
    let entries = dir
        .entries()
        .map_err(|error| Error::io("list temporary files", error))?;
    for (name, kind) in entries {
        if !name.starts_with(TEMP_PREFIX) {
            continue;
        }
        match kind {
            FileType::RegularFile => dir.remove_file(&name).map(drop).map_err(Into::into),
            // An upload that was being created.
            FileType::Directory => dir.remove_tree(&name),
            _ => Ok(()),
        }
        .map_err(|error: std::io::Error| Error::io("remove a temporary file", error))?;
    }
    Ok(())
}
