//! The certificate in the pod: files of its Secret, which our gateway follows.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume, VolumeMount};

use crate::validate::{CERTIFICATE, PRIVATE_KEY, ValidatedFilestore};

/// Where the Secret is mounted, as a directory: a file alone would not follow it.
const PATH: &str = "/run/filestore/tls";

/// Name of its volume.
const VOLUME: &str = "tls";

/// Annotation of a pod with the hash of the certificate in the Secret. Not what the pod has
/// already: on a pod of ours it has the kubelet look at once, in a template it starts another pod.
pub const CERTIFICATE_ANNOTATION: &str = "filestore.ryax.tech/certificate";

/// Paths of certificate and key in the pod, where clients are answered over HTTPS.
pub(super) fn files(filestore: &ValidatedFilestore) -> Option<[String; 2]> {
    filestore.tls.as_ref()?;
    Some([CERTIFICATE, PRIVATE_KEY].map(|name| format!("{PATH}/{name}")))
}

/// Mount of the server.
pub(super) fn mount(filestore: &ValidatedFilestore) -> Option<VolumeMount> {
    filestore.tls.as_ref()?;
    Some(VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: PATH.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}

/// Volume of the pod.
pub(super) fn volume(filestore: &ValidatedFilestore) -> Option<Volume> {
    let tls = filestore.tls.as_ref()?;
    Some(Volume {
        name: VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(tls.secret.clone()),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    })
}

/// Protocol of the S3 port, as in a URL and as the name of a Service's port: meshes go by it.
pub(super) fn protocol(filestore: &ValidatedFilestore) -> &'static str {
    match filestore.tls {
        Some(_) => "https",
        None => "http",
    }
}

/// A server that reads its certificate when it starts is started again for another one.
pub(super) fn restarted(filestore: &ValidatedFilestore, deployment: &mut Deployment) {
    if let Some((tls, spec)) = filestore.tls.as_ref().zip(deployment.spec.as_mut()) {
        let metadata = spec.template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(CERTIFICATE_ANNOTATION.to_owned(), tls.hash.clone());
    }
}
