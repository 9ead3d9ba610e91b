//! The admin port: `/metrics`, `/healthz`, `/readyz` and a status page.

mod readiness;

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use filestore_common::shutdown::CancellationToken;
use filestore_store::Store;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::io::long;
use crate::metrics::{self, Metrics};
use readiness::Readiness;

/// How long the volume may take to answer before it counts as hung.
const VOLUME_PATIENCE: Duration = Duration::from_secs(5);

const TEXT: &str = "text/plain; charset=utf-8";

/// What the admin port reports on.
#[derive(Debug)]
pub(crate) struct Admin {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    readiness: Readiness,
}

type Reply = Response<Full<Bytes>>;

impl Admin {
    pub(crate) fn new(
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        require_marker: Option<String>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            readiness: Readiness::new(Arc::clone(&store), require_marker, shutdown),
            store,
            metrics,
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Reply {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD\n");
        }
        match request.uri().path() {
            "/healthz" => reply(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" => match self.readiness.check().await {
                Ok(()) => reply(StatusCode::OK, TEXT, "ready\n"),
                Err(reason) => reply(
                    StatusCode::SERVICE_UNAVAILABLE,
                    TEXT,
                    format!("not ready: {reason}\n"),
                ),
            },
            "/metrics" => self.metrics().await,
            "/" => self.status_page().await,
            _ => reply(StatusCode::NOT_FOUND, TEXT, "not found\n"),
        }
    }

    async fn metrics(&self) -> Reply {
        self.measure_space().await;
        match self.metrics.encode() {
            Ok(text) => reply(StatusCode::OK, metrics::CONTENT_TYPE, text),
            Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "cannot encode\n"),
        }
    }

    /// Brings the volume's gauges up to date; a volume that hangs leaves them as they were.
    async fn measure_space(&self) {
        let store = Arc::clone(&self.store);
        let space = long(move || store.space());
        match tokio::time::timeout(VOLUME_PATIENCE, space).await {
            Ok(Ok(space)) => self.metrics.set_space(&space),
            Ok(Err(error)) => tracing::warn!(%error, "Space of the volume is unknown"),
            Err(_) => tracing::warn!("Space of the volume is unknown: it does not answer"),
        }
    }

    async fn status_page(&self) -> Reply {
        let ready = match self.readiness.check().await {
            Ok(()) => "ready".to_owned(),
            Err(reason) => format!("not ready: {reason}"),
        };
        let page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Filestore</title>\
             <h1>Filestore {}</h1><p>{}</p><p>Volume {} ({:?} metadata)</p>\
             <p><a href=\"/metrics\">metrics</a> · <a href=\"/healthz\">healthz</a> · \
             <a href=\"/readyz\">readyz</a></p></html>\n",
            env!("CARGO_PKG_VERSION"),
            quick_xml::escape::escape(&ready),
            quick_xml::escape::escape(self.store.path().to_string_lossy().as_ref()),
            self.store.metadata_mode(),
        );
        reply(StatusCode::OK, "text/html; charset=utf-8", page)
    }
}

fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// Serves the admin port for as long as the control thread runs.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
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
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let admin = Arc::clone(&admin);
                async move { Ok::<_, Infallible>(admin.answer(&request).await) }
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
