//! Questions to the store and their answers.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use filestore_common::{
    BucketName, Checksum, ChecksumAlgorithm, ChecksumKind, ContentHeaders, ETag, ObjectKey, Tags,
    UserMetadata,
};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

use crate::layout::{CONTROL_DIR, DATA_DIR};

/// Whether an acknowledged change survives power loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Files and directories are flushed before the answer.
    #[default]
    Durable,
    /// Page cache only.
    Relaxed,
}

/// Where an object's metadata lives; chosen once, when the volume is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetadataMode {
    /// Extended attributes, interchangeable with versitygw.
    Xattr,
    /// One JSON file per object, for file systems without extended attributes.
    Sidecar,
}

/// Who else may have the volume open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Other gateways may.
    #[default]
    Shared,
    /// Nobody may (direct migration, conversion).
    Exclusive,
    /// Other workers of one migration may; each writes keys of its own.
    Worker,
}

/// How to open a volume.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Flush rule.
    pub durability: Durability,
    /// Asked-for metadata mode; `None` = what the volume has, or probed when it is created.
    pub metadata: Option<MetadataMode>,
    /// Lock.
    pub access: Access,
    /// Directory that holds the buckets, inside the volume or the volume itself; `None` = what the
    /// volume has, or when it is created: `s3` below it, or the volume itself if versitygw
    /// put buckets directly into it. See [`StoreOptions::for_data_root`].
    pub data_root: Option<PathBuf>,
}

impl StoreOptions {
    /// Volume and options for a data root as versitygw's users name it (its `posix` argument):
    /// `/data/s3` is the data root of the volume `/data`, unless something is mounted there; any
    /// other directory is a volume that holds its buckets itself.
    #[must_use]
    pub fn for_data_root(self, root: &Path) -> (PathBuf, Self) {
        let parent = root
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .filter(|_| root.file_name().is_some_and(|name| name == DATA_DIR))
            .filter(|_| !root.join(CONTROL_DIR).is_dir() && !is_mount_point(root));
        let volume = parent.unwrap_or(root).to_owned();
        let data_root = Some(root.to_owned());
        (volume, Self { data_root, ..self })
    }
}

/// Whether something is mounted at a directory.
fn is_mount_point(path: &Path) -> bool {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE);
    found.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Free and total space of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Size in bytes.
    pub total_bytes: u64,
    /// Bytes that the process may still write.
    pub available_bytes: u64,
    /// Inodes in all, 0 where the file system does not count them.
    pub total_inodes: u64,
    /// Inodes left.
    pub available_inodes: u64,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Name.
    pub name: BucketName,
    /// Creation date.
    pub created: SystemTime,
}

/// Condition on the object that a write or delete would replace
/// (S3 user guide, "Conditional requests").
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Always.
    #[default]
    None,
    /// `If-None-Match: *`: only if the key does not exist.
    Absent,
    /// `If-Match: *`: only if the key exists; else [`crate::Error::NoSuchKey`].
    Present,
    /// `If-Match: <etag>`: only if the key exists (else [`crate::Error::NoSuchKey`]) with this ETag.
    Matches(ETag),
}

/// ListObjects in any of its forms.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Keys must start with this.
    pub prefix: String,
    /// Groups keys that share the text up to its first occurrence after the prefix.
    pub delimiter: Option<String>,
    /// Only keys and common prefixes strictly greater than this (marker, start-after or the last
    /// entry of the page before; a common prefix that equals or is covered by it is not repeated).
    pub after: Option<String>,
    /// Most entries in the page; keys and common prefixes count alike.
    pub max_keys: usize,
}

/// A listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// ETag.
    pub etag: ETag,
    /// Last-Modified.
    pub last_modified: SystemTime,
    /// Checksum algorithm and kind, when one is stored and could be read at no extra cost.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
}

/// One entry of a page, in byte order of key or prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEntry {
    /// An object.
    Object(ListedObject),
    /// A common prefix.
    Prefix(String),
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Entries in byte order.
    pub entries: Vec<ListEntry>,
    /// Last key or prefix of this page when more follow: the `after` of the next page.
    pub next: Option<String>,
}

/// What CreateMultipartUpload fixes for the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadSpec {
    /// Standard headers.
    pub headers: ContentHeaders,
    /// User metadata.
    pub user: UserMetadata,
    /// Tags.
    pub tags: Tags,
    /// Checksum that every part carries.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
}

/// An upload in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadInfo {
    /// Key.
    pub key: ObjectKey,
    /// Upload id.
    pub upload_id: String,
    /// When it was initiated.
    pub initiated: SystemTime,
    /// What it fixes.
    pub spec: UploadSpec,
}

/// ListMultipartUploads.
#[derive(Debug, Clone, Default)]
pub struct UploadQuery {
    /// Keys must start with this.
    pub prefix: String,
    /// As in [`ListQuery`].
    pub delimiter: Option<String>,
    /// Keys greater than this, or equal with an upload id greater than `upload_id_marker`.
    pub key_marker: Option<String>,
    /// See `key_marker`.
    pub upload_id_marker: Option<String>,
    /// Most uploads and prefixes in the page.
    pub max_uploads: usize,
}

/// A page of uploads.
#[derive(Debug, Clone, Default)]
pub struct UploadPage {
    /// Sorted by key, then by time of initiation, then by id.
    pub uploads: Vec<UploadInfo>,
    /// Common prefixes.
    pub prefixes: Vec<String>,
    /// Key and upload id markers of the next page when more follow.
    pub next: Option<(String, String)>,
}

/// An uploaded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// 1 to 10000.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// MD5.
    pub etag: ETag,
    /// Checksum sent with the part.
    pub checksum: Option<Checksum>,
    /// When it was uploaded.
    pub last_modified: SystemTime,
}

/// A part as CompleteMultipartUpload names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedPart {
    /// Part number.
    pub number: u32,
    /// ETag that the client got.
    pub etag: ETag,
    /// Checksum that the client says the part has.
    pub checksum: Option<Checksum>,
}

/// What a completion asks for beside its parts.
#[derive(Debug, Clone, Default)]
pub struct CompleteOptions {
    /// Condition on the object to be replaced.
    pub precondition: Precondition,
    /// `x-amz-mp-object-size`.
    pub object_size: Option<u64>,
    /// Checksum of the whole that the client announced.
    pub checksum: Option<Checksum>,
    /// Replaces Last-Modified (trusted import).
    pub last_modified: Option<SystemTime>,
    /// Accepts parts below 5 MiB (trusted import of what another server took).
    pub allow_small_parts: bool,
}

/// What a bucket holds, as a listing shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// What a bucket may hold; `None` = any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of the bodies of all objects.
    pub bytes: Option<u64>,
    /// Number of objects.
    pub objects: Option<u64>,
}

/// Usage and quota of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUsage {
    /// Its name.
    pub bucket: String,
    /// `None` until the first count is complete.
    pub usage: Option<Usage>,
    /// Its quota.
    pub quota: Quota,
}
