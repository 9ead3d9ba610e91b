//! Changes of `volume.json` by conversions and imports, which have the volume for themselves.

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

    /// Notes that an import is under way, which keeps everybody else from the volume; or its end.
    pub(crate) fn set_importing(&self, importing: bool) -> Result<()> {
        self.change_identity(|identity| identity.importing = importing)
    }

    /// Makes a volume that was created just now, and of which nothing was used, no volume again.
    pub(crate) fn unmake(&self) -> Result<()> {
        let io = |error| Error::io("remove a new .filestore", error);
        for name in [layout::VOLUME_FILE, layout::LOCK_FILE] {
            self.control.remove_file(name).map_err(io)?;
        }
        for name in [
            layout::META_DIR,
            layout::INTENTS_DIR,
            layout::OVERFLOW_DIR,
            layout::TRASH_DIR,
        ] {
            self.control.remove_dir(name).map_err(io)?;
        }
        let base = Dir::open_root(&self.path).map_err(io)?;
        base.remove_dir(layout::CONTROL_DIR).map_err(io)?;
        Ok(())
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
