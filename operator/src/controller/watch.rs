//! What wakes the reconciler.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use filestore_common::shutdown::CancellationToken;
use futures::future::join_all;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::{DynamicObject, NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::controller::{Config, Controller, Error};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::Scope;
use super::access::user_secrets;
use super::context::Context;
use super::deletion;
use super::extras;
use super::observe::secret_names;
use super::reconcile::{Watched, on_error, reconcile};
use crate::api::{Filestore, WorkloadKind};
use crate::render::NAME_LABEL;

/// Changes of one object that come together are one round.
const DEBOUNCE: Duration = Duration::from_millis(300);

/// Rounds at the same time, of different Filestores.
const CONCURRENCY: u16 = 4;

/// Longest pause of a watch that cannot be set up. What happens meanwhile is seen late: once the API
/// server is back, a watch may need two attempts (the second lists anew).
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Deleted Filestores that wait to be told of; more are told of in the log only.
const DELETIONS: usize = 64;

/// Looks after all Filestores of `scope` until `term`; rounds under way are ended first.
pub(super) async fn run(scope: &Scope, context: &Arc<Context>, term: &CancellationToken) {
    match scope {
        Scope::All => one(None, context, term).await,
        Scope::Namespaces(names) => {
            let all = names.iter().map(|name| one(Some(name), context, term));
            join_all(all).await;
        }
    }
}

async fn one(namespace: Option<&str>, context: &Arc<Context>, term: &CancellationToken) {
    let (deleted, deletions) = mpsc::channel(DELETIONS);
    let (reader, filestores) = filestores(context, namespace, deleted);
    let by_label = || watcher::Config::default().labels(NAME_LABEL);
    let referring = reader.clone();
    let mut controller = Controller::for_stream(filestores, reader)
        .with_config(
            Config::default()
                .debounce(DEBOUNCE)
                .concurrency(CONCURRENCY),
        )
        // Each watch pauses by itself: by default the failure of one silences all of them.
        .trigger_backoff(Pause::up_to(Duration::from_millis(100)))
        // The label is on a legacy workload, too, once it was stopped.
        .watches_stream(touched(api::<Deployment>(context, namespace), by_label()), named)
        .watches_stream(touched(api::<StatefulSet>(context, namespace), by_label()), named)
        // One that Helm makes anew bears no label of ours; it is known by its name.
        .watches_stream(
            touched(
                api::<PartialObjectMeta<Deployment>>(context, namespace),
                watcher::Config::default(),
            ),
            taken_over(WorkloadKind::Deployment, referring.clone()),
        )
        .watches_stream(
            touched(
                api::<PartialObjectMeta<StatefulSet>>(context, namespace),
                watcher::Config::default(),
            ),
            taken_over(WorkloadKind::StatefulSet, referring.clone()),
        )
        .watches_stream(touched(api::<Job>(context, namespace), by_label()), named)
        .watches_stream(touched(api::<Service>(context, namespace), by_label()), named)
        .watches_stream(
            touched(api::<ServiceAccount>(context, namespace), by_label()),
            named,
        )
        .watches_stream(touched(api::<Pod>(context, namespace), by_label()), named)
        .watches_stream(touched(api::<ConfigMap>(context, namespace), by_label()), named)
        .watches_stream(
            touched(api::<NetworkPolicy>(context, namespace), by_label()),
            named,
        )
        .watches_stream(
            touched(
                api::<PersistentVolumeClaim>(context, namespace),
                watcher::Config::default(),
            ),
            claims(referring.clone()),
        )
        .watches_stream(
            // Metadata alone: the values of all Secrets would fill our memory.
            touched(
                api::<PartialObjectMeta<Secret>>(context, namespace),
                watcher::Config::default(),
            ),
            move |secret| users_of(&referring, &secret),
        );
    // A kind that comes to be known later is looked at every ten minutes, and watched by the next
    // process.
    for kind in extras::served(context.client(), namespace).await {
        let objects = extras::all(context.client(), namespace, &kind);
        controller = controller.watches_stream_with(touched(objects, by_label()), named, kind);
    }
    let controller = controller
        .graceful_shutdown_on(term.clone().cancelled_owned())
        .run(reconcile, on_error, Arc::clone(context))
        .for_each(|result| async move {
            match result {
                // Failed rounds are logged where the pause is chosen.
                Ok(_) | Err(Error::ReconcilerFailed(..)) => {}
                Err(Error::ObjectNotFound(gone)) => left_behind(context, &gone).await,
                Err(error) => tracing::warn!(%error, "A watch was interrupted; it is set up again"),
            }
        });
    tokio::join!(controller, deletion::tell(deletions, context));
}

/// All Filestores as they are, and those whose spec or annotations changed; tells `deleted` of those
/// that were.
fn filestores(
    context: &Context,
    namespace: Option<&str>,
    deleted: mpsc::Sender<Watched>,
) -> (
    Store<Watched>,
    impl Stream<Item = Result<Watched, watcher::Error>> + Send + 'static,
) {
    let (reader, writer) = reflector::store();
    let changed = watcher(api::<Watched>(context, namespace), watcher::Config::default())
        .backoff(Pause::up_to(LONGEST_PAUSE))
        .reflect(writer)
        .inspect(move |event| {
            if let Ok(Event::Delete(filestore)) = event
                && deleted.try_send(filestore.clone()).is_err()
            {
                tracing::info!(name = %filestore.name_any(), "A Filestore was deleted, its claim is kept");
            }
        })
        .applied_objects()
        // Our own writes of the status are no news.
        .predicate_filter(
            predicates::generation.combine(predicates::annotations),
            PredicateConfig::default(),
        );
    (reader, changed)
}

/// Something bears the name of a Filestore that does not exist: an object that goes with it, or the
/// legacy store of a cut-over that nobody saw end.
async fn left_behind(context: &Context, gone: &ObjectRef<DynamicObject>) {
    let namespace = gone.namespace.as_deref().unwrap_or_default();
    if let Err(error) = Box::pin(deletion::thaw(context, namespace, &gone.name)).await {
        tracing::warn!(name = gone.name, namespace, %error, "A legacy store that a deleted Filestore stopped cannot be started again yet");
    }
}

fn api<K>(context: &Context, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug,
{
    match namespace {
        Some(namespace) => Api::namespaced(context.client().clone(), namespace),
        None => Api::all(context.client().clone()),
    }
}

/// Objects that were made, changed or deleted.
fn touched<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, config)
        .backoff(Pause::up_to(LONGEST_PAUSE))
        .touched_objects()
}

