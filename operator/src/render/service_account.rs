//! The account that the pod runs as.

use k8s_openapi::api::core::v1::ServiceAccount;

use super::deployment::object_meta;
use crate::validate::ValidatedFilestore;

/// An account of its own, without a token: nothing in the pod talks to the API server, and
/// rights given to the namespace's default account do not reach it.
pub fn service_account(filestore: &ValidatedFilestore) -> ServiceAccount {
    ServiceAccount {
        metadata: object_meta(filestore),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
