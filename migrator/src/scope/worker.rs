//! What the workers of one migration agree on, kept with the run: its begin, where the objects are
//! cut, and what each of them may have lost with the machine.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::Shard;
use super::shard::{Cuts, Sampler};
use crate::copy::Ends;
use crate::manifest::sync_parent;
use crate::merge::Ordered;
use crate::source::Listed;
use crate::state::{State, Unflushed, boot_id};
use crate::{Error, Event, Kind, Result};

/// Pause between two looks whether it is our turn.
const TURN_EVERY: Duration = Duration::from_millis(200);

/// Where a worker keeps its checkpoint, as the name of a run.
pub(crate) fn checkpoint_id(run_id: &str, shard: Option<Shard>) -> String {
    match shard {
        None => run_id.to_owned(),
        Some(Shard { index, count }) => format!("{run_id}/shard-{index}-of-{count}"),
    }
}

fn failed(operation: &'static str, path: &Path, error: impl std::fmt::Display) -> Error {
    let path = path.display().to_string();
    Error::new(Kind::Other, operation, path, error.to_string())
}

/// The right to begin: one worker makes the marker and the cuts, the others find them.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "held for its lock")] File);

impl Turn {
    /// Waits for it.
    ///
    /// # Errors
    /// [`Kind::Interrupted`], [`Kind::Other`].
    pub(crate) async fn wait(state: &State, ends: &Ends) -> Result<Self> {
        let path = state.run_dir("begin.lock");
        let runs = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(runs).map_err(|e| failed("create", runs, e))?;
        let file = File::create(&path).map_err(|e| failed("open", &path, e))?;
        let mut waiting = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::WOULDBLOCK) => {}
                // Without locks the cuts are still made once; only their work may be done twice.
                Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    return Ok(Self(file));
                }
                Err(error) => return Err(failed("lock", &path, error)),
            }
            if !waiting {
                let note = "waiting for the worker that begins the migration";
                ends.progress.event(&Event::Note(note));
                waiting = true;
            }
            tokio::select! {
                () = ends.cancel.cancelled() => ends.go_on()?,
                () = tokio::time::sleep(TURN_EVERY) => {}
            }
        }
    }
}

/// Where the objects of the run are cut into `count` shards: as the first worker found it right.
///
/// # Errors
/// Of the source's listing; [`Kind::Other`], [`Kind::Damaged`].
pub(crate) async fn agreed_cuts(
    ends: &Ends,
    state: &State,
    run_id: &str,
    count: u32,
) -> Result<Cuts> {
    let path = state.run_dir(run_id).join(format!("shards-{count}.json"));
    if let Some(cuts) = read(&path)? {
        return Ok(cuts);
    }
    let note = format!("listing the source to cut it into {count} shards");
    ends.progress.event(&Event::Note(&note));
    let cuts = cut(ends, count).await?;
    publish(&path, &cuts)
}

/// The cuts of a run, when they were made.
///
/// # Errors
/// [`Kind::Other`], [`Kind::Damaged`].
pub(crate) fn known_cuts(state: &State, run_id: &str, count: u32) -> Result<Option<Cuts>> {
    read(&state.run_dir(run_id).join(format!("shards-{count}.json")))
}

/// Lists the source once and cuts it.
///
/// # Errors
/// Of the listing.
pub(crate) async fn cut(ends: &Ends, count: u32) -> Result<Cuts> {
    let mut sampler = Sampler::default();
    for bucket in ends.source.buckets().await? {
        let name = format!("{} on the source", bucket.name);
        let mut listing = Ordered::new(name, ends.source.list(&bucket.name));
        while let Some(item) = listing.next().await? {
            ends.go_on()?;
            if let Listed::Object(entry) = item {
                sampler.add(&bucket.name, &entry);
            }
        }
    }
    Ok(sampler.cuts(count))
}

fn read(path: &Path) -> Result<Option<Cuts>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Error {
                kind: Kind::Damaged,
                ..failed("read", path, error)
            }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, error)),
    }
}

/// Makes the file unless it is there; returns what is there in the end.
fn publish(path: &Path, cuts: &Cuts) -> Result<Cuts> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(|e| failed("create", parent, e))?;
    let new = parent.join(format!("shards.{}.new", uuid::Uuid::new_v4()));
    let text = serde_json::to_vec(cuts).map_err(|e| failed("write", path, e))?;
    let written = File::create_new(&new)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
    // A rename would replace what another worker published in the meantime.
    let linked = written.and_then(|()| std::fs::hard_link(&new, path));
    drop(std::fs::remove_file(&new));
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("write", path, error)),
    }
    sync_parent(path)?;
    read(path)?.ok_or_else(|| failed("read", path, "is gone"))
}

