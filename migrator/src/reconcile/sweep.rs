//! One look at every key, several at work at a time, and the manifest that comes of it: of what was
//! done and of the rest as it was, however the look ended.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Instant;

use filestore_common::{BucketName, ObjectKey};
use futures::{Stream, StreamExt, stream};

use super::apply::Applier;
use super::join::{Far, Join, Place};
use super::journal::Undecided;
use super::step::{Came, Step};
use super::{DIVERGENCE_FILE, Found, Task};
use crate::copy::Ends;
use crate::manifest::{Line, Reader, Writer};
use crate::source::Tally;
use crate::spool::{Doomed, Spool};
use crate::{Error, Result};

/// What looks leave behind beside the manifest.
pub(super) struct Notes {
    pub(super) found: Found,
    /// None of a trial, which writes nothing.
    undecided: Option<Undecided>,
    pub(super) doomed: Spool,
}

impl Notes {
    pub(super) fn new(task: &Task<'_>) -> Result<Self> {
        Ok(Self {
            found: Found::default(),
            undecided: (!task.dry_run)
                .then(|| Undecided::create(&task.run_file(DIVERGENCE_FILE)))
                .transpose()?,
            doomed: Spool::new(Some(task.state.run_dir(task.run_id))),
        })
    }

    fn take(&mut self, step: &Step) -> Result<()> {
        self.found.count(step);
        match &step.came {
            Came::Open(how) => match &mut self.undecided {
                Some(undecided) => {
                    let sides = step.sides.clone();
                    undecided.add(*how, &step.bucket, &step.key, sides)
                }
                None => Ok(()),
            },
            Came::Doomed => self.doomed.push(&Doomed {
                bucket: step.bucket.clone(),
                key: step.key.clone(),
                etag: None,
            }),
            _ => Ok(()),
        }
    }

    /// Gives the list of what is undecided its name.
    pub(super) fn finish(self) -> Result<Found> {
        self.undecided.map_or(Ok(()), Undecided::finish)?;
        Ok(self.found)
    }

    /// Leaves the list of the run before.
    pub(super) fn discard(&mut self) {
        if let Some(undecided) = self.undecided.take() {
            undecided.discard();
        }
    }
}

enum Item {
    /// Nothing is to be done with it.
    Known(Line),
    Key(Box<Place>),
}

/// Looks at everything; deletions are only noted when the applier holds them back.
pub(super) async fn sweep(
    ends: &Ends,
    task: &Task<'_>,
    applier: &Applier<'_>,
    join: Join<'_>,
    notes: &mut Notes,
) -> Result<()> {
    let seen = Cell::new(0);
    let tally = RefCell::new(Tally::default());
    let keys = stream::try_unfold(join, |mut join| async {
        let key = join.next().await?;
        seen.set(join.seen);
        if key.is_none() {
            tally.replace(std::mem::take(&mut join.tally));
        }
        Ok::<_, Error>(key.map(|key| (Item::Key(Box::new(key)), join)))
    });
    let swept = drive(ends, task, applier, keys, notes).await;
    notes.found.objects = seen.get();
    notes.found.tally.merge(tally.take());
    swept
}

/// Deletes what a complete look found gone from the side that is read, each after asking both sides
/// again, and nothing else.
pub(super) async fn delete(
    ends: &Ends,
    task: &Task<'_>,
    applier: &Applier<'_>,
    notes: &mut Notes,
) -> Result<()> {
    let mut lines = Reader::open(&task.state.manifest(task.run_id))?;
    let mut doomed = notes.doomed.read()?;
    let mut due = doomed.next().transpose()?;
    // Whatever was recorded is there; both come in the same order.
    let mut item = move || -> Result<Option<Item>> {
        let Some(line) = lines.line()? else {
            return Ok(None);
        };
        let is_due = due
            .as_ref()
            .is_some_and(|one| one.bucket == line.bucket && one.key == line.key);
        if !is_due {
            return Ok(Some(Item::Known(line)));
        }
        due = doomed.next().transpose()?;
        Ok(Some(Item::Key(Box::new(Place {
            bucket: line.bucket.clone(),
            key: line.key.clone(),
            base: Some(line),
            doubtful: None,
            reading: None,
            writing: Far::NotAsked,
            left: false,
        }))))
    };
    let items = stream::iter(std::iter::from_fn(move || item().transpose()));
    drive(ends, task, applier, items, notes).await
}

/// Why a look ends before its end.
#[derive(Default)]
struct Halt {
    cut_short: Cell<bool>,
    broke: RefCell<Option<Error>>,
}

