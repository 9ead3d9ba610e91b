//! The walk over both listings of every bucket.

use std::collections::BTreeMap;

use filestore_common::BucketName;
use tokio_util::sync::CancellationToken;

use super::flusher::Flusher;
use super::report::{FAILURES_KEPT, Report};
use super::{Durability, Limits, Recorder};
use crate::copy::{Copied, Ends};
use crate::lanes::{Broken, Lanes};
use crate::merge::{Merge, Merged, Ordered, Pair};
use crate::policy::{Action, Pass, decide};
use crate::source::{Bucket, Entry, Listing, Tells};
use crate::spool::{Doomed, Spool};
use crate::state::Place;
use crate::target::{Expect, Traits};
use crate::{Error, Event, Kind, Result};

/// Objects up to this size are copied several at a time by one thread when many wait.
const SMALL_BYTES: u64 = 1 << 20;

/// What a copy came to.
pub(super) struct Finished {
    number: u64,
    replaced: bool,
    result: Result<Outcome>,
}

enum Outcome {
    Copied(Copied),
    /// Was in doubt and proved to be right.
    Proved,
    /// Not tried after a failure that ends everything.
    GivenUp,
}

/// Runs a pass.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) ends: Ends,
    traits: Traits,
    pass: Pass,
    pub(super) recorder: &'a mut Recorder<'a>,
    lanes: Lanes<Finished>,
    /// Ends the copies that wait after a failure that ends them all.
    give_up: CancellationToken,
    pub(super) flusher: Flusher,
    pub(super) spool: Spool,
    pub(super) report: Report,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        ends: &Ends,
        pass: Pass,
        durability: Durability,
        recorder: &'a mut Recorder<'a>,
    ) -> Self {
        let directory = recorder.state.map(|state| state.run_dir(recorder.run_id));
        recorder.checkpoint.pass = format!("{pass:?}").to_lowercase();
        Self {
            ends: ends.clone(),
            traits: ends.target.traits(),
            pass,
            flusher: Flusher::new(durability, recorder),
            recorder,
            lanes: Lanes::new(ends.parallel),
            give_up: CancellationToken::new(),
            spool: Spool::new(directory),
            report: Report::default(),
        }
    }

    pub(super) async fn run(mut self, limits: Limits) -> Result<Report> {
        // Copies under way end by themselves; not so one that blocks its thread on a dead mount.
        let ends = self.ends.clone();
        if let Err(error) = ends.unless_stopped(self.walk(limits)).await {
            self.flusher.abandon(self.recorder).await;
            return Err(error);
        }
        self.ends.progress.event(&Event::Left(&self.report.tally));
        Ok(self.report)
    }

    async fn walk(&mut self, limits: Limits) -> Result<()> {
        let buckets = self.ends.source.buckets().await?;
        self.report
            .tally
            .merge(self.ends.source.survey_store().await?);
        let mut only_target: BTreeMap<BucketName, Bucket> = self
            .ends
            .target
            .buckets()
            .await?
            .into_iter()
            .map(|bucket| (bucket.name.clone(), bucket))
            .collect();
        for bucket in &buckets {
            only_target.remove(&bucket.name);
            self.ends.target.ensure_bucket(bucket).await?;
            self.report
                .tally
                .merge(self.ends.source.survey(&bucket.name).await?);
            self.report.buckets += 1;
            let compares = self.compares();
            let (ours, theirs) = (
                self.ends.list_source(&bucket.name, compares),
                self.ends.list_target(&bucket.name, compares),
            );
            self.bucket(&bucket.name, ours, theirs).await?;
        }
        for name in only_target.into_keys() {
            let theirs = self.ends.target.list(&name);
            self.bucket(&name, Box::pin(futures::stream::empty()), theirs)
                .await?;
        }
        self.drain().await?;
        self.deletes(limits).await?;
        self.recorder.checkpoint.objects = self.report.objects;
        let must = self.pass == Pass::Final;
        self.flusher
            .finish(must, &self.ends.target, self.recorder)
            .await
    }

    fn compares(&self) -> Tells {
        self.pass.compares(self.ends.source.tells())
    }

    async fn bucket(&mut self, bucket: &BucketName, ours: Listing, theirs: Listing) -> Result<()> {
        let location = &self.traits.location;
        let mut merge = Merge::new(
            Ordered::new(format!("{bucket} on the source"), ours),
            Ordered::new(format!("{bucket} on {location}"), theirs),
        );
        while let Some(item) = merge.next().await? {
            match item {
                Merged::Left(left) => self.report.tally.add(left),
                Merged::Pair(pair) => self.pair(bucket, pair).await?,
            }
        }
        Ok(())
    }

    async fn pair(&mut self, bucket: &BucketName, pair: Pair) -> Result<()> {
        self.ends.go_on()?;
        let action = decide(&pair, self.pass, &self.traits, self.compares());
        let (ours, theirs) = match pair {
            Pair::Source(ours) => (Some(ours), None),
            Pair::Target(theirs) => (None, Some(theirs)),
            Pair::Both(ours, theirs) => (Some(ours), Some(theirs)),
        };
        if let Some(ours) = ours {
            self.seen(bucket, &ours);
            let doubt = self.flusher.ledger.doubt();
            let doubt = doubt.filter(|doubt| doubt.covers(bucket, &ours.key));
            // After a failed flush reading back would prove what is in memory only.
            let prove = doubt.map(|doubt| !doubt.failed);
            match action {
                Action::Create => self.copy(bucket, ours, false, false).await?,
                Action::Replace => self.copy(bucket, ours, true, false).await?,
                _ if prove.is_some() => {
                    self.copy(bucket, ours, true, prove == Some(true)).await?;
                }
                Action::SkipUnproven => {
                    self.report.unproven += 1;
                    self.ends.progress.event(&Event::Skipped);
                }
                _ => {
                    self.report.skipped += 1;
                    self.ends.progress.event(&Event::Skipped);
                }
            }
        } else if let Some(theirs) = theirs {
            if action == Action::Delete {
                self.spool.push(&Doomed::new(bucket, &theirs))?;
            } else {
                self.report.extraneous += 1;
                if self.report.extraneous_examples.len() < 10 {
                    self.report
                        .extraneous_examples
                        .push(format!("{bucket}/{}", theirs.key));
                }
            }
        }
        Ok(())
    }

    fn seen(&mut self, bucket: &BucketName, ours: &Entry) {
        self.report.objects += 1;
        self.report.object_bytes += ours.size;
        self.ends
            .progress
            .event(&Event::Listed { bytes: ours.size });
        if ours.hidden && self.report.hidden.len() < FAILURES_KEPT {
            self.report.hidden.push(format!("{bucket}/{}", ours.key));
        }
    }

    /// Starts the copy of an object, or (`prove`) reads the target's one first and copies only
    /// when that is damaged.
    pub(super) async fn copy(
        &mut self,
        bucket: &BucketName,
        entry: Entry,
        replaced: bool,
        prove: bool,
    ) -> Result<()> {
        let place: Place = (bucket.clone(), Some(entry.key.clone()));
        if !self.flusher.has_begun() {
            self.flusher.begin(place.clone(), self.recorder).await?;
        }
        self.collect()?;
        self.flusher
            .tick(&place, &self.ends.target, self.recorder)
            .await?;
        let number = self.flusher.ledger.copying(bucket, &entry.key);
        let (ends, bucket, give_up) = (self.ends.clone(), bucket.clone(), self.give_up.clone());
        let small = entry.size <= SMALL_BYTES;
        let work = async move {
            let result = if give_up.is_cancelled() {
                Ok(Outcome::GivenUp)
            } else {
                one(&ends, &bucket, &entry, prove).await
            };
            if result.as_ref().is_err_and(Error::is_fatal) {
                give_up.cancel();
            }
            Finished {
                number,
                replaced,
                result,
            }
        };
        // A copy that hangs must not hold a signal up.
        tokio::select! {
            pushed = self.lanes.push(small, work) => pushed.map_err(broken),
            () = self.ends.cancel.cancelled() => self.ends.go_on(),
        }
    }

    /// Waits until no copy is under way.
    pub(super) async fn drain(&mut self) -> Result<()> {
        tokio::select! {
            drained = self.lanes.drain() => drained.map_err(broken)?,
            () = self.ends.cancel.cancelled() => self.ends.go_on()?,
        }
        self.collect()
    }

    /// Takes note of what was copied meanwhile.
    fn collect(&mut self) -> Result<()> {
        for finished in self.lanes.take_done() {
            let right = !matches!(finished.result, Ok(Outcome::GivenUp) | Err(_));
            self.flusher.ledger.ended(finished.number, right);
            match finished.result {
                Ok(Outcome::Proved) => self.report.skipped += 1,
                // Gone from the source: nothing to carry. The next listing sees it so.
                Ok(Outcome::Copied(Copied::Vanished) | Outcome::GivenUp) => {}
                Ok(Outcome::Copied(Copied::Done(bytes))) => {
                    let count = if finished.replaced {
                        &mut self.report.replaced
                    } else {
                        &mut self.report.created
                    };
                    *count += 1;
                    self.report.bytes += bytes;
                    self.recorder.checkpoint.copied += 1;
                    self.recorder.checkpoint.bytes += bytes;
                }
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => self.report.fail(error),
            }
        }
        Ok(())
    }
}

/// Copies or proves one object and tells of it at once.
async fn one(ends: &Ends, bucket: &BucketName, entry: &Entry, prove: bool) -> Result<Outcome> {
    let object = format!("{bucket}/{}", entry.key);
    ends.progress.event(&Event::Started {
        object: &object,
        bytes: entry.size,
    });
    let result = async {
        if prove && ends.proves_itself(bucket, &entry.key).await? == Some(true) {
            return Ok(Outcome::Proved);
        }
        ends.copy(bucket, entry, &Expect::Any)
            .await
            .map(Outcome::Copied)
    };
    let result = result.await;
    ends.progress.event(&Event::Ended { object: &object });
    match &result {
        Ok(Outcome::Proved) => ends.progress.event(&Event::Skipped),
        Ok(Outcome::Copied(Copied::Done(bytes))) => ends.progress.event(&Event::Copied {
            object: &object,
            bytes: *bytes,
        }),
        Ok(Outcome::Copied(Copied::Vanished) | Outcome::GivenUp) => {}
        Err(error) if error.is_fatal() => {}
        Err(error) => ends.progress.event(&Event::Failed(error)),
    }
    result
}

fn broken(cause: Broken) -> Error {
    Error::new(Kind::Other, "copy", "objects", cause.0)
}
