//! One request to a pod.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// More than any answer that we ask for.
const MOST_BYTES: usize = 1 << 20;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The answer of the pod at `address`, within `patience`.
pub(super) async fn send(
    address: SocketAddr,
    request: Request<Empty<Bytes>>,
    patience: Duration,
) -> Result<Response<Bytes>, Failure> {
    let answer = tokio::time::timeout(patience, exchange(address, request)).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs()).into()))
}

async fn exchange(
    address: SocketAddr,
    request: Request<Empty<Bytes>>,
) -> Result<Response<Bytes>, Failure> {
    let stream = TcpStream::connect(address).await?;
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
