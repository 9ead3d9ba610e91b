//! The S3 client of both ends: region learned when wrong, bounded retries of our own
//! so that every attempt is signed anew and counted.

mod error;
mod resolve;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_credential_types::Credentials as AwsCredentials;
use aws_sdk_s3::config::{
    BehaviorVersion, ConfigBag, Intercept, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, RuntimeComponents, StalledStreamProtectionConfig,
};
use aws_sdk_s3::error::{BoxError, SdkError};
use aws_sdk_s3::{Client, Config};
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use filestore_common::BucketName;
use tokio_util::sync::CancellationToken;

use crate::location::Addressing;
use crate::source::About;
use crate::{Credentials, Endpoint, Error, Event, Kind, Location, Progress, Result};

pub(crate) use resolve::resolve;

/// Attempts of one request that the server itself answers with a failure. A server that does not
/// answer at all is waited for by time instead.
const ANSWERED_ATTEMPTS: u32 = 6;
/// First and longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Pauses from here on are shown.
const SHOWN_PAUSE: Duration = Duration::from_secs(1);

/// How long a store that does not answer is waited for, and how to stop.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Longest time without an answer.
    pub wait: Duration,
    /// Ends every wait.
    pub cancel: CancellationToken,
    /// Hears of waits.
    pub progress: Arc<dyn Progress>,
}

/// What the server says of itself.
#[derive(Debug, Default)]
struct Seen {
    server: Option<String>,
    date: Option<String>,
    /// Seconds that `date` was ahead of our clock when it arrived.
    ahead: Option<i64>,
}

/// An S3 endpoint with credentials.
#[derive(Debug)]
pub struct S3 {
    url: String,
    host: String,
    port: u16,
    credentials: Credentials,
    ca_pem: Option<Vec<u8>>,
    addressing: Addressing,
    /// The one bucket that the location names.
    bucket: Option<BucketName>,
    client: RwLock<Client>,
    seen: Arc<Mutex<Seen>>,
    patience: Patience,
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
        let headers = context.response().headers();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.server = headers.get("server").map(str::to_owned);
        seen.date = headers.get("date").map(str::to_owned);
        seen.ahead = seen.date.as_deref().and_then(error::ahead);
        Ok(())
    }
}

