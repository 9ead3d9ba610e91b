//! What is decided for a key, done: with conditions, on record, and looked at afresh when the
//! other side moved in between.

use std::collections::BTreeMap;

use filestore_common::BucketName;
use tokio::sync::Mutex;

use super::decide::{Action, Change, Holds, Open, Side, Verdict, verdict};
use super::done::{Doubt, Log};
use super::join::{Far, Place};
use super::journal::{Did, Entered, Journal, Left, Version};
use super::step::{Came, Missed, Step};
use super::{Depth, Task, lost, view};
use crate::copy::{Copied, Ends};
use crate::manifest::{Line, unix};
use crate::source::{Bucket, Entry};
use crate::target::Expect;
use crate::{Error, Event, Kind, Result};

/// How often a key is looked at that keeps moving on the written side.
const LOOKS: u32 = 4;

/// A key as both sides have it at the moment.
pub(super) struct Look {
    pub(super) reading: Option<Entry>,
    writing: Option<Entry>,
}

pub(super) struct Applier<'a> {
    pub(super) ends: &'a Ends,
    pub(super) task: &'a Task<'a>,
    read: BTreeMap<BucketName, Bucket>,
    /// Buckets that exist on the written side.
    written: Mutex<Vec<BucketName>>,
    journal: Option<Journal>,
    /// What this process does.
    pub(super) log: Log,
    /// Whether what is on the written side may be what an earlier process wrote and a power loss
    /// damaged.
    pub(super) doubt: Doubt,
    /// Deletions are told and not done yet.
    pub(super) holds_back: bool,
}

impl<'a> Applier<'a> {
    pub(super) async fn new(
        ends: &'a Ends,
        task: &'a Task<'a>,
        read: Vec<Bucket>,
        journal: Option<Journal>,
    ) -> Result<Self> {
        let written = ends.target.buckets().await?;
        Ok(Self {
            ends,
            task,
            read: read
                .into_iter()
                .map(|bucket| (bucket.name.clone(), bucket))
                .collect(),
            written: Mutex::new(written.into_iter().map(|bucket| bucket.name).collect()),
            journal,
            log: Log::new(&task.state.run_dir(task.run_id), ends.parallel.max(1)),
            doubt: Doubt::None,
            holds_back: false,
        })
    }

    pub(super) fn change(&self, side: Side, base: Option<&Line>, now: Option<&Entry>) -> Change {
        view::change(side, base, now, self.task.keeps_times)
    }

