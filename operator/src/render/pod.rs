//! The pod: migration, preparation, then the server, on one volume.

use k8s_openapi::api::core::v1::{
    LocalObjectReference, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec,
    PodTemplateSpec, SeccompProfile, Volume,
};
use kube::core::ObjectMeta;

use super::container::{DATA_VOLUME, SOURCE_VOLUME};
use super::gateway::gateway;
use super::labels::{labels, selector};
use super::migrate::migrate;
use super::prepare::{layout, prepare};
use super::tls;
use crate::validate::{Security, Source, ValidatedFilestore};

/// The pod of a Filestore. The init containers run one after the other, the server starts when
/// they have ended well.
pub fn pod_template(filestore: &ValidatedFilestore) -> PodTemplateSpec {
    let init: Vec<_> = [layout(filestore), migrate(filestore), prepare(filestore)]
        .into_iter()
        .flatten()
        .collect();
    let mut all_labels = labels(filestore);
    all_labels.extend(filestore.pod.labels.clone());
    all_labels.extend(selector(filestore));
    let annotations = &filestore.pod.annotations;
    let pull_secrets = filestore.pod.image_pull_secrets.iter();
    let pull_secrets: Vec<_> = pull_secrets
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    let placement = filestore.placement.clone();
    let tolerations = placement.tolerations;
    let spread = placement.topology_spread_constraints;
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(all_labels),
            annotations: (!annotations.is_empty()).then(|| annotations.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            init_containers: (!init.is_empty()).then_some(init),
            containers: vec![gateway(filestore)],
            volumes: Some(volumes(filestore)),
            security_context: Some(security_context(&filestore.security)),
            termination_grace_period_seconds: Some(filestore.pod.grace_seconds),
            service_account_name: Some(filestore.name.clone()),
            // Nothing in the pod talks to the API server or looks Services up by environment.
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            image_pull_secrets: (!pull_secrets.is_empty()).then_some(pull_secrets),
            node_selector: (!placement.node_selector.is_empty()).then_some(placement.node_selector),
            tolerations: (!tolerations.is_empty()).then_some(tolerations),
            affinity: placement.affinity,
            topology_spread_constraints: (!spread.is_empty()).then_some(spread),
            priority_class_name: placement.priority_class_name,
            ..PodSpec::default()
        }),
    }
}

fn volumes(filestore: &ValidatedFilestore) -> Vec<Volume> {
    let mut volumes = vec![claim_volume(DATA_VOLUME, &filestore.storage.claim, false)];
    let source = filestore
        .migration
        .as_ref()
        .and_then(|migration| migration.source.as_ref());
    if let Some(Source::Offline { claim, .. }) = source {
        // Read-only as a volume, not only as a mount: only then does the kubelet not change the
        // owner of the files to fsGroup.
        volumes.push(claim_volume(SOURCE_VOLUME, claim, true));
    }
    volumes.extend(tls::volume(filestore));
    volumes
}

/// A claim as a volume.
pub(super) fn claim_volume(name: &str, claim: &str, read_only: bool) -> Volume {
    Volume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.to_owned(),
            read_only: read_only.then_some(true),
        }),
        ..Volume::default()
    }
}

/// Pod Security Standard "restricted".
pub(super) fn security_context(security: &Security) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: security.run_as_user,
        run_as_group: security.run_as_group,
        fs_group: security.fs_group,
        // A recursive change of owner at each start would take hours on a large volume.
        fs_group_change_policy: security.fs_group.map(|_| "OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}
