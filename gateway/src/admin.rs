//! The admin port: `/metrics`, `/healthz`, `/readyz` and a status page.

mod readiness;

use std::sync::Arc;
use std::time::Duration;

use filestore_common::shutdown::CancellationToken;
use filestore_store::Store;
use http::StatusCode;

use crate::io::long;
use crate::metrics::{self, Metrics};
use crate::pages::{Pages, Reply, TEXT, found, reply, unready};
use readiness::Readiness;

/// How long the volume may take to answer before it counts as hung.
const VOLUME_PATIENCE: Duration = Duration::from_secs(5);

/// What the admin port reports on.
#[derive(Debug)]
pub(crate) struct Admin {
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    readiness: Readiness,
}

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

    async fn metrics(&self) -> Reply {
        self.measure_space().await;
        self.metrics.set_usage(&self.store.usage());
        match self.metrics.encode() {
            Ok(text) => found(metrics::CONTENT_TYPE, text),
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
        found("text/html; charset=utf-8", page)
    }
}

impl Pages for Admin {
    async fn page(&self, path: &str) -> Option<Reply> {
        Some(match path {
            "/healthz" => found(TEXT, "ok\n"),
            "/readyz" => match self.readiness.check().await {
                Ok(()) => found(TEXT, "ready\n"),
                Err(reason) => unready(format!("not ready: {reason}\n")),
            },
            "/metrics" => self.metrics().await,
            "/" => self.status_page().await,
            _ => return None,
        })
    }
}
