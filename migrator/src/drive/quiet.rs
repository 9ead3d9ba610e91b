//! Does anybody write to the drive? Two fingerprints, some time apart, that are equal say that no
//! object changed between them.
//!
//! A running MinIO shows even when it has no clients: it writes to `.minio.sys/tmp` about every
//! 15 seconds, so that fingerprints further apart than [`IDLE_INTERVAL`] differ. Equal fingerprints
//! are no proof for the future: whoever can reach the drive can start to write afterwards.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use filestore_common::BucketName;
use rustix::fs::FileType;
use xxhash_rust::xxh64::Xxh64;

use super::error::Result;
use super::fs::{Root, Stamp};
use super::system::dirs;

/// Longest pause between two writes of an idle MinIO that was seen.
pub const IDLE_INTERVAL: Duration = Duration::from_secs(20);

/// Directories of MinIO's own that change while it runs.
const SYSTEM: [&str; 6] = [
    ".minio.sys",
    ".minio.sys/tmp",
    ".minio.sys/tmp/.trash",
    ".minio.sys/multipart",
    ".minio.sys/buckets",
    ".minio.sys/config",
];

/// Digest of inode, size and time of every `xl.meta`, by bucket, and of MinIO's own directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    parts: BTreeMap<String, u64>,
    /// When one of MinIO's own directories changed last.
    heartbeat: Option<SystemTime>,
}

impl Fingerprint {
    /// Looks at `buckets` and, cheaply, at MinIO's own directories.
    pub(super) fn take(root: &Arc<Root>, buckets: &[BucketName]) -> Result<Self> {
        let mut parts = BTreeMap::new();
        let (system, heartbeat) = system(root)?;
        parts.insert(".minio.sys".to_owned(), system);
        for bucket in buckets {
            let mut digest = Xxh64::new(0);
            tree(root, bucket.as_str(), &mut digest)?;
            parts.insert(bucket.to_string(), digest.finish());
        }
        Ok(Self { parts, heartbeat })
    }

    /// When one of MinIO's own directories changed last; a running MinIO is never silent for
    /// longer than [`IDLE_INTERVAL`].
    pub fn heartbeat(&self) -> Option<SystemTime> {
        self.heartbeat
    }

    /// Names of the buckets (and `.minio.sys`) that differ from `other`.
    pub fn differences<'f>(&'f self, other: &'f Self) -> Vec<&'f str> {
        let names = self.parts.keys().chain(other.parts.keys());
        let mut differing: Vec<&str> = names
            .filter(|name| self.parts.get(*name) != other.parts.get(*name))
            .map(String::as_str)
            .collect();
        differing.sort_unstable();
        differing.dedup();
        differing
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = Xxh64::new(0);
        self.parts.hash(&mut all);
        write!(f, "{:016x}", all.finish())
    }
}

fn system(root: &Root) -> Result<(u64, Option<SystemTime>)> {
    let mut digest = Xxh64::new(0);
    let mut heartbeat = None;
    for path in SYSTEM {
        let modified = root.dir_modified(path)?;
        modified.hash(&mut digest);
        heartbeat = heartbeat.max(modified);
    }
    let format = root.open_file(".minio.sys/format.json")?;
    format.map(|(_, stamp)| stamp).hash(&mut digest);
    // Unfinished uploads grow below directories that are there already.
    for upload in sorted_dirs(root, ".minio.sys/multipart")? {
        let path = format!(".minio.sys/multipart/{upload}");
        root.dir_modified(&path)?.hash(&mut digest);
    }
    Ok((digest.finish(), heartbeat))
}

/// Every directory below `top` with its time, and the `xl.meta` in it.
fn tree(root: &Root, top: &str, digest: &mut Xxh64) -> Result<()> {
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        path.hash(digest);
        let mut names = Vec::new();
        let mut has_meta = false;
        let directory = root.read_dir(&path, |name, kind| {
            match (kind, std::str::from_utf8(name)) {
                (FileType::Directory, Ok(name)) => names.push(name.to_owned()),
                (FileType::RegularFile, Ok("xl.meta")) => has_meta = true,
                _ => {}
            }
        })?;
        if has_meta && let Some(directory) = directory {
            Stamp::of(&directory, "xl.meta").hash(digest);
        }
        names.sort_unstable_by(|left, right| right.cmp(left));
        waiting.extend(names.into_iter().map(|name| format!("{path}/{name}")));
    }
    Ok(())
}

fn sorted_dirs(root: &Root, path: &str) -> Result<Vec<String>> {
    let mut names = dirs(root, path)?;
    names.sort_unstable();
    Ok(names)
}
