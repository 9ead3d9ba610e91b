//! What a migration remembers on the target's volume (or in a state directory): the marker, and
//! per run the manifest, the checkpoint and the list of divergences. Every file is replaced
//! atomically and flushed.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use filestore_common::marker::{
    Counts, MARKER_FILE, MARKER_VERSION, Marker, MarkerState, STATE_LOCK_FILE, SourceIdentity,
};
use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::manifest::{MANIFEST_FILE, sync_parent, temporary};
use crate::{Error, Kind, Result};

/// Left at a volume's root by Ryax's 26.10 chart; names no source.
const ADOPTED_MARKER: &str = ".ryax-migrated-from-minio";
/// Identifies one start of the machine: only page cache of the same start can be trusted.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// From where on objects on the target may not have survived a power loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unflushed {
    /// Start of the machine during which they were written.
    pub boot_id: String,
    /// First bucket in doubt.
    pub bucket: BucketName,
    /// First key of it in doubt; `None` = from its beginning.
    pub key: Option<ObjectKey>,
    /// A flush of them failed: what is read back may never have reached the disk.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// A place in the order of buckets and keys; `None` is a bucket's beginning.
pub type Place = (BucketName, Option<ObjectKey>);

impl Unflushed {
    /// Where it begins.
    pub fn place(&self) -> Place {
        (self.bucket.clone(), self.key.clone())
    }

    /// Whether objects may be lost already, `boot` being this start of the machine; else they are
    /// in its memory and need a flush only.
    pub fn is_in_doubt(&self, boot: &str) -> bool {
        self.failed || boot.is_empty() || self.boot_id != boot
    }

    /// After a flush of it failed: the system drops what it could not write, says so once, and
    /// shows the bytes from its memory as if nothing had happened.
    #[must_use]
    pub fn failed(self) -> Self {
        Self {
            failed: true,
            ..self
        }
    }

    /// Both in one: from the earlier place on, in doubt when either is.
    #[must_use]
    pub fn and(self, other: Self, boot: &str) -> Self {
        let (bucket, key) = self.place().min(other.place());
        Self {
            failed: self.failed || other.failed,
            boot_id: if self.is_in_doubt(boot) {
                self.boot_id
            } else {
                other.boot_id
            },
            bucket,
            key,
        }
    }

    /// Whether the object may have been written and not flushed.
    pub fn covers(&self, bucket: &BucketName, key: &ObjectKey) -> bool {
        match bucket.cmp(&self.bucket) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => self.key.as_ref().is_none_or(|first| key >= first),
        }
    }
}

/// `runs/<id>/checkpoint.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Checkpoint {
    /// Nothing was on the target when the run began: whatever is there came from this migration.
    pub target_was_empty: bool,
    /// Objects that may be lost with the page cache; `None` = everything is on the disk.
    pub unflushed: Option<Unflushed>,
    /// Pass at work, for `status`.
    pub pass: String,
    /// Objects that the pass copied so far.
    pub copied: u64,
    /// Bytes that the pass copied so far.
    pub bytes: u64,
    /// Objects that the last complete pass compared; 0 = there was none.
    pub objects: u64,
}

/// The directory that holds it all.
#[derive(Debug, Clone)]
pub struct State {
    directory: PathBuf,
}

fn failed(operation: &'static str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(
        Kind::Other,
        operation,
        path.display().to_string(),
        error.to_string(),
    )
}

