//! What an answer, or its lack, says of the load of a store.

use std::io::ErrorKind;

use aws_sdk_s3::error::SdkError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::pace::aimd::Signal;
use crate::pace::retry_after;

/// The signal of a failed request.
pub(super) fn of<E>(failure: &SdkError<E, HttpResponse>) -> Signal
where
    E: ProvideErrorMetadata,
{
    match failure {
        SdkError::ServiceError(service) => answered(service.raw(), service.err().code()),
        SdkError::ResponseError(response) => answered(response.raw(), None),
        SdkError::TimeoutError(_) => Signal::TimedOut,
        SdkError::DispatchFailure(dispatch) => {
            let unreachable = dispatch
                .as_connector_error()
                .is_some_and(|error| unreachable(error));
            if unreachable {
                Signal::Unreachable
            } else {
                Signal::TimedOut
            }
        }
        // It was never sent.
        _ => Signal::Answered(None),
    }
}

fn answered(response: &HttpResponse, code: Option<&str>) -> Signal {
    let busy = matches!(
        code,
        Some(
            "SlowDown"
                | "SlowDownRead"
                | "SlowDownWrite"
                | "TooManyRequests"
                | "RequestLimitExceeded"
        )
    );
    match response.status().as_u16() {
        status if busy || matches!(status, 429 | 503) => {
            let headers = response.headers();
            let wish = headers.get("retry-after").and_then(|value| {
                retry_after::parse(value, headers.get("date"), jiff::Timestamp::now())
            });
            Signal::Overloaded(wish)
        }
        // Something in front of the store, or the store of a client that was too slow.
        408 | 502 | 504 => Signal::TimedOut,
        _ => Signal::Answered(None),
    }
}

/// Whether no connection came about, as opposed to one that broke.
fn unreachable(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            let none = matches!(
                io.kind(),
                ErrorKind::ConnectionRefused
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
                    | ErrorKind::AddrNotAvailable
            );
            if none {
                return true;
            }
        }
        let text = error.to_string();
        if text.contains("HTTP connect timeout") || text.contains("failed to lookup address") {
            return true;
        }
        cause = error.source();
    }
    false
}
