//! Form of the `Authorization` header (Signature Version 4).

use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::{check_signed, is_amz_date, scope};
use crate::s3::error::{self, invalid_argument, invalid_request};
use crate::s3::metadata;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Checks the form, the date's presence and that what matters is signed.
///
/// # Errors
/// `InvalidArgument`, `AuthorizationHeaderMalformed`, `AccessDenied`.
pub(super) fn check(header: &HeaderValue, headers: &HeaderMap) -> S3Result<()> {
    let text = metadata::text(header);
    let Some((algorithm, fields)) = text.split_once(' ') else {
        return Err(invalid_argument(
            "Authorization",
            &text,
            "Authorization header is invalid -- one and only one ' ' (space) required.",
        ));
    };
    if algorithm != ALGORITHM {
        return Err(invalid_argument(
            "Authorization",
            algorithm,
            "Unsupported Authorization Type",
        ));
    }
    let fields: Vec<&str> = fields.split(',').map(str::trim).collect();
    if fields.len() != 3 {
        return Err(malformed(
            "the authorization header requires three components: Credential, SignedHeaders, and Signature.",
        ));
    }
    let mut pairs = Vec::with_capacity(3);
    for field in fields {
        let Some(pair) = field.split_once('=') else {
            return Err(malformed(&format!(
                "the authorization component {field:?} is malformed."
            )));
        };
        pairs.push(pair);
    }
    let value = |wanted: &str| {
        let found = pairs.iter().find(|(name, _)| *name == wanted);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| malformed(&format!("missing {wanted}.")))
    };
    let credential = value("Credential")?;
    let signed = value("SignedHeaders")?;
    value("Signature")?;
    let scope = scope(credential).map_err(|error| malformed(&error.text()))?;
    if !headers.contains_key(super::CONTENT_SHA256) {
        return Err(invalid_request(
            "Missing required header for this request: x-amz-content-sha256",
        ));
    }
    let date = headers.get("x-amz-date").map(metadata::text);
    let Some(date) = date.filter(|date| is_amz_date(date)) else {
        return Err(S3Error::with_message(
            S3ErrorCode::AccessDenied,
            "AWS authentication requires a valid Date or x-amz-date header.",
        ));
    };
    if !date.starts_with(scope.date) {
        return Err(malformed(
            "The authorization header is malformed; Invalid credential date. Date is not the same as X-Amz-Date.",
        ));
    }
    check_signed(headers, signed)
}

fn malformed(text: &str) -> S3Error {
    let mut error = error::custom("AuthorizationHeaderMalformed", StatusCode::BAD_REQUEST);
    error.set_message(format!("The authorization header is malformed; {text}"));
    error
}
