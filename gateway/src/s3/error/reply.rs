//! Error replies on their way out: S3's text where the code came without one, the details of the
//! error, resource and request id in the body, and no body at all on 304.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::{Body, HttpResponse, S3Error, S3Response};

use super::standard_message;

/// Carries details of an error to [`finish`], which takes it off again: the library's error type
/// has room for a code and a message only.
const DETAIL: HeaderName = HeaderName::from_static("x-filestore-error-detail");

/// Carries a status to [`finish`]: the library knows one successful status per operation.
const STATUS: HeaderName = HeaderName::from_static("x-filestore-status");

/// What s3s says of requests that are no operation of S3, with 501 where S3 says 405.
const UNKNOWN_OPERATION: &str = "<Message>Unknown operation</Message>";

/// End of what s3s says of operations that are not here, where S3 always says the same.
const NOT_IMPLEMENTED_YET: &str = " is not implemented yet";

/// Begin of what s3s says where S3 has a text of its own for the code.
const MISSING_HEADER: &str = "missing header: x-amz-decoded-content-length";

/// Marks a reply whose XML has an entity tag without quotes.
const BARE_ETAG: HeaderName = HeaderName::from_static("x-filestore-bare-etag");

/// Takes the quotes off the entity tag in the XML of a reply (GetObjectAttributes alone).
pub(crate) fn with_bare_etag<T>(mut reply: S3Response<T>) -> S3Response<T> {
    reply
        .headers
        .insert(BARE_ETAG, HeaderValue::from_static("1"));
    reply
}

/// Gives a successful reply another status than its operation usually has.
pub(crate) fn with_status<T>(mut reply: S3Response<T>, status: StatusCode) -> S3Response<T> {
    reply
        .headers
        .insert(STATUS, HeaderValue::from(status.as_u16()));
    reply
}

/// Adds an element (`<BucketName>`, `<PartNumber>`, …) to the body of an error reply.
pub(crate) fn add_detail(error: &mut S3Error, name: &str, value: &str) {
    let mut headers = error.headers().cloned().unwrap_or_default();
    let text = format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    if let Ok(text) = HeaderValue::from_str(&text) {
        headers.append(DETAIL, text);
    }
    error.set_headers(headers);
}

/// Adds a header to an error reply.
pub(crate) fn add_header(error: &mut S3Error, name: HeaderName, value: HeaderValue) {
    let mut headers = error.headers().cloned().unwrap_or_default();
    headers.insert(name, value);
    error.set_headers(headers);
}

/// Completes a reply: its status and, for errors, the body.
///
/// `resource` is the request's path as sent.
pub(crate) fn finish(response: &mut HttpResponse, resource: &str, request_id: &str) {
    if let Some(status) = response.headers_mut().remove(STATUS)
        && let Ok(status) = StatusCode::from_bytes(status.as_bytes())
    {
        *response.status_mut() = status;
    }
    if response.headers_mut().remove(BARE_ETAG).is_some() {
        strip_etag_quotes(response);
    }
    let status = response.status();
    if status == StatusCode::NOT_MODIFIED {
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::empty();
        return;
    }
    if !(status.is_client_error() || status.is_server_error()) {
        return;
    }
    let details = take_details(response.headers_mut());
    let Some(body) = response.body().bytes() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(&body) else {
        return;
    };
    let mut text = Cow::Borrowed(text);
    if text.contains(UNKNOWN_OPERATION) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        text = Cow::Borrowed("<Code>MethodNotAllowed</Code>");
    }
    if let Some(complete) = complete(&text, &details, resource, request_id) {
        response.headers_mut().remove(CONTENT_LENGTH);
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        *response.body_mut() = Body::from(complete);
    }
}

fn strip_etag_quotes(response: &mut HttpResponse) {
    let Some(body) = response.body().bytes() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(&body) else {
        return;
    };
    if let Some(etag) = element(text, "ETag") {
        let bare = etag.replace("&quot;", "").replace('"', "");
        let text = text.replacen(etag, &bare, 1);
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(text);
    }
}

fn take_details(headers: &mut HeaderMap) -> Vec<(String, String)> {
    let details = headers
        .get_all(DETAIL)
        .iter()
        .filter_map(|value| {
            let (name, value) = value.to_str().ok()?.split_once('=')?;
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            Some((name.to_owned(), value))
        })
        .collect();
    headers.remove(DETAIL);
    details
}

fn complete(
    body: &str,
    details: &[(String, String)],
    resource: &str,
    request_id: &str,
) -> Option<String> {
    let code = element(body, "Code")?;
    let mut out = String::with_capacity(512);
    out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
    let mut put = |name: &str, escaped: &str| {
        for piece in ["<", name, ">", escaped, "</", name, ">"] {
            out.push_str(piece);
        }
    };
    put("Code", code);
    let message = element(body, "Message")
        .filter(|text| !text.ends_with(NOT_IMPLEMENTED_YET) && !text.starts_with(MISSING_HEADER));
    let translated = message.and_then(policy_message);
    let message = translated.as_deref().or(message);
    match (message, standard_message(code)) {
        (Some(message), _) => put("Message", message),
        (None, Some(message)) => put("Message", &escape(message)),
        (None, None) => {}
    }
    for (name, value) in details {
        put(name, &escape(value));
    }
    put("Resource", &escape(resource));
    put("RequestId", &escape(request_id));
    out.push_str("</Error>");
    Some(out)
}

/// What s3s says of a form that its policy does not allow, in the words of S3.
fn policy_message(message: &str) -> Option<String> {
    // Presigned URLs that have expired are refused before s3s sees them.
    if message == "Request has expired" {
        return Some("Invalid according to Policy: Policy expired.".to_owned());
    }
    let rest = message.strip_prefix(
        "Each form field that you specify in a form must appear in the list of policy conditions. ",
    )?;
    let rest = rest.replace("&quot;", "\"");
    let field = rest.split('"').nth(1)?;
    Some(format!(
        "Invalid according to Policy: Extra input fields: {field}"
    ))
}

/// Content of an element, still escaped.
fn element<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (content, _) = rest.split_once(&format!("</{name}>"))?;
    Some(content)
}

/// Escapes for XML 1.0; what it cannot hold becomes U+FFFD.
fn escape(text: &str) -> String {
    let legal: String = text
        .chars()
        .map(|c| {
            if crate::s3::listing::is_xml(c) {
                c
            } else {
                '\u{fffd}'
            }
        })
        .collect();
    quick_xml::escape::escape(&legal).into_owned()
}
