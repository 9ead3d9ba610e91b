//! Object metadata between HTTP headers and the store: standard headers, user metadata.
//!
//! Values are kept byte for byte as far as they are UTF-8 and returned as the same bytes (as MinIO
//! does); bytes that are not UTF-8 are taken as ISO 8859-1, which HTTP once said they are.

use filestore_common::{ContentHeaders, ObjectInfo, UserMetadata};
use http::HeaderMap;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    CONTENT_TYPE, ETAG, EXPIRES, HeaderName, HeaderValue, LAST_MODIFIED,
};
use s3s::{S3ErrorCode, S3Result};

use super::error::{self, reply};

/// Most bytes of names and values of user metadata (S3 user guide, "Working with object metadata").
pub(crate) const MAX_USER_METADATA: usize = 2048;

/// What S3 says of objects without a content type.
pub(crate) const DEFAULT_CONTENT_TYPE: &str = "binary/octet-stream";

const PREFIX: &str = "x-amz-meta-";
const WEBSITE_REDIRECT: HeaderName = HeaderName::from_static("x-amz-website-redirect-location");
const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// A header value as text.
pub(crate) fn text(value: &HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value
            .as_bytes()
            .iter()
            .map(|byte| char::from(*byte))
            .collect(),
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers
        .get(name)
        .map(text)
        .filter(|value| !value.is_empty())
}

/// Standard headers of a request that makes an object.
///
/// # Errors
/// `InvalidRedirectLocation`.
pub(crate) fn content_headers(headers: &HeaderMap) -> S3Result<ContentHeaders> {
    let redirect = header(headers, &WEBSITE_REDIRECT);
    if let Some(location) = &redirect {
        check_redirect(location)?;
    }
    Ok(ContentHeaders {
        content_type: Some(
            header(headers, &CONTENT_TYPE).unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned()),
        ),
        content_encoding: header(headers, &CONTENT_ENCODING)
            .and_then(|value| without_aws_chunked(&value)),
        content_language: header(headers, &CONTENT_LANGUAGE),
        content_disposition: header(headers, &CONTENT_DISPOSITION),
        cache_control: header(headers, &CACHE_CONTROL),
        expires: header(headers, &EXPIRES),
        website_redirect_location: redirect,
    })
}

/// The redirect location of a request, checked.
///
/// # Errors
/// `InvalidRedirectLocation`.
pub(crate) fn redirect_location(headers: &HeaderMap) -> S3Result<Option<String>> {
    let location = header(headers, &WEBSITE_REDIRECT);
    if let Some(location) = &location {
        check_redirect(location)?;
    }
    Ok(location)
}

fn check_redirect(location: &str) -> S3Result<()> {
    let valid = ["/", "http://", "https://"]
        .iter()
        .any(|prefix| location.starts_with(prefix));
    if valid {
        return Ok(());
    }
    Err(error::custom(
        "InvalidRedirectLocation",
        http::StatusCode::BAD_REQUEST,
    ))
}

/// `aws-chunked` is a transfer coding in disguise and not stored (S3 API, "Signature
/// calculations: transferring payload in multiple chunks").
fn without_aws_chunked(value: &str) -> Option<String> {
    let kept: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// User metadata of a request; a name that is sent several times has its values joined by commas.
///
/// # Errors
/// `MetadataTooLarge`.
pub(crate) fn user_metadata(headers: &HeaderMap) -> S3Result<UserMetadata> {
    let mut user = UserMetadata::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(PREFIX) else {
            continue;
        };
        if name.is_empty() {
            continue;
        }
        let value = text(value);
        user.entry(name.to_owned())
            .and_modify(|all: &mut String| {
                all.push(',');
                all.push_str(&value);
            })
            .or_insert_with(|| value.clone());
    }
    check_size(&user)?;
    Ok(user)
}

/// # Errors
/// `MetadataTooLarge`.
pub(crate) fn check_size(user: &UserMetadata) -> S3Result<()> {
    let size: usize = user
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if size <= MAX_USER_METADATA {
        return Ok(());
    }
    let mut error = error::code(S3ErrorCode::MetadataTooLarge);
    reply::add_detail(&mut error, "Size", &size.to_string());
    reply::add_detail(&mut error, "MaxSizeAllowed", &MAX_USER_METADATA.to_string());
    Err(error)
}

/// A stored text as a header value; `None` for what no header can hold.
pub(crate) fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

fn put(headers: &mut HeaderMap, name: HeaderName, text: Option<&str>) {
    if let Some(value) = text.and_then(value) {
        headers.insert(name, value);
    }
}

/// Headers of GET and HEAD that come from the object.
pub(crate) fn of_object(info: &ObjectInfo) -> HeaderMap {
    let stored = &info.meta.headers;
    let mut headers = HeaderMap::with_capacity(12 + info.meta.user.len());
    put(
        &mut headers,
        CONTENT_TYPE,
        Some(
            stored
                .content_type
                .as_deref()
                .unwrap_or(DEFAULT_CONTENT_TYPE),
        ),
    );
    put(
        &mut headers,
        CONTENT_ENCODING,
        stored.content_encoding.as_deref(),
    );
    put(
        &mut headers,
        CONTENT_LANGUAGE,
        stored.content_language.as_deref(),
    );
    put(
        &mut headers,
        CONTENT_DISPOSITION,
        stored.content_disposition.as_deref(),
    );
    put(&mut headers, CACHE_CONTROL, stored.cache_control.as_deref());
    put(&mut headers, EXPIRES, stored.expires.as_deref());
    put(
        &mut headers,
        WEBSITE_REDIRECT,
        stored.website_redirect_location.as_deref(),
    );
    for (name, text) in &info.meta.user {
        let name = HeaderName::from_bytes([PREFIX, name].concat().as_bytes());
        if let (Ok(name), Some(value)) = (name, value(text)) {
            headers.insert(name, value);
        }
    }
    if !info.meta.tags.is_empty() {
        headers.insert(TAGGING_COUNT, HeaderValue::from(info.meta.tags.len()));
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.extend(validators(info));
    headers
}

/// `ETag` and `Last-Modified`: what a 304 carries too (RFC 9110, section 15.4.5).
pub(crate) fn validators(info: &ObjectInfo) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(2);
    put(&mut headers, ETAG, Some(&info.meta.etag.quoted()));
    put(
        &mut headers,
        LAST_MODIFIED,
        Some(&httpdate::fmt_http_date(info.last_modified)),
    );
    headers
}

#[cfg(test)]
mod tests;