/// Pauses after failures of a watch: twice as long each time, until something arrives.
#[derive(Debug)]
struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(500);

    fn up_to(longest: Duration) -> Self {
        Self {
            next: Self::FIRST,
            longest,
        }
    }
}

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next.min(self.longest);
        self.next = pause * 2;
        Some(pause)
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

/// The Filestore that an object's label names, and the one that owns it: somebody may have changed
/// the label.
#[expect(clippy::needless_pass_by_value, reason = "the controller's signature")]
fn named<K: Resource>(object: K) -> Vec<ObjectRef<Watched>> {
    let Some(namespace) = object.namespace() else {
        return Vec::new();
    };
    let owners = object.owner_references().iter();
    let owners = owners.filter(|owner| owner.kind == Filestore::kind(&()));
    let mut names: Vec<&str> = owners.map(|owner| owner.name.as_str()).collect();
    names.extend(object.labels().get(NAME_LABEL).map(String::as_str));
    names.dedup();
    let found = names.into_iter();
    found
        .map(|name| ObjectRef::new(name).within(&namespace))
        .collect()
}

/// Filestores that take over a workload of this name, or did, whatever labels it bears.
fn taken_over<K>(
    kind: WorkloadKind,
    filestores: Store<Watched>,
) -> impl Fn(PartialObjectMeta<K>) -> Vec<ObjectRef<Watched>> + Send + Sync + 'static
where
    PartialObjectMeta<K>: Resource,
{
    move |workload| {
        let name = workload.name_any();
        users(&filestores, workload.namespace().as_deref(), |watched| {
            let status = watched
                .0
                .as_ref()
                .ok()
                .and_then(|found| found.status.as_ref());
            let migration = status.and_then(|status| status.migration.as_ref());
            let source = migration.and_then(|migration| migration.source.as_ref());
            source.is_some_and(|source| source.kind == kind && source.workload.name == name)
        })
    }
}

/// Filestores that use a claim: by its label, because it bears their name, or because they name it.
fn claims(
    filestores: Store<Watched>,
) -> impl Fn(PersistentVolumeClaim) -> Vec<ObjectRef<Watched>> + Send + Sync + 'static {
    move |claim| {
        let name = claim.name_any();
        let mut found = users(&filestores, claim.namespace().as_deref(), |watched| {
            let Ok(filestore) = &watched.0 else {
                return false;
            };
            let source = filestore.spec.migration.as_ref();
            let source = source.and_then(|migration| migration.source.as_ref());
            let source = source.and_then(|source| source.existing_claim.as_ref());
            let data = filestore.spec.storage.existing_claim.as_ref();
            let data = data.or(filestore.metadata.name.as_ref());
            let status = filestore.status.as_ref();
            let migration = status.and_then(|status| status.migration.as_ref());
            let legacy = migration.and_then(|migration| migration.source.as_ref());
            let legacy = legacy.map(|legacy| &legacy.claim.name);
            [data, source, legacy].contains(&Some(&name))
        });
        found.extend(named(claim));
        found
    }
}

fn users_of(
    filestores: &Store<Watched>,
    secret: &PartialObjectMeta<Secret>,
) -> Vec<ObjectRef<Watched>> {
    let name = secret.name_any();
    users(filestores, secret.namespace().as_deref(), |watched| {
        let Ok(filestore) = &watched.0 else {
            return false;
        };
        let status = filestore.status.as_ref();
        let migration = status.and_then(|status| status.migration.as_ref());
        let source = migration.and_then(|migration| migration.source.as_ref());
        let legacy = source.and_then(|source| source.secret.as_ref());
        secret_names(filestore).contains(name.as_str())
            || legacy == Some(&name)
            || user_secrets(filestore).any(|known| known == name)
    })
}

fn users(
    filestores: &Store<Watched>,
    namespace: Option<&str>,
    uses: impl Fn(&Watched) -> bool,
) -> Vec<ObjectRef<Watched>> {
    filestores
        .state()
        .iter()
        .filter(|watched| watched.namespace().as_deref() == namespace && uses(watched))
        .map(|watched| ObjectRef::from_obj(watched.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_whose_label_was_changed_still_wakes_its_owner() {
        let service = |label: &str, owner: serde_json::Value| -> Service {
            serde_json::from_value(serde_json::json!({"metadata": {
                "name": "files", "namespace": "ns", "labels": {NAME_LABEL: label},
                "ownerReferences": owner,
            }}))
            .unwrap()
        };
        let owner = |kind: &str| serde_json::json!([{"apiVersion": "v1", "kind": kind, "name": "files", "uid": "u"}]);
        let woken = |service: Service| -> Vec<String> {
            named(service).into_iter().map(|found| found.name).collect()
        };
        assert_eq!(woken(service("files", owner("Filestore"))), ["files"]);
        assert_eq!(woken(service("x", owner("Filestore"))), ["files", "x"]);
        assert_eq!(woken(service("x", owner("ReplicaSet"))), ["x"]);
    }
}
