//! Asks a pod for its metrics.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Empty;

use super::http::{Failure, send};
use crate::told::{self, Told};

/// A pod answers at once or not at all (a network policy that drops).
const PATIENCE: Duration = Duration::from_secs(1);

/// What the pod at `address` tells; nothing when it does not answer, which is no failure of ours.
pub(super) async fn pod(address: IpAddr, port: u16) -> Told {
    let address = SocketAddr::new(address, port);
    match metrics(address).await {
        Ok(text) => told::read(&text),
        Err(error) => {
            tracing::debug!(%address, %error, "A pod does not tell its metrics");
            Told::default()
        }
    }
}

async fn metrics(address: SocketAddr) -> Result<String, Failure> {
    let request = Request::get("/metrics")
        .header(header::HOST, address.to_string())
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let answer = send(address, None, request, PATIENCE).await?;
    Ok(String::from_utf8(answer.into_body().to_vec())?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use filestore_common::shutdown::CancellationToken;

    use super::super::metrics::Metrics;
    use super::super::serve::{Health, serve};
    use super::*;

    #[tokio::test]
    async fn a_page_is_read_and_silence_is_no_failure() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = CancellationToken::new();
        let served = Arc::new(Metrics::default());
        served.set_leader(true);
        let serving = tokio::spawn(serve(
            listener,
            served,
            Arc::new(Health::default()),
            end.clone(),
        ));

        let text = metrics(address).await.unwrap();
        assert!(text.contains("filestore_operator_leader 1"), "{text}");

        end.cancel();
        serving.await.unwrap();
        assert_eq!(pod(address.ip(), address.port()).await, Told::default());
    }
}
