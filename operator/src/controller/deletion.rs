//! Says, after a Filestore was deleted, where its data is, and starts a legacy store again that it
//! had stopped. There is no finalizer: a Filestore and
//! its namespace go away even when no operator runs.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use kube::{Resource as _, ResourceExt as _};
use tokio::sync::mpsc::Receiver;

use super::api::{Error, Requests};
use super::context::Context;
use super::reconcile::Watched;
use crate::api::WorkloadKind;
use crate::notices::Notice;
use crate::takeover::{Mark, Workload};

/// Starts the legacy store again that was stopped for a cut-over which nobody brings to an end now.
async fn thaw(requests: &Requests<'_>, watched: &Watched) -> Result<(), Error> {
    let status = watched
        .0
        .as_ref()
        .ok()
        .and_then(|found| found.status.as_ref());
    let migration = status.and_then(|status| status.migration.as_ref());
    let Some(source) = migration.and_then(|migration| migration.source.as_ref()) else {
        return Ok(());
    };
    let name = &source.workload.name;
    let workload = match source.kind {
        WorkloadKind::Deployment => {
            let found = requests.get::<Deployment>(name).await?;
            found.as_ref().map(Workload::from)
        }
        WorkloadKind::StatefulSet => {
            let found = requests.get::<StatefulSet>(name).await?;
            found.as_ref().map(Workload::from)
        }
    };
    let Some(workload) = workload else {
        return Ok(());
    };
    let frozen = workload
        .record()
        .filter(|record| record.stage == Mark::Frozen && record.by == watched.name_any());
    let Some(record) = frozen else {
        return Ok(());
    };
    let patch = workload.patch(record.replicas, None);
    match source.kind {
        WorkloadKind::Deployment => requests.merge::<Deployment>(name, &patch).await.map(drop),
        WorkloadKind::StatefulSet => requests.merge::<StatefulSet>(name, &patch).await.map(drop),
    }
}

/// Tells of each deleted Filestore until the watch ends.
pub(super) async fn tell(mut deletions: Receiver<Watched>, context: &Context) {
    while let Some(watched) = deletions.recv().await {
        let (name, namespace) = (watched.name_any(), watched.namespace().unwrap_or_default());
        context.metrics.forget(&namespace, &name);
        let existing = watched.0.as_ref().ok();
        let existing = existing.and_then(|found| found.spec.storage.existing_claim.clone());
        let claim = existing.unwrap_or(name);
        let requests = Requests {
            client: context.client(),
            namespace: &namespace,
            metrics: &context.metrics,
        };
        if let Err(error) = thaw(&requests, &watched).await {
            tracing::error!(%error, "A Filestore was deleted in the middle of a cut-over and its legacy store could not be started again");
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
