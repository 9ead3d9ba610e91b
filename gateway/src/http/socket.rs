//! A client's connection as hyper's I/O: TCP, with slices of files sent by the kernel, or TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::sendfile;

/// A connection.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP.
    Plain(Plain),
    /// TLS over it. Its requests never send files: their bytes have to be encrypted.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Socket {
    pub(crate) fn plain(stream: TcpStream) -> Self {
        Self::Plain(Plain {
            io: TokioIo::new(stream),
        })
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self::Tls(Box::new(TokioIo::new(stream)))
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.io).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(plain) => plain.poll_write_vectored(cx, slices),
            Self::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        // Without this hyper would copy bodies into one buffer.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.io).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(plain) => Pin::new(&mut plain.io).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

/// A plain TCP connection.
#[derive(Debug)]
pub(crate) struct Plain {
    io: TokioIo<TcpStream>,
}

impl Plain {
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What stands before the first slice of a file goes first, in one segment with it.
        for (index, slice) in slices.iter().enumerate() {
            let Some(file) = sendfile::find(slice)? else {
                continue;
            };
            return match slices.get(..index) {
                Some(before) if before.iter().any(|slice| !slice.is_empty()) => {
                    self.poll_send(cx, |stream| {
                        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
                        let mut control = SendAncillaryBuffer::default();
                        Ok(sendmsg(stream, before, &mut control, flags)?)
                    })
                }
                _ => self.poll_send(cx, |stream| file.send(stream)),
            };
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    /// Runs a system call that sends when the socket takes something.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream = self.io.inner();
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_io(Interest::WRITABLE, || send(stream)) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                result => return Poll::Ready(result),
            }
        }
    }
}
