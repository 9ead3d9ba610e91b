//! The container that creates the buckets which exist from the start.

use k8s_openapi::api::core::v1::Container;

use super::DATA_PATH;
use super::container::{container, metadata_args, secret_env};
use crate::validate::{Server, ValidatedFilestore};

/// `filestore volume prepare`; `None` when the gateway needs no help with an empty volume.
/// versitygw does: it expects the data root to exist.
pub(super) fn prepare(filestore: &ValidatedFilestore) -> Option<Container> {
    if filestore.buckets.is_empty() && filestore.server == Server::Bundled {
        return None;
    }
    let mut args = vec![
        "volume".to_owned(),
        "prepare".to_owned(),
        DATA_PATH.to_owned(),
    ];
    args.extend(metadata_args(filestore.storage.metadata));
    for bucket in &filestore.buckets {
        args.extend(["--bucket".to_owned(), bucket.to_string()]);
    }
    let mut container = container(filestore, "prepare", args);
    container.env = Some(vec![secret_env(
        "FILESTORE_OWNER",
        &filestore.root.secret,
        &filestore.root.access_key,
    )]);
    Some(container)
}
