//! Copying one object: opened, checked, written, and tried again where that can help.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filestore_common::{BucketName, ObjectKey};
use futures::{StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;

use crate::body::{ETagHasher, Verdict};
use crate::pace::Bandwidth;
use crate::pace::retry::{self, Next, Tried};
use crate::source::{Body, Entry, Listing, Object, Source, Tells};
use crate::target::{Expect, Target};
use crate::{Error, Event, Kind, Progress, Result};

/// How long a copy that is under way may take to end in order when everything is stopped.
const GRACE: Duration = Duration::from_secs(5);

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
    /// How fast bodies are read from the source.
    pub bandwidth: Option<Bandwidth>,
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
            return Err(interrupted());
        }
        Ok(())
    }

    /// The source's listing of a bucket, with what is to be compared.
    pub(crate) fn list_source(&self, bucket: &BucketName, compares: Tells) -> Listing {
        match compares {
            Tells::Tags => self.source.list_full(bucket),
            Tells::Nothing | Tells::Metadata => self.source.list(bucket),
        }
    }

    /// The target's listing of a bucket, with what is to be compared.
    pub(crate) fn list_target(&self, bucket: &BucketName, compares: Tells) -> Listing {
        match compares {
            Tells::Nothing => self.target.list(bucket),
            Tells::Tags | Tells::Metadata => self.target.list_full(bucket),
        }
    }

    async fn pause(&self, pause: Duration) -> Result<()> {
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
        let mut first_failure = None;
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
            let pause = if moved || error.kind == Kind::Damaged {
                if second_chances == 0 {
                    return Err(if moved { changed(error) } else { error });
                }
                second_chances -= 1;
                retry::pause(&error.object, attempt)
            } else {
                let tried = Tried {
                    attempts: attempt,
                    unanswered: 0,
                    waited: first_failure.get_or_insert_with(Instant::now).elapsed(),
                    // Whoever talks to the store knows.
                    down_for: None,
                    patience: self.wait,
                };
                match retry::next(&error, tried) {
                    Next::Again(pause) => pause,
                    Next::GiveUp | Next::StoreIsDown => return Err(error),
                }
            };
            self.progress.event(&Event::Retrying(&error));
            self.pause(pause).await?;
            attempt += 1;
        }
    }

    async fn attempt(&self, bucket: &BucketName, entry: &Entry, expect: &Expect) -> Result<u64> {
        let copy = async {
            // A body that is open while the target is away would be cut by the source.
            self.target.ready().await?;
            let mut object = self.source.open(bucket, entry).await?;
            let size = object.info.size;
            object.body = self.shown(self.paced(object.body));
            self.target.put(bucket, &entry.key, object, expect).await?;
            Ok(size)
        };
        self.unless_stopped(Box::pin(copy)).await
    }

    /// Does `work`; gives it up when everything is stopped and it does not end in order soon.
    ///
    /// # Errors
    /// Of `work`; [`Kind::Interrupted`].
    pub(crate) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        unless_stopped(&self.cancel, GRACE, work).await
    }

    /// The body of an object of the source, no faster than allowed.
    pub(crate) fn paced(&self, body: Body) -> Body {
        let Some(bandwidth) = self.bandwidth.clone() else {
            return body;
        };
        body.and_then(move |chunk| {
            let bandwidth = bandwidth.clone();
            async move {
                bandwidth.spend(chunk.len()).await;
                Ok(chunk)
            }
        })
        .boxed()
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
        let read = async {
            let mut object = self.target.open(bucket, key).await?;
            object.body = self.shown(object.body);
            hash(object).await
        };
        self.unless_stopped(Box::pin(read)).await
    }
}

async fn unless_stopped<T>(
    cancel: &CancellationToken,
    grace: Duration,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let stopped = async {
        cancel.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        done = work => done,
        () = stopped => Err(interrupted()),
    }
}

fn interrupted() -> Error {
    let message = "stopped by a signal";
    Error::new(Kind::Interrupted, "migrate", "objects", message)
}

/// An object that moved under two copies in a row.
fn changed(error: Error) -> Error {
    let message = format!("changed during copy ({})", error.message);
    Error {
        kind: Kind::Changed,
        message: message.into(),
        ..error
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_hangs_is_given_up_after_a_signal_and_what_ends_soon_is_not() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let soon = async {
            tokio::task::yield_now().await;
            Ok(7)
        };
        assert_eq!(unless_stopped(&cancel, GRACE, soon).await.unwrap(), 7);
        let hangs = std::future::pending::<Result<()>>();
        let given_up = unless_stopped(&cancel, Duration::ZERO, hangs).await;
        assert_eq!(given_up.unwrap_err().kind, Kind::Interrupted);
        // Without a signal it takes the time that it takes.
        let slow = tokio::time::sleep(Duration::from_millis(1));
        let slow = async {
            slow.await;
            Ok(())
        };
        let none = CancellationToken::new();
        assert!(unless_stopped(&none, Duration::ZERO, slow).await.is_ok());
    }
}
