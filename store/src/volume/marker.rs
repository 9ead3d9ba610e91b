//! The migration marker on the volume.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

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

/// A look at the marker is believed when the file is older than this: within one tick of the
/// file system's clock (up to 2 s), which may be another machine's, it can be replaced by one that
/// looks the same.
const SETTLED: Duration = Duration::from_secs(10);

/// What is known of the marker without reading it.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// How the file looked when it was read, and what it said.
    seen: Mutex<Option<(Stamp, MarkerState)>>,
    /// Changes by this process.
    changes: AtomicU64,
}

/// Tells two generations of the file apart: device, inode, size, time of change in nanoseconds
/// since 1970.
type Stamp = (u128, u128, u64, i128);

fn stamp(stat: &rustix::fs::Stat) -> Stamp {
    let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    let id = (stat.st_dev.into(), stat.st_ino.into());
    (id.0, id.1, crate::dir::size(stat), changed)
}

impl Volume {
    /// The marker; `None` when nothing was ever migrated to this volume.
    pub(crate) fn marker(&self) -> Result<Option<Marker>> {
        read(&self.control)
    }

    /// State of the marker, whoever changed it last. Cheap: one look at the file's inode as long
    /// as it stays the same.
    pub(crate) fn migration_state(&self) -> Result<Option<MarkerState>> {
        let stat = self.control.stat(MARKER_FILE);
        let stat = stat.map_err(|error| Error::io("look at the migration marker", error))?;
        let Some(now) = stat.as_ref().map(stamp) else {
            return Ok(None);
        };
        let mut seen = self
            .migration
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((stamp, state)) = *seen
            && stamp == now
        {
            return Ok(Some(state));
        }
        let state = self.marker()?.map(|marker| marker.state);
        let age = SystemTime::now().duration_since(crate::dir::time_from_ns(now.3));
        let settled = age.is_ok_and(|age| age > SETTLED);
        *seen = state.filter(|_| settled).map(|state| (now, state));
        Ok(state)
    }

    /// How often this process changed the marker.
    pub(crate) fn marker_changes(&self) -> u64 {
        self.migration.changes.load(Ordering::Acquire)
    }

    /// Replaces the marker atomically and flushes it, whatever the durability.
    pub(crate) fn set_marker(&self, marker: &Marker) -> Result<()> {
        json::write(&self.control, MARKER_FILE, marker, true)?;
        self.migration.changes.fetch_add(1, Ordering::AcqRel);
        self.flush_marker()
    }

    /// Flushes the name of the marker, whose content was flushed before it got it.
    pub(super) fn flush_marker(&self) -> Result<()> {
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

/// This process, as the marker names it.
pub(super) fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// The marker of a volume that the chart filled.
fn adopted() -> Marker {
    let now = jiff::Timestamp::now().to_string();
    Marker {
        version: MARKER_VERSION,
        run_id: format!("adopted-{}", uuid::Uuid::new_v4()),
        follows: None,
        state: MarkerState::Cutover,
        holder: holder(),
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
