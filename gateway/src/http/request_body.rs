//! A request's body on its way to s3s: counted, and given back when nobody read it to its end.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use s3s::Body;

use super::has_body;
use crate::metrics::Metrics;

/// How long a refused body may take, and how long it may pause.
const DRAIN_LIMIT: Duration = Duration::from_mins(10);
const DRAIN_PAUSE: Duration = Duration::from_secs(15);

/// Where the body is while no one reads it.
pub(super) struct Intake {
    rest: Mutex<Option<Incoming>>,
    read: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Intake {
    pub(super) fn new(incoming: Incoming, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            rest: Mutex::new(has_body(&incoming).then_some(incoming)),
            read: AtomicBool::new(false),
            metrics,
        })
    }

    /// The body for s3s; it comes back when that drops it early.
    pub(super) fn body(self: &Arc<Self>) -> Body {
        match self.take() {
            None => Body::empty(),
            Some(incoming) => Body::http_body(Tracked {
                incoming: Some(incoming),
                intake: Arc::clone(self),
            }),
        }
    }

    /// Whether any of it was asked for.
    pub(super) fn was_read(&self) -> bool {
        self.read.load(Ordering::Relaxed)
    }

    /// What was not read although more may come.
    pub(super) fn take_rest(&self) -> Option<Incoming> {
        self.take().filter(has_body)
    }

    fn take(&self) -> Option<Incoming> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.take()
    }
}

struct Tracked {
    incoming: Option<Incoming>,
    intake: Arc<Intake>,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(incoming).poll_frame(cx);
        self.intake.read.store(true, Ordering::Relaxed);
        let frame = ready!(polled);
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.intake.metrics.received(data.len() as u64);
                }
            }
            // Over, or broken: nothing is left to give back.
            Some(Err(_)) | None => self.incoming = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            let mut rest = self
                .intake
                .rest
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *rest = Some(incoming);
        }
    }
}

/// Reads the rest of a refused body while its answer is on the way: closing a connection on which
/// data is unread resets it, and the client may never see the answer.
pub(super) async fn drain(mut rest: Incoming) {
    let all = async {
        while let Ok(Some(Ok(_))) = tokio::time::timeout(DRAIN_PAUSE, rest.frame()).await {}
    };
    // Dropping the body after the limit closes the connection.
    drop(tokio::time::timeout(DRAIN_LIMIT, all).await);
}
