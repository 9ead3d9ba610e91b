//! Object bodies on their way in: from the client into a staged file, with their digests.
//!
//! Nothing is published here, and nothing that did not arrive whole is ever handed back: a body
//! that ends early, whatever way its connection ended, drops the staged file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use bytes::Bytes;
use filestore_common::ChecksumAlgorithm;
use filestore_common::digest::{BodyDigests, BodyHasher};
use filestore_store::Staged;
use futures::StreamExt as _;
use s3s::StdError;
use s3s::dto::StreamingBlob;
use s3s::stream::ByteStream as _;
use tokio::task::JoinHandle;

use crate::io::{INLINE_BYTES, all_on_pool, long};

/// A body that arrived whole, ready to be published.
#[derive(Debug)]
pub(crate) struct Ingested {
    /// The staged file.
    pub(crate) staged: Staged,
    /// MD5 and the checksums that were asked for.
    pub(crate) digests: BodyDigests,
}

/// Why a body was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    /// It ended before its announced length (S3: `IncompleteBody`).
    #[error("body ended after {received} bytes: {reason}")]
    Incomplete {
        /// Bytes that arrived.
        received: u64,
        /// What the HTTP layer said, for logs.
        reason: String,
    },
    /// It has more bytes than announced (S3: `IncompleteBody`).
    #[error("body is longer than announced")]
    TooLong,
    /// Its SHA-256 is not that of `x-amz-content-sha256` (S3: `XAmzContentSHA256Mismatch`).
    #[error("body does not have the announced SHA-256")]
    ContentSha256,
    /// A chunk's signature is wrong (S3: `SignatureDoesNotMatch`).
    #[error("signature of a chunk does not match")]
    ChunkSignature,
    /// The `aws-chunked` framing is broken (S3: `IncompleteBody`).
    #[error("broken aws-chunked body: {0}")]
    Framing(String),
    /// The store refused it.
    #[error(transparent)]
    Store(#[from] filestore_store::Error),
}

impl IngestError {
    /// Sorts an error of the body stream. s3s keeps its stream errors private: their text is all
    /// there is to tell them by (`sig_v4/upload_stream.rs`, `http/aws_chunked_stream.rs`).
    fn of_stream(error: &StdError, received: u64) -> Self {
        let text = error.to_string();
        let incomplete = |reason| Self::Incomplete { received, reason };
        match text.rsplit_once("StreamError: ") {
            None => incomplete(text),
            Some((_, kind)) => match kind {
                "Sha256Mismatch" => Self::ContentSha256,
                "SignatureMismatch" => Self::ChunkSignature,
                "LengthMismatch" => Self::TooLong,
                kind if kind.starts_with("Underlying") || kind == "Incomplete" => {
                    incomplete(kind.to_owned())
                }
                kind => Self::Framing(kind.to_owned()),
            },
        }
    }
}

/// Receives `body` into `staged`. `announced` is the length in bytes that the client announced
/// (decoded, for `aws-chunked`), where it did.
///
/// A small body is hashed and written by the caller's thread once it is there; a large one in
/// batches on the blocking pool while the next batch arrives, so that a slow client holds no
/// thread. Dropping the future drops the staged file.
///
/// # Errors
/// [`IngestError`]; the staged file is gone then.
pub(crate) async fn ingest(
    staged: Staged,
    mut body: StreamingBlob,
    announced: Option<u64>,
    algorithms: &[ChecksumAlgorithm],
) -> Result<Ingested, IngestError> {
    let exact = body.remaining_length().exact().map(|length| length as u64);
    let announced = announced.or(exact);
    let mut sink = Sink::new(staged, BodyHasher::new(algorithms));
    let mut batch = Batch::default();
    let mut received = 0_u64;
    let result = loop {
        match body.next().await {
            None => break Ok(()),
            Some(Err(error)) => break Err(IngestError::of_stream(&error, received)),
            Some(Ok(bytes)) => {
                received += bytes.len() as u64;
                if announced.is_some_and(|announced| received > announced) {
                    break Err(IngestError::TooLong);
                }
                batch.push(bytes);
                if batch.length >= INLINE_BYTES && announced != Some(received) {
                    sink.submit(std::mem::take(&mut batch)).await?;
                }
            }
        }
    };
    let result = result.and_then(|()| match announced {
        Some(announced) if received < announced => Err(IngestError::Incomplete {
            received,
            reason: format!("{announced} bytes were announced"),
        }),
        _ => Ok(()),
    });
    if let Err(error) = result {
        sink.discard().await;
        return Err(error);
    }
    let (staged, hasher) = sink.finish(batch).await?;
    Ok(Ingested {
        staged,
        digests: hasher.finish(),
    })
}

