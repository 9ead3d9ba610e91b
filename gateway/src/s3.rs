//! Protocol half of the gateway: the S3 API on top of the store.
//!
//! ```text
//! HTTP request ─▶ s3s (signature, parsing) ─▶ normalize ─▶ ops::* ─▶ store
//!      reply   ◀─ error::reply::finish     ◀────────────────┘
//! ```
//!
//! [`Gateway`] implements the [`s3s::S3`] trait, one file per operation in `ops`. [`Service`] is
//! the s3s service around it, with what s3s does not do as S3 does put right before and behind.

mod admission;
mod checksum;
mod conditions;
mod copy_source;
mod error;
mod hand_over;
mod import;
mod listing;
mod metadata;
mod normalize;
mod ops;
mod range;
mod request;
mod tags;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use filestore_store::{Result as StoreResult, Store};
use s3s::dto::Owner;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{HttpRequest, HttpResponse, S3Error, S3ErrorCode, S3Result};

use crate::host::Hosts;
use crate::io;

/// What the S3 operations need to know beside the store.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Region of all buckets.
    pub(crate) region: String,
    /// Id of the account that owns all buckets: the root access key.
    pub(crate) owner: String,
    /// Whether clients come by HTTPS.
    pub(crate) tls: bool,
}

/// The S3 operations over one store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gateway {
    store: Arc<Store>,
    settings: Arc<Settings>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("region", &self.settings.region)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Serves `store`.
    pub(crate) fn new(store: Arc<Store>, settings: Settings) -> Self {
        Self {
            store,
            settings: Arc::new(settings),
        }
    }

    /// URL under which clients find `path`, which begins with a slash, at `host`.
    fn url(&self, host: &str, path: &str) -> String {
        let scheme = if self.settings.tls { "https" } else { "http" };
        format!("{scheme}://{host}{path}")
    }

    /// Runs a store call that is over soon.
    async fn short<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Store) -> StoreResult<T> + Send + 'static,
    ) -> S3Result<T> {
        let store = Arc::clone(&self.store);
        io::short(move || call(&store))
            .await
            .map_err(error::from_store)
    }

    /// Runs a store call that may take long.
    async fn long<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Store) -> StoreResult<T> + Send + 'static,
    ) -> S3Result<T> {
        let store = Arc::clone(&self.store);
        io::long(move || call(&store))
            .await
            .map_err(error::from_store)
    }

    /// Region of all buckets.
    fn region(&self) -> &str {
        &self.settings.region
    }

    /// Owner of everything.
    fn owner(&self) -> Owner {
        Owner {
            display_name: Some(self.settings.owner.clone()),
            id: Some(self.settings.owner.clone()),
        }
    }

    /// Checks `x-amz-expected-bucket-owner`.
    ///
    /// # Errors
    /// `AccessDenied` when it names somebody else.
    fn check_owner(&self, expected: Option<&str>) -> S3Result<()> {
        match expected {
            Some(expected) if expected != self.settings.owner => {
                Err(error::code(S3ErrorCode::AccessDenied))
            }
            _ => Ok(()),
        }
    }
}

/// Answers S3 requests.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    front: S3Service,
    gateway: Gateway,
    hosts: Hosts,
}

impl Service {
    /// Builds the service. `configure` sets authentication and access; the service that it
    /// configures hands requests that s3s would not parse as S3 does to a second one behind it,
    /// which trusts it.
    pub(crate) fn new(
        gateway: &Gateway,
        hosts: &Hosts,
        configure: impl Fn(&mut S3ServiceBuilder),
    ) -> Self {
        let builder = || {
            let mut builder = S3ServiceBuilder::new(gateway.clone());
            builder.set_validation(Names);
            if !hosts.is_empty() {
                builder.set_host(hosts.clone());
            }
            builder
        };
        let mut behind = builder();
        behind.set_auth(normalize::Authenticated);
        behind.set_access(normalize::Authenticated);
        let mut front = builder();
        configure(&mut front);
        front.set_route(hand_over::Routes::new(
            Arc::clone(&gateway.store),
            hosts.clone(),
            normalize::Normalize::new(behind.build(), hosts.clone()),
        ));
        Self {
            front: front.build(),
            gateway: gateway.clone(),
            hosts: hosts.clone(),
        }
    }

    /// Answers one request. `request_id` appears in error bodies.
    pub(crate) async fn call(&self, mut request: HttpRequest, request_id: &str) -> HttpResponse {
        let resource = request.uri().path().to_owned();
        if let Some(error) = self.admit(&request).await {
            return refuse(error, &resource, request_id);
        }
        admission::announce_no_trailer(request.headers_mut());
        let mut response = match self.front.call(request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::error!(request_id, error = ?error, "Request could not be answered");
                let mut response = HttpResponse::default();
                *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        };
        error::reply::finish(&mut response, &resource, request_id);
        response
    }

    /// What is refused, and preflights, which are never signed.
    async fn admit(&self, request: &HttpRequest) -> Option<S3Error> {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        if *method == http::Method::OPTIONS {
            let bucket = self.bucket(uri, headers);
            return Some(admission::preflight(&self.gateway, bucket.as_deref(), headers).await);
        }
        let names_object = normalize::names_object(&self.hosts, uri, headers);
        if let Err(error) = admission::check(method, names_object, uri, headers) {
            return Some(error);
        }
        let reads = matches!(*method, http::Method::GET | http::Method::HEAD);
        if reads || hand_over::is_hand_over(method, uri) {
            return None;
        }
        match self.gateway.short(Store::migration_state).await {
            Ok(state) => admission::check_migration(state).err(),
            Err(error) => Some(error),
        }
    }

    /// The bucket that a request names.
    fn bucket<'a>(&self, uri: &'a http::Uri, headers: &'a http::HeaderMap) -> Option<Cow<'a, str>> {
        let host = headers.get(http::header::HOST);
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.hosts.bucket(host).or_else(|| {
            let path = uri.path().get(1..)?;
            let (bucket, _) = path.split_once('/').unwrap_or((path, ""));
            (!bucket.is_empty()).then_some(Cow::Borrowed(bucket))
        })
    }
}

#[cfg(test)]
pub(crate) use ops::IMPLEMENTED;

/// Adds an element to the body of an error reply.
pub(crate) use error::reply::add_detail as add_error_detail;

/// The answer to a request that is refused before the service sees it.
pub(crate) fn refuse(error: S3Error, resource: &str, request_id: &str) -> HttpResponse {
    let mut response = error.to_http_response().unwrap_or_else(|_| {
        let mut response = HttpResponse::default();
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        response
    });
    error::reply::finish(&mut response, resource, request_id);
    response
}

/// Leaves the bucket's name to the operations: what is no valid name is `InvalidBucketName` for
/// CreateBucket only and `NoSuchBucket` for all others.
#[derive(Debug, Clone, Copy)]
struct Names;

impl NameValidation for Names {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.is_empty()
    }
}
