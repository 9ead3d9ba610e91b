//! Form of a presigned URL (Signature Version 4 in the query).

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::{check_signed, is_amz_date, scope};
use crate::s3::error::{self, reply};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Longest validity in seconds: a week.
const MAX_EXPIRES: i64 = 604_800;

/// Parameters that a presigned URL has, in S3's order.
const REQUIRED: [&str; 6] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-Date",
    "X-Amz-SignedHeaders",
    "X-Amz-Expires",
];

/// Whether a query has anything of a signature.
pub(super) fn is_presigned(query: &str) -> bool {
    query.contains("X-Amz-") && REQUIRED.iter().any(|name| value(query, name).is_some())
}

fn value<'a>(query: &'a str, wanted: &str) -> Option<Cow<'a, str>> {
    query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == wanted).then(|| percent_decode_str(value).decode_utf8_lossy())
    })
}

/// Checks the form and that what matters is signed.
///
/// # Errors
/// `AuthorizationQueryParametersError`, `InvalidToken`, `AccessDenied`.
pub(super) fn check(query: &str, headers: &HeaderMap) -> S3Result<()> {
    if value(query, "X-Amz-Security-Token").is_some() {
        let mut error = error::custom("InvalidToken", StatusCode::BAD_REQUEST);
        error.set_message("The provided token is malformed or otherwise invalid.");
        return Err(error);
    }
    let mut values = Vec::with_capacity(REQUIRED.len());
    for name in REQUIRED {
        let Some(value) = value(query, name).filter(|value| !value.is_empty()) else {
            return Err(malformed(
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
            ));
        };
        values.push(value);
    }
    let [algorithm, credential, _, date, signed, expires] = values.as_slice() else {
        return Err(error::internal("six parameters were looked for"));
    };
    check_algorithm(algorithm)?;
    let scope = scope(credential).map_err(|error| {
        malformed(&format!(
            "Error parsing the X-Amz-Credential parameter; {}",
            error.text()
        ))
    })?;
    if !is_amz_date(date) {
        return Err(malformed(
            "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"",
        ));
    }
    if !date.starts_with(scope.date) {
        return Err(malformed(&format!(
            "Invalid credential date {:?}. This date is not the same as X-Amz-Date: {:?}.",
            scope.date,
            date.get(..8).unwrap_or_default()
        )));
    }
    check_expiry(date, expires)?;
    check_signed(headers, signed)
}

fn check_algorithm(algorithm: &str) -> S3Result<()> {
    match algorithm {
        ALGORITHM => Ok(()),
        "AWS4-ECDSA-P256-SHA256" => Err(malformed(
            "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"",
        )),
        _ => Err(malformed(
            "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256\"",
        )),
    }
}

fn check_expiry(date: &str, expires: &str) -> S3Result<()> {
    let Ok(seconds) = expires.parse::<i64>() else {
        return Err(malformed("X-Amz-Expires should be a number"));
    };
    let Ok(valid) = u64::try_from(seconds) else {
        return Err(malformed("X-Amz-Expires must be non-negative"));
    };
    if seconds > MAX_EXPIRES {
        return Err(malformed(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        ));
    }
    let Some(end) = time(date).and_then(|time| time.checked_add(Duration::from_secs(valid))) else {
        return Ok(());
    };
    let now = SystemTime::now();
    if now <= end {
        return Ok(());
    }
    let mut error = S3Error::with_message(S3ErrorCode::AccessDenied, "Request has expired.");
    reply::add_detail(&mut error, "X-Amz-Expires", expires);
    reply::add_detail(&mut error, "Expires", &iso(end));
    reply::add_detail(&mut error, "ServerTime", &iso(now));
    Err(error)
}

/// `20261130T142500Z`.
fn time(date: &str) -> Option<SystemTime> {
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(time.timestamp().into())
}

fn iso(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

fn malformed(text: &str) -> S3Error {
    let mut error = error::custom("AuthorizationQueryParametersError", StatusCode::BAD_REQUEST);
    error.set_message(text.to_owned());
    error
}
