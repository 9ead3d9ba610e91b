//! What is checked of a request before s3s sees it: forms of authorization, in S3's words; headers
//! that had to be signed; queries that are no operation; CORS preflights, which nobody signs.
//!
//! The signature itself is s3s's to verify. Nothing here lets a request in.

mod authorization;
mod preflight;
mod presigned;

use filestore_common::marker::MarkerState;
use http::{HeaderMap, Method, StatusCode, Uri};
use s3s::{S3ErrorCode, S3Result};

pub(crate) use preflight::preflight;

use super::error::{self, invalid_argument, invalid_request, reply};
use super::hand_over::is_hand_over;
use super::normalize::query;

/// Largest head of a request: names and values of all headers.
const MAX_HEADERS: usize = 8 * 1024;

const TRAILER: &str = "x-amz-trailer";
const CONTENT_SHA256: &str = "x-amz-content-sha256";
const DECODED_LENGTH: &str = "x-amz-decoded-content-length";

/// Refuses what S3 refuses without looking further.
///
/// # Errors
/// The error that S3 has for it.
pub(crate) fn check(
    method: &Method,
    names_object: bool,
    uri: &Uri,
    headers: &HeaderMap,
) -> S3Result<()> {
    let size: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if size > MAX_HEADERS {
        let mut error = error::custom("RequestHeaderSectionTooLarge", StatusCode::BAD_REQUEST);
        reply::add_detail(&mut error, "MaxSizeAllowed", &MAX_HEADERS.to_string());
        return Err(error);
    }
    let text = uri.query().unwrap_or_default();
    query::check_operation(method, names_object, text)?;
    if *method == Method::POST && !is_hand_over(method, uri) {
        check_post(names_object, uri, text, headers)?;
    }
    if let Some(source) = headers.get("x-amz-copy-source")
        && *method != Method::PUT
    {
        return Err(invalid_argument(
            "x-amz-copy-source",
            &super::metadata::text(source),
            "You can only specify a copy source header for copy requests.",
        ));
    }
    check_payload(method, names_object, headers)?;
    if let Some(header) = headers.get(http::header::AUTHORIZATION) {
        return authorization::check(header, headers);
    }
    if presigned::is_presigned(text) {
        return presigned::check(text, headers);
    }
    Ok(())
}

/// Refuses to change a volume that went back to the legacy store, or is about to: what is written
/// now nothing takes back.
///
/// # Errors
/// `ServiceUnavailable`.
pub(crate) fn check_migration(state: Option<MarkerState>) -> S3Result<()> {
    let text = match state {
        Some(MarkerState::RollingBack) => {
            "This store is being rolled back to the legacy store and takes no writes. Finish that \
             with `filestore migrate roll-back`, or give it up with `filestore migrate roll-back \
             --abandon`."
        }
        Some(MarkerState::RolledBack) => {
            "This store was rolled back and takes no writes: the legacy store serves its clients \
             again. Write there, or take it over again with a new migration id."
        }
        _ => return Ok(()),
    };
    Err(s3s::S3Error::with_message(
        S3ErrorCode::ServiceUnavailable,
        text,
    ))
}

/// A POST is a form on a bucket or one of a few queries.
fn check_post(names_object: bool, uri: &Uri, text: &str, headers: &HeaderMap) -> S3Result<()> {
    let form = headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"multipart/form-data"));
    let known = ["delete", "uploads", "uploadId", "select", "restore"];
    let query_names_operation = query::names(text).any(|name| known.contains(&name));
    if query_names_operation {
        return Ok(());
    }
    if form && !names_object && uri.path().len() > 1 {
        let bounded = headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|value| super::metadata::text(value).contains("boundary="));
        if bounded {
            return Ok(());
        }
        return Err(s3s::S3Error::with_message(
            S3ErrorCode::MalformedPOSTRequest,
            "The body of your POST request is not well-formed multipart/form-data.",
        ));
    }
    let mut error = error::code(S3ErrorCode::MethodNotAllowed);
    reply::add_detail(&mut error, "Method", "POST");
    reply::add_detail(&mut error, "ResourceType", "SERVICE");
    Err(error)
}

