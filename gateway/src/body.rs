//! Object bodies on their way out: a slice of an open file as a stream of `Bytes`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use s3s::dto::StreamingBlob;
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{Body, StdError};
use tokio::task::JoinHandle;

use crate::context::RequestContext;
use crate::http::sendfile::{self, Warmth};
use crate::io::{INLINE_BYTES, all_on_pool};

/// Bytes read at a time for a large body.
const CHUNK_BYTES: u64 = 256 * 1024;

/// From this many bytes on, sending by the kernel is cheaper than a copy.
const SENDFILE_BYTES: u64 = 64 * 1024;

/// The bytes `offset..offset + length` of `file` as a response body.
///
/// Small slices are read here and now; others are sent by the kernel where the connection and the
/// file system can, else read in chunks on the blocking pool, one ahead of the client. A file that turns out shorter ends the body with an error, which closes the connection:
/// a client never takes a short body for a whole one.
pub fn file_body(file: File, offset: u64, length: u64) -> StreamingBlob {
    if length == 0 {
        return StreamingBlob::from(Body::empty());
    }
    if length >= SENDFILE_BYTES
        && RequestContext::with(|context| context.sendfile) == Some(true)
        && sendfile::warmth(&file, offset, 1) != Warmth::Unknown
    {
        return StreamingBlob::new(Slices::new(file, offset, length));
    }
    if length <= INLINE_BYTES && !all_on_pool() {
        return match read_exact_at(&file, offset, length) {
            Ok(bytes) => StreamingBlob::from(Body::from(bytes)),
            Err(error) => StreamingBlob::new(Failed(Some(error), length)),
        };
    }
    StreamingBlob::new(Chunks::new(file, offset, length))
}

fn read_exact_at(file: &File, offset: u64, length: u64) -> io::Result<Bytes> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut buffer = vec![0; length];
    file.read_exact_at(&mut buffer, offset)?;
    Ok(buffer.into())
}

fn remaining(length: u64) -> RemainingLength {
    usize::try_from(length).map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
}

/// A body that could not be read.
struct Failed(Option<io::Error>, u64);

impl Stream for Failed {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(|error| Err(error.into())))
    }
}

impl ByteStream for Failed {
    fn remaining_length(&self) -> RemainingLength {
        remaining(self.1)
    }
}

/// Reads on the blocking pool, one chunk ahead. No thread is held while the client is slow.
struct Chunks {
    file: Arc<File>,
    /// Where the next read starts.
    offset: u64,
    /// Bytes not yet asked for.
    unread: u64,
    /// Bytes not yet handed out.
    unsent: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Chunks {
    fn new(file: File, offset: u64, length: u64) -> Self {
        Self {
            file: Arc::new(file),
            offset,
            unread: length,
            unsent: length,
            reading: None,
        }
    }

    fn read_ahead(&mut self) {
        if self.unread == 0 || self.reading.is_some() {
            return;
        }
        let length = self.unread.min(CHUNK_BYTES);
        let (file, offset) = (Arc::clone(&self.file), self.offset);
        self.offset += length;
        self.unread -= length;
        self.reading = Some(tokio::task::spawn_blocking(move || {
            read_exact_at(&file, offset, length)
        }));
    }
}

impl Stream for Chunks {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.read_ahead();
        let Some(reading) = &mut this.reading else {
            return Poll::Ready(None);
        };
        let result = ready!(Pin::new(reading).poll(cx));
        this.reading = None;
        match result {
            Ok(Ok(bytes)) => {
                this.unsent -= bytes.len() as u64;
                this.read_ahead();
                Poll::Ready(Some(Ok(bytes)))
            }
            Ok(Err(error)) => {
                this.unread = 0;
                Poll::Ready(Some(Err(error.into())))
            }
            Err(error) => {
                this.unread = 0;
                Poll::Ready(Some(Err(error.into())))
            }
        }
    }
}

impl ByteStream for Chunks {
    fn remaining_length(&self) -> RemainingLength {
        remaining(self.unsent)
    }
}

/// Hands out slices of the file that the socket sends; see [`sendfile`]. What is not in memory is
/// first read on the blocking pool, as sendfile would make the runtime's thread wait for the disk.
struct Slices {
    file: Arc<File>,
    offset: u64,
    unsent: u64,
    warming: Option<JoinHandle<io::Result<()>>>,
    /// Takes over when there is no room for another slice.
    copying: Option<Chunks>,
}

