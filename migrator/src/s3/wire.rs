//! GET of an object without the SDK's machinery, which costs several times what a small object
//! itself does. Connections, TLS and timeouts are those of the SDK's client, and answers and errors
//! take its shapes, so that whatever reads them need not know how a request was sent.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_s3::error::{ErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::{GetObjectError, GetObjectOutput};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector as _, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::Headers;
use aws_smithy_types::DateTime;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::date_time::Format;
use filestore_common::{ContentHeaders, ETag, ObjectMeta};
use http_body_util::{BodyExt as _, Limited};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quick_xml::Reader;
use quick_xml::events::Event;
use sha2::{Digest as _, Sha256};

use super::client::READ_TIMEOUT;
use super::gunzip;
use crate::Credentials;

/// What stays as it is in a path (Signature Version 4, "`UriEncode`").
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');
/// SHA-256 of no bytes.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Signed headers, in order.
const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";
/// Largest answer, in bytes, that is read for what it says of a failure.
const MOST_OF_AN_ERROR: usize = 1 << 20;

pub(super) type Failure = SdkError<GetObjectError, HttpResponse>;

/// An object as it begins to arrive.
#[derive(Debug)]
pub(crate) struct Received {
    /// Length of the body, when the answer tells.
    pub(crate) size: Option<u64>,
    pub(crate) last_modified: Option<SystemTime>,
    /// `ETag`, headers and user metadata.
    pub(crate) meta: ObjectMeta,
    /// Whether the answer says that there are tags.
    pub(crate) tagged: bool,
    pub(crate) body: ByteStream,
}

impl From<GetObjectOutput> for Received {
    fn from(answer: GetObjectOutput) -> Self {
        let mut meta = ObjectMeta::new(ETag::new(answer.e_tag.as_deref().unwrap_or_default()));
        meta.headers = ContentHeaders {
            content_type: answer.content_type,
            content_encoding: answer.content_encoding,
            content_language: answer.content_language,
            content_disposition: answer.content_disposition,
            cache_control: answer.cache_control,
            expires: answer.expires_string,
            website_redirect_location: answer.website_redirect_location,
        };
        let named = answer.metadata.unwrap_or_default().into_iter();
        meta.user = named
            .map(|(name, value)| (name.to_lowercase(), value))
            .collect();
        Self {
            size: answer
                .content_length
                .and_then(|length| u64::try_from(length).ok()),
            last_modified: answer
                .last_modified
                .and_then(|date| SystemTime::try_from(date).ok()),
            meta,
            tagged: answer.tag_count.is_some_and(|count| count > 0),
            body: answer.body,
        }
    }
}

/// Hands the SDK's connector out beside the SDK.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) client: SharedHttpClient,
    pub(super) connector: Arc<OnceLock<SharedHttpConnector>>,
}

impl HttpClient for Tap {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        self.connector.get_or_init(|| connector.clone());
        connector
    }
}

/// A key that signs for a day and a region.
#[derive(Debug)]
struct SigningKey {
    day: String,
    region: String,
    key: Vec<u8>,
}

/// Sends GETs to one endpoint, path-style.
#[derive(Debug)]
pub(super) struct Wire {
    /// Filled by the SDK's first request.
    pub(super) connector: Arc<OnceLock<SharedHttpConnector>>,
    url: String,
    host: String,
    credentials: Credentials,
    key: Mutex<Option<SigningKey>>,
}

impl Wire {
    /// For the endpoint `url` (`http(s)://host[:port]`).
    pub(super) fn new(url: &str, credentials: Credentials) -> Self {
        Self {
            connector: Arc::default(),
            url: url.trim_end_matches('/').to_owned(),
            host: host(url),
            credentials,
            key: Mutex::default(),
        }
    }

    /// Gets an object. `None` before the SDK has a connection to share.
    ///
    /// `ahead`: seconds that the server's clock is ahead of ours.
    pub(super) async fn get(
        &self,
        region: &str,
        ahead: i64,
        bucket: &str,
        key: &str,
        if_match: Option<&str>,
        seen: impl Fn(&Headers),
    ) -> Option<Result<Received, Failure>> {
        let connector = self.connector.get()?;
        let path = path(bucket, key);
        let time = later(SystemTime::now(), ahead);
        let request = self.request(&path, region, time, if_match);
        let request = match request {
            Ok(request) => request,
            Err(error) => return Some(Err(SdkError::construction_failure(error))),
        };
        let response = match connector.call(request).await {
            Ok(response) => response,
            Err(error) => return Some(Err(SdkError::dispatch_failure(error))),
        };
        seen(response.headers());
        Some(if response.status().is_success() {
            Ok(received(response))
        } else {
            Err(failure(response).await)
        })
    }

