//! Flushes beside the copying, and records up to which key everything is on the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};

use super::ledger::Ledger;
use super::{Durability, Recorder};
use crate::state::{Place, boot_id};
use crate::target::Target;
use crate::{Error, Kind, Result};

/// Time between two flushes: what a power loss costs at most, and short enough that the one at the
/// end of a pass has little left to write.
const FLUSH_EVERY: Duration = Duration::from_secs(5);
/// How long the end of a pass that failed waits to hear how a flush ends.
const LAST_WORD: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Flusher {
    durability: Durability,
    pub(super) ledger: Ledger,
    /// Something was written since the pass began.
    written: bool,
    running: Option<(JoinHandle<Result<()>>, Option<Place>)>,
    last: Instant,
}

impl Flusher {
    pub(super) fn new(durability: Durability, recorder: &Recorder<'_>) -> Self {
        let unflushed = recorder.checkpoint.unflushed.as_ref();
        Self {
            durability,
            ledger: Ledger::new(boot_id(), unflushed, recorder.whole),
            written: false,
            running: None,
            last: Instant::now(),
        }
    }

    /// Before anything is written at or after `place`: it is not on the disk from here on, until
    /// a flush.
    pub(super) async fn begin(&mut self, place: Place, recorder: &mut Recorder<'_>) -> Result<()> {
        // A flush that began earlier knows nothing of what comes now.
        self.settle(recorder).await?;
        let unflushed = recorder.checkpoint.unflushed.take();
        recorder.checkpoint.unflushed = Some(self.ledger.begin(place, unflushed));
        self.written = true;
        self.last = Instant::now();
        recorder.save()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.written
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
        self.start(Some(next), target);
        Ok(())
    }

    fn start(&mut self, next: Option<&Place>, target: &Arc<dyn Target>) {
        let reach = self.ledger.reach(next);
        let target = target.clone();
        let task = tokio::spawn(async move { target.flush().await });
        self.running = Some((task, reach));
    }

    async fn settle(&mut self, recorder: &mut Recorder<'_>) -> Result<()> {
        let Some((task, _)) = &mut self.running else {
            return Ok(());
        };
        // Stays known when we are given up here: see `abandon`.
        let flushed = task.await;
        let reach = self.running.take().and_then(|(_, reach)| reach);
        self.record(flushed, reach, recorder)
    }

    fn record(
        &mut self,
        flushed: Result<Result<()>, JoinError>,
        reach: Option<Place>,
        recorder: &mut Recorder<'_>,
    ) -> Result<()> {
        let flushed = flushed.unwrap_or_else(|error| {
            let problem = error.to_string();
            Err(Error::new(Kind::Refused, "flush", "the target", problem))
        });
        self.last = Instant::now();
        recorder.flushed(flushed, self.ledger.flushed(reach))
    }

    /// At the end of a pass that failed: hears how a flush under way ends.
    pub(super) async fn abandon(&mut self, recorder: &mut Recorder<'_>) {
        let Some((task, reach)) = self.running.take() else {
            return;
        };
        let heard = tokio::time::timeout(LAST_WORD, task).await;
        let flushed = heard.unwrap_or_else(|_| {
            let problem = "did not end";
            Ok(Err(Error::new(
                Kind::Refused,
                "flush",
                "the target",
                problem,
            )))
        });
        // The pass has a failure of its own to tell.
        drop(self.record(flushed, reach, recorder));
    }

    /// At the end of a pass that changed something, or must leave everything on the disk.
    pub(super) async fn finish(
        &mut self,
        must: bool,
        target: &Arc<dyn Target>,
        recorder: &mut Recorder<'_>,
    ) -> Result<()> {
        self.settle(recorder).await?;
        let durable = self.durability == Durability::Durable;
        let open = self.written || recorder.checkpoint.unflushed.is_some();
        if must || (durable && open) {
            self.start(None, target);
            return self.settle(recorder).await;
        }
        recorder.save()
    }
}

#[cfg(test)]
mod tests {
    use filestore_common::{BucketName, ObjectKey};

    use super::*;
    use crate::state::{Checkpoint, State, Unflushed};

    fn recorder<'a>(state: &'a State, key: &str) -> Recorder<'a> {
        let unflushed = Unflushed {
            boot_id: boot_id(),
            bucket: BucketName::new("bkt").unwrap(),
            key: Some(ObjectKey::new(key).unwrap()),
            failed: false,
        };
        Recorder {
            state: Some(state),
            run_id: "r1",
            checkpoint: Checkpoint {
                unflushed: Some(unflushed),
                ..Checkpoint::default()
            },
            whole: true,
        }
    }

    fn ends(flushed: Result<()>, reach: Option<Place>) -> (JoinHandle<Result<()>>, Option<Place>) {
        (tokio::spawn(async { flushed }), reach)
    }

    fn io_error() -> Result<()> {
        Err(Error::new(
            Kind::Refused,
            "flush",
            "/volume",
            "Input/output error",
        ))
    }

    #[tokio::test]
    async fn a_failed_flush_is_known_to_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().into());
        let mut recorder = recorder(&state, "c");
        let mut flusher = Flusher::new(Durability::Durable, &recorder);
        flusher.running = Some(ends(io_error(), None));
        let error = flusher.settle(&mut recorder).await.unwrap_err();
        assert_eq!(&*error.message, "Input/output error");
        let left = state.checkpoint("r1").unwrap().unflushed.unwrap();
        assert_eq!(left.key.as_ref().map(ObjectKey::as_str), Some("c"));
        assert!(left.failed && left.is_in_doubt(&boot_id()));
    }

    #[tokio::test]
    async fn a_pass_that_fails_hears_how_its_flush_ends() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().into());
        for (flushed, failed) in [(Ok(()), false), (io_error(), true)] {
            let mut recorder = recorder(&state, "c");
            let mut flusher = Flusher::new(Durability::Durable, &recorder);
            let place = recorder.checkpoint.unflushed.clone().unwrap().place();
            flusher.running = Some(ends(flushed, Some(place)));
            flusher.abandon(&mut recorder).await;
            let left = state.checkpoint("r1").unwrap().unflushed.unwrap();
            assert_eq!(left.failed, failed);
        }
    }

    #[tokio::test]
    async fn a_flush_that_began_before_the_deletes_says_nothing_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().into());
        let mut recorder = recorder(&state, "c");
        let mut flusher = Flusher::new(Durability::Durable, &recorder);
        let place = recorder.checkpoint.unflushed.clone().unwrap().place();
        flusher.running = Some(ends(Ok(()), Some(place.clone())));
        let beginning = (place.0, None);
        flusher
            .begin(beginning.clone(), &mut recorder)
            .await
            .unwrap();
        assert!(flusher.running.is_none());
        let left = state.checkpoint("r1").unwrap().unflushed.unwrap();
        assert_eq!(left.place(), beginning);
    }
}
