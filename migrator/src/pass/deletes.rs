//! Deletes at the end of a final pass, after every guard agreed.

use filestore_common::BucketName;

use super::Limits;
use super::walk::Walk;
use crate::source::Entry;
use crate::spool::Doomed;
use crate::target::Expect;
use crate::{Error, Event, Kind, Result};

fn refuse(message: String) -> Error {
    Error::new(Kind::Refused, "delete", "extraneous objects", message)
}

/// The guards that know how many objects would go.
///
/// # Errors
/// [`Kind::Refused`].
pub(crate) fn admit(count: u64, target_was_empty: bool, limits: Limits) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    if !target_was_empty && !limits.delete_foreign {
        return Err(refuse(format!(
            "{count} objects are not on the source, and the target held objects before this \
             migration; allow it with --delete-extraneous"
        )));
    }
    match limits.max_delete {
        Some(most) if count > most => {
            let problem = format!("{count} objects would go, more than --max-delete {most} allows");
            Err(refuse(problem).with_cure(
                "find out who deleted them on the source; to delete them here as well, allow as many",
            ))
        }
        _ => Ok(()),
    }
}

impl Walk<'_> {
    /// Deletes what only the target has; each object is confirmed by the source once more.
    pub(super) async fn deletes(&mut self, limits: Limits) -> Result<()> {
        let count = self.spool.len();
        if count == 0 {
            return Ok(());
        }
        if self.report.objects == 0 {
            return Err(refuse(format!(
                "{count} objects would go because the source is empty"
            )));
        }
        if self.report.failed > 0 {
            // A rerun without failures decides.
            self.report.extraneous += count;
            return Ok(());
        }
        admit(count, self.recorder.checkpoint.target_was_empty, limits)?;
        let mut first = true;
        for object in self.spool.read()? {
            let object = object?;
            self.ends.go_on()?;
            let name = format!("{}/{}", object.bucket, object.key);
            match self.ends.source.head(&object.bucket, &object.key).await? {
                None => {
                    let expect = Expect::Same(object.etag);
                    self.ends
                        .target
                        .delete(&object.bucket, &object.key, &expect)
                        .await?;
                    self.report.deleted += 1;
                    self.ends.progress.event(&Event::Deleted { object: &name });
                }
                // The listing did not show it: hidden there, or written since.
                Some(entry) => {
                    // These come behind the walk, which may have been flushed up to its end.
                    if std::mem::take(&mut first) {
                        let beginning = (object.bucket.clone(), None);
                        self.flusher.begin(beginning, self.recorder).await?;
                    }
                    self.copy(&object.bucket, entry, true, false).await?;
                }
            }
        }
        self.drain().await
    }
}

impl Doomed {
    pub(super) fn new(bucket: &BucketName, entry: &Entry) -> Self {
        Self {
            bucket: bucket.clone(),
            key: entry.key.clone(),
            etag: entry.etag.clone(),
        }
    }
}
