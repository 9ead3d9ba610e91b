//! Reads what bears on a Filestore.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use super::Scope;
use super::api::{Error, Requests};
use super::extras;
use super::store::Stores;
use crate::api::{Filestore, FilestoreStatus, MigrationStatus};
use crate::observed::Observed;
use crate::render;
use crate::secret::Secrets;
use crate::takeover::{self, Legacy, Mark, Namespace, Takeover, Workload};
use crate::told::{self, Told};
use crate::validate::{InCluster, Source, ValidatedFilestore};

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
    .map(|credentials| &credentials.secret_ref)
    .chain(spec.tls.as_ref().map(|tls| &tls.secret_ref))
    .map(|secret| secret.name.as_str())
    .collect()
}

/// Everything else, for a spec that is right.
pub(super) async fn cluster(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
    status: &FilestoreStatus,
    stores: &dyn Stores,
) -> Result<Observed, Error> {
    let name = &filestore.name;
    let migration = filestore.migration.as_ref();
    let in_cluster = migration.and_then(|migration| migration.cluster.as_ref());
    let mut labelled = pods(requests, name).await?;
    let job_pods = labelled.extract_if(.., |pod| !is_gateway(pod)).collect();
    let takeover = match in_cluster {
        Some(cluster) => {
            let recorded = status.migration.clone();
            let recorded =
                recorded.filter(|known| known.id == migration.and_then(|now| now.id.clone()));
            Some(takeover(requests, filestore, cluster, recorded, job_pods).await?)
        }
        None => None,
    };
    let source_claim = match migration.and_then(|migration| migration.source.as_ref()) {
        Some(Source::Offline { claim, .. }) => Some(claim.clone()),
        _ => takeover
            .as_ref()
            .and_then(|seen| seen.legacy())
            .map(|legacy| legacy.source.claim.name.clone()),
    };
    let source_claim = match source_claim {
        Some(claim) => requests.get::<PersistentVolumeClaim>(&claim).await?,
        None => None,
    };
    let mut observed = Observed {
        claim: requests.get(&filestore.storage.claim).await?,
        source_claim,
        deployment: requests.get::<Deployment>(name).await?,
        service: requests.get::<Service>(name).await?,
        service_account: requests.get::<ServiceAccount>(name).await?,
        pods: labelled,
        extras: extras::observe(requests, filestore).await?,
        takeover,
        told: Told::default(),
        no_keys: false,
        source_keys: None,
    };
    // In the middle of a cut-over clients wait: nothing is asked then that is not needed.
    let record = observed.takeover.as_ref().and_then(Takeover::record);
    let in_a_hurry = record.is_some_and(|record| record.stage == Mark::Frozen);
    if !in_a_hurry {
        observed.told = told(&observed, stores).await;
    }
    if observed.deployment.is_none() || observed.migrate_is_stuck() {
        observed.source_keys = source_keys(requests, filestore).await?;
    }
    Ok(observed)
}

/// What those tell that work: the pod, or the workers of a round together.
async fn told(observed: &Observed, stores: &dyn Stores) -> Told {
    let workers = observed
        .takeover
        .as_ref()
        .and_then(|seen| takeover::workers_at_work(&seen.jobs, &seen.job_pods));
    if let Some(workers) = workers {
        let asked = workers.addresses.iter();
        let all = join_all(asked.map(|address| stores.told(*address))).await;
        return told::together(&all, &workers.ended, workers.count);
    }
    match observed.asked() {
        Some(address) => stores.told(address).await,
        None => Told::default(),
    }
}

/// Version of the Secret with the keys of a running source, where the spec names one.
async fn source_keys(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
) -> Result<Option<String>, Error> {
    let migration = filestore.migration.as_ref();
    match migration.and_then(|migration| migration.source.as_ref()) {
        Some(Source::Online { keys, .. }) => version(requests, &keys.secret).await,
        _ => Ok(None),
    }
}

