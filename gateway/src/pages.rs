//! A small HTTP server for pages that operators and machines look at: answers GET and HEAD, keeps
//! nothing. The admin ports of the gateway and of `filestore migrate` are made of it.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

/// Media type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// Media type of metrics (OpenMetrics 1.0, which Prometheus asks for).
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An answer.
pub type Reply = Response<Full<Bytes>>;

/// What is there to be looked at.
pub trait Pages: Send + Sync + 'static {
    /// The page at `path`; `None` = there is none.
    fn page(&self, path: &str) -> impl Future<Output = Option<Reply>> + Send;
}

/// An answer of `media`; never to be kept.
pub fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// An answer that says that all is well.
pub fn found(media: &'static str, body: impl Into<Bytes>) -> Reply {
    reply(StatusCode::OK, media, body)
}

/// An answer that says that something is not so, or not yet, and why.
pub fn unready(text: impl Into<Bytes>) -> Reply {
    reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, text)
}

/// Serves `pages` on `listener` for as long as it is polled.
pub async fn serve(listener: TcpListener, pages: Arc<impl Pages>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "Cannot serve the admin port");
            return;
        }
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "Accept failed on the admin port");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let pages = Arc::clone(&pages);
                async move {
                    let (method, path) = (request.method(), request.uri().path());
                    Ok::<_, Infallible>(answer(method, path, &*pages).await)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "Admin connection ended");
            }
        });
    }
}

async fn answer(method: &Method, path: &str, pages: &impl Pages) -> Reply {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD\n");
    }
    let page = pages.page(path).await;
    page.unwrap_or_else(|| reply(StatusCode::NOT_FOUND, TEXT, "not found\n"))
}