/// Pieces of the body that are hashed and written in one go.
#[derive(Debug, Default)]
struct Batch {
    pieces: Vec<Bytes>,
    length: u64,
}

impl Batch {
    fn push(&mut self, bytes: Bytes) {
        self.length += bytes.len() as u64;
        self.pieces.push(bytes);
    }

    fn write(&self, mut staged: Staged) -> filestore_store::Result<Staged> {
        for piece in &self.pieces {
            staged.write(piece)?;
        }
        Ok(staged)
    }

    fn hash(&self, mut hasher: BodyHasher) -> BodyHasher {
        for piece in &self.pieces {
            hasher.update(piece);
        }
        hasher
    }
}

type Written = filestore_store::Result<Staged>;

/// The staged file and the hasher, with at most one batch on the pool.
struct Sink {
    state: State,
    large: Option<Large>,
}

enum State {
    Idle(Box<(Staged, BodyHasher)>),
    /// One thread hashes, then writes.
    Together(JoinHandle<(Written, BodyHasher)>),
    /// Two threads.
    Apart(JoinHandle<Written>, JoinHandle<BodyHasher>),
    /// After an error.
    Gone,
}

impl Sink {
    fn new(staged: Staged, hasher: BodyHasher) -> Self {
        Self {
            state: State::Idle(Box::new((staged, hasher))),
            large: None,
        }
    }

    /// Waits for the batch before.
    async fn idle(&mut self) -> Result<(Staged, BodyHasher), IngestError> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Idle(both) => Ok(*both),
            State::Together(job) => {
                let (written, hasher) = joined(job).await?;
                Ok((written?, hasher))
            }
            State::Apart(write, hash) => {
                let written = joined(write).await;
                let hasher = joined(hash).await?;
                Ok((written??, hasher))
            }
            State::Gone => Err(interrupted()),
        }
    }

    /// Puts a batch on the pool after the one before is done.
    async fn submit(&mut self, batch: Batch) -> Result<(), IngestError> {
        let (staged, hasher) = self.idle().await?;
        self.large.get_or_insert_with(Large::new);
        self.state = if Large::pays_apart() {
            let copy = Batch {
                pieces: batch.pieces.clone(),
                length: batch.length,
            };
            State::Apart(
                tokio::task::spawn_blocking(move || batch.write(staged)),
                tokio::task::spawn_blocking(move || copy.hash(hasher)),
            )
        } else {
            State::Together(tokio::task::spawn_blocking(move || {
                // Hash first: the bytes are in this core's cache when they are written.
                let hasher = batch.hash(hasher);
                (batch.write(staged), hasher)
            }))
        };
        Ok(())
    }

    /// Takes the last batch and gives the file and the hasher back.
    async fn finish(&mut self, batch: Batch) -> Result<(Staged, BodyHasher), IngestError> {
        let (staged, hasher) = self.idle().await?;
        let work = move || {
            let hasher = batch.hash(hasher);
            (batch.write(staged), hasher)
        };
        let (written, hasher) = if self.large.is_some() || all_on_pool() {
            long(work).await
        } else {
            work()
        };
        Ok((written?, hasher))
    }

    /// Drops the staged file; a large one off the runtime's thread, as freeing it takes long.
    async fn discard(&mut self) {
        let large = self.large.is_some();
        if let Ok(both) = self.idle().await {
            if large {
                long(move || drop(both)).await;
            } else {
                drop(both);
            }
        }
    }
}

async fn joined<T>(job: JoinHandle<T>) -> Result<T, IngestError> {
    match job.await {
        Ok(value) => Ok(value),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(interrupted()),
        },
    }
}

fn interrupted() -> IngestError {
    filestore_store::Error::io("receive body", std::io::Error::other("interrupted")).into()
}

/// Counts the large bodies being received, to tell whether cores are idle.
struct Large;

static LARGE: AtomicUsize = AtomicUsize::new(0);

impl Large {
    fn new() -> Self {
        LARGE.fetch_add(1, Ordering::Relaxed);
        Self
    }

    /// Hashing and writing on two threads shortens one upload but costs a hand-over: only while
    /// every large upload can have two cores.
    fn pays_apart() -> bool {
        let cores = available_parallelism().map_or(1, usize::from);
        LARGE.load(Ordering::Relaxed) * 2 <= cores
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        LARGE.fetch_sub(1, Ordering::Relaxed);
    }
}
