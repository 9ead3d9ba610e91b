//! The containers that bring a volume into shape: its layout before a migration writes to it, and
//! the buckets which exist from the start.

use k8s_openapi::api::core::v1::Container;

use super::DATA_PATH;
use super::container::{container, metadata_args, secret_env};
use crate::api::MetadataMode;
use crate::validate::{Server, ValidatedFilestore};

/// Name of the container that fixes the metadata mode.
pub const LAYOUT_CONTAINER: &str = "layout";

/// `filestore volume prepare`; `None` when the gateway needs no help with an empty volume.
/// versitygw does: it expects the data root to exist.
pub(super) fn prepare(filestore: &ValidatedFilestore) -> Option<Container> {
    if filestore.buckets.is_empty() && filestore.server == Server::Bundled {
        return None;
    }
    let buckets = filestore.buckets.iter();
    let args = buckets.flat_map(|bucket| ["--bucket".to_owned(), bucket.to_string()]);
    Some(volume_prepare(filestore, "prepare", args))
}

/// Fixes the metadata mode of an empty volume before a migration fills it, where the Filestore
/// asks for one. Buckets come later: a migration expects to find none but its own.
pub(super) fn layout(filestore: &ValidatedFilestore) -> Option<Container> {
    let asked = filestore.storage.metadata != MetadataMode::Auto && filestore.migration.is_some();
    asked.then(|| volume_prepare(filestore, LAYOUT_CONTAINER, []))
}

fn volume_prepare(
    filestore: &ValidatedFilestore,
    name: &str,
    more: impl IntoIterator<Item = String>,
) -> Container {
    let mut args = vec![
        "volume".to_owned(),
        "prepare".to_owned(),
        DATA_PATH.to_owned(),
    ];
    args.extend(metadata_args(filestore.storage.metadata));
    args.extend(more);
    let mut container = container(filestore, name, args);
    container.env = Some(vec![secret_env(
        "FILESTORE_OWNER",
        &filestore.root.secret,
        &filestore.root.access_key,
    )]);
    // It writes no summary: what it says last is why it ended.
    container.termination_message_policy = Some("FallbackToLogsOnError".to_owned());
    container
}
