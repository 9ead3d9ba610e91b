//! Names on the volume. Those in the first group are versitygw's
//! (v1.8.0, `backend/posix/posix.go`); those in the second are ours, which versitygw ignores.

/// Temporary area inside a bucket; a directory of this name is hidden at any depth.
pub(crate) const TEMP_DIR: &str = ".sgwtmp";
/// Multipart uploads, below [`TEMP_DIR`].
pub(crate) const MULTIPART_DIR: &str = "multipart";
/// Publication locks, below the data root.
pub(crate) const LOCKS_DIR: &str = ".vgwlocks";

/// Our own directory, below the volume.
pub(crate) const CONTROL_DIR: &str = ".filestore";
/// Data root, below the volume.
pub(crate) const DATA_DIR: &str = "s3";
/// Identity of the volume, below [`CONTROL_DIR`].
pub(crate) const VOLUME_FILE: &str = "volume.json";
/// Lock of the volume, below [`CONTROL_DIR`].
pub(crate) const LOCK_FILE: &str = "lock";
/// Lock of the workers of one migration, below [`CONTROL_DIR`].
pub(crate) const SHARDS_LOCK_FILE: &str = "lock.shards";
/// Held while a volume is being opened, below [`CONTROL_DIR`].
pub(crate) const OPENING_LOCK_FILE: &str = "lock.opening";
/// All locks of a volume.
pub(crate) const LOCK_FILES: [&str; 3] = [LOCK_FILE, SHARDS_LOCK_FILE, OPENING_LOCK_FILE];
/// Keys that a file tree cannot hold, below [`CONTROL_DIR`].
pub(crate) const OVERFLOW_DIR: &str = "keys";
/// Metadata of sidecar mode, below [`CONTROL_DIR`].
pub(crate) const META_DIR: &str = "meta";
/// Intent records of sidecar mode, below [`CONTROL_DIR`].
pub(crate) const INTENTS_DIR: &str = "intents";
/// What was counted when the last process ended, below [`CONTROL_DIR`].
pub(crate) const COUNTERS_FILE: &str = "counters";
/// Deferred deletes, below [`CONTROL_DIR`].
pub(crate) const TRASH_DIR: &str = "trash";
/// First part of the names of our temporary files.
pub(crate) const TEMP_PREFIX: &str = "filestore.";
/// Metadata of a bucket in sidecar mode, below `META_DIR/<bucket>`.
pub(crate) const BUCKET_META_FILE: &str = "bucket.json";

/// Mode of object files, whatever the umask.
pub(crate) const FILE_MODE: u32 = 0o644;
/// Mode of directories, reduced by the umask.
pub(crate) const DIR_MODE: u32 = 0o755;

/// A name for a temporary file that no other thread, process or start of this one uses.
pub(crate) fn temp_name() -> String {
    static INSTANCE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    static COUNTER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let instance = INSTANCE.get_or_init(|| uuid::Uuid::new_v4().simple().to_string());
    let number = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("{TEMP_PREFIX}{instance}.{number}")
}

/// Attribute names, without the `user.` that Linux wants before them.
pub(crate) mod attribute {
    /// Prefix of extended attributes on Linux.
    pub(crate) const XATTR_PREFIX: &str = "user.";
    /// Entity tag in double quotes; its presence makes a directory an object.
    pub(crate) const ETAG: &str = "etag";
    /// `Content-Type`.
    pub(crate) const CONTENT_TYPE: &str = "content-type";
    /// `Content-Encoding`.
    pub(crate) const CONTENT_ENCODING: &str = "content-encoding";
    /// `Content-Language`.
    pub(crate) const CONTENT_LANGUAGE: &str = "content-language";
    /// `Content-Disposition`.
    pub(crate) const CONTENT_DISPOSITION: &str = "content-disposition";
    /// `Cache-Control`.
    pub(crate) const CACHE_CONTROL: &str = "cache-control";
    /// `Expires`.
    pub(crate) const EXPIRES: &str = "expires";
    /// `x-amz-website-redirect-location`.
    pub(crate) const WEBSITE_REDIRECT: &str = "website-redirect-location";
    /// User metadata, a JSON object.
    pub(crate) const METADATA: &str = "metadata";
    /// User metadata before versitygw 1.1: one attribute per name.
    pub(crate) const LEGACY_METADATA: &str = "X-Amz-Meta.";
    /// Tags, a JSON object.
    pub(crate) const TAGS: &str = "X-Amz-Tagging";
    /// Checksums, a JSON object.
    pub(crate) const CHECKSUMS: &str = "checksums";
    /// Cumulative part sizes and upload id, gzip of a JSON object.
    pub(crate) const MULTIPART: &str = "mp-metadata";
    /// Key of the uploads in a hash directory.
    pub(crate) const UPLOAD_KEY: &str = "objname";
    /// Access control list of a bucket, a JSON object.
    pub(crate) const ACL: &str = "acl";
    /// Object ownership rule of a bucket.
    pub(crate) const OWNERSHIP: &str = "ownership";

