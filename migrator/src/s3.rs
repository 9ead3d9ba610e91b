//! The S3 client of both ends: region and clock learned when wrong, every request through the gate
//! of its store, retries of our own so that every attempt is signed anew and counted.

mod client;
mod error;
mod gunzip;
mod insecure;
mod resolve;
mod send;
mod signal;
mod upload;
mod watch;
mod wire;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use aws_sdk_s3::Client;
use filestore_common::BucketName;
use tokio_util::sync::CancellationToken;

use crate::location::Addressing;
use crate::pace::{Gate, Permit};
use crate::source::About;
use crate::{Endpoint, Error, Kind, Location, Progress, Result};

use client::{Connection, Seen};
use wire::{Failure, Get, Wire};

pub(crate) use resolve::resolve;
pub(crate) use upload::patient;
pub(crate) use wire::Received;

/// How long a store that does not answer is waited for, and how to stop.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Longest time without an answer.
    pub wait: Duration,
    /// Ends every wait.
    pub cancel: CancellationToken,
    /// Hears of waits.
    pub progress: Arc<dyn Progress>,
    /// How fast a store is asked.
    pub pace: Pace,
}

/// How fast a store is asked at most.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests in flight.
    pub parallel: usize,
    /// Requests a second.
    pub rate: Option<u32>,
}

/// An S3 endpoint with credentials.
#[derive(Debug)]
pub struct S3 {
    url: String,
    host: String,
    port: u16,
    connection: Connection,
    /// The one bucket that the location names.
    bucket: Option<BucketName>,
    client: RwLock<Client>,
    seen: Arc<Mutex<Seen>>,
    /// Seconds that the server's clock is known to be ahead.
    skew_told: AtomicI64,
    gate: Arc<Gate>,
    patience: Patience,
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
        let connection = Connection {
            url: url.clone(),
            wire: Wire::new(url, credentials.clone()),
            credentials,
            ca_pem,
            insecure: endpoint.insecure,
            addressing: endpoint.addressing,
            seen: seen.clone(),
        };
        let client = connection.client(endpoint.region.as_deref().unwrap_or("us-east-1"))?;
        Ok(Self {
            url: url.clone(),
            host: host.clone(),
            port: *port,
            connection,
            bucket: bucket.clone(),
            client: RwLock::new(client),
            seen,
            skew_told: AtomicI64::new(0),
            gate: Gate::new(patience.pace.parallel, patience.pace.rate, patience.wait),
            patience,
        })
    }

    /// The endpoint's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where requests name their bucket.
    pub(crate) fn addressing(&self) -> Addressing {
        self.connection.addressing
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

    /// Begins to get an object, of the generation `if_match` (a quoted `ETag`) where one is given.
    pub(crate) async fn get(
        &self,
        bucket: &str,
        key: &str,
        if_match: Option<&str>,
    ) -> Result<(Received, Permit)> {
        let name = format!("{bucket}/{key}");
        self.start("get", &name, |client| {
            self.get_once(client, bucket, key, if_match)
        })
        .await
    }

    async fn get_once(
        &self,
        client: Client,
        bucket: &str,
        key: &str,
        if_match: Option<&str>,
    ) -> Result<Received, Failure> {
        if self.addressing() == Addressing::Path
            && let Some(region) = client.config().region()
        {
            let get = Get {
                bucket,
                key,
                if_match,
                region: region.as_ref(),
                ahead: self.skew_told.load(Ordering::Relaxed),
            };
            let seen = |headers: &_| {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.note(headers);
            };
            let (wire, http) = (&self.connection.wire, || self.connection.http());
            let sent = wire.get(http, get, seen);
            if let Some(answer) = sent.await {
                return answer;
            }
        }
        let request = client.get_object().bucket(bucket).key(key);
        let answer = request.set_if_match(if_match.map(str::to_owned)).send();
        answer.await.map(Received::from)
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
}
