//! The migration marker on the volume.

use std::path::Path;

use filestore_common::marker::{
    Counts, MARKER_FILE, MARKER_VERSION, Marker, MarkerState, SourceIdentity,
};

use super::Volume;
use crate::attributes::json;
use crate::dir::Dir;
use crate::layout;
use crate::{Error, Result};

/// What the chart of Ryax 26.10 left at the root of a volume that it had filled from MinIO.
const RYAX_MARKER: &str = ".ryax-migrated-from-minio";

impl Volume {
    /// The marker; `None` when nothing was ever migrated to this volume.
    pub(crate) fn marker(&self) -> Result<Option<Marker>> {
        read(&self.control)
    }

    /// Replaces the marker atomically and flushes it, whatever the durability.
    pub(crate) fn set_marker(&self, marker: &Marker) -> Result<()> {
        json::write(&self.control, MARKER_FILE, marker, true)?;
        rustix::fs::fsync(&self.control)
            .map_err(|error| Error::io("flush the migration marker", error))
    }
}

/// The marker of the volume at `volume` without opening it as a store; `None` when the volume
/// has none, or is no volume yet. A volume of the Ryax 26.10 chart has the marker that it gets
/// when it is opened first.
///
/// # Errors
/// [`Error::Volume`] when the directory cannot be read, [`Error::Damaged`] for an unreadable or
/// newer marker.
pub fn read_marker(volume: &Path) -> Result<Option<Marker>> {
    let base = super::identity::open_base(volume)?;
    let marker = match base.open_dir(layout::CONTROL_DIR) {
        Ok(control) => read(&control)?,
        Err(error) if crate::dir::is_absent(error) => None,
        Err(error) => return Err(super::identity::unusable(volume, "open .filestore", error)),
    };
    if marker.is_some() {
        return Ok(marker);
    }
    let in_root = base
        .open_dir(layout::DATA_DIR)
        .is_ok_and(|root| has_ryax_marker(&root));
    Ok((in_root || has_ryax_marker(&base)).then(adopted))
}

fn read(control: &Dir) -> Result<Option<Marker>> {
    let marker: Option<Marker> = json::read(control, MARKER_FILE)?;
    match marker {
        Some(marker) if marker.version > MARKER_VERSION => Err(Error::Damaged(format!(
            "{MARKER_FILE} has version {}, this program knows up to {MARKER_VERSION}: use a newer one",
            marker.version
        ))),
        other => Ok(other),
    }
}

/// Takes over the chart's marker, once.
pub(super) fn adopt(volume: &Volume, base: &Dir) -> Result<()> {
    let filled = has_ryax_marker(base) || has_ryax_marker(&volume.root);
    if !filled || volume.marker()?.is_some() {
        return Ok(());
    }
    volume.set_marker(&adopted())?;
    tracing::info!("adopted a volume that an earlier release had migrated");
    Ok(())
}

fn has_ryax_marker(dir: &Dir) -> bool {
    matches!(dir.stat(RYAX_MARKER), Ok(Some(_)))
}

/// The marker of a volume that the chart filled.
fn adopted() -> Marker {
    let now = jiff::Timestamp::now().to_string();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Marker {
        version: MARKER_VERSION,
        run_id: format!("adopted-{}", uuid::Uuid::new_v4()),
        follows: None,
        state: MarkerState::Cutover,
        holder: format!("{}:{}", host.trim(), std::process::id()),
        started_at: now.clone(),
        updated_at: now.clone(),
        cutover_at: Some(now),
        source: SourceIdentity {
            kind: "adopted".into(),
            deployment_id: None,
            location: RYAX_MARKER.into(),
            buckets: Vec::new(),
        },
        scope: None,
        carried: Counts::default(),
        digest: None,
        not_carried: std::collections::BTreeMap::new(),
        not_carried_hash: None,
        accepted_by: None,
        diverged: false,
    }
}