    /// Legacy and served, of what is read and what is written.
    fn sides<'e>(
        &self,
        reading: Option<&'e Entry>,
        writing: Option<&'e Entry>,
    ) -> (Option<&'e Entry>, Option<&'e Entry>) {
        match self.task.rules.writes {
            Side::Served => (reading, writing),
            Side::Legacy => (writing, reading),
        }
    }

    /// Looks at a key, does what is to be done, and puts on record what the manifest will have to
    /// tell.
    pub(super) async fn settle(&self, mut place: Place) -> Step {
        let before = place.base.clone();
        let sound = match self.undoubted(&mut place).await {
            Ok(sound) => sound,
            Err(error) => {
                let step = Step::new(place.bucket, place.key, before);
                return self.failed(step, error);
            }
        };
        let step = if sound {
            self.settle_sound(&place).await
        } else {
            self.write_again(&place).await
        };
        if self.task.dry_run || step.line == before {
            return step;
        }
        match self.log.done(&step.bucket, &step.key, step.line.as_ref()) {
            Ok(()) => step,
            Err(error) => Step {
                came: Came::Broke(error),
                ..step
            },
        }
    }

    async fn settle_sound(&self, place: &Place) -> Step {
        let mut step = Step::new(place.bucket.clone(), place.key.clone(), place.base.clone());
        if place.left {
            // The listing said so: it is there, and nobody can read it. Not a deletion.
            return step;
        }
        if self.nothing_happened(place) {
            match self.retouched(place).await {
                Ok(true) => {}
                Ok(false) => return step,
                Err(error) => return self.failed(step, error),
            }
        }
        for _ in 0..LOOKS {
            let look = match self.look(place).await {
                Ok(look) => look,
                Err(error) => return self.failed(step, error),
            };
            let (mut action, sides) = self.decide(place, &look);
            step.sides = sides;
            if action == Action::Record && !self.task.dry_run {
                match self.is_whole(place, look.writing.as_ref()).await {
                    Ok(true) => {}
                    // Brought by a process that a power loss ended, and not all of it is there.
                    Ok(false) => action = Action::Write { conflict: false },
                    Err(error) => return self.failed(step, error),
                }
            }
            match self.act(place, &look, action, &mut step).await {
                Ok(()) => return step,
                Err(Missed::Moved) => {}
                Err(Missed::Failed(error)) => return self.failed(step, error),
            }
        }
        step.came = Came::Open(Open::ChangedOnBoth);
        step
    }

    pub(super) fn failed(&self, mut step: Step, error: Error) -> Step {
        step.came = if error.is_fatal() {
            Came::Broke(error)
        } else {
            self.ends.progress.event(&Event::Failed(&error));
            Came::Failed(error)
        };
        step
    }

    /// As the listings tell it, at no further cost.
    fn nothing_happened(&self, place: &Place) -> bool {
        let writes = self.task.rules.writes;
        let base = place.base.as_ref();
        let read = self.change(writes.other(), base, place.reading.as_ref());
        let written = match &place.writing {
            Far::NotAsked => Change::Same,
            Far::Listed(entry) => self.change(writes, base, entry.as_ref()),
        };
        (read, written) == (Change::Same, Change::Same)
    }

    /// Whether metadata or tags changed alone, asked where listings do not tell it.
    async fn retouched(&self, place: &Place) -> Result<bool> {
        let known = place.base.as_ref().is_some_and(|line| line.meta.is_some());
        let told = place.reading.as_ref().is_none_or(|now| now.meta.is_some());
        if self.task.depth != Depth::Metadata || !known || told {
            return Ok(false);
        }
        let now = self.ends.source.head(&place.bucket, &place.key).await?;
        let side = self.task.rules.writes.other();
        Ok(self.change(side, place.base.as_ref(), now.as_ref()) != Change::Same)
    }

    /// What a listing shows may be old, and what it does not show may exist.
    pub(super) async fn look(&self, place: &Place) -> Result<Look> {
        let fresh = self.ends.source.head(&place.bucket, &place.key).await?;
        let reading = fresh.map(|fresh| match &place.reading {
            // Listings tell more of the time.
            Some(listed)
                if listed.etag == fresh.etag
                    && listed.size == fresh.size
                    && unix(listed.last_modified) == unix(fresh.last_modified) =>
            {
                Entry {
                    last_modified: listed.last_modified,
                    ..fresh
                }
            }
            _ => fresh,
        });
        Ok(Look {
            reading,
            writing: self.ends.target.head(&place.bucket, &place.key).await?,
        })
    }

    fn decide(&self, place: &Place, look: &Look) -> (Action, (Option<Version>, Option<Version>)) {
        let (legacy, served) = self.sides(look.reading.as_ref(), look.writing.as_ref());
        let base = place.base.as_ref();
        let equal = view::equal(legacy, served);
        let decided = base.is_some_and(|line| line.settled.is_some());
        let verdict = if decided && equal {
            Verdict::Agreed
        } else {
            verdict(
                self.change(Side::Legacy, base, legacy),
                self.change(Side::Served, base, served),
                equal,
            )
        };
        let holds = Holds {
            legacy: legacy.is_some(),
            served: served.is_some(),
        };
        let rules = self.task.rules;
        let action = rules.action(verdict, holds, view::newer(legacy, served));
        let action = if decided {
            rules.decided(action)
        } else {
            action
        };
        (
            action,
            (legacy.map(Version::from), served.map(Version::from)),
        )
    }

    pub(super) async fn act(
        &self,
        place: &Place,
        look: &Look,
        action: Action,
        step: &mut Step,
    ) -> Result<(), Missed> {
        match action {
            Action::Nothing => step.came = Came::Same,
            Action::Record => {
                step.came = Came::Recorded;
                let (legacy, served) = self.sides(look.reading.as_ref(), look.writing.as_ref());
                step.line = legacy
                    .zip(served)
                    .map(|(legacy, served)| Line::new(&place.bucket, legacy, served));
            }
            Action::Leave => step.came = Came::Left,
            Action::Open(how) => {
                if let (Some(report), true) = (&self.journal, self.task.dry_run) {
                    let (legacy, served) = step.sides.clone();
                    let left = Left {
                        run: self.task.command,
                        did: "undecided",
                        how,
                        bucket: &place.bucket,
                        key: &place.key,
                        legacy,
                        served,
                    };
                    report.enter_left(&left).map_err(Missed::Failed)?;
                }
                step.came = Came::Open(how);
            }
            Action::Settle => {
                let entered = self.entered(place, Did::Keep, true);
                self.enter(&Entered {
                    was: look.reading.as_ref().map(Version::from),
                    now: look.writing.as_ref().map(Version::from),
                    ..entered
                })?;
                step.came = Came::Settled;
                let loser = look.reading.as_ref();
                step.line =
                    loser.map(|loser| Line::settled(&place.bucket, loser, self.task.rules.writes));
            }
            Action::Write { conflict } => {
                if let Some(reading) = &look.reading {
                    self.write(place, reading, look.writing.as_ref(), conflict, step)
                        .await?;
                }
            }
            Action::Delete { conflict } => {
                if let Some(writing) = &look.writing {
                    self.delete(place, writing, conflict, step).await?;
                }
            }
        }
        Ok(())
    }

    fn entered<'k>(&self, place: &'k Place, did: Did, conflict: bool) -> Entered<'k> {
        Entered {
            run: self.task.command,
            did,
            on: self.task.rules.writes,
            bucket: &place.bucket,
            key: &place.key,
            conflict,
            was: None,
            now: None,
            saved: None,
        }
    }

    fn enter(&self, entered: &Entered<'_>) -> Result<(), Missed> {
        match &self.journal {
            Some(journal) => journal.enter(entered).map_err(Missed::Failed),
            None => Ok(()),
        }
    }

    async fn write(
        &self,
        place: &Place,
        reading: &Entry,
        writing: Option<&Entry>,
        conflict: bool,
        step: &mut Step,
    ) -> Result<(), Missed> {
        let did = if writing.is_some() {
            Did::Replace
        } else {
            Did::Add
        };
        let saved = self.save(place, writing, conflict).await?;
        self.enter(&Entered {
            was: writing.map(Version::from),
            now: Some(Version::from(reading)),
            saved,
            ..self.entered(place, did, conflict)
        })?;
        if !self.task.dry_run {
            self.log.begin().map_err(Missed::Failed)?;
            if writing.is_none() {
                self.ensure(&place.bucket).await.map_err(Missed::of)?;
            }
            let expect = writing.map_or(Expect::Absent, |there| Expect::Same(there.etag.clone()));
            let copied = self.ends.copy(&place.bucket, reading, &expect).await;
            let bytes = match copied {
                Ok(Copied::Done(bytes)) => bytes,
                Ok(Copied::Vanished) => return Err(Missed::Moved),
                Err(error) if error.kind == Kind::Unnameable && self.no_place(reading) => {
                    step.came = Came::Unnameable {
                        bytes: reading.size,
                    };
                    return Ok(());
                }
                Err(error) => return Err(Missed::of(error)),
            };
            let object = format!("{}/{}", place.bucket, place.key);
            self.ends.progress.event(&Event::Copied {
                object: &object,
                bytes,
            });
            // It is there: that is remembered even if the store cannot be asked for it any more.
            let (line, asked) = self.carried(&place.bucket, reading).await;
            step.line = Some(line);
            asked.map_err(Missed::Failed)?;
        } else if self.no_place(reading) {
            step.came = Came::Unnameable {
                bytes: reading.size,
            };
            return Ok(());
        }
        step.overruled = conflict;
        step.bytes = reading.size;
        step.came = match did {
            Did::Add => Came::Added,
            _ => Came::Updated,
        };
        Ok(())
    }

    async fn delete(
        &self,
        place: &Place,
        writing: &Entry,
        conflict: bool,
        step: &mut Step,
    ) -> Result<(), Missed> {
        if self.holds_back {
            step.came = Came::Doomed;
            return Ok(());
        }
        let saved = self.save(place, Some(writing), conflict).await?;
        self.enter(&Entered {
            was: Some(Version::from(writing)),
            saved,
            ..self.entered(place, Did::Delete, conflict)
        })?;
        if !self.task.dry_run {
            self.log.begin().map_err(Missed::Failed)?;
            let expect = Expect::Same(writing.etag.clone());
            let deleted = self.ends.target.delete(&place.bucket, &place.key, &expect);
            deleted.await.map_err(Missed::of)?;
            let object = format!("{}/{}", place.bucket, place.key);
            self.ends
                .progress
                .event(&Event::Deleted { object: &object });
        }
        step.line = None;
        step.overruled = conflict;
        step.came = Came::Deleted;
        Ok(())
    }

    /// Keeps a copy of a version that a decided conflict takes away.
    async fn save(
        &self,
        place: &Place,
        writing: Option<&Entry>,
        conflict: bool,
    ) -> Result<Option<String>, Missed> {
        let Some(loser) = writing.filter(|_| conflict && !self.task.dry_run) else {
            return Ok(None);
        };
        let run_dir = self.task.state.run_dir(self.task.run_id);
        let saved = lost::save(&*self.ends.target, &place.bucket, loser, &run_dir).await;
        saved.map(Some).map_err(Missed::of)
    }

    /// Makes the bucket on the written side, as the other side has it; one that exists is left
    /// alone.
    async fn ensure(&self, name: &BucketName) -> Result<()> {
        let mut written = self.written.lock().await;
        if written.contains(name) {
            return Ok(());
        }
        if let Some(bucket) = self.read.get(name) {
            self.ends.target.ensure_bucket(bucket).await?;
        }
        written.push(name.clone());
        Ok(())
    }
}
