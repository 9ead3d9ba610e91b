//! Whether a migration that was begun on the target may be gone on with.

use filestore_common::marker::{Marker, MarkerState};

use super::Session;
use crate::{Result, guard};

impl Session<'_> {
    /// Refuses a target that is not this migration's to write to.
    ///
    /// # Errors
    /// [`crate::Kind::Refused`].
    pub(super) fn admit(&self, marker: &Marker) -> Result<()> {
        match marker.state {
            MarkerState::Copying | MarkerState::Verified if marker.follows.is_some() => {
                let problem = "is being taken over again and holds what its clients wrote";
                return Err(self.refuse(problem).with_cure(
                    "`filestore migrate run` goes on with that and deletes nothing of it",
                ));
            }
            MarkerState::Copying | MarkerState::Verified => {}
            MarkerState::Cutover => {
                return Err(self
                    .refuse("was cut over before and belongs to its clients")
                    .with_cure(
                        "`filestore migrate run` compares with the source and never overwrites",
                    ));
            }
            MarkerState::RollingBack => {
                return Err(self.refuse("is being rolled back").with_cure(
                    "finish that with `filestore migrate roll-back`, or give it up with \
                     `filestore migrate roll-back --abandon`",
                ));
            }
            MarkerState::RolledBack => {
                return Err(self
                    .refuse("was rolled back; the legacy store serves again")
                    .with_cure("a new --id takes it over again, writes of both sides kept"));
            }
        }
        if let Some(id) = self.options.run_id.as_ref()
            && *id != marker.run_id
        {
            let message = format!("holds the unfinished migration {}, not {id}", marker.run_id);
            return Err(self
                .refuse(message)
                .with_cure("go on with that id, or without --id"));
        }
        if !guard::same_source(&marker.source, &self.identity) {
            let message = format!(
                "holds an unfinished migration from {}, not from {}",
                guard::describe(&marker.source),
                guard::describe(&self.identity)
            );
            return Err(self.refuse(message).with_cure(
                "finish it, or use another volume; a MinIO shows its deployment to its root \
                 credentials only",
            ));
        }
        Ok(())
    }
}
