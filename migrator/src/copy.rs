//! Copying one object: opened, checked, written, and tried again where that can help.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filestore_common::{BucketName, ObjectKey};
use futures::{StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;

use crate::body::{ETagHasher, Verdict};
use crate::source::{Body, Entry, Listing, Object, Source};
use crate::target::{Expect, Target};
use crate::{Error, Event, Kind, Progress, Result};

/// Attempts of one object whose store answers with failures.
const ANSWERED_ATTEMPTS: u32 = 4;
/// First and longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(10));

/// The two ends and what all steps between them share.
#[derive(Debug, Clone)]
pub struct Ends {
    /// Where objects come from.
    pub source: Arc<dyn Source>,
    /// Where they go.
    pub target: Arc<dyn Target>,
    /// Hears of everything.
    pub progress: Arc<dyn Progress>,
    /// Ends everything.
    pub cancel: CancellationToken,
    /// Objects in flight.
    pub parallel: usize,
    /// How long a store that does not answer is waited for.
    pub wait: Duration,
}

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// It is on the target; bytes of its body.
    Done(u64),
    /// It is gone from the source.
    Vanished,
}

impl Ends {
    /// Fails when a signal came.
    ///
    /// # Errors
    /// [`Kind::Interrupted`].
    pub fn go_on(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::new(
                Kind::Interrupted,
                "migrate",
                "objects",
                "stopped by a signal",
            ));
        }
        Ok(())
    }

    /// The target's listing of a bucket, with metadata where the source's listing has it to compare.
    pub(crate) fn list_target(&self, bucket: &BucketName) -> Listing {
        if self.source.lists_metadata() {
            self.target.list_full(bucket)
        } else {
            self.target.list(bucket)
        }
    }

    async fn pause(&self, attempt: u32) -> Result<()> {
        let pause = (PAUSES.0 * 2_u32.saturating_pow(attempt.saturating_sub(1))).min(PAUSES.1);
        tokio::select! {
            () = self.cancel.cancelled() => self.go_on(),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Copies the object that `entry` lists. One that moves under the copy is looked at afresh and
    /// tried once more; one whose bytes do not fit its ETag is read once more.
    ///
    /// # Errors
    /// The last failure, with the number of attempts.
    pub async fn copy(
        &self,
        bucket: &BucketName,
        entry: &Entry,
        expect: &Expect,
    ) -> Result<Copied> {
        let begin = Instant::now();
        let mut entry = entry.clone();
        let (mut attempt, mut second_chances) = (1, 1);
        loop {
            self.go_on()?;
            let mut error = match self.attempt(bucket, &entry, expect).await {
                Ok(bytes) => return Ok(Copied::Done(bytes)),
                Err(error) => error,
            };
            error.attempts = error.attempts.max(attempt);
            let moved = error.kind == Kind::Changed
                || (error.kind == Kind::NotFound
                    && matches!(error.operation, "get" | "tags" | "parts"));
            if moved {
                match self.source.head(bucket, &entry.key).await? {
                    None => return Ok(Copied::Vanished),
                    Some(now) => entry = now,
                }
            }
            if moved || error.kind == Kind::Damaged {
                if second_chances == 0 {
                    return Err(Error {
                        kind: if moved { Kind::Changed } else { error.kind },
                        ..error
                    });
                }
                second_chances -= 1;
            } else {
                let answered = error.status.is_some_and(|status| status != 503);
                if error.is_permanent()
                    || (answered && attempt >= ANSWERED_ATTEMPTS)
                    || begin.elapsed() >= self.wait
                {
                    return Err(error);
                }
            }
            self.progress.event(&Event::Retrying(&error));
            self.pause(attempt).await?;
            attempt += 1;
        }
    }

    async fn attempt(&self, bucket: &BucketName, entry: &Entry, expect: &Expect) -> Result<u64> {
        let mut object = self.source.open(bucket, entry).await?;
        let size = object.info.size;
        object.body = self.shown(object.body);
        self.target.put(bucket, &entry.key, object, expect).await?;
        Ok(size)
    }

    /// The body, its bytes shown as they come.
    pub(crate) fn shown(&self, body: Body) -> Body {
        let progress = self.progress.clone();
        body.inspect_ok(move |chunk| progress.event(&Event::Bytes(chunk.len() as u64)))
            .boxed()
    }

    /// Whether the target's bytes are what its ETag says; `None` when that cannot be computed.
    ///
    /// # Errors
    /// Of reading.
    pub async fn proves_itself(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
    ) -> Result<Option<bool>> {
        let mut object = self.target.open(bucket, key).await?;
        object.body = self.shown(object.body);
        hash(object).await
    }
}

/// Whether a body is what its ETag says.
pub(crate) async fn hash(mut object: Object) -> Result<Option<bool>> {
    let mut hasher = ETagHasher::new(&object.info);
    while let Some(chunk) = object.body.try_next().await? {
        hasher.update(&chunk);
    }
    Ok(match hasher.finish() {
        Verdict::Match => Some(true),
        Verdict::Mismatch(_) => Some(false),
        Verdict::Unknown => None,
    })
}
