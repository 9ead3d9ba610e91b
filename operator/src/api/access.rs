//! Users of the store beside root.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretReference;

/// Who may use the store beside root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessSpec {
    /// Users.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserSpec>,
    /// How long former keys stay valid after root's Secret or that of a user changed, in seconds.
    /// Default 3600.
    #[schemars(range(min = 0, max = 2_592_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_seconds: Option<u32>,
}

/// A user and what it may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserSpec {
    /// Name, unique in the Filestore.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What the user may do; everything else is refused.
    #[schemars(length(min = 1, max = 64))]
    pub grants: Vec<GrantSpec>,
    /// The Secret with the user's keys. One that does not exist is made with keys of its own; keys
    /// in one that exists are used and never changed. Default: `<name of the Filestore>-<name of
    /// the user>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// Names of the Secret's keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<UserKeys>,
}

/// What a user may do with the keys of a bucket that start with a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantSpec {
    /// Name of a bucket, or `*` for every bucket.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^(\*|[a-z0-9.-]+)$"))]
    pub bucket: String,
    /// Text that keys start with, compared byte by byte. Default: the whole bucket.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// What is allowed.
    pub access: AccessLevel,
}

/// What is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessLevel {
    /// Read objects and list them.
    Read,
    /// Write, overwrite and delete objects.
    Write,
    /// Both.
    ReadWrite,
}

impl AccessLevel {
    /// As the gateway's access file says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadWrite => "readwrite",
        }
    }
}

/// Names of keys inside a user's Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserKeys {
    /// Key that holds the access key. Default `access-key`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// Key that holds the secret key. Default `secret-key`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    /// Key that gets the URL of the store. Default `endpoint`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Key that gets the bucket of the first grant that names one. Default `bucket`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
}
