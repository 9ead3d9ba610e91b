//! Says, after a Filestore was deleted, where its data is, and starts a legacy store again that it
//! had stopped. There is no finalizer: a Filestore and
//! its namespace go away even when no operator runs.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use kube::{Resource as _, ResourceExt as _};
use tokio::sync::mpsc::Receiver;

use super::api::{Error, Requests};
use super::context::Context;
use super::observe;
use super::reconcile::Watched;
use crate::api::WorkloadKind;
use crate::notices::Notice;
use crate::render::NAME_LABEL;
use crate::takeover::{Mark, Workload};

/// Starts the legacy store again that the Filestore `name`, which does not exist, stopped for a
/// cut-over: nobody brings that to an end now. What it wrote down is on the legacy workload, so
/// that it does not matter who saw the Filestore go, and when.
///
/// # Errors
/// A request failed; the next call goes on.
pub(super) async fn thaw(context: &Context, namespace: &str, name: &str) -> Result<(), Error> {
    let requests = Requests {
        client: context.client(),
        namespace,
        metrics: &context.metrics,
    };
    let labelled = format!("{NAME_LABEL}={name}");
    let deployments: Vec<Deployment> = observe::list(&requests, &labelled).await?;
    let sets: Vec<StatefulSet> = observe::list(&requests, &labelled).await?;
    let all = deployments.iter().map(Workload::from);
    let all = all.chain(sets.iter().map(Workload::from));
    let mut frozen = all.filter_map(|workload| {
        let record = workload.record()?;
        (record.stage == Mark::Frozen && record.by == name).then_some((workload, record))
    });
    let Some((workload, record)) = frozen.next() else {
        return Ok(());
    };
    // Asked again: one of the same name that was made meanwhile decides for itself.
    if observe::filestore(&requests, name).await?.is_some() {
        return Ok(());
    }
    let patch = workload.patch(record.replicas, None);
    let of = workload.name();
    match workload.kind {
        WorkloadKind::Deployment => requests.merge::<Deployment>(of, &patch).await.map(drop),
        WorkloadKind::StatefulSet => requests.merge::<StatefulSet>(of, &patch).await.map(drop),
    }?;
    let about = ObjectReference {
        api_version: Some("apps/v1".to_owned()),
        kind: Some(workload.kind.as_str().to_owned()),
        name: workload.metadata.name.clone(),
        namespace: Some(namespace.to_owned()),
        uid: workload.metadata.uid.clone(),
        ..ObjectReference::default()
    };
    let notice = Notice::thawed(&workload.title(), name);
    context.tell(&notice, &about).await;
    Ok(())
}

/// Tells of each deleted Filestore until the watch ends.
pub(super) async fn tell(mut deletions: Receiver<Watched>, context: &Context) {
    while let Some(watched) = deletions.recv().await {
        let (name, namespace) = (watched.name_any(), watched.namespace().unwrap_or_default());
        context.metrics.forget(&namespace, &name);
        let existing = watched.0.as_ref().ok();
        let existing = existing.and_then(|found| found.spec.storage.existing_claim.clone());
        let claim = existing.unwrap_or_else(|| name.clone());
        let requests = Requests {
            client: context.client(),
            namespace: &namespace,
            metrics: &context.metrics,
        };
        if let Err(error) = Box::pin(thaw(context, &namespace, &name)).await {
            // What is left of it wakes us again, and the rounds try it, too.
            tracing::warn!(name, namespace, %error, "A legacy store that a deleted Filestore stopped cannot be started again yet");
        }
        match requests.get::<PersistentVolumeClaim>(&claim).await {
            Ok(Some(found)) if found.metadata.deletion_timestamp.is_none() => {
                let about = ObjectReference {
                    // `object_ref` leaves these out for objects from a typed request.
                    api_version: Some("v1".to_owned()),
                    kind: Some("PersistentVolumeClaim".to_owned()),
                    ..found.object_ref(&())
                };
                context
                    .tell(&Notice::claim_retained(&claim, &namespace), &about)
                    .await;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "Cannot tell where the data of a deleted Filestore is");
            }
        }
    }
}
