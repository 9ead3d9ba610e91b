//! Changes of `volume.json` by conversions and imports, which have the volume for themselves.

use std::path::Path;

use filestore_common::marker::MARKER_FILE;

use super::Volume;
use super::identity::Identity;
use crate::attributes::json;
use crate::dir::Dir;
use crate::query::MetadataMode;
use crate::{Error, Result, layout};

impl Volume {
    /// Makes `mode` the metadata mode of the volume, the point of no return of a conversion: what
    /// the other mode kept is stale from here on.
    pub(crate) fn switch_mode(&self, mode: MetadataMode) -> Result<()> {
        self.change_identity(|identity| {
            identity.metadata = mode;
            identity.stale = true;
        })
    }

    /// Whether a conversion to the volume's mode did not get to remove what is stale.
    pub(crate) fn has_stale_metadata(&self) -> Result<bool> {
        Ok(self.identity()?.stale)
    }

    /// Notes that nothing stale is left.
    pub(crate) fn forget_stale(&self) -> Result<()> {
        self.change_identity(|identity| identity.stale = false)
    }

    /// Whether the import that made this a volume has not written anything yet.
    pub(crate) fn is_fresh(&self) -> Result<bool> {
        Ok(self.identity()?.fresh)
    }

    /// Whether an import that had begun to write did not come to its end.
    pub(crate) fn is_half_imported(&self) -> Result<bool> {
        let identity = self.identity()?;
        Ok(identity.importing && !identity.fresh)
    }

    /// Notes that an import begins to write, which keeps everybody else from the volume until
    /// [`Self::end_import`].
    pub(crate) fn begin_import(&self) -> Result<()> {
        self.change_identity(|identity| {
            identity.importing = true;
            identity.fresh = false;
        })
    }

    /// Notes that an import is complete.
    pub(crate) fn end_import(&self) -> Result<()> {
        self.change_identity(|identity| identity.importing = false)
    }

    /// Makes a volume of which nothing was used no volume again.
    pub(crate) fn unmake(&self) -> Result<()> {
        unmake(&self.path, &self.control)
    }

    fn identity(&self) -> Result<Identity> {
        json::read(&self.control, layout::VOLUME_FILE)?
            .ok_or_else(|| Error::Damaged("volume.json is gone".to_owned()))
    }

    fn change_identity(&self, change: impl FnOnce(&mut Identity)) -> Result<()> {
        let mut identity = self.identity()?;
        change(&mut identity);
        identity.write(&self.control)
    }
}

/// See [`Volume::unmake`]. The lock is held.
pub(super) fn unmake(path: &Path, control: &Dir) -> Result<()> {
    let io = |error| Error::io("remove a new .filestore", error);
    for name in [layout::VOLUME_FILE, MARKER_FILE] {
        control.remove_file(name).map_err(io)?;
    }
    for name in [
        layout::META_DIR,
        layout::INTENTS_DIR,
        layout::OVERFLOW_DIR,
        layout::TRASH_DIR,
    ] {
        control.remove_dir(name).map_err(io)?;
    }
    for name in layout::LOCK_FILES {
        control.remove_file(name).map_err(io)?;
    }
    let base = Dir::open_root(path).map_err(io)?;
    if base.remove_dir(layout::CONTROL_DIR).map_err(io)? {
        return Ok(());
    }
    Err(Error::Volume(format!(
        "{}/.filestore is no volume any more but has other files in it: look at them and remove it",
        path.display()
    )))
}
