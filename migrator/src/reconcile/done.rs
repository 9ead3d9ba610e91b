//! What was done and is not in the manifest yet: a line for each key, appended as soon as it is done.
//!
//! The manifest is replaced at the end, after a flush. A process that is killed before leaves the
//! old one, and these files beside it: `runs/<id>/done/<n>.jsonl`, one for each process. Laid over
//! the manifest they say what its lines would have been, so that what clients did since is not taken
//! for a change of ours, or ours for one of theirs. A file begins with the start of the machine
//! during which it was written: after a power loss what it names is read back before it counts.
//!
//! Lines come in the order of keys but for the keys that were at work together; the first line says
//! how many those are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use filestore_common::{BucketName, ObjectKey};
use serde::{Deserialize, Serialize};

use crate::manifest::{Line, sync_parent};
use crate::state::boot_id;
use crate::{Error, Kind, Result};

/// Directory below `runs/<id>/`.
const DIR: &str = "done";

/// First line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    /// Start of the machine.
    boot_id: String,
    /// Keys at work at once.
    at_once: usize,
}

/// Any other line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    bucket: BucketName,
    key: ObjectKey,
    /// For the manifest; `None` = nothing is recorded of the key any more.
    line: Option<Line>,
}

impl Entry {
    fn key(&self) -> (&BucketName, &ObjectKey) {
        (&self.bucket, &self.key)
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// How far what an earlier process wrote can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// It is on the disk, or in the memory of this start of the machine.
    #[default]
    None,
    /// A power loss may have cost it: to be read back.
    Unread,
    /// A flush failed: what is read back may be in memory only. To be written again.
    Unflushed,
}

/// What an earlier process left for one key.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) line: Option<Line>,
    pub(super) doubt: Doubt,
}

fn failed(operation: &'static str, path: &Path, error: impl std::fmt::Display) -> Error {
    let path = path.display().to_string();
    Error::new(Kind::Other, operation, path, error.to_string())
}

/// The files of a run, by their numbers.
fn files(run_dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let directory = run_dir.join(DIR);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", &directory, error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| failed("list", &directory, error))?
            .path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|e| e == "jsonl")) {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Says that a flush of what a file names failed; lies beside it.
fn flaw(path: &Path) -> PathBuf {
    path.with_extension("failed")
}

/// Gives another run what is left of this one.
pub(crate) fn carry_over(from: &Path, to: &Path) -> Result<()> {
    for (number, path) in files(from)? {
        let copy = to.join(DIR).join(format!("{number}.jsonl"));
        std::fs::create_dir_all(to.join(DIR)).map_err(|error| failed("create", &copy, error))?;
        std::fs::copy(&path, &copy).map_err(|error| failed("copy", &path, error))?;
        if flaw(&path).exists() {
            File::create(flaw(&copy)).map_err(|error| failed("create", &copy, error))?;
        }
    }
    Ok(())
}

/// Writes the file of this process.
#[derive(Debug)]
pub(super) struct Log {
    run_dir: PathBuf,
    at_once: usize,
    file: Mutex<Option<(File, PathBuf)>>,
}

impl Log {
    pub(super) fn new(run_dir: &Path, at_once: usize) -> Self {
        Self {
            run_dir: run_dir.to_owned(),
            at_once,
            file: Mutex::new(None),
        }
    }

    /// Before the first change: that there may be some survives a power loss.
    pub(super) fn begin(&self) -> Result<()> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(self.create()?);
        }
        Ok(())
    }

    fn create(&self) -> Result<(File, PathBuf)> {
        let directory = self.run_dir.join(DIR);
        std::fs::create_dir_all(&directory).map_err(|error| failed("create", &directory, error))?;
        let last = files(&self.run_dir)?
            .last()
            .map_or(0, |(number, _)| *number);
        let path = directory.join(format!("{}.jsonl", last + 1));
        let head = Head {
            boot_id: boot_id(),
            at_once: self.at_once,
        };
        let written = File::create_new(&path).and_then(|mut file| {
            serde_json::to_writer(&mut file, &head)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            Ok(file)
        });
        let file = written.map_err(|error| failed("write", &path, error))?;
        sync_parent(&path)?;
        sync_parent(&directory)?;
        Ok((file, path))
    }

    /// A key was dealt with; `line` is for the manifest.
    pub(super) fn done(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        line: Option<&Line>,
    ) -> Result<()> {
        self.begin()?;
        let entry = Entry {
            bucket: bucket.clone(),
            key: key.clone(),
            line: line.cloned(),
        };
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, path)) = held.as_mut() else {
            return Ok(());
        };
        let mut text = serde_json::to_vec(&entry).map_err(|error| failed("write", path, error))?;
        text.push(b'\n');
        file.write_all(&text)
            .map_err(|error| failed("write", path, error))
    }

    /// A flush of what was written failed; best effort, as the failure itself is told.
    pub(super) fn unflushed(&self) {
        let held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, path)) = held.as_ref() {
            let flaw = flaw(path);
            let marked = File::create(&flaw).and_then(|file| file.sync_all());
            if let Err(error) = marked {
                tracing::warn!(%error, "What a failed flush may have cost is not on record");
            }
        }
    }

    /// The manifest tells all that this process did; with `all`, all that any did.
    pub(super) fn settled(&self, all: bool) -> Result<()> {
        let own = {
            let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            held.take().map(|(_, path)| path)
        };
        let paths: Vec<PathBuf> = if all {
            files(&self.run_dir)?
                .into_iter()
                .map(|(_, path)| path)
                .collect()
        } else {
            own.into_iter().collect()
        };
        for path in &paths {
            drop(std::fs::remove_file(flaw(path)));
            std::fs::remove_file(path).map_err(|error| failed("remove", path, error))?;
        }
        match paths.first() {
            Some(path) => sync_parent(path),
            None => Ok(()),
        }
    }
}

