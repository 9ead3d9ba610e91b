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
    args.extend(bucket_args(migration));
    args.extend(limit(BANDWIDTH, migration.bandwidth.as_ref()));
    args.extend(limit(DEADLINE, migration.deadline.as_ref()));
    args.extend(limit(MAX_DELETE, migration.max_delete.as_ref()));
    args
}

/// The flags of the limits of a migration.
pub(super) const BANDWIDTH: &str = "--bandwidth";
pub(super) const DEADLINE: &str = "--deadline";
pub(super) const MAX_DELETE: &str = "--max-delete";

/// A flag, where its value is given.
pub(super) fn limit(flag: &str, value: Option<&impl ToString>) -> Vec<String> {
    value.map_or_else(Vec::new, |value| vec![flag.to_owned(), value.to_string()])
}

/// The buckets that are chosen, `NAME` or `NAME=NEW`; empty = all.
pub(crate) fn chosen_buckets(migration: &Migration) -> Vec<String> {
    let chosen = migration.buckets.iter();
    chosen
        .map(|(name, target)| match target {
            Some(target) => format!("{name}={target}"),
            None => name.to_string(),
        })
        .collect()
}

/// `--bucket` for each bucket that is chosen.
pub(super) fn bucket_args(migration: &Migration) -> Vec<String> {
    let chosen = chosen_buckets(migration).into_iter();
    chosen
        .flat_map(|bucket| ["--bucket".to_owned(), bucket])
        .collect()
}