impl S3 {
    /// A client for `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// [`Kind::Usage`] when the location is no URL, credentials are missing or the CA file cannot
    /// be used.
    pub fn new(endpoint: &Endpoint, patience: Patience) -> Result<Self> {
        let Location::Http {
            url,
            host,
            port,
            bucket,
        } = &endpoint.location
        else {
            let text = endpoint.location.to_string();
            return Err(Error::new(Kind::Usage, "open", text, "is no S3 endpoint"));
        };
        let Some(credentials) = endpoint.credentials.clone() else {
            return Err(
                Error::new(Kind::Usage, "open", url.as_str(), "no credentials given").with_cure(
                    "set FILESTORE_FROM_ACCESS_KEY and FILESTORE_FROM_SECRET_KEY (or …_TO_…), or \
                 mount a Secret and name it with --from-secret-dir",
                ),
            );
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        let ca_pem = match &endpoint.ca_file {
            None => None,
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                Error::new(
                    Kind::Usage,
                    "read",
                    path.display().to_string(),
                    error.to_string(),
                )
            })?),
        };
        let region = endpoint.region.as_deref().unwrap_or("us-east-1");
        let addressing = endpoint.addressing;
        let client = client(
            url,
            &credentials,
            ca_pem.as_deref(),
            region,
            addressing,
            &seen,
        )?;
        Ok(Self {
            url: url.clone(),
            host: host.clone(),
            port: *port,
            credentials,
            ca_pem,
            addressing,
            bucket: bucket.clone(),
            client: RwLock::new(client),
            seen,
            patience,
        })
    }

    /// The endpoint's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where requests name their bucket.
    pub(crate) fn addressing(&self) -> Addressing {
        self.addressing
    }

    /// The one bucket that the location names; keys that are made for it may list no others.
    pub(crate) fn only_bucket(&self) -> Option<&BucketName> {
        self.bucket.as_ref()
    }

    /// The SDK's client for the region that is known now.
    pub(crate) fn client(&self) -> Client {
        self.client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// `Server` header of the last answer.
    pub(crate) fn server(&self) -> Option<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .server
            .clone()
    }

    /// What the server said of itself in its last answer.
    pub(crate) fn about(&self) -> About {
        let client = self.client();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        About {
            server: seen.server.clone(),
            region: client.config().region().map(ToString::to_string),
            clock_skew_seconds: seen.ahead,
            not_visible: Vec::new(),
        }
    }

    /// Whether name, port and credentials work, tried once.
    pub(crate) async fn check(&self) -> Result<()> {
        resolve(&self.url, &self.host, self.port).await?;
        if let Some(bucket) = &self.bucket {
            let name = bucket.as_str();
            let once = self.once("head bucket", name, |client| async move {
                client.head_bucket().bucket(name).send().await
            });
            return match once.await {
                // The server answers; whether the bucket must exist is not asked here.
                Err(error) if error.kind != Kind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let once = self.once("list buckets", &self.url, |client| async move {
            client.list_buckets().send().await
        });
        once.await.map(drop)
    }

    /// Sends a request, again after failures that may pass.
    pub(crate) async fn call<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<T>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let begin = Instant::now();
        let mut attempt = 1;
        loop {
            let mut error = match self.once(operation, object, &send).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            error.attempts = attempt;
            let answered = error.status.is_some_and(|status| status != 503);
            if error.kind != Kind::Down
                || (answered && attempt >= ANSWERED_ATTEMPTS)
                || begin.elapsed() >= self.patience.wait
            {
                return Err(error);
            }
            self.patience.progress.event(&Event::Retrying(&error));
            let pause = (PAUSES.0 * 2_u32.saturating_pow(attempt - 1)).min(PAUSES.1);
            if pause >= SHOWN_PAUSE {
                self.patience.progress.event(&Event::Waiting {
                    error: &error,
                    next: pause,
                });
            }
            tokio::select! {
                () = self.patience.cancel.cancelled() => {
                    return Err(Error::new(Kind::Interrupted, operation, object, "stopped"));
                }
                () = tokio::time::sleep(pause) => {}
            }
            attempt += 1;
        }
    }

    /// Sends a request whose body can be read only once; whoever has the source repeats it.
    pub(crate) async fn attempt<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<T>
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let answer = send(self.client()).await;
        answer.map_err(|failure| self.explain(operation, object, failure))
    }

    /// Sends a request once, or twice when the first answer names another region.
    async fn once<T, E, F, Fut>(&self, operation: &'static str, object: &str, send: F) -> Result<T>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let failure = match send(self.client()).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let Some(region) = error::expected_region(&failure) else {
            return Err(self.explain(operation, object, failure));
        };
        tracing::debug!(region, url = self.url, "Learned the region");
        let learned = client(
            &self.url,
            &self.credentials,
            self.ca_pem.as_deref(),
            &region,
            self.addressing,
            &self.seen,
        )?;
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = learned;
        let again = send(self.client()).await;
        again.map_err(|failure| self.explain(operation, object, failure))
    }

    fn explain<E>(
        &self,
        operation: &'static str,
        object: &str,
        failure: SdkError<E, HttpResponse>,
    ) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let date = self
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .date
            .clone();
        error::explain(operation, object, failure, date.as_deref())
    }
}

fn client(
    url: &str,
    credentials: &Credentials,
    ca_pem: Option<&[u8]>,
    region: &str,
    addressing: Addressing,
    seen: &Arc<Mutex<Seen>>,
) -> Result<Client> {
    let builder = aws_smithy_http_client::Builder::new();
    let http = if url.starts_with("http://") {
        builder.build_http()
    } else {
        let mut trust = TrustStore::default();
        if let Some(pem) = ca_pem {
            trust.add_pem_certificate(pem);
        }
        let context = TlsContext::builder().with_trust_store(trust).build();
        let context = context
            .map_err(|error| Error::new(Kind::Usage, "set up TLS for", url, error.to_string()))?;
        builder
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(context)
            .build_https()
    };
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .read_timeout(Duration::from_mins(1))
        .build();
    let keys = AwsCredentials::new(
        credentials.access_key.clone(),
        credentials.secret_key.clone(),
        None,
        None,
        "filestore",
    );
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .force_path_style(addressing == Addressing::Path)
        .region(Region::new(region.to_owned()))
        .credentials_provider(aws_sdk_s3::config::SharedCredentialsProvider::new(keys))
        .http_client(http)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .interceptor(Observer(seen.clone()))
        .build();
    Ok(Client::from_conf(config))
}
