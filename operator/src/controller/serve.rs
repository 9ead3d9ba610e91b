//! `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use filestore_common::shutdown::CancellationToken;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::api::Error;
use super::metrics::Metrics;

const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the operator can work: it reached the API server and its resource is known there.
/// Waiting for the lease counts as ready, else a rollout of a second one would never end.
#[derive(Debug, Default)]
pub(super) struct Health(AtomicBool);

impl Health {
    pub(super) fn set_ready(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hands a bound listener to the runtime.
pub(super) fn listen(listener: std::net::TcpListener) -> Result<TcpListener, Error> {
    listener.set_nonblocking(true).map_err(Error::Serve)?;
    TcpListener::from_std(listener).map_err(Error::Serve)
}

/// Serves until `end`.
pub(super) async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    end: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = end.cancelled() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "Accept failed on the metrics port");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (metrics, health) = (Arc::clone(&metrics), Arc::clone(&health));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let reply = answer(&request, &metrics, &health);
                async move { Ok::<_, Infallible>(reply) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "Connection to the metrics port ended");
            }
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    metrics: &Metrics,
    health: &Health,
) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD\n");
    }
    match request.uri().path() {
        "/healthz" => reply(StatusCode::OK, TEXT, "ok\n"),
        "/readyz" if health.0.load(Ordering::Relaxed) => reply(StatusCode::OK, TEXT, "ready\n"),
        "/readyz" => reply(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            "not ready: Filestores cannot be listed yet\n",
        ),
        "/metrics" => match metrics.encode() {
            Ok(text) => reply(StatusCode::OK, OPEN_METRICS, text),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "cannot encode\n"),
        },
        _ => reply(StatusCode::NOT_FOUND, TEXT, "not found\n"),
    }
}

fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let value = HeaderValue::from_static(media);
    reply.headers_mut().insert(CONTENT_TYPE, value);
    reply
}
