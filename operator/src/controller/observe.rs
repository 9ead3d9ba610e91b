//! Reads what bears on a Filestore.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use super::api::{Error, Requests};
use super::{Scope, ask, extras};
use crate::api::{Filestore, FilestoreStatus};
use crate::observed::Observed;
use crate::render;
use crate::secret::Secrets;
use crate::told::Told;
use crate::validate::{Source, ValidatedFilestore};

/// Label that MinIO's charts put on their workloads.
const MINIO: &str = "app.kubernetes.io/name=minio";

/// A Filestore as it is in the cluster.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Its metadata.
    pub(super) metadata: ObjectMeta,
    /// The object; the text says why it cannot be understood.
    pub(super) filestore: Result<Filestore, String>,
    /// The status; empty when there is none or it cannot be understood.
    pub(super) status: FilestoreStatus,
}

/// Whether Filestores can be listed in all of `scope`.
pub(super) async fn definition(client: &Client, scope: &Scope) -> kube::Result<()> {
    let one = ListParams::default().limit(1);
    let kind = ApiResource::erase::<Filestore>(&());
    match scope {
        Scope::All => {
            let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
            api.list_metadata(&one).await.map(drop)
        }
        Scope::Namespaces(names) => {
            for name in names {
                let api = Api::<DynamicObject>::namespaced_with(client.clone(), name, &kind);
                api.list_metadata(&one).await?;
            }
            Ok(())
        }
    }
}

/// The Filestore as it is now; `None` when it is gone. Read by a request, not from a watch: what
/// a watch shows may be older than what we wrote.
pub(super) async fn filestore(
    requests: &Requests<'_>,
    name: &str,
) -> Result<Option<Fetched>, Error> {
    let kind = ApiResource::erase::<Filestore>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(requests.client.clone(), requests.namespace, &kind);
    let found = api.get_opt(name).await.map_err(|source| Error::Request {
        verb: "get",
        kind: Filestore::kind(&()).into_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    })?;
    let Some(object) = found else {
        return Ok(None);
    };
    let status = object.data.get("status").cloned().unwrap_or_default();
    Ok(Some(Fetched {
        metadata: object.metadata.clone(),
        filestore: parse(&object),
        status: FilestoreStatus::deserialize(status).unwrap_or_default(),
    }))
}

fn parse(object: &DynamicObject) -> Result<Filestore, String> {
    // The status is ours to rewrite: whatever is in it must not keep us from the spec.
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().to_string() {
        path if path == "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    })
}

/// The Secrets that the spec refers to, as far as they exist.
pub(super) async fn secrets(
    requests: &Requests<'_>,
    filestore: &Filestore,
) -> Result<Secrets, Error> {
    let mut secrets = Secrets::default();
    for name in secret_names(filestore) {
        if let Some(secret) = requests.get::<Secret>(name).await? {
            let data = secret.data.unwrap_or_default();
            let values: BTreeMap<_, _> = data
                .into_iter()
                .map(|(key, value)| (key, value.0))
                .collect();
            secrets.insert(name.to_owned(), values);
        }
    }
    Ok(secrets)
}

/// Names of the Secrets that the spec refers to.
pub(super) fn secret_names(filestore: &Filestore) -> BTreeSet<&str> {
    let spec = &filestore.spec;
    let source = spec
        .migration
        .as_ref()
        .and_then(|migration| migration.source.as_ref());
    [
        Some(&spec.credentials),
        source.and_then(|source| source.credentials.as_ref()),
    ]
    .into_iter()
    .flatten()
    .map(|credentials| credentials.secret_ref.name.as_str())
    .collect()
}

/// Everything else, for a spec that is right.
pub(super) async fn cluster(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
) -> Result<Observed, Error> {
    let name = &filestore.name;
    let migration = filestore.migration.as_ref();
    let source_claim = match migration.and_then(|migration| migration.source.as_ref()) {
        Some(Source::Offline { claim, .. }) => requests.get::<PersistentVolumeClaim>(claim).await?,
        _ => None,
    };
    let unnamed = migration.is_some_and(|migration| migration.source.is_none());
    let mut observed = Observed {
        claim: requests.get(&filestore.storage.claim).await?,
        source_claim,
        deployment: requests.get::<Deployment>(name).await?,
        service: requests.get::<Service>(name).await?,
        service_account: requests.get::<ServiceAccount>(name).await?,
        pods: pods(requests, name).await?,
        legacy: if unnamed {
            legacy(requests).await?
        } else {
            Vec::new()
        },
        extras: extras::observe(requests, filestore).await?,
        told: Told::default(),
    };
    if let Some(address) = observed.address() {
        observed.told = ask::pod(address, render::ADMIN_PORT).await;
    }
    Ok(observed)
}

/// Pods of the Filestore `name`.
pub(super) async fn pods(requests: &Requests<'_>, name: &str) -> Result<Vec<Pod>, Error> {
    list(requests, &format!("{}={name}", render::NAME_LABEL)).await
}

/// Workloads that look like a MinIO, by kind and name.
async fn legacy(requests: &Requests<'_>) -> Result<Vec<String>, Error> {
    let names = |kind: &str, objects: Vec<String>| {
        objects
            .into_iter()
            .map(|name| format!("{kind} {name}"))
            .collect::<Vec<_>>()
    };
    let deployments: Vec<Deployment> = list(requests, MINIO).await?;
    let sets: Vec<StatefulSet> = list(requests, MINIO).await?;
    // Ours may wear such labels too.
    let deployments = deployments
        .iter()
        .filter(|found| !found.labels().contains_key(render::NAME_LABEL));
    let mut found = names(
        "Deployment",
        deployments.map(ResourceExt::name_any).collect(),
    );
    found.extend(names(
        "StatefulSet",
        sets.iter().map(ResourceExt::name_any).collect(),
    ));
    found.sort();
    Ok(found)
}

async fn list<K>(requests: &Requests<'_>, selector: &str) -> Result<Vec<K>, Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let params = ListParams::default().labels(selector);
    let found = requests.api::<K>().list(&params).await;
    found
        .map(|list| list.items)
        .map_err(|source| Error::Request {
            verb: "list",
            kind: K::kind(&()).into_owned(),
            name: selector.to_owned(),
            source: Box::new(source),
        })
}
