//! CORS preflights (Fetch standard, "CORS-preflight request"). No bucket has a CORS configuration
//! here, so a well-formed one is answered as S3 answers it for such a bucket.

use http::header::{ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::{HeaderMap, StatusCode};
use s3s::S3Error;

use crate::s3::{Gateway, error, metadata, request};

/// Answers `OPTIONS`: always an error.
pub(crate) async fn preflight(
    gateway: &Gateway,
    bucket: Option<&str>,
    headers: &HeaderMap,
) -> S3Error {
    let text = |name| headers.get(name).map(metadata::text).unwrap_or_default();
    if text(ORIGIN).is_empty() {
        return bad_request("Insufficient information. Origin request header needed.".to_owned());
    }
    let method = text(ACCESS_CONTROL_REQUEST_METHOD);
    if !["GET", "PUT", "POST", "DELETE", "HEAD"].contains(&method.as_str()) {
        return bad_request(format!("Invalid Access-Control-Request-Method: {method}"));
    }
    let asked = text(ACCESS_CONTROL_REQUEST_HEADERS);
    for name in asked.split(',') {
        let trimmed = name.trim();
        if !trimmed.is_empty() && http::HeaderName::from_bytes(trimmed.as_bytes()).is_err() {
            return bad_request(format!(
                "Access-Control-Request-Headers \"{name}\" contains invalid character."
            ));
        }
    }
    let found = match bucket.map(request::bucket) {
        Some(Ok(bucket)) => {
            gateway
                .short(move |store| store.head_bucket(&bucket).map(|_| ()))
                .await
        }
        Some(Err(error)) => Err(error),
        None => Ok(()),
    };
    if let Err(error) = found {
        return error;
    }
    let mut error = error::custom("AccessForbidden", StatusCode::FORBIDDEN);
    error.set_message("CORSResponse: CORS is not enabled for this bucket.");
    error
}

fn bad_request(message: String) -> S3Error {
    let mut error = error::custom("BadRequest", StatusCode::BAD_REQUEST);
    error.set_message(message);
    error
}