/// What a run without shards must look at again after workers of an earlier start of the machine
/// were ended in the middle: from the first object on that one of them may have lost. `own` is
/// the run's own doubt.
///
/// # Errors
/// [`Kind::Other`].
pub(crate) fn doubt(
    state: &State,
    run_id: &str,
    own: Option<Unflushed>,
) -> Result<Option<Unflushed>> {
    let boot = boot_id();
    let mut all = own;
    for name in workers(state, run_id)? {
        let checkpoint = state.checkpoint(&format!("{run_id}/{name}"))?;
        let doubt = checkpoint.unflushed;
        let Some(doubt) = doubt.filter(|doubt| doubt.is_in_doubt(&boot)) else {
            continue;
        };
        all = Some(match all {
            Some(all) => all.and(doubt, &boot),
            None => doubt,
        });
    }
    Ok(all)
}

/// Forgets what workers may have lost: a pass over everything has looked at it.
///
/// # Errors
/// [`Kind::Other`].
pub(crate) fn settled(state: &State, run_id: &str) -> Result<()> {
    for name in workers(state, run_id)? {
        let id = format!("{run_id}/{name}");
        let mut checkpoint = state.checkpoint(&id)?;
        if checkpoint.unflushed.take().is_some() {
            state.set_checkpoint(&id, &checkpoint)?;
        }
    }
    Ok(())
}

/// Directories of the workers of a run.
fn workers(state: &State, run_id: &str) -> Result<Vec<String>> {
    let directory = state.run_dir(run_id);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", &directory, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| failed("read", &directory, e))?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if name.starts_with("shard-") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use filestore_common::{BucketName, ObjectKey};

    use super::*;
    use crate::scope::Place;
    use crate::state::Checkpoint;

    fn place(key: &str) -> Place {
        Place {
            bucket: BucketName::new("abc").unwrap(),
            key: ObjectKey::new(key).unwrap(),
        }
    }

    #[test]
    fn cuts_are_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs/r1/shards-2.json");
        let (mine, theirs) = (
            Cuts {
                places: vec![place("m")],
                objects: vec![3, 4],
            },
            Cuts {
                places: vec![place("z")],
                objects: Vec::new(),
            },
        );
        assert_eq!(read(&path).unwrap(), None);
        assert_eq!(publish(&path, &mine).unwrap(), mine);
        assert_eq!(publish(&path, &theirs).unwrap(), mine);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1
        );
    }

    #[test]
    fn the_end_doubts_what_a_worker_lost_with_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().into());
        let unflushed = |boot: &str, key: &str| {
            let Place { bucket, key } = place(key);
            Some(Unflushed {
                boot_id: boot.into(),
                bucket,
                key: Some(key),
                failed: false,
            })
        };
        let lost = |index: u32, unflushed: Option<Unflushed>| {
            let id = checkpoint_id("r1", Some(Shard { index, count: 4 }));
            let checkpoint = Checkpoint {
                unflushed,
                copied: 7,
                ..Checkpoint::default()
            };
            state.set_checkpoint(&id, &checkpoint).unwrap();
        };
        assert_eq!(doubt(&state, "r1", None).unwrap(), None);
        // Ended in this start of the machine, or done: nothing is lost.
        lost(0, unflushed(&boot_id(), "a"));
        lost(1, None);
        assert_eq!(doubt(&state, "r1", None).unwrap(), None);
        lost(2, unflushed("earlier", "p"));
        lost(3, unflushed("earlier", "m"));
        assert_eq!(
            doubt(&state, "r1", None).unwrap(),
            unflushed("earlier", "m")
        );
        let own = unflushed("earlier", "c");
        assert_eq!(doubt(&state, "r1", own.clone()).unwrap(), own);
        // What the run itself has not flushed yet would be lost with the machine, too.
        let here = unflushed(&boot_id(), "c");
        assert_eq!(doubt(&state, "r1", here).unwrap(), own);
        let here = unflushed(&boot_id(), "p");
        assert_eq!(
            doubt(&state, "r1", here).unwrap(),
            unflushed("earlier", "m")
        );
        // A flush that failed is a loss at once.
        let failed = |key: &str| {
            let unflushed = unflushed(&boot_id(), key)?;
            Some(Unflushed {
                failed: true,
                ..unflushed
            })
        };
        lost(0, failed("a"));
        let all = doubt(&state, "r1", None).unwrap().unwrap();
        assert_eq!(
            (all.place(), all.failed),
            (failed("a").unwrap().place(), true)
        );
        assert!(all.is_in_doubt(&boot_id()));

        settled(&state, "r1").unwrap();
        assert_eq!(doubt(&state, "r1", None).unwrap(), None);
        let kept = state.checkpoint("r1/shard-3-of-4").unwrap();
        assert_eq!(kept.copied, 7);
    }
}
