//! Root's keys, users and quotas of a gateway in a cluster: files of one Secret, which it follows.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, SecretVolumeSource, Volume, VolumeMount};

use super::GATEWAY_CONTAINER;
use super::gateway::ROOT_VARIABLES;
use super::tls;
use crate::access::{ACCESS_FILE, ROOT_FILES};
use crate::validate::{Server, ValidatedFilestore, rendered_name};

/// Where the Secret is mounted, as a directory: a file alone would not follow it.
pub const ACCESS_PATH: &str = "/run/filestore/access";

/// Name of its volume.
const ACCESS_VOLUME: &str = "access";

/// The Deployment whose gateway follows the Secret that the operator keeps, instead of reading
/// root's keys once from its environment. versitygw cannot follow anything; another certificate
/// starts it again.
pub fn followed(filestore: &ValidatedFilestore, mut deployment: Deployment) -> Deployment {
    let spec = deployment.spec.as_mut();
    match &filestore.server {
        Server::Bundled => {
            if let Some(pod) = spec.and_then(|spec| spec.template.spec.as_mut()) {
                mount(filestore, pod);
            }
        }
        Server::Versitygw { .. } => tls::restarted(filestore, &mut deployment),
    }
    deployment
}

fn mount(filestore: &ValidatedFilestore, pod: &mut PodSpec) {
    let gateway = |name: &str| name == GATEWAY_CONTAINER;
    for container in pod
        .containers
        .iter_mut()
        .filter(|found| gateway(&found.name))
    {
        let mut variables = container.env.take().unwrap_or_default();
        variables.retain(|variable| !ROOT_VARIABLES.contains(&variable.name.as_str()));
        container.env = (!variables.is_empty()).then_some(variables);
        let flags = [
            ("--credentials-dir", ACCESS_PATH.to_owned()),
            ("--access-key-file", ROOT_FILES.0.to_owned()),
            ("--secret-key-file", ROOT_FILES.1.to_owned()),
            ("--access-file", format!("{ACCESS_PATH}/{ACCESS_FILE}")),
        ];
        let args = flags
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value]);
        container.args.get_or_insert_default().extend(args);
        container
            .volume_mounts
            .get_or_insert_default()
            .push(VolumeMount {
                name: ACCESS_VOLUME.to_owned(),
                mount_path: ACCESS_PATH.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
    }
    pod.volumes.get_or_insert_default().push(Volume {
        name: ACCESS_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(rendered_name(&filestore.name)),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    });
}
