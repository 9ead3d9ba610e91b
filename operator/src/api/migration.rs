//! The legacy store to take over.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CredentialsSpec;

/// A migration; it runs once, and its marker on the volume says how far it got.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "!has(self.mode) || self.mode != 'online' || (has(self.source) && has(self.source.endpoint))"
    )
    .message("mode online needs source.endpoint"),
    validation = Rule::new(
        "!has(self.mode) || self.mode != 'offline' || (has(self.source) && has(self.source.existingClaim))"
    )
    .message("mode offline needs source.existingClaim"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrationSpec {
    /// Names the run in the marker. Default: a generated one.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How the legacy store is read. Default `auto`: as `source` says, and without `source`
    /// whatever the operator finds in the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<MigrationMode>,
    /// The legacy store; only ever read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<MigrationSource>,
    /// How closely both sides are compared before cut-over. Default `listing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Objects copied at the same time. Default 16.
    #[schemars(range(min = 1, max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u16>,
}

/// How the legacy store is read. Default `auto`: as `source` says, and without `source` whatever
/// the operator finds in the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MigrationMode {
    /// As `source` says.
    #[default]
    Auto,
    /// Over its S3 API.
    Online,
    /// From the drive of a stopped MinIO.
    Offline,
}

/// The legacy store: an S3 endpoint, or the claim of a stopped single-drive MinIO.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.endpoint) != has(self.existingClaim)")
        .message("exactly one of endpoint or existingClaim"),
    validation = Rule::new("has(self.endpoint) || !has(self.credentials)")
        .message("credentials belong to endpoint"),
    validation = Rule::new("!has(self.path) || has(self.existingClaim)")
        .message("path belongs to existingClaim"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrationSource {
    /// URL of the S3 API of a running store.
    #[schemars(length(max = 256), regex(pattern = r"^https?://[^/]+/?$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Keys of the source. Default: those of the Filestore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<CredentialsSpec>,
    /// Claim with the drive of a stopped MinIO (`.minio.sys/` in it); mounted read-only.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,
    /// Folder of the claim that holds the drive. Default: its root.
    #[schemars(length(min = 1, max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// How closely both sides are compared before cut-over. Default `listing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// ETag and size in both listings.
    #[default]
    Listing,
    /// The target is read and its ETags are computed.
    Etag,
    /// Both sides are read and every byte is compared.
    Bytes,
}

impl Verify {
    /// The value of `--verify`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Etag => "etag",
            Self::Bytes => "bytes",
        }
    }
}
