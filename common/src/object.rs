//! Metadata of an object as S3 shows it, apart from where and how it is stored.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// User metadata: lower-cased names without the `x-amz-meta-` prefix.
pub type UserMetadata = BTreeMap<String, String>;

/// Object or bucket tags in the order they were given.
pub type Tags = Vec<(String, String)>;

/// Entity tag without quotes: 32 hex digits (MD5), `<hex>-N` after a multipart upload, or any
/// other text for files that no S3 server wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ETag(String);

impl ETag {
    /// Takes an ETag with or without its quotes.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim_matches('"').to_owned())
    }

    /// Text without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Text in the double quotes that HTTP wants (RFC 9110, section 8.8.3).
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }

    /// Number of parts of a multipart ETag (`<32 hex>-N`), `None` for any other form.
    pub fn part_count(&self) -> Option<u32> {
        let (digest, count) = self.0.split_once('-')?;
        let hex = digest.len() == 32 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| count.parse().ok())
            .flatten()
            .filter(|count| *count > 0)
    }

    /// Whether this is a plain MD5 of the body.
    pub fn is_md5(&self) -> bool {
        self.0.len() == 32 && self.0.bytes().all(|b| b.is_ascii_hexdigit())
    }
}

impl std::fmt::Display for ETag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The standard headers that S3 stores with an object and returns on GET and HEAD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContentHeaders {
    /// `Content-Type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `Content-Encoding`, without the `aws-chunked` transfer coding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_language: Option<String>,
    /// `Content-Disposition`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_disposition: Option<String>,
    /// `Cache-Control`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// `Expires`, as the client wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website_redirect_location: Option<String>,
}

/// Checksum algorithms of S3 (user guide, "Checking object integrity").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ChecksumAlgorithm {
    /// CRC-32 (ISO-HDLC), 4 bytes.
    Crc32,
    /// CRC-32C (Castagnoli), 4 bytes.
    Crc32c,
    /// CRC-64/NVME, 8 bytes.
    Crc64nvme,
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
}

/// Whether a multipart object's checksum covers the bytes or the parts' checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChecksumKind {
    /// Over all bytes of the object.
    FullObject,
    /// Over the concatenated checksums of the parts; its text ends in `-N`.
    Composite,
}

/// A checksum that the client sent and the server checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// What it covers.
    pub kind: ChecksumKind,
    /// Base64 of the value; `-N` appended when composite.
    pub value: String,
}

/// Everything S3 keeps with an object beside its bytes, size and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectMeta {
    /// Entity tag.
    pub etag: ETag,
    /// Standard headers.
    #[serde(default)]
    pub headers: ContentHeaders,
    /// User metadata.
    #[serde(default)]
    pub user: UserMetadata,
    /// Tags; empty when there are none.
    #[serde(default)]
    pub tags: Tags,
    /// Checksum, when a client sent one.
    #[serde(default)]
    pub checksum: Option<Checksum>,
    /// Sizes in bytes of the parts of a multipart object, in order; empty for any other object.
    #[serde(default)]
    pub part_sizes: Vec<u64>,
}

impl ObjectMeta {
    /// Metadata with nothing but an ETag.
    pub fn new(etag: ETag) -> Self {
        Self {
            etag,
            headers: ContentHeaders::default(),
            user: UserMetadata::new(),
            tags: Tags::new(),
            checksum: None,
            part_sizes: Vec::new(),
        }
    }
}

/// An object's metadata together with what the file system says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Length of the body in bytes.
    pub size: u64,
    /// Last-Modified: the file's modification time.
    pub last_modified: SystemTime,
    /// The rest.
    pub meta: ObjectMeta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_count_is_read_from_multipart_etags_only() {
        let multipart = ETag::new("\"1da464b8da84c31047a65f5858e78820-2\"");
        assert_eq!(multipart.part_count(), Some(2));
        assert_eq!(multipart.quoted(), "\"1da464b8da84c31047a65f5858e78820-2\"");
        assert_eq!(
            ETag::new("d41d8cd98f00b204e9800998ecf8427e").part_count(),
            None
        );
        assert_eq!(ETag::new("abc-2").part_count(), None);
    }
}
