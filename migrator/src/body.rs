//! A body that proves itself: its last chunk is only handed on when size and ETag are right, so
//! a target that publishes at the end of the stream never publishes a wrong one.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::Bytes;
use filestore_common::{ETag, Md5Pool, Md5Stream, ObjectInfo};
use futures::{Stream, StreamExt, stream};

use crate::lanes::may_block;
use crate::source::{Body, Object};
use crate::{Error, Kind, Result};

/// Where the threads that copy hash what they read.
static POOL: Md5Pool = Md5Pool::new();

/// What an ETag says of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is the digest of these bytes.
    Match,
    /// It is the digest of other bytes; this would be the right one.
    Mismatch(ETag),
    /// It cannot be computed from bytes (opaque, or parts of unknown sizes).
    Unknown,
}

/// Computes an ETag while the bytes go by: MD5, or MD5 of the parts' MD5s with `-N`.
#[derive(Debug)]
pub struct ETagHasher {
    expected: ETag,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    Plain(Md5Stream),
    Parts {
        sizes: Vec<u64>,
        part: Md5Stream,
        done: u64,
        all: Md5Stream,
        count: usize,
    },
    Opaque,
}

impl ETagHasher {
    /// For an object of these properties.
    pub fn new(info: &ObjectInfo) -> Self {
        let meta = &info.meta;
        let parts = meta.etag.part_count();
        let mode = match parts {
            Some(count)
                if usize::try_from(count) == Ok(meta.part_sizes.len())
                    && meta.part_sizes.iter().sum::<u64>() == info.size =>
            {
                Mode::Parts {
                    sizes: meta.part_sizes.clone(),
                    part: Md5Stream::default(),
                    done: 0,
                    all: Md5Stream::default(),
                    count: 0,
                }
            }
            None if meta.etag.is_md5() => Mode::Plain(Md5Stream::default()),
            _ => Mode::Opaque,
        };
        Self {
            expected: meta.etag.clone(),
            mode,
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &Bytes) {
        match &mut self.mode {
            Mode::Plain(md5) => update(md5, bytes),
            Mode::Parts {
                sizes,
                part,
                done,
                all,
                count,
            } => {
                let mut bytes = bytes.clone();
                while let Some(size) = sizes.get(*count) {
                    let room = usize::try_from(*size - *done).unwrap_or(usize::MAX);
                    let now = bytes.split_to(room.min(bytes.len()));
                    update(part, &now);
                    *done += now.len() as u64;
                    if *done < *size {
                        return;
                    }
                    all.update(&std::mem::take(part).finalize());
                    *done = 0;
                    *count += 1;
                }
            }
            Mode::Opaque => {}
        }
    }

    /// The verdict over all bytes.
    pub fn finish(mut self) -> Verdict {
        // Closes parts of zero bytes at the end.
        self.update(&Bytes::new());
        let computed = match self.mode {
            Mode::Plain(md5) => ETag::new(hex::encode(md5.finalize())),
            Mode::Parts { all, count, .. } => {
                ETag::new(format!("{}-{count}", hex::encode(all.finalize())))
            }
            Mode::Opaque => return Verdict::Unknown,
        };
        if computed
            .as_str()
            .eq_ignore_ascii_case(self.expected.as_str())
        {
            Verdict::Match
        } else {
            Verdict::Mismatch(computed)
        }
    }
}

/// Hashes beside what other threads hash, where this one may wait for them.
fn update(md5: &mut Md5Stream, bytes: &Bytes) {
    if may_block() {
        md5.update_beside(&POOL, bytes);
    } else {
        md5.update(bytes);
    }
}

struct Checking {
    body: Body,
    held: Option<Bytes>,
    hasher: Option<ETagHasher>,
    received: u64,
    size: u64,
    name: String,
}

impl Checking {
    fn error(&self, message: String) -> Error {
        Error::new(Kind::Damaged, "read", self.name.clone(), message)
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some(chunk) = self.body.next().await.transpose()? else {
                return self.end();
            };
            if chunk.is_empty() {
                continue;
            }
            self.received += chunk.len() as u64;
            if self.received > self.size {
                return Err(self.error(format!("body is longer than {} bytes", self.size)));
            }
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&chunk);
            }
            if let Some(ready) = self.held.replace(chunk) {
                return Ok(Some(ready));
            }
        }
    }

    fn end(&mut self) -> Result<Option<Bytes>> {
        let Some(hasher) = self.hasher.take() else {
            return Ok(None);
        };
        if self.received != self.size {
            let message = format!("body ended after {} of {} bytes", self.received, self.size);
            return Err(Error {
                kind: Kind::Down,
                ..self.error(message)
            });
        }
        match hasher.finish() {
            Verdict::Match | Verdict::Unknown => Ok(self.held.take()),
            Verdict::Mismatch(found) => {
                Err(self.error(format!("body has ETag {found}, another one is recorded")))
            }
        }
    }
}

