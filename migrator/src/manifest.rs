//! The manifest: every object that was carried, in order of bucket and key, one JSON document a
//! line, gzipped. It is what later comparisons are made against.
//!
//! The digest over it is SHA-256 of `bucket NUL key NUL etag NUL size NUL` for every line in its
//! order (no name holds a NUL), so anyone with a listing can recompute it. Lines with `settled` name
//! no carried object and are left out.
//!
//! Fields were added over time; a line without one is of an older manifest, and what it would say
//! is then unknown, never "none".

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use filestore_common::marker::Counts;
use filestore_common::{BucketName, ETag, ObjectKey, ObjectMeta};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::reconcile::Side;
use crate::source::Entry;
use crate::{Error, Kind, Result};

/// File name below `runs/<id>/`.
pub const MANIFEST_FILE: &str = "manifest.jsonl.gz";

/// A carried object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Bucket.
    pub bucket: BucketName,
    /// Key.
    pub key: ObjectKey,
    /// ETag that the source shows; `None` when it shows none.
    pub etag: Option<ETag>,
    /// ETag on the target where it is another one (foreign targets).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_etag: Option<ETag>,
    /// Bytes.
    pub size: u64,
    /// Last-Modified at the source, seconds since 1970; 0 where it was not asked any more.
    pub modified: u64,
    /// Last-Modified on the target where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_modified: Option<u64>,
    /// [`meta_digest`] of the object, where it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
    /// The same of the target where it shows something else (a store that drops a header).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_meta: Option<String>,
    /// A conflict was decided for this side, which holds something else. The line then says what
    /// the *other* side holds, so that it is not taken for a change again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Side>,
}

impl Line {
    /// The line of a carried `source` entry, with what the target shows of it.
    pub fn new(bucket: &BucketName, source: &Entry, target: &Entry) -> Self {
        let other = target
            .etag
            .clone()
            .filter(|etag| Some(etag) != source.etag.as_ref());
        let (modified, there) = (unix(source.last_modified), unix(target.last_modified));
        let meta = source.meta.as_deref().or(target.meta.as_deref());
        let meta = meta.map(meta_digest);
        let target_meta = target.meta.as_deref().map(meta_digest);
        Self {
            bucket: bucket.clone(),
            key: source.key.clone(),
            etag: source.etag.clone(),
            target_etag: other,
            size: source.size,
            modified,
            target_modified: (there != modified).then_some(there),
            target_meta: target_meta.filter(|there| Some(there) != meta.as_ref()),
            meta,
            settled: None,
        }
    }

    /// The line of a conflict that was decided for `winner`, the other side holding `loser`.
    pub fn settled(bucket: &BucketName, loser: &Entry, winner: Side) -> Self {
        Self {
            settled: Some(winner),
            ..Self::new(bucket, loser, loser)
        }
    }

    /// What the target shows for this object as long as no client touched it.
    pub fn on_target(&self) -> Option<&ETag> {
        self.target_etag.as_ref().or(self.etag.as_ref())
    }
}

/// What S3 shows of an object beside bytes, ETag and time, in a short comparable form: headers, user
/// metadata and tags. The number in front names the way it is computed.
pub fn meta_digest(meta: &ObjectMeta) -> String {
    // What MinIO and S3 store when a client named none.
    const NO_TYPE: &str = "binary/octet-stream";
    let headers = &meta.headers;
    let mut fields: Vec<(String, &str)> = [
        (
            "content-type",
            headers.content_type.as_deref().filter(|t| *t != NO_TYPE),
        ),
        ("content-encoding", headers.content_encoding.as_deref()),
        ("content-language", headers.content_language.as_deref()),
        (
            "content-disposition",
            headers.content_disposition.as_deref(),
        ),
        ("cache-control", headers.cache_control.as_deref()),
        ("expires", headers.expires.as_deref()),
        (
            "website-redirect-location",
            headers.website_redirect_location.as_deref(),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((format!("h {name}"), value?)))
    .collect();
    fields.extend(
        meta.user
            .iter()
            .map(|(name, value)| (format!("u {name}"), value.as_str())),
    );
    fields.extend(
        meta.tags
            .iter()
            .map(|(name, value)| (format!("t {name}"), value.as_str())),
    );
    fields.sort_unstable();
    let mut sha = Sha256::new();
    for (name, value) in &fields {
        for text in [name.as_str(), *value] {
            sha.update((text.len() as u64).to_le_bytes());
            sha.update(text.as_bytes());
        }
    }
    let digest = sha.finalize();
    format!("1:{}", hex::encode(&digest[..12]))
}

/// Seconds since 1970; 0 before.
pub fn unix(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn failed(operation: &'static str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(
        Kind::Other,
        operation,
        path.display().to_string(),
        error.to_string(),
    )
}

/// The digest over carried objects, fed in order of bucket and key.
#[derive(Debug, Default, Clone)]
pub struct CarriedDigest(Sha256);

impl CarriedDigest {
    /// Takes the next object.
    pub fn add(&mut self, bucket: &BucketName, key: &ObjectKey, etag: Option<&ETag>, size: u64) {
        let etag = etag.map_or("", ETag::as_str);
        for field in [bucket.as_str(), key.as_str(), etag, &size.to_string()] {
            self.0.update(field.as_bytes());
            self.0.update([0]);
        }
    }

    /// Lower-case hex.
    pub fn finish(self) -> String {
        hex::encode(self.0.finalize())
    }
}

/// Writes a manifest beside its final name.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    /// No other process writes to it, whatever it believes to hold.
    new: PathBuf,
    out: GzEncoder<BufWriter<File>>,
    digest: CarriedDigest,
    counts: Counts,
}