/// One file, in the order of keys.
#[derive(Debug)]
struct Ordered {
    lines: std::io::Lines<BufReader<File>>,
    ended: bool,
    /// The next ones, one more than can have been at work at once.
    ahead: BinaryHeap<Reverse<Entry>>,
    room: usize,
    doubt: Doubt,
}

impl Ordered {
    /// `None` when it is cut before its first line's end: nothing was done then.
    fn open(path: &Path, volume: bool) -> Result<Option<Self>> {
        let file = File::open(path).map_err(|error| failed("open", path, error))?;
        let mut lines = BufReader::new(file).lines();
        let head = lines.next().and_then(Result::ok);
        let Some(head) = head.and_then(|head| serde_json::from_str::<Head>(&head).ok()) else {
            return Ok(None);
        };
        let boot = boot_id();
        let doubt = if !volume {
            // A server flushed before it answered, or promised to nobody.
            Doubt::None
        } else if flaw(path).exists() {
            Doubt::Unflushed
        } else if boot.is_empty() || head.boot_id != boot {
            Doubt::Unread
        } else {
            Doubt::None
        };
        Ok(Some(Self {
            lines,
            ended: false,
            ahead: BinaryHeap::new(),
            room: head.at_once + 1,
            doubt,
        }))
    }

    fn peek(&mut self) -> Option<&Entry> {
        while !self.ended && self.ahead.len() < self.room {
            let line = self.lines.next().and_then(Result::ok);
            // A line that a kill or a power loss cut short ends what is known.
            match line.and_then(|line| serde_json::from_str(&line).ok()) {
                Some(entry) => self.ahead.push(Reverse(entry)),
                None => self.ended = true,
            }
        }
        self.ahead.peek().map(|Reverse(entry)| entry)
    }
}

/// What earlier processes left, laid over each other, in the order of keys.
#[derive(Debug, Default)]
pub(super) struct Overlay(Vec<Ordered>);

impl Overlay {
    /// Opens what is left of a run whose written side is a volume, or a server.
    pub(super) fn open(run_dir: &Path, volume: bool) -> Result<Self> {
        let mut overlay = Self::default();
        for (_, path) in files(run_dir)? {
            overlay.0.extend(Ordered::open(&path, volume)?);
        }
        Ok(overlay)
    }