    fn request(
        &self,
        path: &str,
        region: &str,
        time: SystemTime,
        if_match: Option<&str>,
    ) -> Result<HttpRequest, aws_smithy_runtime_api::http::HttpError> {
        let date = stamp(time);
        let authorization = self.authorization(path, region, time, &date);
        let mut request = HttpRequest::get(format!("{}{path}", self.url))?;
        let headers = request.headers_mut();
        headers.try_insert("host", self.host.clone())?;
        headers.try_insert("x-amz-content-sha256", EMPTY_SHA256)?;
        headers.try_insert("x-amz-date", date)?;
        headers.try_insert("authorization", authorization)?;
        headers.try_insert(
            "user-agent",
            concat!("filestore/", env!("CARGO_PKG_VERSION")),
        )?;
        if let Some(etag) = if_match {
            headers.try_insert("if-match", etag.to_owned())?;
        }
        Ok(request)
    }

    /// Signature Version 4 in a header ("Authenticating Requests: Using the Authorization Header").
    fn authorization(&self, path: &str, region: &str, time: SystemTime, date: &str) -> String {
        let day = date.get(..8).unwrap_or_default();
        let canonical = format!(
            "GET\n{path}\n\nhost:{}\nx-amz-content-sha256:{EMPTY_SHA256}\nx-amz-date:{date}\n\n{SIGNED}\n{EMPTY_SHA256}",
            self.host
        );
        let scope = format!("{day}/{region}/s3/aws4_request");
        let text = format!(
            "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
            hex::encode(Sha256::digest(canonical))
        );
        let mut kept = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |key: &SigningKey| key.day == day && key.region == region;
        if !kept.as_ref().is_some_and(fits) {
            *kept = None;
        }
        let key = kept.get_or_insert_with(|| {
            let secret = &self.credentials.secret_key;
            SigningKey {
                day: day.to_owned(),
                region: region.to_owned(),
                key: aws_sigv4::sign::v4::generate_signing_key(secret, time, region, "s3")
                    .as_ref()
                    .to_vec(),
            }
        });
        let signature = aws_sigv4::sign::v4::calculate_signature(&key.key, text.as_bytes());
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={SIGNED}, Signature={signature}",
            self.credentials.access_key
        )
    }
}

/// `Host` of requests to `url`; a scheme's own port is not named (RFC 9110, 7.2).
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split('/').next().unwrap_or_default();
    let own = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(own).unwrap_or(authority).to_owned()
}

fn path(bucket: &str, key: &str) -> String {
    format!("/{bucket}/{}", utf8_percent_encode(key, PATH))
}

fn later(time: SystemTime, seconds: i64) -> SystemTime {
    let by = Duration::from_secs(seconds.unsigned_abs());
    let moved = if seconds < 0 {
        time.checked_sub(by)
    } else {
        time.checked_add(by)
    };
    moved.unwrap_or(time)
}

/// `20130524T000000Z`.
fn stamp(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .unwrap_or_default()
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string()
}

fn received(mut response: HttpResponse) -> Received {
    let body = ByteStream::new(response.take_body());
    let mut meta = ObjectMeta::new(ETag::new(""));
    let (mut size, mut last_modified, mut tagged) = (None, None, false);
    for (name, value) in response.headers() {
        let text = || Some(value.to_owned());
        match name {
            "content-length" => size = value.parse().ok(),
            "last-modified" => {
                let date = DateTime::from_str(value, Format::HttpDate).ok();
                last_modified = date.and_then(|date| SystemTime::try_from(date).ok());
            }
            "etag" => meta.etag = ETag::new(value),
            "content-type" => meta.headers.content_type = text(),
            "content-encoding" => meta.headers.content_encoding = text(),
            "content-language" => meta.headers.content_language = text(),
            "content-disposition" => meta.headers.content_disposition = text(),
            "cache-control" => meta.headers.cache_control = text(),
            "expires" => meta.headers.expires = text(),
            "x-amz-website-redirect-location" => {
                meta.headers.website_redirect_location = text();
            }
            "x-amz-tagging-count" => tagged = value.parse::<u64>().is_ok_and(|count| count > 0),
            _ => {
                if let Some(user) = name.strip_prefix("x-amz-meta-") {
                    meta.user.insert(user.to_owned(), value.to_owned());
                }
            }
        }
    }
    Received {
        size,
        last_modified,
        meta,
        tagged,
        body,
    }
}

/// An answer that is no success, with what its body says.
async fn failure(mut response: HttpResponse) -> Failure {
    let compressed = response.headers().get("content-encoding") == Some("gzip");
    let mut body = response.take_body();
    if compressed {
        body = gunzip::plain(body);
    }
    let whole = Limited::new(body, MOST_OF_AN_ERROR).collect();
    match tokio::time::timeout(READ_TIMEOUT, whole).await {
        Ok(Ok(whole)) => {
            let bytes = whole.to_bytes();
            let said = words(&bytes);
            *response.body_mut() = SdkBody::from(bytes);
            SdkError::service_error(GetObjectError::generic(said), response)
        }
        Ok(Err(error)) => SdkError::response_error(error, response),
        Err(late) => SdkError::timeout_error(late),
    }
}

