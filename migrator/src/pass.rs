//! One pass over all buckets: both listings merged, differences copied with bounded concurrency,
//! deletes held back until every listing came to its proper end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use filestore_common::{BucketName, ObjectKey};
use tokio::task::JoinSet;

use crate::copy::{Copied, Ends};
use crate::merge::{Merge, Merged, Ordered, Pair};
use crate::policy::{Action, Pass, decide};
use crate::source::{Bucket, Entry, Tally};
use crate::spool::{Doomed, Spool};
use crate::state::{Checkpoint, State, Unflushed, boot_id};
use crate::target::{Expect, Traits};
use crate::{Error, Event, ExitCode, Kind, Result};

/// Time between two flushes of the target.
const FLUSH_EVERY: Duration = Duration::from_secs(15);
/// Failures that are kept in full; more are only counted.
const FAILURES_KEPT: usize = 100;

/// What a pass did.
#[derive(Debug, Default)]
pub struct Report {
    /// Buckets compared.
    pub buckets: u64,
    /// Objects of the source that were compared.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
    /// Objects written that the target did not have.
    pub created: u64,
    /// Objects written over another one.
    pub replaced: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Objects that were the same.
    pub skipped: u64,
    /// Objects that were the same by size and time, their ETag being unknown.
    pub unproven: u64,
    /// Objects removed from the target.
    pub deleted: u64,
    /// Objects only on the target that stayed.
    pub extraneous: u64,
    /// Names of the first of them.
    pub extraneous_examples: Vec<String>,
    /// Objects that the source's listings hide.
    pub hidden: Vec<String>,
    /// What stays behind.
    pub tally: Tally,
    /// How many objects failed.
    pub failed: u64,
    /// How many of them kept changing.
    pub changed: u64,
    /// The first failures.
    pub failures: Vec<Error>,
}

impl Report {
    /// Adds what an earlier pass did; what that wrote was the same for this one.
    pub(crate) fn add(&mut self, earlier: &Self) {
        let written = earlier.created + earlier.replaced;
        self.skipped = self.skipped.saturating_sub(written);
        self.created += earlier.created;
        self.replaced += earlier.replaced;
        self.bytes += earlier.bytes;
        self.deleted += earlier.deleted;
    }

    fn fail(&mut self, error: Error) {
        self.failed += 1;
        self.changed += u64::from(error.kind == Kind::Changed);
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(error);
        }
    }

    /// What the failures mean for the exit code; losses count unless accepted.
    pub fn exit(&self, accept_loss: bool) -> ExitCode {
        if self.failed > self.changed || (self.tally.losses() > 0 && !accept_loss) {
            ExitCode::Failures
        } else if self.failed > 0 {
            ExitCode::Changed
        } else {
            ExitCode::Ok
        }
    }
}

/// What the guards allow.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Objects that were on the target before the migration may be deleted.
    pub delete_foreign: bool,
    /// Most deletes.
    pub max_delete: Option<u64>,
}

/// Where the checkpoint goes.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// State of the target.
    pub state: Option<&'a State>,
    /// The run.
    pub run_id: &'a str,
    /// Last checkpoint.
    pub checkpoint: Checkpoint,
}

impl Recorder<'_> {
    pub(crate) fn save(&self) -> Result<()> {
        match self.state {
            Some(state) => state.set_checkpoint(self.run_id, &self.checkpoint),
            None => Ok(()),
        }
    }

    /// What an earlier start of the machine may have lost.
    fn doubtful(&self) -> Option<Unflushed> {
        let unflushed = self.checkpoint.unflushed.clone()?;
        let boot = boot_id();
        (boot.is_empty() || unflushed.boot_id != boot).then_some(unflushed)
    }
}

/// What a finished task reports.
struct Finished {
    name: String,
    replaced: bool,
    result: Result<Outcome>,
}

enum Outcome {
    Copied(Copied),
    /// Was in doubt and proved to be right.
    Proved,
}

/// Runs a pass.
#[derive(Debug)]
pub struct Runner<'a> {
    ends: Ends,
    traits: Traits,
    pass: Pass,
    recorder: &'a mut Recorder<'a>,
    doubtful: Option<Unflushed>,
    tasks: JoinSet<Finished>,
    spool: Spool,
    report: Report,
    flushed: Instant,
}

/// Runs `pass` over everything.
///
/// # Errors
/// Only what makes going on senseless; failures of single objects are in the report.
pub async fn run<'a>(
    ends: &Ends,
    pass: Pass,
    limits: Limits,
    recorder: &'a mut Recorder<'a>,
) -> Result<Report> {
    let doubtful = recorder.doubtful();
    recorder.checkpoint.pass = format!("{pass:?}").to_lowercase();
    let runner = Runner {
        ends: ends.clone(),
        traits: ends.target.traits(),
        pass,
        recorder,
        doubtful,
        tasks: JoinSet::new(),
        spool: Spool::create()?,
        report: Report::default(),
        flushed: Instant::now(),
    };
    runner.run(limits).await
}