/// Wraps the body of `object` so that it ends in an error unless it is what `info` says; the last
/// chunk is held back until that is known. `name` is `bucket/key`.
pub fn checked(object: Object, name: &str) -> Object {
    let state = Checking {
        // Asked once more after its end, for the chunk held back.
        body: object.body.fuse().boxed(),
        held: None,
        hasher: Some(ETagHasher::new(&object.info)),
        received: 0,
        size: object.info.size,
        name: name.to_owned(),
    };
    let body = stream::try_unfold(state, |mut state| async move {
        Ok(state.next().await?.map(|chunk| (chunk, state)))
    });
    Object {
        info: object.info,
        body: body.boxed(),
    }
}

/// A body that may be shared between threads, as HTTP clients ask for; only ever polled by one.
pub(crate) struct SyncBody(Mutex<Body>);

impl SyncBody {
    pub(crate) fn new(body: Body) -> Self {
        Self(Mutex::new(body))
    }
}

impl Stream for SyncBody {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = match self.0.get_mut() {
            Ok(body) => body,
            Err(poisoned) => poisoned.into_inner(),
        };
        body.poll_next_unpin(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use md5::{Digest, Md5};

    use filestore_common::ObjectMeta;
    use futures::TryStreamExt;

    use super::*;

    fn object(etag: &str, part_sizes: Vec<u64>, size: u64, chunks: &'static [&[u8]]) -> Object {
        let mut meta = ObjectMeta::new(ETag::new(etag));
        meta.part_sizes = part_sizes;
        Object {
            info: ObjectInfo {
                size,
                last_modified: SystemTime::UNIX_EPOCH,
                meta,
            },
            body: stream::iter(chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk)))).boxed(),
        }
    }

    async fn collect(object: Object) -> (Vec<u8>, Option<Kind>) {
        let mut body = checked(object, "b/k").body;
        let mut bytes = Vec::new();
        loop {
            match body.try_next().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => return (bytes, None),
                Err(error) => return (bytes, Some(error.kind)),
            }
        }
    }

    // `printf abcd | md5sum`, and of `ab`, `cd` joined as S3 does.
    const ABCD: &str = "e2fc714c4727ee9395f324cd2e7f331f";

    fn abcd_in_parts(parts: &[&[u8]]) -> String {
        let joined: Vec<u8> = parts.iter().flat_map(Md5::digest).collect();
        format!("{}-{}", hex::encode(Md5::digest(joined)), parts.len())
    }

    const WHOLE: &[&[u8]] = &[b"abcd"];
    const PIECES: &[&[u8]] = &[b"a", b"", b"bc", b"d"];

    #[tokio::test]
    async fn right_bodies_pass_whatever_their_chunks() {
        for etag_and_sizes in [
            (ABCD.to_owned(), vec![]),
            (abcd_in_parts(&[b"ab", b"cd"]), vec![2, 2]),
            (abcd_in_parts(&[b"abc", b"d"]), vec![3, 1]),
            (abcd_in_parts(&[b"abcd"]), vec![4]),
            (abcd_in_parts(&[b"abcd", b""]), vec![4, 0]),
            // Not computable: taken as it is.
            (format!("{}-2", "0".repeat(32)), vec![]),
            ("opaque".to_owned(), vec![]),
        ] {
            for chunks in [WHOLE, PIECES] {
                let (etag, sizes) = etag_and_sizes.clone();
                let (bytes, error) = collect(object(&etag, sizes, 4, chunks)).await;
                assert_eq!(
                    (bytes.as_slice(), error),
                    (b"abcd".as_slice(), None),
                    "{etag}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_wrong_body_fails_before_its_last_chunk() {
        for (etag, sizes, size, kind) in [
            (ABCD.replace('e', "0"), vec![], 4, Kind::Damaged),
            (abcd_in_parts(&[b"ab", b"cd"]), vec![1, 3], 4, Kind::Damaged),
            (ABCD.to_owned(), vec![], 3, Kind::Damaged),
            (ABCD.to_owned(), vec![], 5, Kind::Down),
        ] {
            let (bytes, error) = collect(object(&etag, sizes, size, &[b"ab", b"cd"])).await;
            assert_eq!(error, Some(kind), "{etag} {size}");
            assert!(
                b"ab".starts_with(&bytes),
                "the last chunk was handed on: {etag} {size}"
            );
        }
    }

    #[tokio::test]
    async fn an_empty_body_is_checked_too() {
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(collect(object(empty, vec![], 0, &[])).await, (vec![], None));
        assert_eq!(
            collect(object(ABCD, vec![], 0, &[])).await.1,
            Some(Kind::Damaged)
        );
    }
}
