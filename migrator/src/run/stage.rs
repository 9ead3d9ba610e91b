//! What a run on a target is about, as its marker says.

use filestore_common::marker::{Marker, MarkerState};

use crate::session::state_of;
use crate::{Error, Kind, Result, RunOptions};

pub(super) fn marker(options: &RunOptions) -> Result<Option<Marker>> {
    state_of(options).map_or(Ok(None), |state| state.marker())
}

/// Another program changed the marker between two looks at it.
pub(super) fn moved_on(options: &RunOptions) -> Error {
    let target = options.to.location.to_string();
    let problem = "its migration was moved on by another program meanwhile";
    Error::new(Kind::Refused, "migrate to", target, problem).with_cure("run this again")
}

/// What a run on this target is about.
pub(super) enum Stage<'a> {
    /// A take-over to begin or to finish.
    Before,
    /// It was handed over.
    After(&'a Marker),
    /// It was handed over and rolled back, and is taken over again.
    Again(&'a Marker),
}

/// Which of them it is, as far as the target may be written at all.
pub(super) fn stage<'a>(options: &RunOptions, marker: Option<&'a Marker>) -> Result<Stage<'a>> {
    let Some(marker) = marker else {
        return Ok(Stage::Before);
    };
    match marker.state {
        MarkerState::Cutover => Ok(Stage::After(marker)),
        MarkerState::Copying | MarkerState::Verified if marker.follows.is_some() => {
            Ok(Stage::Again(marker))
        }
        MarkerState::Copying | MarkerState::Verified => Ok(Stage::Before),
        MarkerState::RollingBack | MarkerState::RolledBack if options.again => {
            Ok(Stage::Again(marker))
        }
        MarkerState::RollingBack => {
            let target = options.to.location.to_string();
            let problem = "is being rolled back; its changes are on their way to the legacy store";
            Err(
                Error::new(Kind::Refused, "migrate to", target, problem).with_cure(
                    "finish that with `filestore migrate roll-back` (or `reverse --complete`), or \
                     give it up with `filestore migrate roll-back --abandon`",
                ),
            )
        }
        MarkerState::RolledBack => {
            let target = options.to.location.to_string();
            let problem = "was rolled back; the legacy store serves its clients again";
            Err(
                Error::new(Kind::Refused, "migrate to", target, problem).with_cure(
                    "`filestore migrate run --again --id NEW`, or `copy` and `final` with a new \
                     --id, take it over again",
                ),
            )
        }
    }
}