/// Code and message of S3's `Error` document; neither of what is none.
fn words(document: &[u8]) -> ErrorMetadata {
    let (mut code, mut message, mut text) = (None, None, String::new());
    let mut reader = Reader::from_reader(document);
    loop {
        match reader.read_event() {
            Ok(Event::Start(_)) => text.clear(),
            Ok(Event::Text(more)) => match more.xml10_content() {
                Ok(more) => text.push_str(&more),
                Err(_) => break,
            },
            Ok(Event::CData(more)) => match more.xml10_content() {
                Ok(more) => text.push_str(&more),
                Err(_) => break,
            },
            Ok(Event::GeneralRef(reference)) => {
                let name = reference.decode().unwrap_or_default();
                if let Ok(character) = quick_xml::escape::unescape(&format!("&{name};")) {
                    text.push_str(&character);
                }
            }
            Ok(Event::End(end)) => match end.local_name().as_ref() {
                b"Code" if code.is_none() => code = Some(std::mem::take(&mut text)),
                b"Message" if message.is_none() => message = Some(std::mem::take(&mut text)),
                _ => {}
            },
            Ok(Event::Eof) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let mut said = ErrorMetadata::builder();
    if let Some(code) = code {
        said = said.code(code);
    }
    if let Some(message) = message {
        said = said.message(message);
    }
    said.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys and time of S3's own examples ("Authenticating Requests"), a path that needs encoding;
    /// the signature was computed by botocore.
    #[test]
    fn a_request_is_signed_as_s3_signs_it() {
        let credentials = Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        };
        let wire = Wire::new("https://examplebucket.s3.amazonaws.com", credentials);
        let time = SystemTime::UNIX_EPOCH + Duration::from_hours(380_376);
        assert_eq!(stamp(time), "20130524T000000Z");
        let path = path("bucket", "folder/a b+ü~.txt");
        assert_eq!(path, "/bucket/folder/a%20b%2B%C3%BC~.txt");
        let authorization = wire.authorization(&path, "us-east-1", time, &stamp(time));
        assert_eq!(
            authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=5c3dfd482d4ea22efd11f5c99145fb1f24f83665d9b9819b7acaa4dc7b1a5097"
        );
        // The next day and another region need another key.
        let later = time + Duration::from_hours(24);
        for (time, region) in [(later, "us-east-1"), (time, "eu-paris-1")] {
            let other = wire.authorization(&path, region, time, &stamp(time));
            let fresh = Wire::new(&wire.url, wire.credentials.clone());
            assert_eq!(
                other,
                fresh.authorization(&path, region, time, &stamp(time))
            );
            assert_ne!(other, authorization);
        }
    }

    #[test]
    fn the_host_names_a_port_only_when_it_is_not_the_schemes_own() {
        for (url, expected) in [
            ("http://minio:9000", "minio:9000"),
            ("http://minio:80", "minio"),
            ("https://minio:443", "minio"),
            ("https://minio:80", "minio:80"),
            ("http://[::1]:9000/", "[::1]:9000"),
        ] {
            assert_eq!(host(url), expected);
        }
    }

    #[test]
    fn an_error_says_its_code_and_message() {
        let said = words(
            b"<?xml version=\"1.0\"?>\n<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is \
              wrong; expecting &#39;eu-paris-1&#39; &amp; so</Message><Resource>/b/k</Resource></Error>",
        );
        assert_eq!(said.code(), Some("AuthorizationHeaderMalformed"));
        assert_eq!(
            said.message(),
            Some("the region is wrong; expecting 'eu-paris-1' & so")
        );
        for page in ["", "<html><body>Bad Gateway", "Bad Gateway", "<Error>"] {
            let said = words(page.as_bytes());
            assert_eq!((said.code(), said.message()), (None, None), "{page}");
        }
    }

    #[test]
    fn what_an_answer_says_of_an_object_is_taken_over() {
        let mut response = HttpResponse::new(200.try_into().unwrap(), SdkBody::from("hello"));
        for (name, value) in [
            ("content-length", "5"),
            ("last-modified", "Fri, 24 May 2013 00:00:00 GMT"),
            ("etag", "\"5d41402abc4b2a76b9719d911017c592\""),
            ("content-type", "text/plain"),
            ("expires", "soon"),
            ("x-amz-meta-origin", "bench"),
            ("x-amz-tagging-count", "2"),
        ] {
            response.headers_mut().insert(name, value);
        }
        let received = received(response);
        assert_eq!(received.size, Some(5));
        let time = SystemTime::UNIX_EPOCH + Duration::from_hours(380_376);
        assert_eq!(received.last_modified, Some(time));
        assert_eq!(
            received.meta.etag.as_str(),
            "5d41402abc4b2a76b9719d911017c592"
        );
        assert_eq!(received.meta.headers.expires.as_deref(), Some("soon"));
        assert_eq!(received.meta.user["origin"], "bench");
        assert!(received.tagged);
    }

    #[test]
    fn the_servers_clock_dates_requests() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1001);
        assert_eq!(later(time, 61), time + Duration::from_secs(61));
        assert_eq!(later(time, -61), time - Duration::from_secs(61));
    }
}
