//! A MinIO drive as source: [`crate::drive`] for the asynchronous engine.

mod error;
mod listing;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ObjectInfo, ObjectKey};
use futures::{StreamExt, stream};
use tokio::sync::mpsc;

use self::error::explain;
use super::{Bucket, Entry, Left, Listing, Object, Reason, Source, Tally, Tells};
use crate::drive::{BodyReader, Content, Drive, DriveObject, Fingerprint, IDLE_INTERVAL};
use crate::lanes::crowded;
use crate::scope::Keys;
use crate::volume::blocking;
use crate::{Error, Kind, Result};

/// Bytes given out at a time: a full frame, which is then checked where it lies.
const CHUNK_BYTES: u64 = 1 << 20;
/// Chunks read ahead of the target.
const CHUNKS_AHEAD: usize = 1;
/// Pause between two looks at a drive that somebody may be writing to.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reads the drive of a stopped MinIO.
#[derive(Debug, Clone)]
pub struct DriveSource {
    drive: Drive,
    name: String,
    /// Somebody saw the server go.
    stopped: bool,
}

impl DriveSource {
    /// Opens the drive at `path`.
    ///
    /// # Errors
    /// [`Kind::Absent`] when the path does not exist; [`Kind::Refused`] when it is no drive that
    /// can be read alone, or may not be read by this user.
    pub async fn open(path: &Path) -> Result<Self> {
        let name = format!("minio-drive:{}", path.display());
        let (path, object) = (path.to_owned(), name.clone());
        let drive = blocking("open", &name, move || {
            Drive::open(&path).map_err(|error| explain("open", &object, error))
        })
        .await?;
        Ok(Self {
            drive,
            name,
            stopped: false,
        })
    }

    /// The same drive, of a server that is known to have ended: its heartbeat is not watched for.
    /// That nothing changes between two looks has to hold all the same.
    #[must_use]
    pub fn of_stopped_server(self) -> Self {
        Self {
            stopped: true,
            ..self
        }
    }

    /// Runs blocking work on the drive.
    async fn with<T, F>(&self, operation: &'static str, object: String, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Drive) -> Result<T, crate::drive::Error> + Send + 'static,
    {
        let drive = self.drive.clone();
        blocking(operation, &object.clone(), move || {
            work(&drive).map_err(|error| explain(operation, &object, error))
        })
        .await
    }

    async fn fingerprint(&self) -> Result<Fingerprint> {
        self.with("look at", self.name.clone(), Drive::fingerprint)
            .await
    }
}

#[async_trait]
impl Source for DriveSource {
    async fn check(&self) -> Result<()> {
        let top = self.with("list", self.name.clone(), Drive::top_level);
        top.await.map(drop)
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        let top = self.with("list", self.name.clone(), Drive::top_level);
        Ok(SourceIdentity {
            kind: "minio-drive".into(),
            deployment_id: self.drive.deployment_id().map(str::to_owned),
            location: self.name.clone(),
            buckets: top.await?.buckets.into_iter().map(String::from).collect(),
        })
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        let buckets = self.with("list", self.name.clone(), Drive::buckets).await?;
        let buckets = buckets.into_iter().map(|bucket| Bucket {
            name: bucket.name,
            created: bucket.created,
            tags: bucket.tags,
        });
        Ok(buckets.collect())
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all())
    }

    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        listing::list(self.drive.clone(), bucket.clone(), keys)
    }

    fn tells(&self) -> Tells {
        Tells::Metadata
    }

    async fn survey(&self, bucket: &BucketName) -> Result<Tally> {
        let name = bucket.clone();
        let found = self
            .with("read settings of", bucket.to_string(), move |drive| {
                drive.bucket(name)
            })
            .await?;
        let mut tally = Tally::default();
        for (setting, digest) in found.settings {
            let name = format!("{bucket}: {setting}");
            let left = Left::new(Reason::BucketSettings, name, 1);
            tally.add(left.with_identity(digest));
        }
        if let Some(damage) = found.damage {
            let name = format!("{bucket}: settings unreadable: {damage}");
            tally.add(Left::new(Reason::BucketSettings, name, 1));
        }
        Ok(tally)
    }

    async fn survey_store(&self) -> Result<Tally> {
        let name = self.name.clone();
        let (system, top) = self
            .with("look at", name, |drive| {
                Ok((drive.system()?, drive.top_level()?))
            })
            .await?;
        let mut tally = Tally::default();
        let uploads = system.unfinished_uploads;
        for (reason, name, found) in [
            (Reason::Users, "users", system.users),
            (Reason::Users, "groups", system.groups),
            (Reason::Users, "policies", system.policies),
            (Reason::Users, "service accounts", system.service_accounts),
            (Reason::UnfinishedUploads, ".minio.sys/multipart", uploads),
        ] {
            let count = found.count;
            if count > 0 {
                let left = Left::new(reason, format!("{name}: {count}"), count);
                tally.add(left.with_identity(found.identity));
            }
        }
        for name in top.not_buckets {
            let name = format!("{name}: not a bucket name");
            tally.add(Left::new(Reason::Strays, name, 1));
        }
        Ok(tally)
    }

    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object> {
        let (bucket, key) = (bucket.clone(), entry.key.clone());
        let name = format!("{bucket}/{key}");
        let object = name.clone();
        let (found, reader, first) = self
            .with("get", name.clone(), move |drive| {
                let Some(found) = current(drive, &bucket, &key)? else {
                    return Ok(None);
                };
                let mut reader = drive.reader(&bucket, &key, &found, false)?;
                // Most bodies are small: they cost one hop to a blocking thread.
                let first = chunk(&mut reader, found.size, &mut Buffers::default())?;
                Ok(Some((found, reader, first)))
            })
            .await?
            .ok_or_else(|| Error::new(Kind::NotFound, "get", object, "is gone"))?;
        let left = found.size.saturating_sub(first.len() as u64);
        let info = ObjectInfo {
            size: found.size,
            last_modified: found.last_modified,
            meta: found.meta,
        };
        let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
        let body = if left == 0 {
            first.boxed()
        } else {
            first.chain(rest(name, reader, left)).boxed()
        };
        Ok(Object { info, body })
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        let name = format!("{bucket}/{key}");
        let (bucket, key) = (bucket.clone(), key.clone());
        self.with("head", name, move |drive| {
            let found = current(drive, &bucket, &key)?;
            Ok(found.map(|object| listing::entry(key, *object, false)))
        })
        .await
    }

    async fn still(&self) -> Result<Option<String>> {
        let mut seen = self.fingerprint().await?;
        if self.stopped {
            return Ok(Some(seen.to_string()));
        }
        let first = seen.heartbeat();
        let begin = tokio::time::Instant::now();
        loop {
            match judge(first, seen.heartbeat(), SystemTime::now(), begin.elapsed()) {
                Watch::Still => return Ok(Some(seen.to_string())),
                Watch::Beating => {
                    let problem = "a running MinIO writes to it";
                    return Err(
                        Error::new(Kind::Refused, "read", self.name.clone(), problem)
                            .with_cure("stop that MinIO first, or give its URL as source"),
                    );
                }
                Watch::Again => tokio::time::sleep(LOOK_EVERY).await,
            }
            seen = self.fingerprint().await?;
        }
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        vec![self.drive.path().to_owned()]
    }
}