impl Slices {
    fn new(file: File, offset: u64, length: u64) -> Self {
        Self {
            file: Arc::new(file),
            offset,
            unsent: length,
            warming: None,
            copying: None,
        }
    }

    /// Length of the next slice.
    fn next_length(&self) -> usize {
        usize::try_from(self.unsent).map_or(sendfile::MAX_SLICE, |unsent| {
            unsent.min(sendfile::MAX_SLICE)
        })
    }

    /// Waits until the next slice is in memory.
    fn poll_warm(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        let (offset, length) = (self.offset, self.next_length());
        if self.warming.is_none() && sendfile::warmth(&self.file, offset, length) == Warmth::Cold {
            let file = Arc::clone(&self.file);
            self.warming = Some(tokio::task::spawn_blocking(move || {
                sendfile::warm(&file, offset, length)
            }));
        }
        if let Some(warming) = &mut self.warming {
            let result = ready!(Pin::new(warming).poll(cx));
            self.warming = None;
            result??;
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for Slices {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(copying) = &mut this.copying {
            return Pin::new(copying).poll_next(cx);
        }
        if this.unsent == 0 {
            return Poll::Ready(None);
        }
        if let Err(error) = ready!(this.poll_warm(cx)) {
            this.unsent = 0;
            return Poll::Ready(Some(Err(error)));
        }
        let length = this.next_length();
        if let Some(slice) = sendfile::slice(&this.file, this.offset, length) {
            this.offset += length as u64;
            this.unsent -= length as u64;
            return Poll::Ready(Some(Ok(slice)));
        }
        let chunks = Chunks {
            file: Arc::clone(&this.file),
            offset: this.offset,
            unread: this.unsent,
            unsent: this.unsent,
            reading: None,
        };
        Pin::new(this.copying.insert(chunks)).poll_next(cx)
    }
}

impl ByteStream for Slices {
    fn remaining_length(&self) -> RemainingLength {
        match &self.copying {
            Some(copying) => copying.remaining_length(),
            None => remaining(self.unsent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Files;
    use futures::StreamExt as _;
    use std::io::Write as _;

    fn file(length: usize) -> (File, Vec<u8>) {
        // 251 is prime: no chunk or page starts with the same byte as another.
        let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    async fn collect(mut body: StreamingBlob) -> Result<Vec<u8>, StdError> {
        let mut all = Vec::new();
        while let Some(bytes) = body.next().await {
            all.extend_from_slice(&bytes?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn yields_exactly_the_slice_that_was_asked_for() {
        for (offset, length) in [(0, 0), (7, 1), (3, 1000), (0, 900_000), (12_345, 800_000)] {
            let (file, bytes) = file(900_000);

            let body = file_body(file, offset as u64, length as u64);

            assert_eq!(body.remaining_length().exact(), Some(length));
            let got = collect(body).await.unwrap();
            assert!(got == bytes[offset..offset + length], "{offset}+{length}");
        }
    }

    #[tokio::test]
    async fn file_that_became_shorter_is_an_error_not_a_short_body() {
        for length in [100_u64, 900_000] {
            let (file, _) = file(usize::try_from(length).unwrap());
            let body = file_body(file.try_clone().unwrap(), 0, length + 1);
            assert!(collect(body).await.is_err());
        }
    }

    #[tokio::test]
    async fn capable_connections_get_slices_that_the_kernel_sends() {
        let length = sendfile::MAX_SLICE + 100_000;
        let (file, bytes) = file(length);
        if sendfile::warmth(&file, 0, 1) == Warmth::Unknown {
            // This file system (tmpfs on some kernels) cannot tell, and bodies are copied.
            return;
        }
        let ask = |sendfile, all_on_pool| {
            let file = file.try_clone().unwrap();
            let files = Files {
                sendfile,
                all_on_pool,
            };
            RequestContext::new("id".to_owned(), files)
                .scope(async move { file_body(file, 0, length as u64) })
        };

        let mut body = ask(true, false).await;
        for expected in [sendfile::MAX_SLICE, 100_000] {
            let slice = body.next().await.unwrap().unwrap();
            assert_eq!(slice.len(), expected);
            assert!(sendfile::find(&slice).unwrap().is_some());
        }
        assert!(body.next().await.is_none());

        for (sendfile, all_on_pool) in [(false, false), (true, true)] {
            assert!(collect(ask(sendfile, all_on_pool).await).await.unwrap() == bytes);
        }
    }
}