/// Whether a pod of a Filestore is its server; the others belong to Jobs.
fn is_gateway(pod: &Pod) -> bool {
    pod.labels()
        .get(render::COMPONENT_LABEL)
        .is_none_or(|part| part == render::GATEWAY)
}

/// Pods that serve the Filestore `name`.
pub(super) async fn servers(requests: &Requests<'_>, name: &str) -> Result<Vec<Pod>, Error> {
    let mut found = pods(requests, name).await?;
    found.retain(is_gateway);
    Ok(found)
}

/// Pods of the Filestore `name`.
async fn pods(requests: &Requests<'_>, name: &str) -> Result<Vec<Pod>, Error> {
    list(requests, &format!("{}={name}", render::NAME_LABEL)).await
}

/// What bears on the take-over of a legacy store in the namespace.
async fn takeover(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    recorded: Option<MigrationStatus>,
    job_pods: Vec<Pod>,
) -> Result<Takeover, Error> {
    let name = &filestore.name;
    let deployments: Vec<Deployment> = list(requests, "").await?;
    let sets: Vec<StatefulSet> = list(requests, "").await?;
    let services: Vec<Service> = list(requests, "").await?;
    let mut workloads: Vec<Workload> = deployments.iter().map(Workload::from).collect();
    workloads.extend(sets.iter().map(Workload::from));
    let namespace = Namespace {
        name: requests.namespace,
        workloads: &workloads,
        services: &services,
    };
    let source = recorded.as_ref().and_then(|known| known.source.as_ref());
    let mut secrets = None;
    let mut legacy = takeover::find(name, cluster, source, namespace);
    let mut legacy_pods = Vec::new();
    if let Ok(Some(found)) = &mut legacy {
        let claim = &mut found.source.claim;
        let live: Option<PersistentVolumeClaim> = requests.get(&claim.name).await?;
        claim.uid = live.and_then(|live| live.metadata.uid).unwrap_or_default();
        secrets = versions(requests, filestore, cluster, found).await?;
        let selector: Vec<String> = found
            .workload
            .selector
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let is_over = |pod: &Pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        let all: Vec<Pod> = list(requests, &selector.join(",")).await?;
        // Ours may wear the same labels.
        legacy_pods = all
            .into_iter()
            .filter(|pod| !pod.labels().contains_key(render::NAME_LABEL) && !is_over(pod))
            .collect();
    }
    Ok(Takeover {
        legacy,
        legacy_pods,
        jobs: list::<Job>(requests, &format!("{}={name}", render::NAME_LABEL)).await?,
        job_pods,
        recorded,
        secrets,
        trouble: None,
    })
}

/// Versions of the Secrets with the keys of both stores; not asked for while clients wait.
async fn versions(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    legacy: &Legacy,
) -> Result<Option<BTreeMap<String, Option<String>>>, Error> {
    let record = legacy.workload.record();
    if record.is_some_and(|record| record.stage == Mark::Frozen) {
        return Ok(None);
    }
    let keys = takeover::source_keys(filestore, cluster, legacy);
    let mut versions = BTreeMap::new();
    for name in BTreeSet::from([&keys.secret, &filestore.root.secret]) {
        versions.insert(name.clone(), version(requests, name).await?);
    }
    Ok(Some(versions))
}

/// A name for a Secret with what it holds now.
async fn version(requests: &Requests<'_>, secret: &str) -> Result<Option<String>, Error> {
    let found = requests.metadata::<Secret>(secret).await?;
    Ok(found.map(|found| {
        let metadata = found.metadata;
        format!(
            "{}/{}",
            metadata.uid.unwrap_or_default(),
            metadata.resource_version.unwrap_or_default()
        )
    }))
}

/// Objects of the namespace with labels as `selector` says; empty = all.
pub(super) async fn list<K>(requests: &Requests<'_>, selector: &str) -> Result<Vec<K>, Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let params = match selector {
        "" => ListParams::default(),
        selector => ListParams::default().labels(selector),
    };
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
