//! Flushes beside the copying, and knows up to which key everything is on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filestore_common::{BucketName, ObjectKey};
use tokio::task::JoinHandle;

use super::{Durability, Recorder};
use crate::state::{Unflushed, boot_id};
use crate::target::Target;
use crate::{Error, Kind, Result};

/// Time between two flushes: what a power loss costs at most, and short enough that the one at the
/// end of a pass has little left to write.
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// A place in the order of buckets and keys; `None` is a bucket's beginning.
pub(super) type Place = (BucketName, Option<ObjectKey>);

/// Copies under way, in the order in which they were begun.
#[derive(Debug, Default)]
struct InFlight {
    next: u64,
    open: BTreeMap<u64, Place>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flusher {
    durability: Durability,
    /// What an earlier start of the machine may have lost stays in doubt until a whole pass has
    /// come by it.
    doubt: Option<Unflushed>,
    in_flight: InFlight,
    /// Something was written since the pass began.
    written: bool,
    running: Option<(JoinHandle<Result<()>>, Place)>,
    last: Instant,
}

impl Flusher {
    pub(super) fn new(durability: Durability, doubt: Option<Unflushed>) -> Self {
        Self {
            durability,
            doubt,
            in_flight: InFlight::default(),
            written: false,
            running: None,
            last: Instant::now(),
        }
    }

    fn from(&self, (bucket, key): Place) -> Unflushed {
        let boot_id = self
            .doubt
            .as_ref()
            .map_or_else(boot_id, |doubt| doubt.boot_id.clone());
        Unflushed {
            boot_id,
            bucket,
            key,
        }
    }

    /// Before anything is written at or after `place`: it is in doubt from here on, until a flush.
    pub(super) fn begin(&mut self, place: Place, recorder: &mut Recorder<'_>) -> Result<()> {
        recorder.checkpoint.unflushed = Some(self.from(place));
        self.written = true;
        self.last = Instant::now();
        recorder.save()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.written
    }

    /// A copy begins; its number goes to [`Flusher::copied`]. Copies begin in the order of keys.
    pub(super) fn copying(&mut self, bucket: &BucketName, key: &ObjectKey) -> u64 {
        let number = self.in_flight.next;
        self.in_flight.next += 1;
        let place = (bucket.clone(), Some(key.clone()));
        self.in_flight.open.insert(number, place);
        number
    }

    /// A copy came to its end.
    pub(super) fn copied(&mut self, number: u64) {
        self.in_flight.open.remove(&number);
    }

    /// Now and then: begins a flush of what is complete, or records that one has ended. `next` is
    /// the first place that was not looked at.
    pub(super) async fn tick(
        &mut self,
        next: &Place,
        target: &Arc<dyn Target>,
        recorder: &mut Recorder<'_>,
    ) -> Result<()> {
        if let Some((task, _)) = &self.running {
            if !task.is_finished() {
                return Ok(());
            }
            return self.settle(recorder).await;
        }
        if self.durability == Durability::Relaxed || self.last.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        // Whatever is not complete now may miss this flush.
        let oldest = self.in_flight.open.values().next();
        let place = oldest.unwrap_or(next).clone();
        let target = target.clone();
        let task = tokio::spawn(async move { target.flush().await });
        self.running = Some((task, place));
        Ok(())
    }

    async fn settle(&mut self, recorder: &mut Recorder<'_>) -> Result<()> {
        let Some((task, place)) = self.running.take() else {
            return Ok(());
        };
        let flushed = task.await;
        flushed.map_err(|error| {
            Error::new(Kind::Refused, "flush", "the target", error.to_string())
        })??;
        recorder.checkpoint.unflushed = Some(self.from(place));
        self.last = Instant::now();
        recorder.save()
    }

    /// At the end of a pass that changed something, or must leave everything on the disk.
    pub(super) async fn finish(
        mut self,
        must: bool,
        target: &Arc<dyn Target>,
        recorder: &mut Recorder<'_>,
    ) -> Result<()> {
        self.settle(recorder).await?;
        let durable = self.durability == Durability::Durable;
        let open = self.written || recorder.checkpoint.unflushed.is_some();
        if must || (durable && open) {
            target.flush().await?;
            recorder.checkpoint.unflushed = None;
        }
        recorder.save()
    }
}
