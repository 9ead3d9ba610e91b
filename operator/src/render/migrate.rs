//! The container that takes the legacy store over before anything serves.

use k8s_openapi::api::core::v1::Container;

use super::container::{container, env, key_env, secret_env, source_mount};
use super::{ADMIN_PORT, DATA_PATH, SOURCE_PATH};
use crate::validate::{Migration, Source, ValidatedFilestore};

/// Name of the container that takes the legacy store over.
pub const MIGRATE_CONTAINER: &str = "migrate";

/// What a container writes there becomes the message in its status (Kubernetes, "Determine the
/// Reason for Pod Failure").
pub(super) const TERMINATION_LOG: &str = "/dev/termination-log";

/// `filestore migrate run`; `None` when there is nothing to take over, or when the source is yet
/// to be discovered.
pub(super) fn migrate(filestore: &ValidatedFilestore) -> Option<Container> {
    let migration = filestore.migration.as_ref()?;
    let source = migration.source.as_ref()?;
    // Buckets belong to the root access key, as if it had created them.
    let mut env = vec![
        secret_env(
            "FILESTORE_OWNER",
            &filestore.root.secret,
            &filestore.root.access_key,
        ),
        // How it stands and how it ended: asked for and read by the operator, shown by
        // `kubectl describe`.
        env("FILESTORE_ADMIN_ADDR", format!("0.0.0.0:{ADMIN_PORT}")),
        env("FILESTORE_SUMMARY_FILE", TERMINATION_LOG),
    ];
    let mut container = container(filestore, MIGRATE_CONTAINER, args(migration, source));
    match source {
        Source::Online { keys, .. } => {
            env.extend(key_env(
                keys,
                "FILESTORE_FROM_ACCESS_KEY",
                "FILESTORE_FROM_SECRET_KEY",
            ));
        }
        Source::Offline { .. } => {
            container
                .volume_mounts
                .get_or_insert_default()
                .push(source_mount());
        }
    }
    container.env = Some(env);
    // Killed, it writes no summary; the last lines of its log are better than nothing.
    container.termination_message_policy = Some("FallbackToLogsOnError".to_owned());
    Some(container)
}

fn args(migration: &Migration, source: &Source) -> Vec<String> {
    let from = match source {
        Source::Online { endpoint, .. } => endpoint.clone(),
        Source::Offline { path, .. } if path.is_empty() => format!("minio-drive:{SOURCE_PATH}"),
        Source::Offline { path, .. } => format!("minio-drive:{SOURCE_PATH}/{path}"),
    };
    let mut args = vec![
        "migrate".to_owned(),
        "run".to_owned(),
        "--from".to_owned(),
        from,
        "--to".to_owned(),
        format!("volume:{DATA_PATH}"),
    ];
    let mut flag = |name: &str, value: String| args.extend([name.to_owned(), value]);
    flag("--verify", migration.verify.as_str().to_owned());
    if let Some(id) = &migration.id {
        flag("--id", id.clone());
    }
    if let Some(count) = migration.parallelism {
        flag("--parallel", count.to_string());
    }
    args
}
