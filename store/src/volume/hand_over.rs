//! The hand-over of a verified volume to its clients, by the process that serves it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use filestore_common::marker::{Marker, MarkerState, STATE_LOCK_FILE};
use jiff::Timestamp;

use super::{Volume, lock, marker};
use crate::{Error, Result};

/// How long whoever changes the marker at the moment is waited for: this often, this long.
const LOCK_LOOKS: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Requests of one process come one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// Why a volume was not handed over. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// There is no such migration here.
    #[error("{0}")]
    Unknown(String),
    /// The migration does not stand where it can be handed over.
    #[error("{0}")]
    NotNow(String),
    /// The marker could not be read, written or flushed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Volume {
    /// See [`crate::Store::hand_over`].
    pub(crate) fn hand_over(&self, run_id: &str) -> Result<Marker, HandOverError> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let file = lock::open(&self.path, &self.control, STATE_LOCK_FILE)?;
        let locked = lock::exclusive(&file, LOCK_LOOKS, LOCK_PAUSE);
        if !locked.map_err(|error| Error::io("lock the migration marker", error))? {
            let problem = "another migration, merge or reverse is at work on this volume: wait \
                           for its end";
            return Err(HandOverError::NotNow(problem.to_owned()));
        }
        let mut marker = admitted(self.marker()?, run_id)?;
        if marker.state == MarkerState::Cutover {
            // Whoever wrote it may have been killed before it was flushed.
            self.flush_marker()?;
            return Ok(marker);
        }
        give(&mut marker, Timestamp::now());
        self.set_marker(&marker)?;
        tracing::info!(run_id, "Volume handed over to its clients");
        Ok(marker)
    }
}

/// The marker, when the migration `run_id` may be handed over or was. A volume that was adopted has
/// no id of ours and belongs to its clients.
fn admitted(marker: Option<Marker>, run_id: &str) -> Result<Marker, HandOverError> {
    let Some(marker) = marker else {
        let problem = "no migration was begun on this volume".to_owned();
        return Err(HandOverError::Unknown(problem));
    };
    let (holds, state) = (&marker.run_id, marker.state);
    if holds != run_id && marker.source.kind != "adopted" {
        return Err(HandOverError::Unknown(format!(
            "the volume holds migration {holds}, not {run_id}"
        )));
    }
    let cure = match state {
        MarkerState::Verified | MarkerState::Cutover => return Ok(marker),
        MarkerState::Copying => "`filestore migrate final` makes it verified",
        MarkerState::RollingBack => {
            "finish that with `filestore migrate roll-back`, or give it up with \
             `filestore migrate roll-back --abandon`"
        }
        MarkerState::RolledBack => "take the legacy store over again, with a new id",
    };
    Err(HandOverError::NotNow(format!(
        "migration {holds} is {state}, neither verified nor cutover: {cure}"
    )))
}

/// From here on the target belongs to its clients.
fn give(marker: &mut Marker, at: Timestamp) {
    // Whole seconds, as everywhere in the marker.
    let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
    marker.state = MarkerState::Cutover;
    marker.cutover_at = Some(at.to_string());
    marker.updated_at = at.to_string();
    marker.holder = marker::holder();
}

#[cfg(test)]
mod tests;