impl Runner<'_> {
    async fn run(mut self, limits: Limits) -> Result<Report> {
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
            let (ours, theirs) = (
                self.ends.source.list(&bucket.name),
                self.ends.target.list(&bucket.name),
            );
            self.bucket(&bucket.name, ours, theirs).await?;
        }
        for name in only_target.into_keys() {
            let theirs = self.ends.target.list(&name);
            self.bucket(&name, Box::pin(futures::stream::empty()), theirs)
                .await?;
        }
        self.drain(0).await?;
        self.deletes(limits).await?;
        self.flush(None).await?;
        self.ends.progress.event(&Event::Left(&self.report.tally));
        Ok(self.report)
    }

    async fn bucket(
        &mut self,
        bucket: &BucketName,
        ours: crate::source::Listing,
        theirs: crate::source::Listing,
    ) -> Result<()> {
        self.flush(Some((bucket, None))).await?;
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
        let action = decide(&pair, self.pass, &self.traits);
        let (ours, theirs) = match pair {
            Pair::Source(ours) => (Some(ours), None),
            Pair::Target(theirs) => (None, Some(theirs)),
            Pair::Both(ours, theirs) => (Some(ours), Some(theirs)),
        };
        if let Some(ours) = ours {
            self.seen(bucket, &ours);
            let doubtful = self
                .doubtful
                .as_ref()
                .is_some_and(|doubt| doubt.covers(bucket, &ours.key));
            match action {
                Action::Create => self.copy(bucket, ours, false, false).await?,
                Action::Replace => self.copy(bucket, ours, true, false).await?,
                _ if doubtful => self.copy(bucket, ours, true, true).await?,
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
    async fn copy(
        &mut self,
        bucket: &BucketName,
        entry: Entry,
        replaced: bool,
        prove: bool,
    ) -> Result<()> {
        self.drain(self.ends.parallel.saturating_sub(1)).await?;
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.drain(0).await?;
            self.flush(Some((bucket, Some(&entry.key)))).await?;
        }
        let (ends, bucket) = (self.ends.clone(), bucket.clone());
        let name = format!("{bucket}/{}", entry.key);
        self.ends.progress.event(&Event::Started {
            object: &name,
            bytes: entry.size,
        });
        self.tasks.spawn(async move {
            let result = async {
                if prove && ends.proves_itself(&bucket, &entry.key).await? == Some(true) {
                    return Ok(Outcome::Proved);
                }
                ends.copy(&bucket, &entry, &Expect::Any)
                    .await
                    .map(Outcome::Copied)
            };
            let result = result.await;
            Finished {
                name,
                replaced,
                result,
            }
        });
        Ok(())
    }

    /// Waits until at most `most` copies are in flight.
    async fn drain(&mut self, most: usize) -> Result<()> {
        while self.tasks.len() > most {
            let Some(joined) = self.tasks.join_next().await else {
                return Ok(());
            };
            let finished = joined
                .map_err(|error| Error::new(Kind::Other, "copy", "an object", error.to_string()))?;
            self.finished(finished)?;
        }
        Ok(())
    }

    fn finished(&mut self, finished: Finished) -> Result<()> {
        self.ends.progress.event(&Event::Ended {
            object: &finished.name,
        });
        match finished.result {
            Ok(Outcome::Proved) => {
                self.report.skipped += 1;
                self.ends.progress.event(&Event::Skipped);
            }
            // Gone from the source: nothing to carry. The next listing sees it so.
            Ok(Outcome::Copied(Copied::Vanished)) => {}
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
                self.ends.progress.event(&Event::Copied {
                    object: &finished.name,
                    bytes,
                });
            }
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                self.ends.progress.event(&Event::Failed(&error));
                self.report.fail(error);
            }
        }
        Ok(())
    }

    /// Flushes the target, then records that only what comes from `next` on is in doubt.
    async fn flush(&mut self, next: Option<(&BucketName, Option<&ObjectKey>)>) -> Result<()> {
        self.drain(0).await?;
        self.ends.target.flush().await?;
        self.recorder.checkpoint.unflushed = next.map(|(bucket, key)| Unflushed {
            boot_id: boot_id(),
            bucket: bucket.clone(),
            key: key.cloned(),
        });
        // What an earlier start may have lost stays in doubt until this pass has come by it.
        if let (Some(doubt), Some(unflushed)) =
            (&self.doubtful, &mut self.recorder.checkpoint.unflushed)
        {
            unflushed.boot_id.clone_from(&doubt.boot_id);
        }
        self.flushed = Instant::now();
        self.recorder.save()
    }

    /// Deletes what only the target has, after every guard agreed; each one is confirmed by the
    /// source once more.
    async fn deletes(&mut self, limits: Limits) -> Result<()> {
        let count = self.spool.len();
        if count == 0 {
            return Ok(());
        }
        let refuse = |message: String| {
            Err(Error::new(
                Kind::Refused,
                "delete",
                "extraneous objects",
                message,
            ))
        };
        if self.report.objects == 0 {
            return refuse(format!(
                "{count} objects would go because the source is empty"
            ));
        }
        if self.report.failed > 0 {
            // A rerun without failures decides.
            self.report.extraneous += count;
            return Ok(());
        }
        if !self.recorder.checkpoint.target_was_empty && !limits.delete_foreign {
            return refuse(format!(
                "{count} objects are not on the source, and the target held objects before this \
                 migration; allow it with --delete-extraneous"
            ));
        }
        if limits.max_delete.is_some_and(|most| count > most) {
            return refuse(format!(
                "{count} objects would go, more than --max-delete allows"
            ));
        }
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
                Some(entry) => self.copy(&object.bucket, entry, true, false).await?,
            }
        }
        self.drain(0).await
    }
}

impl Doomed {
    fn new(bucket: &BucketName, entry: &Entry) -> Self {
        Self {
            bucket: bucket.clone(),
            key: entry.key.clone(),
            etag: entry.etag.clone(),
        }
    }
}
