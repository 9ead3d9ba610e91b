//! The container that serves: our gateway, or versitygw over the same files.

use k8s_openapi::api::core::v1::{Container, ContainerPort, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::container::{container, env, key_env, metadata_args};
use super::tls;
use super::{ADMIN_PORT, ADMIN_PORT_NAME, API_PORT, API_PORT_NAME, DATA_PATH, GATEWAY_CONTAINER};
use crate::validate::{Server, ValidatedFilestore};

/// Path on the S3 port that versitygw answers without credentials; no bucket can have this name.
const HEALTH_PATH: &str = "/_health";

/// Environment variables with root's keys.
pub(super) const ROOT_VARIABLES: [&str; 2] = ["ROOT_ACCESS_KEY_ID", "ROOT_SECRET_ACCESS_KEY"];

/// Flag that keeps the gateway from being ready before a run was handed over.
pub(super) const REQUIRE_MARKER: &str = "--require-marker";

/// The serving container.
pub(super) fn gateway(filestore: &ValidatedFilestore) -> Container {
    let mut container = server(filestore);
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.extend(tls::mount(filestore));
    container
}

fn server(filestore: &ValidatedFilestore) -> Container {
    let [access_key, secret_key] = ROOT_VARIABLES;
    let root = key_env(&filestore.root, access_key, secret_key);
    match &filestore.server {
        Server::Bundled => Container {
            env: Some(root),
            ports: Some(vec![
                port(API_PORT_NAME, API_PORT),
                port(ADMIN_PORT_NAME, ADMIN_PORT),
            ]),
            // Opening a volume may replay what a crash left behind; until then nothing is wrong.
            startup_probe: Some(match &filestore.require_marker {
                None => probe(ADMIN_PORT_NAME, "/healthz", 2, 150),
                Some(_) => probe(ADMIN_PORT_NAME, "/healthz", 1, 300),
            }),
            liveness_probe: Some(probe(ADMIN_PORT_NAME, "/healthz", 10, 6)),
            readiness_probe: Some(match &filestore.require_marker {
                None => probe(ADMIN_PORT_NAME, "/readyz", 5, 2),
                // Clients wait for the hand-over to show.
                Some(_) => probe(ADMIN_PORT_NAME, "/readyz", 1, 10),
            }),
            ..container(filestore, GATEWAY_CONTAINER, args(filestore))
        },
        Server::Versitygw { image } => {
            let mut variables = vec![
                env("VGW_BACKEND", "posix"),
                env("VGW_BACKEND_ARG", format!("{DATA_PATH}/s3")),
                env("VGW_PORT", format!(":{API_PORT}")),
                env("VGW_REGION", filestore.region.as_str()),
                env("VGW_KEEP_ALIVE", "true"),
                env("VGW_QUIET", "true"),
                env("VGW_HEALTH", HEALTH_PATH),
            ];
            if let Some([certificate, key]) = tls::files(filestore) {
                variables.extend([env("VGW_CERT", certificate), env("VGW_KEY", key)]);
            }
            let health = |period_seconds, failures| {
                let mut probe = probe(API_PORT_NAME, HEALTH_PATH, period_seconds, failures);
                if let Some(asks) = probe.http_get.as_mut().filter(|_| filestore.tls.is_some()) {
                    // The kubelet takes any certificate.
                    asks.scheme = Some("HTTPS".to_owned());
                }
                probe
            };
            variables.extend(root);
            Container {
                image: Some(image.clone()),
                args: None,
                env: Some(variables),
                ports: Some(vec![port(API_PORT_NAME, API_PORT)]),
                liveness_probe: Some(health(10, 6)),
                readiness_probe: Some(health(5, 2)),
                ..container(filestore, GATEWAY_CONTAINER, Vec::new())
            }
        }
    }
}

fn args(filestore: &ValidatedFilestore) -> Vec<String> {
    let mut args: Vec<String> = vec![
        "gateway".to_owned(),
        DATA_PATH.to_owned(),
        "--listen".to_owned(),
        format!(":{API_PORT}"),
        "--admin-listen".to_owned(),
        format!(":{ADMIN_PORT}"),
        "--region".to_owned(),
        filestore.region.clone(),
        "--durability".to_owned(),
        filestore.durability.as_str().to_owned(),
        "--grace-period".to_owned(),
        // The last seconds are for what follows the requests: closing files, ending threads.
        (filestore.pod.grace_seconds - 5).max(1).to_string(),
    ];
    args.extend(metadata_args(filestore.storage.metadata));
    if let Some([certificate, key]) = tls::files(filestore) {
        args.extend(["--tls-cert".to_owned(), certificate]);
        args.extend(["--tls-key".to_owned(), key]);
    }
    if let Some(run) = &filestore.require_marker {
        args.extend([REQUIRE_MARKER.to_owned(), run.clone()]);
    }
    args
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn probe(port: &str, path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(port.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
