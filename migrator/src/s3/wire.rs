//! GET of an object without the SDK's machinery, which costs several times what a small object
//! itself does. Connections, TLS and timeouts are those of the SDK's client, and answers and errors
//! take its shapes, so that whatever reads them need not know how a request was sent.

mod answer;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector as _, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::Headers;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use thread_local::ThreadLocal;

use crate::{Credentials, Result, lanes};

pub(crate) use answer::Received;

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
pub(super) type Failure = SdkError<GetObjectError, HttpResponse>;

/// How the SDK asks its client for connections.
#[derive(Debug)]
pub(super) struct Asked {
    settings: HttpConnectorSettings,
    components: RuntimeComponents,
    /// The SDK's own.
    connector: SharedHttpConnector,
}

/// Hands the SDK's connector out beside the SDK.
#[derive(Debug)]
pub(super) struct Tap {
    pub(super) client: SharedHttpClient,
    pub(super) asked: Arc<OnceLock<Asked>>,
}

impl HttpClient for Tap {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let connector = self.client.http_connector(settings, components);
        self.asked.get_or_init(|| Asked {
            settings: settings.clone(),
            components: components.clone(),
            connector: connector.clone(),
        });
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

/// What to get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Get<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    /// Only this generation, a quoted `ETag`.
    pub(super) if_match: Option<&'a str>,
    /// What the server signs for.
    pub(super) region: &'a str,
    /// Seconds that the server's clock is ahead of ours.
    pub(super) ahead: i64,
}

/// Sends GETs to one endpoint, path-style.
#[derive(Debug)]
pub(super) struct Wire {
    /// Filled by the SDK's first request.
    pub(super) asked: Arc<OnceLock<Asked>>,
    /// Connections of each thread that copies. What is received there by another thread's runtime
    /// would have to be handed over, at two wake-ups a request.
    own: ThreadLocal<SharedHttpConnector>,
    url: String,
    host: String,
    credentials: Credentials,
    key: Mutex<Option<SigningKey>>,
}

impl Wire {
    /// For the endpoint `url` (`http(s)://host[:port]`).
    pub(super) fn new(url: &str, credentials: Credentials) -> Self {
        Self {
            asked: Arc::default(),
            own: ThreadLocal::new(),
            url: url.trim_end_matches('/').to_owned(),
            host: host(url),
            credentials,
            key: Mutex::default(),
        }
    }

    /// The connections to use on this thread. `None` before the SDK was asked for anything.
    fn connector(
        &self,
        http: impl FnOnce() -> Result<SharedHttpClient>,
    ) -> Option<&SharedHttpConnector> {
        let asked = self.asked.get()?;
        if !lanes::may_block() {
            return Some(&asked.connector);
        }
        let new = || Ok(http()?.http_connector(&asked.settings, &asked.components));
        let own: Result<_> = self.own.get_or_try(new);
        Some(own.unwrap_or(&asked.connector))
    }

    /// Gets an object. `None` before the SDK has a connection to share.
    ///
    /// `http`: makes a client like the SDK's.
    pub(super) async fn get(
        &self,
        http: impl FnOnce() -> Result<SharedHttpClient>,
        get: Get<'_>,
        seen: impl Fn(&Headers),
    ) -> Option<std::result::Result<Received, Failure>> {
        let connector = self.connector(http)?;
        let request = match self.request(&get) {
            Ok(request) => request,
            Err(error) => return Some(Err(SdkError::construction_failure(error))),
        };
        let response = match connector.call(request).await {
            Ok(response) => response,
            Err(error) => return Some(Err(SdkError::dispatch_failure(error))),
        };
        seen(response.headers());
        Some(if response.status().is_success() {
            Ok(answer::received(response))
        } else {
            Err(answer::failure(response).await)
        })
    }

    fn request(
        &self,
        get: &Get<'_>,
    ) -> std::result::Result<HttpRequest, aws_smithy_runtime_api::http::HttpError> {
        let path = path(get.bucket, get.key);
        let time = later(SystemTime::now(), get.ahead);
        let date = stamp(time);
        let authorization = self.authorization(&path, get.region, time, &date);
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
        if let Some(etag) = get.if_match {
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
    fn the_servers_clock_dates_requests() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1001);
        assert_eq!(later(time, 61), time + Duration::from_secs(61));
        assert_eq!(later(time, -61), time - Duration::from_secs(61));
    }
}
