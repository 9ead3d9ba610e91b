//! Between hyper and s3s: what every request and every answer gets, whatever the operation.

mod request_body;
mod response_body;
pub(crate) mod sendfile;
pub(crate) mod socket;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, SERVER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use s3s::{Body, S3ErrorCode};

use crate::access::Accounts;
use crate::auth;
use crate::context::{Files, RequestContext, RequestIds};
use crate::host::Hosts;
use crate::metrics::Metrics;
use crate::s3;
use request_body::Intake;
pub(crate) use response_body::{Measure, ReplyBody};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// How s3s says that the signature, and nothing else, was wrong.
const SIGNATURE_MISMATCH: &[u8] = b"<Code>SignatureDoesNotMatch</Code>";

/// What all connections share.
pub(crate) struct Http {
    pub(crate) service: s3::Service,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) hosts: Hosts,
    pub(crate) health_path: Option<String>,
    pub(crate) ids: RequestIds,
    /// `x-amz-id-2`: the same for all answers of a process.
    pub(crate) host_id: HeaderValue,
}

impl Http {
    /// Answers one request of a connection whose files are handled as `files` says.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        files: Files,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let started = Instant::now();
        let (head, incoming) = request.into_parts();
        if self.is_health_check(&head) {
            return Ok(self.dress(healthy(), "", None));
        }
        let context = RequestContext::new(self.ids.next(), files);
        let mut measure = Measure::begin(
            Arc::clone(&self.metrics),
            Arc::clone(&context),
            started,
            &head,
        );
        let is_head = head.method == Method::HEAD;
        let expects = head.headers.contains_key(EXPECT);

        let intake = Intake::new(incoming, Arc::clone(&self.metrics));
        let mut response = match auth::refuse(&head, &self.hosts) {
            Some(error) => s3::refuse(error, head.uri.path(), &context.request_id),
            None => self.call(head, &intake, &context).await,
        };

        if let Some(rest) = intake.take_rest() {
            if expects && !intake.was_read() {
                // The client was never told to go on, so there is nothing to wait for; it has to
                // be told that the connection ends here.
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            } else {
                tokio::spawn(request_body::drain(rest));
            }
        }
        if is_head && !response.status().is_success() {
            *response.body_mut() = Body::empty();
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        measure.answered(response.status());
        Ok(self.dress(response, &context.request_id, Some(measure)))
    }

    /// Lets s3s answer; once more for each further secret of the access key.
    async fn call(
        &self,
        head: Parts,
        intake: &Arc<Intake>,
        context: &Arc<RequestContext>,
    ) -> Response<Body> {
        let again = self.accounts.overlap().then(|| head.clone());
        let mut response = self.call_once(head, intake, context).await;
        while let Some(again) = &again
            && !intake.was_read()
            && is_signature_mismatch(&response)
            && context.next_secret()
        {
            response = self.call_once(again.clone(), intake, context).await;
        }
        response
    }

    async fn call_once(
        &self,
        head: Parts,
        intake: &Arc<Intake>,
        context: &Arc<RequestContext>,
    ) -> Response<Body> {
        let resource = head.uri.path().to_owned();
        let request = Request::from_parts(head, intake.body());
        let call = self.service.call(request, &context.request_id);
        let call = AssertUnwindSafe(call).catch_unwind();
        if let Ok(response) = Arc::clone(context).scope(call).await {
            return response;
        }
        tracing::error!(request_id = context.request_id, "Request panicked");
        let error = S3ErrorCode::InternalError.into();
        s3::refuse(error, &resource, &context.request_id)
    }

    fn is_health_check(&self, head: &Parts) -> bool {
        self.health_path.as_deref() == Some(head.uri.path())
            && matches!(head.method, Method::GET | Method::HEAD)
    }

    /// Adds what each answer carries.
    fn dress(
        &self,
        response: Response<Body>,
        request_id: &str,
        measure: Option<Measure>,
    ) -> Response<ReplyBody> {
        let (mut head, body) = response.into_parts();
        head.headers
            .insert(SERVER, HeaderValue::from_static("Filestore"));
        if let Ok(id) = HeaderValue::from_str(request_id)
            && !request_id.is_empty()
        {
            head.headers.insert(REQUEST_ID, id);
            head.headers.insert(HOST_ID, self.host_id.clone());
        }
        Response::from_parts(head, ReplyBody::new(body, measure))
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

fn healthy() -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from_static(b"OK")));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn is_signature_mismatch(response: &Response<Body>) -> bool {
    response.status() == StatusCode::FORBIDDEN
        && response.body().bytes().is_some_and(|body| {
            body.windows(SIGNATURE_MISMATCH.len())
                .any(|window| window == SIGNATURE_MISMATCH)
        })
}

/// Whether a request announces a body at all; most do not.
fn has_body(incoming: &Incoming) -> bool {
    !incoming.is_end_stream()
}
