//! One request to a pod.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// More than any answer that we ask for.
const MOST_BYTES: usize = 1 << 20;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The answer of the pod at `address`, within `patience`; over TLS where `tls` is given.
pub(super) async fn send(
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    request: Request<Empty<Bytes>>,
    patience: Duration,
) -> Result<Response<Bytes>, Failure> {
    let answer = tokio::time::timeout(patience, connect(address, tls, request)).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs()).into()))
}

async fn connect(
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    request: Request<Empty<Bytes>>,
) -> Result<Response<Bytes>, Failure> {
    let stream = TcpStream::connect(address).await?;
    let Some(tls) = tls else {
        return exchange(stream, request).await;
    };
    let name = ServerName::from(address.ip());
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    exchange(stream.map_err(|error| format!("TLS: {error}"))?, request).await
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<Response<Bytes>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await?;
        Ok::<_, Failure>(Response::from_parts(head, body.to_bytes()))
    };
    // How the connection itself ends is of no interest: the exchange fails when it does.
    let (answer, _) = futures::join!(exchange, connection);
    answer
}
