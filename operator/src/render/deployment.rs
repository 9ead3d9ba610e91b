//! The Deployment around the pod.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

use super::GATEWAY_CONTAINER;
use super::gateway::REQUIRE_MARKER;
use super::labels::{labels, selector};
use super::pod::pod_template;
use crate::validate::ValidatedFilestore;

const A_WEEK: i32 = 7 * 24 * 3600;

/// One pod, replaced only after the old one is gone: a volume that one node mounts cannot be
/// handed over.
pub fn deployment(filestore: &ValidatedFilestore) -> Deployment {
    Deployment {
        metadata: object_meta(filestore),
        spec: Some(DeploymentSpec {
            replicas: Some(i32::from(!filestore.suspend)),
            selector: LabelSelector {
                match_labels: Some(selector(filestore)),
                ..LabelSelector::default()
            },
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            // The copy is part of the pod's start, and no failure because it takes long.
            progress_deadline_seconds: filestore.migration.as_ref().map(|_| A_WEEK),
            template: pod_template(filestore),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// Annotation of the pod: a name for the Secret with the keys of a running source, as it was when
/// the take-over was started.
const SOURCE_KEYS_ANNOTATION: &str = "filestore.ryax.tech/source-keys";

/// The Deployment, whose pod is another one when the keys of the source are others.
pub fn with_source_keys(mut deployment: Deployment, version: Option<String>) -> Deployment {
    if let (Some(version), Some(spec)) = (version, deployment.spec.as_mut()) {
        let metadata = spec.template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(SOURCE_KEYS_ANNOTATION.to_owned(), version);
    }
    deployment
}

/// What [`with_source_keys`] was told.
pub fn source_keys(deployment: &Deployment) -> Option<String> {
    let metadata = deployment.spec.as_ref()?.template.metadata.as_ref()?;
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(SOURCE_KEYS_ANNOTATION).cloned()
}

/// The run that a Deployment's gateway waits for.
pub fn required_marker(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let gateway = pod
        .containers
        .iter()
        .find(|container| container.name == GATEWAY_CONTAINER)?;
    let args = gateway.args.as_deref().unwrap_or_default();
    let at = args.iter().position(|arg| arg == REQUIRE_MARKER)?;
    args.get(at + 1).cloned()
}

/// Name, namespace and labels of an object that carries the Filestore's name.
pub(super) fn object_meta(filestore: &ValidatedFilestore) -> ObjectMeta {
    ObjectMeta {
        name: Some(filestore.name.clone()),
        namespace: filestore.namespace.clone(),
        labels: Some(labels(filestore)),
        ..ObjectMeta::default()
    }
}
