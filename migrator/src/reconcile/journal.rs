//! What a reconciliation did, and what it left undecided: JSON lines beside the manifest.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use filestore_common::{BucketName, ETag, ObjectKey};
use serde::Serialize;

use super::decide::{Open, Side};
use crate::manifest::{sync_parent, temporary, unix};
use crate::source::Entry;
use crate::state::rfc3339;
use crate::{Error, Kind, Result};

/// A version of an object, as far as it takes to know it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Version {
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<ETag>,
    modified: u64,
}

impl From<&Entry> for Version {
    fn from(entry: &Entry) -> Self {
        Self {
            size: entry.size,
            etag: entry.etag.clone(),
            modified: unix(entry.last_modified),
        }
    }
}

/// What happens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Did {
    Add,
    Replace,
    Delete,
    /// The other side's version is left out: `now` stays, `was` stays where it is.
    Keep,
}

/// A line of the journal.
#[derive(Debug, Serialize)]
pub(super) struct Entered<'a> {
    pub(super) run: &'static str,
    pub(super) did: Did,
    /// On this side.
    pub(super) on: Side,
    pub(super) bucket: &'a BucketName,
    pub(super) key: &'a ObjectKey,
    /// Both sides had changed.
    pub(super) conflict: bool,
    /// What was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) was: Option<Version>,
    /// What is there then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Version>,
    /// Where a copy of `was` lies, below the run's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) saved: Option<String>,
}

/// A line of a trial's report: a key that nobody decided.
#[derive(Debug, Serialize)]
pub(super) struct Left<'a> {
    pub(super) run: &'static str,
    /// `undecided`.
    pub(super) did: &'static str,
    pub(super) how: Open,
    pub(super) bucket: &'a BucketName,
    pub(super) key: &'a ObjectKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) legacy: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) served: Option<Version>,
}

#[derive(Serialize)]
struct Dated<'a, T> {
    at: String,
    #[serde(flatten)]
    entered: &'a T,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Other,
        "write",
        path.display().to_string(),
        error.to_string(),
    )
}

/// The journal: appended to, never rewritten, so that what a killed run did stays on record. A
/// line is written, and flushed where something is replaced or deleted, *before* it is done.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    flushes: bool,
}

/// A line that a kill cut short tells of nothing that was done.
fn drop_torn_line(file: &mut File) -> std::io::Result<()> {
    const STEP: u64 = 4096;
    let mut end = file.metadata()?.len();
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        buffer.clear();
        (&mut *file).take(end - start).read_to_end(&mut buffer)?;
        if let Some(last) = buffer.iter().rposition(|byte| *byte == b'\n') {
            end = start + last as u64 + 1;
            break;
        }
        end = start;
    }
    if end < file.metadata()?.len() {
        file.set_len(end)?;
    }
    Ok(())
}

impl Journal {
    pub(super) fn open(path: &Path) -> Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| failed(path, error))?;
        }
        let mut options = File::options();
        let file = options.read(true).append(true).create(true).open(path);
        let mut file = file.map_err(|error| failed(path, error))?;
        drop_torn_line(&mut file).map_err(|error| failed(path, error))?;
        sync_parent(path)?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            flushes: true,
        })
    }

    /// A new one in the place of an old one: the report of a dry run. No write follows its lines,
    /// and it may be a pipe (`/dev/stdout`), which cannot be flushed.
    pub(super) fn replace(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error {
            kind: Kind::Usage,
            ..failed(path, error)
        })?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            flushes: false,
        })
    }

    pub(super) fn enter(&self, entered: &Entered<'_>) -> Result<()> {
        let file = self.append(entered)?;
        if self.flushes && entered.was.is_some() {
            file.sync_data()
                .map_err(|error| failed(&self.path, error))?;
        }
        Ok(())
    }

    pub(super) fn enter_left(&self, left: &Left<'_>) -> Result<()> {
        self.append(left).map(drop)
    }

    fn append(&self, entered: &impl Serialize) -> Result<MutexGuard<'_, File>> {
        let dated = Dated {
            at: rfc3339(SystemTime::now()),
            entered,
        };
        let mut line = serde_json::to_vec(&dated).map_err(|error| failed(&self.path, error))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line)
            .map_err(|error| failed(&self.path, error))?;
        Ok(file)
    }
}

/// The list of what is undecided, replaced as a whole by every complete run.
#[derive(Debug)]
pub(super) struct Undecided {
    path: PathBuf,
    out: BufWriter<File>,
}

#[derive(Serialize)]
struct Listed<'a> {
    how: Open,
    bucket: &'a BucketName,
    key: &'a ObjectKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    legacy: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<Version>,
}

impl Undecided {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(temporary(path)).map_err(|error| failed(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            out: BufWriter::new(file),
        })
    }

    pub(super) fn add(
        &mut self,
        how: Open,
        bucket: &BucketName,
        key: &ObjectKey,
        sides: (Option<Version>, Option<Version>),
    ) -> Result<()> {
        let listed = Listed {
            how,
            bucket,
            key,
            legacy: sides.0,
            served: sides.1,
        };
        serde_json::to_writer(&mut self.out, &listed).map_err(|error| failed(&self.path, error))?;
        self.out
            .write_all(b"\n")
            .map_err(|error| failed(&self.path, error))
    }

    /// Gives the list its name.
    pub(super) fn finish(self) -> Result<()> {
        let path = self.path;
        let file = self
            .out
            .into_inner()
            .map_err(|error| failed(&path, error))?;
        file.sync_all().map_err(|error| failed(&path, error))?;
        std::fs::rename(temporary(&path), &path).map_err(|error| failed(&path, error))?;
        sync_parent(&path)
    }

    /// Leaves the list of the run before.
    pub(super) fn discard(self) {
        drop(std::fs::remove_file(temporary(&self.path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_not_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("changes.jsonl");
        let long = "x".repeat(10_000);
        for (torn, kept) in [
            ("{}\n{\"at\":".to_owned(), "{}\n"),
            (format!("{{}}\n{long}"), "{}\n"),
            (long, ""),
            ("{}\n".to_owned(), "{}\n"),
            (String::new(), ""),
        ] {
            std::fs::write(&path, &torn).unwrap();
            let journal = Journal::open(&path).unwrap();
            journal
                .enter(&Entered {
                    run: "test",
                    did: Did::Add,
                    on: Side::Served,
                    bucket: &BucketName::new("bkt").unwrap(),
                    key: &ObjectKey::new("k").unwrap(),
                    conflict: false,
                    was: None,
                    now: None,
                    saved: None,
                })
                .unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let line = text.strip_prefix(kept).unwrap();
            assert!(
                line.starts_with("{\"at\":\"") && line.ends_with("}\n"),
                "{line}"
            );
            assert_eq!(line.lines().count(), 1);
        }
    }
}
