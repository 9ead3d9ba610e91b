//! The begin of a connection to a port that speaks TLS.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;

/// What a client hears that speaks plain HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 56\r\n\
    Connection: close\r\n\r\n\
    This port speaks HTTPS: use https:// in the endpoint URL";

/// Bytes that such a client may send before its connection is closed, and for how long it may.
/// Closing with bytes unread would reset the connection, and the answer with it.
const UNREAD: usize = 64 * 1024;
const LINGER: Duration = Duration::from_secs(1);

impl Tls {
    /// The handshake with the certificate in force. `None`: the client spoke plain HTTP and was
    /// told.
    ///
    /// # Errors
    /// The client went away, or both did not agree.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<Option<TlsStream<TcpStream>>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A method begins with a letter, a TLS record of a handshake with 22 (RFC 8446, 5.1).
        if first[0].is_ascii_alphabetic() {
            refuse(stream).await?;
            return Ok(None);
        }
        let config = self.current().config.clone();
        TlsAcceptor::from(config).accept(stream).await.map(Some)
    }
}

async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN_HTTP).await?;
    stream.shutdown().await?;
    let mut unread = Vec::new();
    let rest = stream.take(UNREAD as u64);
    // Whatever it does now, the connection is over.
    let _over = tokio::time::timeout(LINGER, { rest }.read_to_end(&mut unread)).await;
    Ok(())
}
