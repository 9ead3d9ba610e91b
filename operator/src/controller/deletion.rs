//! Says, after a Filestore was deleted, where its data is. There is no finalizer: a Filestore and
//! its namespace go away even when no operator runs.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};
use kube::{Resource as _, ResourceExt as _};
use tokio::sync::mpsc::Receiver;

use super::api::Requests;
use super::context::Context;
use super::reconcile::Watched;
use crate::notices::Notice;

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
