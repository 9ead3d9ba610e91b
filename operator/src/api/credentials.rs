//! Where access keys come from: any Secret, any key names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pair of access key and secret key in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialsSpec {
    /// The Secret, in the namespace of the Filestore.
    pub secret_ref: SecretReference,
    /// Names of the Secret's keys. Default `root-user` and `root-password`, as MinIO's chart
    /// calls them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<CredentialKeys>,
}

/// A Secret by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
}

/// Names of keys inside a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialKeys {
    /// Key that holds the access key. Default `root-user`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// Key that holds the secret key. Default `root-password`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
}