/// `x-amz-content-sha256` and the length behind aws-chunked.
fn check_payload(method: &Method, names_object: bool, headers: &HeaderMap) -> S3Result<()> {
    let Some(value) = headers.get(CONTENT_SHA256) else {
        return Ok(());
    };
    let value = value.to_str().unwrap_or_default();
    if !value.starts_with("STREAMING-") {
        let is_hash = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash || value == "UNSIGNED-PAYLOAD" || value.is_empty() {
            return Ok(());
        }
        return Err(bad_payload(value));
    }
    let known = [
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
    ];
    if !known.contains(&value) {
        return Err(bad_payload(value));
    }
    if *method == Method::PUT && !names_object {
        return Err(invalid_request(
            "The value of x-amz-content-sha256 header is invalid.",
        ));
    }
    if value == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" && !headers.contains_key(TRAILER) {
        return Err(error::custom(
            "MalformedTrailerError",
            StatusCode::BAD_REQUEST,
        ));
    }
    let length = headers.get(DECODED_LENGTH).map(super::metadata::text);
    if length.is_none_or(|length| length.parse::<u64>().is_err()) {
        return Err(error::code(S3ErrorCode::MissingContentLength));
    }
    Ok(())
}

/// Length of the body behind aws-chunked, in bytes.
pub(crate) fn decoded_length(headers: &HeaderMap) -> Option<i64> {
    let payload = headers.get(CONTENT_SHA256)?;
    if !payload.as_bytes().starts_with(b"STREAMING-") {
        return None;
    }
    headers.get(DECODED_LENGTH)?.to_str().ok()?.parse().ok()
}

fn bad_payload(value: &str) -> s3s::S3Error {
    invalid_argument(
        CONTENT_SHA256,
        value,
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value.",
    )
}

/// s3s wants `x-amz-trailer` with every payload that may have trailers; S3 does not. An empty one,
/// which is not signed, announces nothing.
pub(crate) fn announce_no_trailer(headers: &mut HeaderMap) {
    let may = headers
        .get(CONTENT_SHA256)
        .is_some_and(|value| value.as_bytes() == b"STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    if may && !headers.contains_key(TRAILER) {
        headers.insert(TRAILER, http::HeaderValue::from_static(""));
    }
}

/// Headers that change what a request does and so must be signed.
///
/// # Errors
/// `AccessDenied`, naming them.
fn check_signed(headers: &HeaderMap, signed: &str) -> S3Result<()> {
    let mut missing: Vec<&str> = Vec::new();
    for name in headers.keys() {
        let name = name.as_str();
        let matters = name.starts_with("x-amz-")
            && !matches!(name, "x-amz-user-agent" | "x-amz-cf-id")
            || name.starts_with("x-filestore-");
        if matters
            && !signed
                .split(';')
                .any(|signed| signed.eq_ignore_ascii_case(name))
        {
            missing.push(name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort_unstable();
    let mut error = s3s::S3Error::with_message(
        S3ErrorCode::AccessDenied,
        "There were headers present in the request which were not signed",
    );
    reply::add_detail(&mut error, "HeadersNotSigned", &missing.join(", "));
    Err(error)
}

/// The parts of a credential that its scope is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scope<'a> {
    date: &'a str,
}

/// What is wrong with a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeError<'a> {
    Malformed,
    Terminal(&'a str),
    Service(&'a str),
    Date(&'a str),
}

impl ScopeError<'_> {
    /// In the words that header and query share.
    fn text(self) -> String {
        match self {
            Self::Malformed => "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".".to_owned(),
            Self::Terminal(terminal) => format!("incorrect terminal {terminal:?}. This endpoint uses \"aws4_request\"."),
            Self::Service(service) => format!("incorrect service {service:?}. This endpoint belongs to \"s3\"."),
            Self::Date(date) => format!("incorrect date format {date:?}. This date in the credential must be in the format \"yyyyMMdd\"."),
        }
    }
}

/// Reads `<access key>/<date>/<region>/s3/aws4_request`. Any region is taken.
fn scope(credential: &str) -> Result<Scope<'_>, ScopeError<'_>> {
    let mut fields = credential.split('/');
    let (Some(_), Some(date), Some(_), Some(service), Some(terminal), None) = (
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
    ) else {
        return Err(ScopeError::Malformed);
    };
    if terminal != "aws4_request" {
        return Err(ScopeError::Terminal(terminal));
    }
    if service != "s3" {
        return Err(ScopeError::Service(service));
    }
    if date.len() != 8 || !date.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ScopeError::Date(date));
    }
    Ok(Scope { date })
}

/// Whether a text is a time as Signature Version 4 writes it: `20261130T142500Z`.
fn is_amz_date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        text.get(range)
            .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    text.len() == 16
        && digits(0..8)
        && text.get(8..9) == Some("T")
        && digits(9..15)
        && text.ends_with('Z')
}

#[cfg(test)]
mod tests;
