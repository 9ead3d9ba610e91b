//! Requests to the API server, counted.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::metrics::Metrics;
use crate::plan::{FIELD_MANAGER, STATUS_MANAGER};

/// What went wrong between us and the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("{verb} {kind} {name:?}: {}", words(source))]
    Request {
        /// What was attempted.
        verb: &'static str,
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// What came back.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object cannot be written as JSON.
    #[error("write {0} as JSON: {1}")]
    Json(&'static str, #[source] serde_json::Error),
    /// The address for metrics cannot be used.
    #[error("serve metrics: {0}")]
    Serve(#[source] std::io::Error),
}

/// The API server's own words, where it answered; kube would repeat them with all their fields.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl Error {
    /// What the API server says against the request itself, where trying again at once is of no
    /// use: it is invalid, or we may not.
    pub(super) fn is_refusal(&self) -> bool {
        let Self::Request { source, .. } = self else {
            return false;
        };
        matches!(
            source.as_ref(),
            kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 422)
        )
    }
}

impl Error {
    /// Whether there is no such thing, which for a list means: no such kind.
    pub(super) fn is_unknown(&self) -> bool {
        let Self::Request { source, .. } = self else {
            return false;
        };
        matches!(source.as_ref(), kube::Error::Api(status) if status.code == 404)
    }

    /// Whether the object would not be valid with what was asked for.
    pub(super) fn is_invalid(&self) -> bool {
        let Self::Request { source, .. } = self else {
            return false;
        };
        matches!(source.as_ref(), kube::Error::Api(status) if status.code == 422)
    }
}

/// A namespace, for typed requests.
#[derive(Clone, Copy)]
pub(super) struct Requests<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a str,
    pub(super) metrics: &'a Metrics,
}

impl Requests<'_> {
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn wrap<K>(verb: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Error
    where
        K: Resource<DynamicType = ()>,
    {
        let name = name.to_owned();
        move |source| Error::Request {
            verb,
            kind: K::kind(&()).into_owned(),
            name,
            source: Box::new(source),
        }
    }

    fn count<K: Resource<DynamicType = ()>>(&self, verb: &'static str) {
        self.metrics.write(&K::kind(&()), verb);
    }

    /// The object; `None` when there is none.
    pub(super) async fn get<K>(&self, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let found = self.api::<K>().get_opt(name).await;
        found.map_err(Self::wrap::<K>("get", name))
    }

    /// Its metadata alone; `None` when there is none.
    pub(super) async fn metadata<K>(
        &self,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<K>>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let found = self.api::<K>().get_metadata_opt(name).await;
        found.map_err(Self::wrap::<K>("get", name))
    }

    /// Makes an object; one that exists by now is left as it is and returned.
    pub(super) async fn create<K>(&self, name: &str, object: &K) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Serialize
            + Debug,
    {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.count::<K>("create");
        match self.api::<K>().create(&params, object).await {
            Ok(made) => Ok(Some(made)),
            Err(kube::Error::Api(status)) if status.code == 409 => self.get(name).await,
            Err(error) => Err(Self::wrap::<K>("create", name)(error)),
        }
    }

    /// Changes fields by a merge patch.
    pub(super) async fn merge<K>(&self, name: &str, patch: &Value) -> Result<K, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.count::<K>("patch");
        let patched = self
            .api::<K>()
            .patch(name, &params, &Patch::Merge(patch))
            .await;
        patched.map_err(Self::wrap::<K>("patch", name))
    }

    /// Server-side apply of all fields that we mean. With force: the Filestore says what holds.
    pub(super) async fn apply<K>(&self, name: &str, object: &Value) -> Result<K, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.count::<K>("apply");
        let applied = self
            .api::<K>()
            .patch(name, &params, &Patch::Apply(object))
            .await;
        applied.map_err(Self::wrap::<K>("apply", name))
    }

    /// Server-side apply of the status.
    pub(super) async fn apply_status<K>(&self, name: &str, object: &Value) -> Result<(), Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned,
    {
        let params = PatchParams::apply(STATUS_MANAGER).force();
        self.count::<K>("apply status");
        let applied = self
            .api::<K>()
            .patch_status(name, &params, &Patch::Apply(object))
            .await;
        applied
            .map(drop)
            .map_err(Self::wrap::<K>("write status of", name))
    }
}