impl Halt {
    /// The first error is the one to tell.
    fn broke(&self, error: Error) {
        self.broke.borrow_mut().get_or_insert(error);
    }

    fn is_set(&self) -> bool {
        self.cut_short.get() || self.broke.borrow().is_some()
    }
}

/// The last key that was dealt with.
type Last = Option<(BucketName, ObjectKey)>;

async fn drive(
    ends: &Ends,
    task: &Task<'_>,
    applier: &Applier<'_>,
    items: impl Stream<Item = Result<Item>>,
    notes: &mut Notes,
) -> Result<()> {
    let path = task.state.manifest(task.run_id);
    let mut next = Writer::create(&path)?;
    let halt = Halt::default();
    let (mut last, mut did, mut abandoned) = (None, false, false);
    // What is under way then is given up, so that what is done can be recorded in time.
    let last_call = task
        .deadline
        .map(|end| end + end.saturating_duration_since(Instant::now()) / 8);
    {
        let halt = &halt;
        let fed = stream::unfold(Box::pin(items), |mut items| async move {
            if halt.is_set() {
                return None;
            }
            if let Err(error) = ends.go_on() {
                halt.broke(error);
                return None;
            }
            if task.deadline.is_some_and(|end| Instant::now() >= end) {
                halt.cut_short.set(true);
                return None;
            }
            let item = items.next().await?;
            item.map_err(|error| halt.broke(error))
                .ok()
                .map(|item| (item, items))
        });
        let work = |item| async move {
            match item {
                Item::Known(line) => Step::new(line.bucket.clone(), line.key.clone(), Some(line)),
                Item::Key(place) => applier.settle(*place).await,
            }
        };
        let mut steps = std::pin::pin!(fed.map(work).buffered(ends.parallel.max(1)));
        // In the order of keys, whichever is done first; what is under way when something breaks
        // comes to its end.
        loop {
            let step = match last_call {
                None => Ok(steps.next().await),
                Some(end) => tokio::time::timeout_at(end.into(), steps.next()).await,
            };
            let Ok(step) = step else {
                halt.cut_short.set(true);
                abandoned = true;
                break;
            };
            let Some(step) = step else { break };
            notes.take(&step)?;
            did |= step.is_news();
            if let Some(line) = &step.line {
                next.add(line)?;
            }
            last = Some((step.bucket, step.key));
            if let Came::Broke(error) = step.came {
                halt.broke(error);
            }
        }
    }
    notes.found.cut_short |= halt.cut_short.get();
    let end = End {
        whole: !halt.is_set(),
        news: did,
        abandoned,
        last,
    };
    let recorded = conclude(ends, task, applier, next, &end).await;
    if let Some(error) = halt.broke.into_inner() {
        return Err(error);
    }
    if let Some(manifest) = recorded? {
        notes.found.manifest = Some(manifest);
    }
    Ok(())
}

/// How a look ended.
struct End {
    /// Everything was looked at.
    whole: bool,
    /// The manifest has to tell something else.
    news: bool,
    /// What was under way was given up, and may have been done.
    abandoned: bool,
    last: Last,
}

/// Makes what was done survive, then the manifest tell it; what is in that is not kept beside it.
async fn conclude(
    ends: &Ends,
    task: &Task<'_>,
    applier: &Applier<'_>,
    next: Writer,
    end: &End,
) -> Result<Option<Recorded>> {
    if task.dry_run {
        next.discard();
        return Ok(None);
    }
    // A manifest never tells more than what survives a power loss.
    if let Err(error) = ends.target.flush().await {
        next.discard();
        applier.log.unflushed();
        return Err(error);
    }
    let recorded = if end.whole || end.news {
        let path = task.state.manifest(task.run_id);
        Some(record(&path, next, &end.last, end.whole)?)
    } else {
        next.discard();
        None
    };
    if end.whole || !end.abandoned {
        applier.log.settled(end.whole)?;
    }
    Ok(recorded)
}

/// Digest and counts of a manifest.
type Recorded = (String, filestore_common::marker::Counts);

/// Finishes the manifest; when the look ended early, what comes after `last` stays as it was.
fn record(path: &Path, mut next: Writer, last: &Last, whole: bool) -> Result<Recorded> {
    if !whole {
        let mut lines = Reader::open(path)?;
        while let Some(line) = lines.line()? {
            let done = last
                .as_ref()
                .is_some_and(|(bucket, key)| (&line.bucket, &line.key) <= (bucket, key));
            if !done {
                next.add(&line)?;
            }
        }
    }
    next.finish()
}
