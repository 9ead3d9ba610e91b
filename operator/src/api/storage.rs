//! The volume that objects live on.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The volume: a claim made for this Filestore, or one that exists.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.size) != has(self.existingClaim)")
        .message("exactly one of size or existingClaim"),
    validation = Rule::new(
        "!has(self.existingClaim) || (!has(self.storageClassName) && !has(self.accessModes))"
    )
    .message("storageClassName and accessModes belong to a new claim, not to existingClaim"),
    validation = Rule::new(
        "!has(self.size) || !has(oldSelf.size) || quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0"
    )
    .message("size can grow, never shrink"),
    validation = Rule::new(
        "!has(self.size) || !has(oldSelf.size) || (has(self.storageClassName) ? self.storageClassName : '') == (has(oldSelf.storageClassName) ? oldSelf.storageClassName : '')"
    )
    .message("storageClassName of a claim cannot change"),
    validation = Rule::new(
        "!has(self.size) || !has(oldSelf.size) || (has(self.accessModes) ? self.accessModes : ['ReadWriteOnce']) == (has(oldSelf.accessModes) ? oldSelf.accessModes : ['ReadWriteOnce'])"
    )
    .message("accessModes of a claim cannot change"),
    validation = Rule::new(
        "!has(oldSelf.metadata) || oldSelf.metadata == 'auto' || !has(self.metadata) || self.metadata == 'auto' || self.metadata == oldSelf.metadata"
    )
    .message("metadata is fixed when the volume is first used; auto serves what the volume has"),
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StorageSpec {
    /// Size of a new claim that takes the Filestore's name, for example `20Gi`.
    #[schemars(
        length(max = 24),
        regex(pattern = r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Storage class of a new claim. Default: the cluster's.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Access modes of a new claim. Default `[ReadWriteOnce]`.
    #[schemars(length(max = 2))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<AccessMode>,
    /// A claim made elsewhere: used, never resized, owned or deleted.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,
    /// Where object metadata lives; fixed when the volume is first used. Default `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataMode>,
}

/// Access modes of a claim (Kubernetes, "Persistent Volumes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// One node.
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
    /// Many nodes.
    ReadWriteMany,
}

impl AccessMode {
    /// The value in a claim.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
            Self::ReadWriteMany => "ReadWriteMany",
        }
    }
}

/// Where object metadata lives; fixed when the volume is first used. Default `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetadataMode {
    /// Extended attributes where the file system has them, else sidecar files.
    #[default]
    Auto,
    /// Extended attributes, interchangeable with versitygw.
    Xattr,
    /// Files beside the objects, for file systems without extended attributes.
    Sidecar,
}