/// What a look at MinIO's heartbeat says.
#[derive(Debug, PartialEq, Eq)]
enum Watch {
    Still,
    Beating,
    Again,
}

/// Judges the heartbeat at first and now, after watching for a while. A time in the future is
/// another machine's clock: then only watching helps.
fn judge(
    first: Option<SystemTime>,
    seen: Option<SystemTime>,
    now: SystemTime,
    watched: Duration,
) -> Watch {
    let age = seen.map_or(Some(Duration::MAX), |time| now.duration_since(time).ok());
    if seen != first {
        Watch::Beating
    } else if watched >= IDLE_INTERVAL || age.is_some_and(|age| age >= IDLE_INTERVAL) {
        Watch::Still
    } else {
        Watch::Again
    }
}

/// The object that a key holds now.
fn current(
    drive: &Drive,
    bucket: &BucketName,
    key: &ObjectKey,
) -> Result<Option<Box<DriveObject>>, crate::drive::Error> {
    match drive.look(bucket, key)? {
        Some(Content::Object(object)) => Ok(Some(object)),
        Some(Content::Unreadable(reason)) => Err(crate::drive::Error::Object {
            object: format!("{bucket}/{key}"),
            reason,
        }),
        Some(Content::DeleteMarker | Content::Gone | Content::Nothing) | None => Ok(None),
    }
}

/// Memory of chunks that nobody holds any more, for the next ones: fresh pages cost more than
/// what is read into them.
#[derive(Default)]
struct Buffers(VecDeque<Bytes>);

impl Buffers {
    /// Chunks of one body that are under way at once, at most.
    const KEPT: usize = 6;

    fn take(&mut self, size: usize) -> BytesMut {
        let free = self.0.pop_front().map(Bytes::try_into_mut);
        match free {
            Some(Ok(mut buffer)) if buffer.capacity() >= size => {
                buffer.resize(size, 0);
                buffer
            }
            Some(Err(held)) => {
                self.0.push_front(held);
                BytesMut::zeroed(size)
            }
            _ => BytesMut::zeroed(size),
        }
    }

    fn give(&mut self, buffer: BytesMut) -> Bytes {
        let bytes = buffer.freeze();
        if self.0.len() < Self::KEPT {
            self.0.push_back(bytes.clone());
        }
        bytes
    }
}

/// Reads the next chunk of at most [`CHUNK_BYTES`], or what is `left`. The last one is read to
/// the end of the body, so that everything about it is checked.
fn chunk(
    reader: &mut BodyReader,
    left: u64,
    buffers: &mut Buffers,
) -> Result<Bytes, crate::drive::Error> {
    // At most CHUNK_BYTES, which fits usize on every target.
    let want = usize::try_from(left.min(CHUNK_BYTES)).unwrap_or_default();
    let mut bytes = buffers.take(want);
    let mut at = 0;
    while at < want {
        match reader.read_checked(&mut bytes[at..])? {
            0 => break,
            count => at += count,
        }
    }
    bytes.truncate(at);
    if left <= CHUNK_BYTES {
        reader.read_checked(&mut [0])?;
    }
    Ok(buffers.give(bytes))
}

/// The chunks after the first: read ahead by a thread of their own, unless there are other objects
/// for every core.
fn rest(
    name: String,
    mut reader: BodyReader,
    mut left: u64,
) -> impl futures::Stream<Item = Result<Bytes>> + Send {
    let mut buffers = Buffers::default();
    let chunks = std::iter::from_fn(move || {
        (left > 0).then(|| {
            let read = chunk(&mut reader, left, &mut buffers);
            left = left.saturating_sub(read.as_ref().map_or(left, |bytes| bytes.len() as u64));
            read.map_err(|error| explain("get", &name, error))
        })
    });
    if crowded() {
        return stream::iter(chunks).left_stream();
    }
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        for read in chunks {
            if sender.blocking_send(read).is_err() {
                return;
            }
        }
    });
    let stream = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    });
    stream.right_stream()
}

#[cfg(test)]
mod tests;