impl State {
    /// State kept in `directory`, which need not exist yet.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The marker, `None` when no migration was ever begun here.
    ///
    /// # Errors
    /// [`Kind::Refused`] for a marker of a newer version; [`Kind::Damaged`].
    pub fn marker(&self) -> Result<Option<Marker>> {
        let path = self.directory.join(MARKER_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(self.adopted()),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let damaged = |error: serde_json::Error| Error {
            kind: Kind::Damaged,
            cure: Some("restore it from a backup; do not delete it, it guards the data".into()),
            ..failed("read", &path, &error)
        };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        let version = value
            .get("version")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(0);
        if version > u64::from(MARKER_VERSION) {
            let message = format!("has version {version}, this program knows {MARKER_VERSION}");
            return Err(Error {
                kind: Kind::Refused,
                ..failed("read", &path, &message)
            }
            .with_cure("use the version of filestore that wrote it"));
        }
        serde_json::from_value(value).map(Some).map_err(damaged)
    }

    /// A volume that Ryax's 26.10 chart migrated counts as cut over, once and for all.
    fn adopted(&self) -> Option<Marker> {
        let file = self.directory.parent()?.join(ADOPTED_MARKER);
        let written = std::fs::metadata(&file).ok()?.modified().ok()?;
        let at = rfc3339(written);
        let mut marker = new_marker(
            "adopted",
            SourceIdentity {
                kind: "adopted".into(),
                deployment_id: None,
                location: ADOPTED_MARKER.into(),
                buckets: Vec::new(),
            },
        );
        marker.state = MarkerState::Cutover;
        marker.started_at.clone_from(&at);
        marker.cutover_at = Some(at);
        Some(marker)
    }

    /// Replaces the marker.
    ///
    /// # Errors
    /// [`Kind::Other`] with what the file system says.
    pub fn set_marker(&self, marker: &mut Marker) -> Result<()> {
        marker.updated_at = rfc3339(SystemTime::now());
        marker.holder = holder();
        replace(&self.directory.join(MARKER_FILE), marker)
    }

    /// The right to change this state, until the file is dropped: two programs at once would lose
    /// each other's manifest. Workers of one migration hold it together.
    ///
    /// # Errors
    /// [`Kind::Refused`] at once when another program has it.
    pub(crate) fn lock(&self, operation: &'static str, among_workers: bool) -> Result<File> {
        let path = self.directory.join(STATE_LOCK_FILE);
        let refuse = |problem: &str| {
            Error::new(
                Kind::Refused,
                operation,
                path.display().to_string(),
                problem,
            )
        };
        std::fs::create_dir_all(&self.directory).map_err(|error| refuse(&error.to_string()))?;
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| refuse(&error.to_string()))?;
        let mode = if among_workers {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        match flock(&file, mode) {
            // Where there are no locks, files are still replaced as a whole.
            Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(file),
            Err(Errno::WOULDBLOCK) => {
                let problem = "another migration, merge or reverse is at work on this state";
                Err(refuse(problem).with_cure("wait for its end"))
            }
            Err(error) => Err(refuse(&error.to_string())),
        }
    }

    /// Keeps the last marker of a run that another one follows.
    ///
    /// # Errors
    /// [`Kind::Other`].
    pub(crate) fn keep(&self, ended: &Marker) -> Result<()> {
        replace(&self.run_dir(&ended.run_id).join(MARKER_FILE), ended)
    }

    /// Whether another run followed this one: its id is used up.
    pub(crate) fn has_ended(&self, run_id: &str) -> bool {
        self.run_dir(run_id).join(MARKER_FILE).exists()
    }

    /// Directory of a run.
    pub fn run_dir(&self, run_id: &str) -> PathBuf {
        self.directory.join("runs").join(run_id)
    }

    /// Path of a run's manifest.
    pub fn manifest(&self, run_id: &str) -> PathBuf {
        self.run_dir(run_id).join(MANIFEST_FILE)
    }

    /// A run's checkpoint; the default when there is none.
    ///
    /// # Errors
    /// [`Kind::Other`].
    pub fn checkpoint(&self, run_id: &str) -> Result<Checkpoint> {
        let path = self.run_dir(run_id).join("checkpoint.json");
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| failed("read", &path, &e)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Checkpoint::default()),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// Replaces a run's checkpoint.
    ///
    /// # Errors
    /// [`Kind::Other`].
    pub fn set_checkpoint(&self, run_id: &str, checkpoint: &Checkpoint) -> Result<()> {
        replace(&self.run_dir(run_id).join("checkpoint.json"), checkpoint)
    }
}

/// A marker at the beginning of a run.
pub fn new_marker(run_id: &str, source: SourceIdentity) -> Marker {
    let now = rfc3339(SystemTime::now());
    Marker {
        version: MARKER_VERSION,
        run_id: run_id.to_owned(),
        follows: None,
        state: MarkerState::Copying,
        holder: holder(),
        started_at: now.clone(),
        updated_at: now,
        cutover_at: None,
        source,
        scope: None,
        carried: Counts::default(),
        digest: None,
        not_carried: std::collections::BTreeMap::new(),
        not_carried_hash: None,
        accepted_by: None,
        diverged: false,
    }
}

/// RFC 3339 in UTC with whole seconds.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = i64::try_from(crate::manifest::unix(time)).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .unwrap_or_default()
        .to_string()
}

