//! What is known of an object after it was written, or not.

use std::time::SystemTime;

use filestore_common::BucketName;

use super::apply::Applier;
use super::decide::Side;
use crate::Result;
use crate::manifest::Line;
use crate::source::Entry;

impl Applier<'_> {
    /// Whether the legacy store is one that is known to hold no key like this, so that it stays
    /// behind in every run.
    pub(super) fn no_place(&self, reading: &Entry) -> bool {
        let size = reading.size;
        self.task.rules.writes == Side::Legacy
            && self
                .ends
                .target
                .naming()
                .refuses(reading.key.as_str(), size)
    }

    /// The line of an object that was just written, and whether the store could be asked for it.
    pub(super) async fn carried(&self, bucket: &BucketName, reading: &Entry) -> (Line, Result<()>) {
        let traits = self.ends.target.traits();
        let mut there = reading.clone();
        let mut asked = Ok(());
        if !traits.keeps_etag || !traits.keeps_last_modified {
            match self.ends.target.head(bucket, &reading.key).await {
                // Another object than the one just written is somebody's change, seen as such next
                // time.
                Ok(found) => {
                    if let Some(found) = found.filter(|found| may_be(reading, found)) {
                        there = found;
                    }
                }
                Err(error) => {
                    asked = Err(error);
                    if self.task.rules.writes == Side::Legacy && !traits.keeps_last_modified {
                        there.last_modified = SystemTime::UNIX_EPOCH;
                    }
                }
            }
        }
        let line = match self.task.rules.writes {
            Side::Served => Line::new(bucket, reading, &there),
            Side::Legacy => Line::new(bucket, &there, reading),
        };
        (line, asked)
    }
}

/// Whether what a store shows after a write can be what was written.
fn may_be(written: &Entry, found: &Entry) -> bool {
    written.size == found.size
        && match (&written.etag, &found.etag) {
            (Some(one), Some(other)) => one == other || !(one.is_md5() && other.is_md5()),
            _ => true,
        }
}
