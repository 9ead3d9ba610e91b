//! Requests that s3s 0.14 does not read as S3 does, put right between its signature check and its
//! parsing.
//!
//! s3s parses headers and queries strictly and hands nothing on when it fails: a `Range` that S3
//! ignores, a date in an obsolete form, an entity tag list, an `Expires` of free text, metadata
//! that is not ASCII, all answered 400. It also reads XML bodies without telling what failed, and
//! compares neither `Content-MD5` nor checksums with them. Most requests have none of that and
//! never come here ([`is_plain`]); the others are handed to a second service behind, with the
//! original headers beside ([`request::Original`]), which the operations read.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, EXPIRES, HOST, HeaderName, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{Extensions, HeaderMap, Method, Uri};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, HttpRequest, S3ErrorCode, S3Request, S3Response, S3Result, TrailingHeaders};

use super::request::{Original, Trailers, XmlBody};
use super::{checksum, error};
use crate::auth;
use crate::host::Hosts;

pub(crate) mod query;

/// Largest XML body (S3: "Your request was too big"; a full CompleteMultipartUpload with
/// checksums and a full DeleteObjects stay below).
const MAX_XML: usize = 4 * 1024 * 1024;

/// Headers that the operations read themselves and s3s parses more strictly than S3 does.
const STRICT: [HeaderName; 14] = [
    RANGE,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    EXPIRES,
    HeaderName::from_static("x-amz-copy-source-if-match"),
    HeaderName::from_static("x-amz-copy-source-if-none-match"),
    HeaderName::from_static("x-amz-copy-source-if-modified-since"),
    HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
    HeaderName::from_static("x-amz-if-match-last-modified-time"),
    HeaderName::from_static("x-amz-if-match-initiated-time"),
    HeaderName::from_static("x-amz-mp-object-size"),
    HeaderName::from_static("x-amz-object-lock-retain-until-date"),
];

/// The header that s3s needs to tell a copy from a put; its value is parsed by the operations.
const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");

const OBJECT_ATTRIBUTES: HeaderName = HeaderName::from_static("x-amz-object-attributes");

/// Hands requests to the service behind.
pub(crate) struct Normalize {
    behind: S3Service,
    hosts: Hosts,
}

impl Normalize {
    /// `behind` must not authenticate; `hosts` are the virtual hosts of both services.
    pub(crate) fn new(behind: S3Service, hosts: Hosts) -> Self {
        Self { behind, hosts }
    }
}

#[async_trait::async_trait]
impl S3Route for Normalize {
    fn is_match(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        _: &mut Extensions,
    ) -> bool {
        !is_plain(
            method,
            names_object(&self.hosts, uri, headers),
            uri,
            headers,
        )
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        // Whether its signer may do it is asked behind, where the operation is known.
        match request.credentials {
            Some(_) => {
                auth::signature_is_right();
                Ok(())
            }
            None => Err(error::code(S3ErrorCode::AccessDenied)),
        }
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let names_object = names_object(&self.hosts, &request.uri, &request.headers);
        let request = normalize(request, names_object).await?;
        let response = self.behind.call(request).await.map_err(|failure| {
            let source: s3s::StdError = failure.into();
            error::internal(source)
        })?;
        let (head, body) = response.into_parts();
        Ok(S3Response {
            output: body,
            status: Some(head.status),
            headers: head.headers,
            extensions: head.extensions,
        })
    }
}

/// Whether s3s reads the request as S3 does. This is on the path of every request: plain puts,
/// gets and deletes must come out of it quickly.
fn is_plain(method: &Method, names_object: bool, uri: &Uri, headers: &HeaderMap) -> bool {
    let query_is_plain = uri.query().is_none_or(|query| {
        query.is_empty()
            || query.starts_with("x-id=") && !query.contains('&')
            || query.starts_with("list-type=2") && query::is_plain_listing(query)
            || method == Method::PUT && query::is_plain_part(query)
    });
    if !query_is_plain {
        return false;
    }
    if method == Method::POST {
        // s3s has read a form by now, with its signature; the service behind could not again.
        return is_form(headers);
    }
    if method == Method::PUT && !names_object {
        return false;
    }
    headers
        .iter()
        .all(|(name, value)| is_plain_header(name, value))
}

fn is_form(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"multipart/form-data"))
}

fn is_plain_header(name: &HeaderName, value: &HeaderValue) -> bool {
    let name = name.as_str();
    let strict = match name.as_bytes().first() {
        Some(b'r') => name == "range",
        Some(b'i') => name.starts_with("if-"),
        Some(b'e') => name == "expires",
        Some(b'x') => {
            name.starts_with("x-amz-copy-source")
                || name.starts_with("x-amz-meta-")
                || name.starts_with("x-amz-if-")
                || name.starts_with("x-amz-object-")
                || name.starts_with("x-filestore-")
                || name == "x-amz-trailer"
        }
        _ => false,
    };
    // Empty headers count as absent to s3s: an empty Content-MD5 or checksum would pass.
    !strict && !value.is_empty() && value.as_bytes().is_ascii()
}