impl Writer {
    /// Starts the manifest that will be `path`.
    ///
    /// # Errors
    /// [`Kind::Other`], [`Kind::NoSpace`].
    pub fn create(path: &Path) -> Result<Self> {
        remove_leftovers(path);
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}.new", uuid::Uuid::new_v4()));
        let new = PathBuf::from(new);
        let file = File::create_new(&new).map_err(|e| failed("create", path, &e))?;
        Ok(Self {
            path: path.to_owned(),
            new,
            out: GzEncoder::new(BufWriter::new(file), Compression::fast()),
            digest: CarriedDigest::default(),
            counts: Counts::default(),
        })
    }

    /// Appends a line; lines come in order of bucket and key.
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn add(&mut self, line: &Line) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| failed("write", &self.path, error);
        serde_json::to_writer(&mut self.out, line).map_err(|e| failed(&e))?;
        self.out.write_all(b"\n").map_err(|e| failed(&e))?;
        if line.settled.is_some() {
            return Ok(());
        }
        self.digest
            .add(&line.bucket, &line.key, line.etag.as_ref(), line.size);
        self.counts.objects += 1;
        self.counts.bytes += line.size;
        Ok(())
    }

    /// Flushes the manifest to the disk and gives it its name; returns digest and counts (of
    /// objects and bytes).
    ///
    /// # Errors
    /// As [`Writer::create`].
    pub fn finish(self) -> Result<(String, Counts)> {
        let path = self.path;
        let file = self.out.finish().map_err(|e| failed("write", &path, &e))?;
        let file = file.into_inner().map_err(|e| failed("write", &path, &e))?;
        file.sync_all().map_err(|e| failed("flush", &path, &e))?;
        std::fs::rename(&self.new, &path).map_err(|e| failed("rename", &path, &e))?;
        sync_parent(&path)?;
        Ok((self.digest.finish(), self.counts))
    }
}

impl Writer {
    /// Leaves the manifest that was there.
    pub fn discard(self) {
        drop(std::fs::remove_file(&self.new));
    }
}

/// What killed runs left of this manifest. One that is written nevertheless (without locks two
/// programs may) then fails to get its name, and the finished one stays.
fn remove_leftovers(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let begin = format!("{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        if file.starts_with(&begin) && file.ends_with(".new") {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

/// Gives another run the manifest of this one.
///
/// # Errors
/// [`Kind::NotFound`], [`Kind::Other`].
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut reader = Reader::open(from)?;
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).map_err(|e| failed("create", parent, &e))?;
    }
    let mut writer = Writer::create(to)?;
    while let Some(line) = reader.line()? {
        writer.add(&line)?;
    }
    writer.finish().map(drop)
}

/// Name of a file while it is written.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Makes a rename or a new file in the directory of `path` survive power loss.
pub(crate) fn sync_parent(path: &Path) -> Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or_else(|| Path::new("."));
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| failed("flush", parent, &e))
}

/// Reads a manifest line by line.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    lines: BufReader<MultiGzDecoder<BufReader<File>>>,
    buffer: String,
}

impl Reader {
    /// Opens the manifest at `path`.
    ///
    /// # Errors
    /// [`Kind::NotFound`], [`Kind::Other`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => Kind::NotFound,
                _ => Kind::Other,
            };
            Error {
                kind,
                ..failed("open", path, &error)
            }
        })?;
        let lines = BufReader::new(MultiGzDecoder::new(BufReader::new(file)));
        Ok(Self {
            path: path.to_owned(),
            lines,
            buffer: String::new(),
        })
    }

    /// The next line, `None` at the end.
    ///
    /// # Errors
    /// [`Kind::Damaged`].
    pub fn line(&mut self) -> Result<Option<Line>> {
        let damaged = |error: &dyn std::fmt::Display| Error {
            kind: Kind::Damaged,
            ..failed("read", &self.path, error)
        };
        self.buffer.clear();
        let length = self
            .lines
            .read_line(&mut self.buffer)
            .map_err(|e| damaged(&e))?;
        if length == 0 {
            return Ok(None);
        }
        serde_json::from_str(&self.buffer)
            .map(Some)
            .map_err(|e| damaged(&e))
    }
}

#[cfg(test)]
mod tests;