/// This start of the machine; empty where it cannot be known, which equals no other.
pub fn boot_id() -> String {
    std::fs::read_to_string(BOOT_ID)
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// Writes a file beside `path`, flushes it and gives it its name; directories are made.
fn replace(path: &Path, value: &impl Serialize) -> Result<()> {
    let parent = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(parent).map_err(|e| failed("create", parent, &e))?;
    let mut text = serde_json::to_vec_pretty(value).map_err(|e| failed("write", path, &e))?;
    text.push(b'\n');
    let new = temporary(path);
    let mut file = File::create(&new).map_err(|e| failed("create", &new, &e))?;
    file.write_all(&text)
        .map_err(|e| failed("write", &new, &e))?;
    file.sync_all().map_err(|e| failed("flush", &new, &e))?;
    std::fs::rename(&new, path).map_err(|e| failed("rename", path, &e))?;
    sync_parent(path)?;
    // `runs/<id>` may be new as well.
    sync_parent(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> SourceIdentity {
        SourceIdentity {
            kind: "s3".into(),
            deployment_id: Some("d".into()),
            location: "http://h:1".into(),
            buckets: vec!["abc".into()],
        }
    }

    #[test]
    fn marker_comes_back_and_a_newer_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().join(".filestore"));
        assert_eq!(state.marker().unwrap(), None);
        let mut marker = new_marker("r1", identity());
        state.set_marker(&mut marker).unwrap();
        assert_eq!(state.marker().unwrap(), Some(marker));

        let file = directory.path().join(".filestore").join(MARKER_FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
        assert_eq!(state.marker().unwrap_err().kind, Kind::Refused);
        std::fs::write(&file, "{").unwrap();
        assert_eq!(state.marker().unwrap_err().kind, Kind::Damaged);
    }

    #[test]
    fn a_volume_of_the_older_chart_is_adopted_as_cut_over() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(ADOPTED_MARKER), "").unwrap();
        let marker = State::new(directory.path().join(".filestore"))
            .marker()
            .unwrap()
            .unwrap();
        assert_eq!(
            (marker.state, marker.source.kind.as_str()),
            (MarkerState::Cutover, "adopted")
        );
        assert!(marker.cutover_at.is_some());
    }

    #[test]
    fn doubt_begins_at_the_first_unflushed_key() {
        let bucket = |name: &str| BucketName::new(name).unwrap();
        let key = |key: &str| ObjectKey::new(key).unwrap();
        let unflushed = Unflushed {
            boot_id: "x".into(),
            bucket: bucket("bbb"),
            key: Some(key("m")),
            failed: false,
        };
        assert!(!unflushed.covers(&bucket("aaa"), &key("z")));
        assert!(!unflushed.covers(&bucket("bbb"), &key("l")));
        assert!(unflushed.covers(&bucket("bbb"), &key("m")));
        assert!(unflushed.covers(&bucket("ccc"), &key("a")));
    }
}