/// Makes the request that the service behind gets.
async fn normalize(request: S3Request<Body>, names_object: bool) -> S3Result<HttpRequest> {
    let S3Request {
        input: mut body,
        method,
        uri,
        headers,
        extensions,
        trailing_headers,
        ..
    } = request;
    query::check(uri.query().unwrap_or_default())?;
    let attributes = query::names(uri.query().unwrap_or_default()).any(|n| n == "attributes");
    let mut stripped = strip(&headers, attributes);
    let mut extensions = extensions;
    if let Some(trailers) = &trailing_headers {
        extensions.insert(Trailers(trailers.clone()));
    }
    if has_xml_body(&method, names_object, &uri) {
        // A completion's checksum is that of the object, not of the XML.
        let completes = method == Method::POST && names_object;
        let xml = read_xml(body, &headers, completes, trailing_headers.as_ref()).await?;
        stripped.insert(CONTENT_LENGTH, HeaderValue::from(xml.len()));
        body = Body::from(xml.clone());
        extensions.insert(XmlBody(xml));
    }
    extensions.insert(Original {
        headers: Arc::new(headers),
        uri: uri.clone(),
    });
    let mut request = HttpRequest::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = query::without_signature(uri)?;
    *request.headers_mut() = stripped;
    *request.extensions_mut() = extensions;
    Ok(request)
}

/// The headers without those that s3s would parse differently from S3.
fn strip(headers: &HeaderMap, query_names_attributes: bool) -> HeaderMap {
    let mut stripped = headers.clone();
    stripped.remove(AUTHORIZATION);
    for name in &STRICT {
        stripped.remove(name);
    }
    // A form is recognized by its content type, but forms do not come here.
    if is_form(headers) {
        stripped.remove(CONTENT_TYPE);
    }
    let odd: Vec<HeaderName> = headers
        .iter()
        .filter(|(name, value)| {
            name.as_str().starts_with("x-amz-meta-") || !value.as_bytes().is_ascii()
        })
        .map(|(name, _)| name.clone())
        .collect();
    for name in odd {
        stripped.remove(name);
    }
    if headers
        .get(&COPY_SOURCE)
        .is_some_and(|source| !source.is_empty())
    {
        stripped.insert(COPY_SOURCE, HeaderValue::from_static("any/any"));
    }
    if query_names_attributes {
        stripped.insert(OBJECT_ATTRIBUTES, HeaderValue::from_static("ETag"));
    }
    stripped
}

/// Whether the request is about an object.
pub(crate) fn names_object(hosts: &Hosts, uri: &Uri, headers: &HeaderMap) -> bool {
    let path = uri.path().get(1..).unwrap_or_default();
    if is_virtual_host(hosts, headers) {
        return !path.is_empty();
    }
    path.split_once('/').is_some_and(|(_, key)| !key.is_empty())
}

/// Whether the host names a bucket.
pub(crate) fn is_virtual_host(hosts: &Hosts, headers: &HeaderMap) -> bool {
    !hosts.is_empty()
        && headers
            .get(HOST)
            .and_then(|host| host.to_str().ok())
            .is_some_and(|host| hosts.bucket(host).is_some())
}

/// Operations whose body is XML, as s3s decides it.
fn has_xml_body(method: &Method, names_object: bool, uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    let has = |wanted: &str| query::names(query).any(|name| name == wanted);
    match *method {
        Method::POST => !has("uploads"),
        Method::PUT => {
            !names_object
                || ["acl", "legal-hold", "retention", "tagging"]
                    .iter()
                    .any(|n| has(n))
        }
        _ => false,
    }
}

/// Reads an XML body and checks it against what was announced of it.
async fn read_xml(
    mut body: Body,
    headers: &HeaderMap,
    completes: bool,
    trailers: Option<&TrailingHeaders>,
) -> S3Result<Bytes> {
    let md5 = checksum::ContentMd5::of(headers)?;
    let announced = if completes {
        None
    } else {
        checksum::announced_of_xml(headers)?
    };
    let mut xml = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(error::from_body)?;
        if xml.len() + piece.len() > MAX_XML {
            return Err(error::code(S3ErrorCode::MaxMessageLengthExceeded));
        }
        xml.extend_from_slice(&piece);
    }
    let algorithms: Vec<_> = announced.iter().map(|found| found.algorithm).collect();
    let mut hasher = filestore_common::digest::BodyHasher::new(&algorithms);
    hasher.update(&xml);
    let digests = hasher.finish();
    if let Some(md5) = md5 {
        md5.verify(&digests.content_md5())?;
    }
    if let Some(announced) = announced {
        announced.verify(&digests, trailers)?;
    }
    Ok(xml.into())
}

/// Authentication and access of the service behind: the signature of everything that reaches it
/// was verified by the service before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Authenticated;

#[async_trait::async_trait]
impl S3Auth for Authenticated {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Err(error::code(S3ErrorCode::InvalidAccessKeyId))
    }
}

#[async_trait::async_trait]
impl S3Access for Authenticated {
    async fn check(&self, access: &mut S3AccessContext<'_>) -> S3Result<()> {
        auth::check_operation(access)
    }
}

#[cfg(test)]
mod tests;
