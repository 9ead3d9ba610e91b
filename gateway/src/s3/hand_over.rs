//! `POST /.filestore/hand-over?id=ID`: gives a verified volume to its clients. No bucket can have
//! the name. Signed as any request, by the root key; answered in JSON whatever comes of it.

use std::borrow::Cow;
use std::sync::Arc;

use filestore_store::{HandOverError, Store};
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result};
use serde_json::{Value, json};

use super::error;
use super::normalize::{self, Normalize, query};
use crate::access::Principal;
use crate::auth;
use crate::context::RequestContext;
use crate::host::Hosts;
use crate::io;

const PATH: &str = "/.filestore/hand-over";

/// Whether a request is one.
pub(crate) fn is_hand_over(method: &Method, uri: &Uri) -> bool {
    *method == Method::POST && uri.path() == PATH
}

/// What is no operation of S3, or none that s3s reads as S3 does; the signature was checked.
pub(crate) struct Routes {
    store: Arc<Store>,
    hosts: Hosts,
    normalize: Normalize,
}

impl Routes {
    pub(crate) fn new(store: Arc<Store>, hosts: Hosts, normalize: Normalize) -> Self {
        Self {
            store,
            hosts,
            normalize,
        }
    }

    /// A virtual host has a key of this name.
    fn hands_over(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        is_hand_over(method, uri) && !normalize::is_virtual_host(&self.hosts, headers)
    }

    async fn hand_over(&self, request: &S3Request<Body>) -> (StatusCode, Value) {
        RequestContext::with(|context| context.set_operation("HandOver"));
        if auth::principal() != Some(Principal::Root) {
            let problem = "only the root access key may hand the volume over: sign with it";
            return (StatusCode::FORBIDDEN, json!({ "error": problem }));
        }
        let Some(run_id) = id(&request.uri) else {
            let problem = "name the migration: POST /.filestore/hand-over?id=ID";
            return (StatusCode::BAD_REQUEST, json!({ "error": problem }));
        };
        let store = Arc::clone(&self.store);
        match io::long(move || store.hand_over(&run_id)).await {
            Ok(marker) => (StatusCode::OK, json!(marker)),
            Err(refused) => {
                let told = json!({ "error": refused.to_string() });
                let status = match refused {
                    HandOverError::Unknown(_) => StatusCode::NOT_FOUND,
                    HandOverError::NotNow(_) => StatusCode::CONFLICT,
                    // Logged and counted there.
                    HandOverError::Store(cause) => error::from_store(cause)
                        .status_code()
                        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                };
                (status, told)
            }
        }
    }
}

/// The migration that a request names.
fn id(uri: &Uri) -> Option<String> {
    let text = uri.query().unwrap_or_default();
    let (_, value) = query::pairs(text).find(|(name, _)| *name == "id")?;
    let value: Cow<'_, str> = percent_decode_str(value).decode_utf8().ok()?;
    (!value.is_empty()).then(|| value.into_owned())
}

#[async_trait::async_trait]
impl S3Route for Routes {
    fn is_match(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        extensions: &mut Extensions,
    ) -> bool {
        self.hands_over(method, uri, headers)
            || self.normalize.is_match(method, uri, headers, extensions)
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        if self.hands_over(&request.method, &request.uri, &request.headers) {
            // Whether it may is told with the answer, in JSON.
            if request.credentials.is_some() {
                auth::signature_is_right();
            }
            return Ok(());
        }
        self.normalize.check_access(request).await
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        if !self.hands_over(&request.method, &request.uri, &request.headers) {
            return self.normalize.call(request).await;
        }
        let (status, told) = self.hand_over(&request).await;
        let mut response = S3Response::new(Body::from(format!("{told}\n")));
        response.status = Some(status);
        let json = HeaderValue::from_static("application/json");
        response.headers.insert(CONTENT_TYPE, json);
        Ok(response)
    }
}
