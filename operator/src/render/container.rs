//! What all our containers have in common.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, EnvVarSource, ResourceRequirements, SecretKeySelector,
    SecurityContext, VolumeMount,
};

use super::{DATA_PATH, SOURCE_PATH};
use crate::api::MetadataMode;
use crate::validate::{KeyPair, Pod, ValidatedFilestore};

/// Name of the volume with the data.
pub(super) const DATA_VOLUME: &str = "data";

/// Name of the volume with a legacy drive.
pub(super) const SOURCE_VOLUME: &str = "source";

/// A container of our image that may do nothing but its job.
pub(super) fn container(
    filestore: &ValidatedFilestore,
    name: &str,
    args: Vec<String>,
) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(filestore.image.clone()),
        args: Some(args),
        resources: resources(&filestore.pod),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![data_mount()]),
        ..Container::default()
    }
}

fn resources(pod: &Pod) -> Option<ResourceRequirements> {
    let filled = |map: &BTreeMap<_, _>| (!map.is_empty()).then(|| map.clone());
    let requests = filled(&pod.resources.requests);
    let limits = filled(&pod.resources.limits);
    (requests.is_some() || limits.is_some()).then(|| ResourceRequirements {
        requests,
        limits,
        ..ResourceRequirements::default()
    })
}

fn data_mount() -> VolumeMount {
    VolumeMount {
        name: DATA_VOLUME.to_owned(),
        mount_path: DATA_PATH.to_owned(),
        ..VolumeMount::default()
    }
}

/// The legacy drive, for reading only.
pub(super) fn source_mount() -> VolumeMount {
    VolumeMount {
        name: SOURCE_VOLUME.to_owned(),
        mount_path: SOURCE_PATH.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}

/// An environment variable with a fixed value.
pub(super) fn env(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}

/// An environment variable from a Secret.
pub(super) fn secret_env(name: &str, secret: &str, key: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                ..SecretKeySelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// Both keys of a pair.
pub(super) fn key_env(pair: &KeyPair, access_name: &str, secret_name: &str) -> Vec<EnvVar> {
    vec![
        secret_env(access_name, &pair.secret, &pair.access_key),
        secret_env(secret_name, &pair.secret, &pair.secret_key),
    ]
}

/// `--metadata` for the volume, when the Filestore asks for a mode.
pub(super) fn metadata_args(mode: MetadataMode) -> Vec<String> {
    match mode {
        MetadataMode::Auto => Vec::new(),
        MetadataMode::Xattr => vec!["--metadata".to_owned(), "xattr".to_owned()],
        MetadataMode::Sidecar => vec!["--metadata".to_owned(), "sidecar".to_owned()],
    }
}
