//! Asks the API server.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::{Facts, Seen, legacy};
use crate::api::Filestore;

/// Everything that [`super::report`] looks at. What may not be read is in the facts, with the API
/// server's words.
///
/// # Errors
/// The API server does not answer, or does not accept who asks.
pub async fn facts(client: &Client, namespace: &str) -> kube::Result<Facts> {
    let server = client.apiserver_version().await;
    let server = seen(server)?.map(|info| {
        let number = |text: &str| text.trim_end_matches('+').parse().unwrap_or_default();
        (number(&info.major), number(&info.minor), info.git_version)
    });
    let claims: Seen<Vec<PersistentVolumeClaim>> = list(client, namespace).await?;
    let volumes = volumes(client, claims.as_deref().unwrap_or_default()).await?;
    let mut facts = Facts {
        namespace: namespace.to_owned(),
        server,
        filestores: filestores(client, namespace).await?,
        deployments: list(client, namespace).await?,
        sets: list(client, namespace).await?,
        services: list(client, namespace).await?,
        claims,
        volumes,
        classes: items(Api::all(client.clone())).await?,
        policies: list(client, namespace).await?,
        budgets: list(client, namespace).await?,
        autoscalers: list(client, namespace).await?,
        secrets: BTreeMap::new(),
    };
    for name in legacy::secret_names(&facts) {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = seen(api.get_opt(&name).await)?;
        // Names of keys; the values are forgotten here.
        let keys = found.map(|secret| {
            secret.map(|secret| secret.data.unwrap_or_default().into_keys().collect())
        });
        facts.secrets.insert(name, keys);
    }
    Ok(facts)
}

/// A refusal is something that was seen; other failures end the whole.
fn seen<T>(result: kube::Result<T>) -> kube::Result<Seen<T>> {
    match result {
        Ok(found) => Ok(Ok(found)),
        Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => {
            Ok(Err(status.message))
        }
        Err(error) => Err(error),
    }
}

async fn items<K>(api: Api<K>) -> kube::Result<Seen<Vec<K>>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let found = seen(api.list(&ListParams::default()).await)?;
    Ok(found.map(|list| list.items))
}

async fn list<K>(client: &Client, namespace: &str) -> kube::Result<Seen<Vec<K>>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug,
{
    items(Api::namespaced(client.clone(), namespace)).await
}

/// `None` where the cluster does not know the resource.
async fn filestores(
    client: &Client,
    namespace: &str,
) -> kube::Result<Seen<Option<Vec<Filestore>>>> {
    let api: Api<Filestore> = Api::namespaced(client.clone(), namespace);
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Ok(Some(list.items))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Ok(None)),
        // An object of another version of the resource.
        Err(kube::Error::SerdeError(error)) => Ok(Err(error.to_string())),
        Err(error) => seen(Err(error)),
    }
}

/// The volumes behind claims; one that may not be read stands for all.
async fn volumes(
    client: &Client,
    claims: &[PersistentVolumeClaim],
) -> kube::Result<Seen<Vec<PersistentVolume>>> {
    let api: Api<PersistentVolume> = Api::all(client.clone());
    let mut volumes = Vec::new();
    let names = claims
        .iter()
        .filter_map(|claim| claim.spec.as_ref()?.volume_name.as_deref());
    for name in names {
        match seen(api.get_opt(name).await)? {
            Ok(found) => volumes.extend(found),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(volumes))
}