    /// The greatest doubt about anything that was written.
    pub(super) fn doubt(&self) -> Doubt {
        self.0
            .iter()
            .map(|file| file.doubt)
            .max()
            .unwrap_or_default()
    }

    /// The next key.
    pub(super) fn peek(&mut self) -> Option<(&BucketName, &ObjectKey)> {
        self.0
            .iter_mut()
            .filter_map(Ordered::peek)
            .map(Entry::key)
            .min()
    }

    /// What is left of this key, by the latest process; of those before it nothing is given out
    /// any more.
    pub(super) fn take(&mut self, bucket: &BucketName, key: &ObjectKey) -> Option<Done> {
        let mut latest = None;
        for file in &mut self.0 {
            while file.peek().is_some_and(|next| next.key() <= (bucket, key)) {
                let Some(Reverse(entry)) = file.ahead.pop() else {
                    break;
                };
                if entry.key() == (bucket, key) {
                    latest = Some(Done {
                        line: entry.line,
                        doubt: file.doubt,
                    });
                }
            }
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> BucketName {
        BucketName::new("bkt").unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(name).unwrap()
    }

    fn line(name: &str, size: u64) -> Line {
        let text =
            format!(r#"{{"bucket":"bkt","key":"{name}","etag":null,"size":{size},"modified":1}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn all(overlay: &mut Overlay) -> Vec<(String, Option<u64>)> {
        let mut found = Vec::new();
        while let Some((_, key)) = overlay.peek().map(|(b, k)| (b.clone(), k.clone())) {
            let done = overlay.take(&bucket(), &key).unwrap();
            found.push((key.as_str().to_owned(), done.line.map(|line| line.size)));
        }
        found
    }

    #[test]
    fn the_latest_process_speaks_for_a_key_and_torn_lines_for_none() {
        let run_dir = tempfile::tempdir().unwrap();
        let log = |entries: &[(&str, Option<u64>)]| {
            let log = Log::new(run_dir.path(), 2);
            for (name, size) in entries {
                let line = size.map(|size| line(name, size));
                log.done(&bucket(), &key(name), line.as_ref()).unwrap();
            }
            log
        };
        // As two at once may end.
        log(&[("b", Some(1)), ("a", Some(1)), ("d", None), ("c", Some(1))]);
        log(&[("a", Some(2)), ("c", None)]);
        let third = log(&[("e", Some(3))]);
        let path = run_dir.path().join("done/3.jsonl");
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"{\"bucket\":\"bkt\",\"key\":\"f\",\"li")
            .unwrap();

        let mut overlay = Overlay::open(run_dir.path(), true).unwrap();
        assert_eq!(overlay.doubt(), Doubt::None);
        let expected = [
            ("a", Some(2)),
            ("b", Some(1)),
            ("c", None),
            ("d", None),
            ("e", Some(3)),
        ];
        let expected = expected.map(|(name, size)| (name.to_owned(), size));
        assert_eq!(all(&mut overlay), expected);

        third.settled(true).unwrap();
        assert_eq!(all(&mut Overlay::open(run_dir.path(), true).unwrap()), []);
    }

    #[test]
    fn what_an_earlier_start_of_the_machine_wrote_is_in_doubt_on_a_volume_only() {
        let run_dir = tempfile::tempdir().unwrap();
        let log = Log::new(run_dir.path(), 1);
        log.done(&bucket(), &key("a"), None).unwrap();
        let path = run_dir.path().join("done/1.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(&boot_id(), "another")).unwrap();
        let doubt = |volume| Overlay::open(run_dir.path(), volume).unwrap().doubt();
        assert_eq!((doubt(true), doubt(false)), (Doubt::Unread, Doubt::None));
        log.unflushed();
        assert_eq!((doubt(true), doubt(false)), (Doubt::Unflushed, Doubt::None));
        let second = tempfile::tempdir().unwrap();
        carry_over(run_dir.path(), second.path()).unwrap();
        let copied = Overlay::open(second.path(), true).unwrap();
        assert_eq!(copied.doubt(), Doubt::Unflushed);
    }
}