    /// Version of an object in a versioned bucket.
    const VERSION: &str = "version-id";
    /// Makes the current version a delete marker.
    pub(crate) const DELETE_MARKER: &str = "delete-marker";
    /// Object lock: legal hold.
    const LEGAL_HOLD: &str = "object-legal-hold";
    /// Object lock: retention.
    const RETENTION: &str = "object-retention";

    /// Whether an attribute goes with the object whose directory stays.
    pub(crate) fn is_of_object(name: &str) -> bool {
        matches!(
            name,
            ETAG | CONTENT_TYPE
                | CONTENT_ENCODING
                | CONTENT_LANGUAGE
                | CONTENT_DISPOSITION
                | CACHE_CONTROL
                | EXPIRES
                | WEBSITE_REDIRECT
                | METADATA
                | TAGS
                | CHECKSUMS
                | MULTIPART
                | VERSION
                | DELETE_MARKER
                | LEGAL_HOLD
                | RETENTION
                | MODIFIED
        ) || name.starts_with(LEGACY_METADATA)
    }

    /// Part of a multipart upload: its CRC-64/NVME, where the upload declares no checksum.
    pub(crate) const PART_CRC64: &str = "part-crc64nvme";
    /// First part of the names of ours alone.
    pub(crate) const OURS: &str = "filestore.";

    /// Whether an attribute of an object, upload or part is part of the store's metadata; all
    /// others belong to somebody else.
    pub(crate) fn is_metadata(name: &str) -> bool {
        is_of_object(name) || matches!(name, UPLOAD_KEY | PART_CRC64) || name.starts_with(OURS)
    }

    /// As [`is_metadata`], of a bucket: what versitygw keeps there too.
    pub(crate) fn is_bucket_metadata(name: &str) -> bool {
        matches!(
            name,
            ACL | OWNERSHIP | TAGS | "policy" | "cors" | "website" | "versioning" | "bucket-lock"
        ) || name.starts_with(OURS)
    }

    /// Ours: creation time of a bucket, nanoseconds since 1970 in decimal.
    pub(crate) const CREATED: &str = "filestore.created";
    /// Ours: Last-Modified of a directory object, nanoseconds since 1970 in decimal. The
    /// directory's own time moves with every entry that is added or removed.
    pub(crate) const MODIFIED: &str = "filestore.modified";
    /// Ours: the key of an overflow file.
    pub(crate) const KEY: &str = "filestore.key";
}

/// Whether a directory entry is versitygw's leftover `.<name>.sgwtmp.<nanoseconds>`,
/// made between two steps of an overwrite and left behind by a crash.
pub(crate) fn is_leftover(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b".") else {
        return false;
    };
    let digits = rest.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && rest[..rest.len() - digits].ends_with(b".sgwtmp.")
}

/// Whether a directory entry is hidden from every listing and unusable as part of a tree path.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name == TEMP_DIR.as_bytes() || is_leftover(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_versitygw_makes_are_hidden() {
        for hidden in [&b".sgwtmp"[..], b".a.txt.sgwtmp.1732970000", b"..sgwtmp.1"] {
            assert!(is_hidden(hidden), "{}", String::from_utf8_lossy(hidden));
        }
        for shown in [
            &b".sgwtmp2"[..],
            b".hidden",
            b"a.sgwtmp.1",
            b".a.sgwtmp.",
            b".a.sgwtmp.1x",
            b".vgwlocks",
            b".filestore",
        ] {
            assert!(!is_hidden(shown), "{}", String::from_utf8_lossy(shown));
        }
    }
}
