//! The SDK's client: trust, timeouts, clock, and what it does not show of answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_credential_types::Credentials as AwsCredentials;
use aws_sdk_s3::config::{
    BehaviorVersion, ConfigBag, Intercept, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, RuntimeComponents, StalledStreamProtectionConfig,
};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::{Client, Config};
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::http::Headers;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;

use super::wire::{Tap, Wire};
use super::{error, gunzip, insecure};
use crate::location::Addressing;
use crate::{Credentials, Error, Kind, Result};

/// Longest time for a connection to come about.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for an answer to begin.
pub(super) const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// What the server says of itself.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) server: Option<String>,
    pub(super) date: Option<String>,
    /// Seconds that `date` was ahead of our clock when it arrived.
    pub(super) ahead: Option<i64>,
}

impl Seen {
    /// Takes note of an answer.
    pub(super) fn note(&mut self, headers: &Headers) {
        let (server, date) = (headers.get("server"), headers.get("date"));
        if self.server.as_deref() != server {
            self.server = server.map(str::to_owned);
        }
        self.ahead = date.and_then(error::ahead);
        if self.date.as_deref() != date {
            self.date = date.map(str::to_owned);
        }
    }
}

/// Remembers the answer's `Server` and `Date`, which the SDK does not show.
#[derive(Debug)]
struct Observer(Arc<Mutex<Seen>>);

impl Intercept for Observer {
    fn name(&self) -> &'static str {
        "observer"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.note(context.response().headers());
        Ok(())
    }
}

/// How to talk to an endpoint, whatever its region.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) url: String,
    pub(super) credentials: Credentials,
    pub(super) ca_pem: Option<Vec<u8>>,
    /// Take any certificate.
    pub(super) insecure: bool,
    pub(super) addressing: Addressing,
    pub(super) seen: Arc<Mutex<Seen>>,
    /// Gets objects beside the SDK, over its connections.
    pub(super) wire: Wire,
}

impl Connection {
    /// A client that signs for `region`.
    pub(super) fn client(&self, region: &str) -> Result<Client> {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build();
        let keys = AwsCredentials::new(
            self.credentials.access_key.clone(),
            self.credentials.secret_key.clone(),
            None,
            None,
            "filestore",
        );
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.url)
            .force_path_style(self.addressing == Addressing::Path)
            .region(Region::new(region.to_owned()))
            .credentials_provider(aws_sdk_s3::config::SharedCredentialsProvider::new(keys))
            .http_client(SharedHttpClient::new(Tap {
                client: self.http()?,
                asked: self.wire.asked.clone(),
            }))
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .interceptor(Observer(self.seen.clone()))
            .interceptor(gunzip::Gunzip)
            .build();
        Ok(Client::from_conf(config))
    }

    /// What makes connections to the endpoint.
    pub(super) fn http(&self) -> Result<SharedHttpClient> {
        let builder = aws_smithy_http_client::Builder::new();
        if self.url.starts_with("http://") {
            return Ok(builder.build_http());
        }
        let failed =
            |text: String| Error::new(Kind::Usage, "set up TLS for", self.url.as_str(), text);
        if self.insecure {
            return insecure::client().map_err(|error| failed(error.to_string()));
        }
        let mut trust = TrustStore::default();
        if let Some(pem) = &self.ca_pem {
            trust.add_pem_certificate(pem.clone());
        }
        let context = TlsContext::builder().with_trust_store(trust).build();
        let context = context.map_err(|error| failed(error.to_string()))?;
        Ok(builder
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(context)
            .build_https())
    }
}
