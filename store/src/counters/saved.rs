//! `.filestore/counters`: what was counted when the last process ended in order. Whoever opens the
//! volume takes it away, so that it never outlives a change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attributes::json;
use crate::dir::Dir;
use crate::layout::COUNTERS_FILE;
use crate::query::Usage;
use crate::volume::Volume;
use crate::{Error, Result};

/// Version of the file's form.
const VERSION: u32 = 1;

/// Usage by bucket.
pub(crate) type Counted = BTreeMap<String, Usage>;

/// The file. Without buckets it says that a second process opened the volume: what the first one
/// knows is not all then.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    version: u32,
    buckets: Option<Counted>,
}

/// Takes the file away; `None` when there is none that can be trusted. `alone` = no other process
/// has the volume open.
///
/// # Errors
/// [`Error::Io`], [`Error::NoSpace`].
pub(crate) fn take(control: &Dir, alone: bool) -> Result<Option<Counted>> {
    let found = json::read::<Saved>(control, COUNTERS_FILE).unwrap_or_else(|error| {
        tracing::warn!(%error, "Counts of the last process are unusable");
        None
    });
    if !alone {
        let shared = Saved {
            version: VERSION,
            buckets: None,
        };
        json::write(control, COUNTERS_FILE, &shared, false)?;
        return Ok(None);
    }
    let removed = control.remove_file(COUNTERS_FILE);
    if removed.map_err(|error| Error::io("remove the counts", error))? {
        // It must not come back after a crash, when it is no longer true.
        rustix::fs::fsync(control).map_err(|error| Error::io("flush .filestore", error))?;
    }
    Ok(found
        .filter(|saved| saved.version == VERSION)
        .and_then(|saved| saved.buckets))
}

/// Leaves the file for the next process, unless others had the volume open beside this one.
///
/// # Errors
/// [`Error::Io`], [`Error::NoSpace`].
pub(super) fn put(volume: &Volume, buckets: Counted) -> Result<()> {
    let io = |error| Error::io("look for the counts of another process", error);
    if !volume.was_alone() || volume.control.stat(COUNTERS_FILE).map_err(io)?.is_some() {
        return Ok(());
    }
    let saved = Saved {
        version: VERSION,
        buckets: Some(buckets),
    };
    json::write(&volume.control, COUNTERS_FILE, &saved, true)
}
