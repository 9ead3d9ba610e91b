//! A response's body on its way to the client: counted and timed until its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::{Frame, SizeHint};
use s3s::{Body, StdError};

use crate::context::RequestContext;
use crate::metrics::Metrics;

/// Status of requests whose client left before the answer (nginx's "client closed request").
const CLIENT_LEFT: u16 = 499;

const NOT_IMPLEMENTED: u16 = 501;

/// Observes one request from its head to the end of its answer; reports when dropped.
pub(crate) struct Measure {
    metrics: Arc<Metrics>,
    context: Arc<RequestContext>,
    started: Instant,
    method: Method,
    path: String,
    status: u16,
    sent: u64,
}

impl Measure {
    pub(super) fn begin(
        metrics: Arc<Metrics>,
        context: Arc<RequestContext>,
        started: Instant,
        head: &Parts,
    ) -> Self {
        metrics.begin();
        // Only the access log wants it.
        let path = if tracing::enabled!(tracing::Level::DEBUG) {
            head.uri.path().to_owned()
        } else {
            String::new()
        };
        Self {
            metrics,
            context,
            started,
            method: head.method.clone(),
            path,
            status: CLIENT_LEFT,
            sent: 0,
        }
    }

    pub(super) fn answered(&mut self, status: StatusCode) {
        self.status = status.as_u16();
        self.metrics
            .answered(self.context.operation(), self.started.elapsed());
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        let (operation, elapsed) = (self.context.operation(), self.started.elapsed());
        self.metrics.end(operation, self.status, elapsed, self.sent);
        tracing::debug!(
            request_id = self.context.request_id,
            operation,
            method = %self.method,
            path = self.path,
            status = self.status,
            bytes = self.sent,
            elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            "Request"
        );
        match self.context.failure() {
            Some(kind) => self.metrics.store_error(kind),
            // The cause was not seen by us; 501 is an answer, not a failure.
            None if self.status >= 500 && self.status != NOT_IMPLEMENTED => tracing::error!(
                request_id = self.context.request_id,
                operation,
                status = self.status,
                "Request failed"
            ),
            None => {}
        }
    }
}

/// s3s's body under observation.
pub(crate) struct ReplyBody {
    body: Body,
    measure: Option<Measure>,
}

impl ReplyBody {
    pub(super) fn new(body: Body, measure: Option<Measure>) -> Self {
        Self { body, measure }
    }
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(data), Some(measure)) = (frame.data_ref(), &mut self.measure) {
                    measure.sent += data.len() as u64;
                }
            }
            Some(Err(error)) => tracing::warn!(
                request_id = self.measure.as_ref().map(|m| m.context.request_id.as_str()),
                %error,
                "Answer cut short"
            ),
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
