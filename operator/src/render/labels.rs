//! Labels of everything made for a Filestore.

use std::collections::BTreeMap;

use crate::validate::ValidatedFilestore;

/// Label with the name of the Filestore.
pub const NAME_LABEL: &str = "filestore.ryax.tech/name";

/// Label with the part that an object plays.
pub const COMPONENT_LABEL: &str = "filestore.ryax.tech/component";

/// The part of the server.
pub const GATEWAY: &str = "gateway";

/// Labels that pods are selected by: for ever these two, since a Deployment's selector cannot
/// change. None of them is an `app.kubernetes.io/` label, so that a pod is free to wear those
/// that the Service of a legacy store selects.
pub fn selector(filestore: &ValidatedFilestore) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME_LABEL.to_owned(), filestore.name.clone()),
        (COMPONENT_LABEL.to_owned(), GATEWAY.to_owned()),
    ])
}

/// Labels of every object. `app.kubernetes.io/instance` is left out: Argo CD takes an object that
/// carries it for its own.
pub fn labels(filestore: &ValidatedFilestore) -> BTreeMap<String, String> {
    let mut labels = selector(filestore);
    for (key, value) in [
        ("app.kubernetes.io/name", "filestore"),
        ("app.kubernetes.io/component", GATEWAY),
        ("app.kubernetes.io/managed-by", "filestore"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    labels
}
