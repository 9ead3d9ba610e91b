//! `migration.json`: where a volume's migration stands. The marker on the volume is the truth;
//! every other view (status of a resource, logs) is derived from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the marker's schema; a reader refuses a newer one.
pub const MARKER_VERSION: u32 = 1;

/// File name below `<volume>/.filestore/`.
pub const MARKER_FILE: &str = "migration.json";

/// Lock beside the marker: whoever changes it, or what belongs to it, holds this file's `flock`.
pub const STATE_LOCK_FILE: &str = "reconcile.lock";

/// Stages of a migration. The gateway may serve from [`MarkerState::Cutover`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MarkerState {
    /// Objects are being copied; the source is the only store with clients.
    Copying,
    /// Target equals source, nobody was let onto the target yet.
    Verified,
    /// The target belongs to its clients.
    Cutover,
    /// Changes are being taken back to the source.
    RollingBack,
    /// The source serves again.
    RolledBack,
}

impl MarkerState {
    /// As the marker spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Verified => "verified",
            Self::Cutover => "cutover",
            Self::RollingBack => "rollingBack",
            Self::RolledBack => "rolledBack",
        }
    }

    /// Whether the volume went back to the legacy store, or is about to: nobody may write to it
    /// then, since nothing would take the write back.
    pub fn is_back(self) -> bool {
        matches!(self, Self::RollingBack | Self::RolledBack)
    }
}

impl std::fmt::Display for MarkerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which store the objects came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceIdentity {
    /// `minio-drive`, `s3` or `adopted`.
    pub kind: String,
    /// MinIO's deployment id (`id` in format.json), where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<String>,
    /// Endpoint URL or drive path, without credentials.
    pub location: String,
    /// Buckets that were looked at.
    pub buckets: Vec<String>,
}

/// Which objects a migration is about, in the words of the command line. Empty = everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MarkerScope {
    /// Buckets, `name` or `name=name on the target`; none = all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<String>,
    /// Buckets left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_buckets: Vec<String>,
    /// Prefixes and globs of keys; none = all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Prefixes and globs of keys left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Modified at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<String>,
    /// Modified before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older: Option<String>,
}

/// Totals of what was carried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Buckets.
    pub buckets: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes of object bodies.
    pub bytes: u64,
}

/// One reason for something to stay behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotCarried {
    /// How many.
    pub count: u64,
    /// Bytes of their bodies, where they are known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// The first few names, for people.
    pub examples: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The marker file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// [`MARKER_VERSION`].
    pub version: u32,
    /// Names the run; the spec's `migration.id` or a generated one.
    pub run_id: String,
    /// The run before, when this one takes a store over again: the target holds what that one
    /// carried and what its clients wrote, and neither is deleted for not being on the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// Stage.
    pub state: MarkerState,
    /// Who holds the migration: host name and process.
    pub holder: String,
    /// When the run began, RFC 3339.
    pub started_at: String,
    /// When this file was last written, RFC 3339.
    pub updated_at: String,
    /// When the target was handed to clients, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutover_at: Option<String>,
    /// The store copied from.
    pub source: SourceIdentity,
    /// Which of its objects are meant; `None` = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<MarkerScope>,
    /// What was carried.
    pub carried: Counts,
    /// SHA-256 over the carried (bucket, key, ETag, size), hex; how to recompute it is in
    /// `docs/migration.md`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What was not carried, by reason (`noncurrentVersions`, `deleteMarkers`, …).
    #[serde(default)]
    pub not_carried: BTreeMap<String, NotCarried>,
    /// Names the whole not-carried list, beyond the examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_carried_hash: Option<String>,
    /// What accepted the not-carried list (`--accept HASH`, `--accept-loss`), and by whom where
    /// that was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<String>,
    /// Changes seen on the source after cut-over and not applied.
    #[serde(default)]
    pub diverged: bool,
}
