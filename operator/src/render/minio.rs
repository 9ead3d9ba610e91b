//! The legacy MinIO for itself alone: beside the migrator in a pod, heard on localhost only.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, ExecAction, Probe, SecurityContext, VolumeMount,
};

use super::container::{SOURCE_VOLUME, env, key_env};
use super::job::JobRequest;
use super::{API_PORT, SOURCE_PATH};
use crate::takeover::JobKind;

/// Volume for what MinIO writes besides its data.
pub(super) const SCRATCH: &str = "scratch";

/// Where it answers.
pub(super) fn endpoint() -> String {
    format!("http://127.0.0.1:{API_PORT}")
}

/// Finds the program in the images of MinIO and of Bitnami. Their entry points would listen on all
/// addresses.
const START: &str = "PATH=$PATH:/opt/bitnami/minio/bin:/usr/bin; exec minio server --address \"127.0.0.1:$1\" --console-address 127.0.0.1:9001 \"$2\"";

/// Whether it takes connections: a line of `/proc/net/tcp` (proc(5)) in state `LISTEN` with the port
/// `$1`, in hexadecimal. It is heard on localhost alone, where the kubelet cannot ask, and its image
/// may have nothing but a shell.
const LISTENS: &str = "while read -r line; do case \"$line\" in *\": 0100007F:$1 00000000:0000 0A \"*) exit 0 ;; esac; done < /proc/net/tcp; exit 1";

/// The migrator starts once it takes connections.
fn listens() -> Probe {
    Probe {
        exec: Some(ExecAction {
            command: Some(
                [
                    "/bin/sh",
                    "-c",
                    LISTENS,
                    "listens",
                    &format!("{API_PORT:04X}"),
                ]
                .map(str::to_owned)
                .into(),
            ),
        }),
        period_seconds: Some(1),
        timeout_seconds: Some(5),
        failure_threshold: Some(120),
        ..Probe::default()
    }
}

/// A native sidecar with the image and the settings of the legacy store: it runs until the
/// migrator has ended.
pub(super) fn minio(request: &JobRequest<'_>) -> Container {
    let legacy = &request.legacy.container;
    let folder = match (request.kind, request.legacy.source.path.as_str()) {
        (JobKind::Back, path) if !path.is_empty() => format!("{SOURCE_PATH}/{path}"),
        _ => SOURCE_PATH.to_owned(),
    };
    let mut variables = key_env(request.keys, "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD");
    variables.push(env("HOME", "/tmp"));
    let kept = legacy.env.iter().flatten().filter(|found| is_kept(found));
    variables.extend(kept.cloned());
    Container {
        name: "minio".to_owned(),
        image: legacy.image.clone(),
        image_pull_policy: legacy.image_pull_policy.clone(),
        restart_policy: Some("Always".to_owned()),
        startup_probe: Some(listens()),
        command: Some(vec![
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            START.to_owned(),
        ]),
        args: Some(vec!["minio".to_owned(), API_PORT.to_string(), folder]),
        env: Some(variables),
        resources: legacy.resources.clone(),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![
            VolumeMount {
                name: SOURCE_VOLUME.to_owned(),
                mount_path: SOURCE_PATH.to_owned(),
                ..VolumeMount::default()
            },
            VolumeMount {
                name: SCRATCH.to_owned(),
                mount_path: "/tmp".to_owned(),
                ..VolumeMount::default()
            },
        ]),
        ..Container::default()
    }
}

/// Settings that bear on the data (compression, encryption, region); not those of the chart's
/// start script, nor keys in files that are not mounted here.
fn is_kept(variable: &EnvVar) -> bool {
    let name = variable.name.as_str();
    [
        "MINIO_COMPRESSION",
        "MINIO_KMS",
        "MINIO_REGION",
        "MINIO_SITE",
        "MINIO_STORAGE_CLASS",
    ]
    .iter()
    .any(|start| name.starts_with(start))
        && !name.ends_with("_FILE")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_alone_sees_who_takes_connections() {
        let listens = |port: u16| {
            let port = format!("{port:04X}");
            let arguments = ["-c", LISTENS, "listens", &port];
            let shell = Command::new("/bin/sh").args(arguments).status();
            shell.unwrap().success()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(port));
        drop(listener);
        assert!(!listens(port));
    }
}
