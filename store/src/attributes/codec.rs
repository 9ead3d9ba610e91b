//! Metadata ⇄ attributes, in the form of versitygw 1.8.0 (`backend/posix/posix.go`,
//! `s3response/s3response.go`). A value that cannot be read is reported and left out, as there:
//! the bytes of the object are worth more than one of its headers.

use std::fmt;
use std::io::{Read, Write};
use std::time::SystemTime;

use filestore_common::{
    Checksum, ChecksumAlgorithm, ChecksumKind, ContentHeaders, ETag, ObjectMeta, Tags, UserMetadata,
};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use md5::{Digest, Md5};
use rustix::fs::Stat;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::AttributeSet;
use crate::dir;
use crate::layout::attribute;

/// Longest `mp-metadata` that is unpacked, in bytes: 10 000 parts need some 200 KB.
const MAX_MULTIPART: u64 = 4 * 1024 * 1024;

/// What attributes say of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Metadata as S3 shows it.
    pub(crate) meta: ObjectMeta,
    /// Multipart upload that made the object.
    pub(crate) upload_id: Option<String>,
}

/// Attributes of an object; `upload_id` names the multipart upload that made it.
pub(crate) fn encode(meta: &ObjectMeta, upload_id: Option<&str>) -> AttributeSet {
    let mut set = AttributeSet::default();
    set.set(attribute::ETAG, meta.etag.quoted());
    encode_headers(&mut set, &meta.headers);
    encode_user(&mut set, &meta.user);
    encode_tags(&mut set, &meta.tags);
    if let Some(checksum) = &meta.checksum {
        let value = encode_checksum(
            checksum.algorithm,
            Some(checksum.kind),
            Some(&checksum.value),
        );
        set.set(attribute::CHECKSUMS, value);
    }
    if !meta.part_sizes.is_empty() || upload_id.is_some() {
        let value = encode_parts(&meta.part_sizes, upload_id.unwrap_or_default());
        set.set(attribute::MULTIPART, value);
    }
    set
}

/// Metadata of an object with these attributes and this `stat`. Without an `etag` attribute
/// (a file put there by hand) the ETag is [`foreign_etag`].
pub(crate) fn decode(set: &AttributeSet, stat: &Stat) -> Decoded {
    let etag = set
        .text(attribute::ETAG)
        .filter(|etag| !etag.is_empty())
        .map_or_else(|| foreign_etag(stat), ETag::new);
    let (part_sizes, upload_id) = decode_parts(set);
    let meta = ObjectMeta {
        etag,
        headers: decode_headers(set),
        user: decode_user(set),
        tags: decode_tags(set).unwrap_or_default(),
        checksum: decode_checksum(set),
        part_sizes,
    };
    Decoded { meta, upload_id }
}

/// ETag of a file that no S3 server wrote: stable while the file is not touched, and never
/// mistaken for an MD5 (`-0`).
pub(crate) fn foreign_etag(stat: &Stat) -> ETag {
    let text = format!(
        "{} {} {}",
        dir::size(stat),
        dir::mtime_ns(stat),
        stat.st_ino
    );
    ETag::new(format!("{}-0", hex::encode(Md5::digest(text))))
}

/// Last-Modified of a directory object: what [`attribute::MODIFIED`] says, or the directory's own
/// time where versitygw made it.
pub(crate) fn directory_modified(stored: Option<&[u8]>, stat: &Stat) -> SystemTime {
    let text = stored.and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|ns| ns.parse().ok())
        .map_or_else(|| dir::mtime(stat), dir::time_from_ns)
}

/// Adds the standard headers that are there.
pub(crate) fn encode_headers(set: &mut AttributeSet, headers: &ContentHeaders) {
    let ContentHeaders {
        content_type,
        content_encoding,
        content_language,
        content_disposition,
        cache_control,
        expires,
        website_redirect_location,
    } = headers;
    for (name, value) in [
        (attribute::CONTENT_TYPE, content_type),
        (attribute::CONTENT_ENCODING, content_encoding),
        (attribute::CONTENT_LANGUAGE, content_language),
        (attribute::CONTENT_DISPOSITION, content_disposition),
        (attribute::CACHE_CONTROL, cache_control),
        (attribute::EXPIRES, expires),
        (attribute::WEBSITE_REDIRECT, website_redirect_location),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            set.set(name, value);
        }
    }
}

/// Standard headers.
pub(crate) fn decode_headers(set: &AttributeSet) -> ContentHeaders {
    let text = |name| match set.get(name) {
        None | Some([]) => None,
        Some(value) => Some(String::from_utf8_lossy(value).into_owned()),
    };
    ContentHeaders {
        content_type: text(attribute::CONTENT_TYPE),
        content_encoding: text(attribute::CONTENT_ENCODING),
        content_language: text(attribute::CONTENT_LANGUAGE),
        content_disposition: text(attribute::CONTENT_DISPOSITION),
        cache_control: text(attribute::CACHE_CONTROL),
        expires: text(attribute::EXPIRES),
        website_redirect_location: text(attribute::WEBSITE_REDIRECT),
    }
}

/// Adds user metadata, if there is any.
pub(crate) fn encode_user(set: &mut AttributeSet, user: &UserMetadata) {
    if !user.is_empty() {
        set.set(attribute::METADATA, to_json(user));
    }
}

/// User metadata, also in the form with one attribute per name.
pub(crate) fn decode_user(set: &AttributeSet) -> UserMetadata {
    if let Some(value) = set.get(attribute::METADATA) {
        return from_json(attribute::METADATA, value).unwrap_or_default();
    }
    let legacy = set.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix(attribute::LEGACY_METADATA)?;
        let value = String::from_utf8_lossy(value).into_owned();
        Some((name.to_lowercase(), value))
    });
    legacy.collect()
}

/// Adds tags, if there are any.
pub(crate) fn encode_tags(set: &mut AttributeSet, tags: &Tags) {
    if !tags.is_empty() {
        set.set(attribute::TAGS, tags_value(tags));
    }
}

/// Value of the tags attribute: a JSON object whose members keep the order of the tags.
pub(crate) fn tags_value(tags: &Tags) -> Vec<u8> {
    to_json(&Ordered(tags.clone()))
}

/// Tags; `None` when there is no such attribute.
pub(crate) fn decode_tags(set: &AttributeSet) -> Option<Tags> {
    let value = set.get(attribute::TAGS)?;
    let tags: Option<Ordered> = from_json(attribute::TAGS, value);
    Some(tags.map(|tags| tags.0).unwrap_or_default())
}

/// Value of the checksums attribute. On an upload there is no value yet, on a part no kind.
pub(crate) fn encode_checksum(
    algorithm: ChecksumAlgorithm,
    kind: Option<ChecksumKind>,
    value: Option<&str>,
) -> Vec<u8> {
    let mut stored = StoredChecksums {
        algorithm: algorithm_name(algorithm).to_owned(),
        kind: match kind {
            None => "",
            Some(ChecksumKind::FullObject) => "FULL_OBJECT",
            Some(ChecksumKind::Composite) => "COMPOSITE",
        }
        .to_owned(),
        ..StoredChecksums::default()
    };
    *stored.value_mut(algorithm) = value.map(str::to_owned);
    to_json(&stored)
}

/// Checksum of an object or part; `None` also for algorithms that we do not know.
pub(crate) fn decode_checksum(set: &AttributeSet) -> Option<Checksum> {
    let (algorithm, kind, value) = decode_checksum_spec(set)?;
    Some(Checksum {
        algorithm,
        kind,
        value: value?,
    })
}

/// Algorithm, kind and, where there is one, value of the checksums attribute.
pub(crate) fn decode_checksum_spec(
    set: &AttributeSet,
) -> Option<(ChecksumAlgorithm, ChecksumKind, Option<String>)> {
    use ChecksumAlgorithm::{Crc32, Crc32c, Crc64nvme, Sha1, Sha256};

    let value = set.get(attribute::CHECKSUMS)?;
    let mut stored: StoredChecksums = from_json(attribute::CHECKSUMS, value)?;
    let all = [Crc32, Crc32c, Crc64nvme, Sha1, Sha256];
    let named = all
        .into_iter()
        .find(|a| algorithm_name(*a).eq_ignore_ascii_case(&stored.algorithm));
    let algorithm = if stored.algorithm.is_empty() {
        all.into_iter().find(|a| stored.value_mut(*a).is_some())?
    } else {
        named?
    };
    let kind = if stored.kind == "COMPOSITE" {
        ChecksumKind::Composite
    } else {
        ChecksumKind::FullObject
    };
    let value = stored.value_mut(algorithm).take();
    Some((algorithm, kind, value.filter(|value| !value.is_empty())))
}

fn encode_parts(sizes: &[u64], upload_id: &str) -> Vec<u8> {
    let cumulative = sizes.iter().scan(0u64, |sum, size| {
        *sum = sum.saturating_add(*size);
        Some(*sum)
    });
    let plain = to_json(&StoredParts {
        upload_id: upload_id.to_owned(),
        parts: cumulative.collect(),
    });
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(&plain).and_then(|()| encoder.finish());
    // Writing to memory does not fail; the plain form is valid too.
    packed.unwrap_or(plain)
}

fn decode_parts(set: &AttributeSet) -> (Vec<u64>, Option<String>) {
    let Some(value) = set.get(attribute::MULTIPART) else {
        return (Vec::new(), None);
    };
    let mut plain = Vec::new();
    let unpacked = GzDecoder::new(value)
        .take(MAX_MULTIPART)
        .read_to_end(&mut plain);
    let text = if unpacked.is_ok() { &plain } else { value };
    let Some(stored) = from_json::<StoredParts>(attribute::MULTIPART, text) else {
        return (Vec::new(), None);
    };
    let mut before = 0;
    let sizes = stored.parts.iter().map(|end| {
        let size = end.saturating_sub(before);
        before = *end;
        size
    });
    let upload_id = Some(stored.upload_id).filter(|id| !id.is_empty());
    (sizes.collect(), upload_id)
}

/// `checksums`: all members, in this order, nulls included.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredChecksums {
    #[serde(rename = "Algorithm")]
    algorithm: String,
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "CRC32")]
    crc32: Option<String>,
    #[serde(rename = "CRC32C")]
    crc32c: Option<String>,
    #[serde(rename = "SHA1")]
    sha1: Option<String>,
    #[serde(rename = "SHA256")]
    sha256: Option<String>,
    #[serde(rename = "CRC64NVME")]
    crc64nvme: Option<String>,
    #[serde(rename = "SHA512")]
    sha512: Option<String>,
    #[serde(rename = "MD5")]
    md5: Option<String>,
    #[serde(rename = "XXHASH64")]
    xxhash64: Option<String>,
    #[serde(rename = "XXHASH3")]
    xxhash3: Option<String>,
    #[serde(rename = "XXHASH128")]
    xxhash128: Option<String>,
}

impl StoredChecksums {
    fn value_mut(&mut self, algorithm: ChecksumAlgorithm) -> &mut Option<String> {
        match algorithm {
            ChecksumAlgorithm::Crc32 => &mut self.crc32,
            ChecksumAlgorithm::Crc32c => &mut self.crc32c,
            ChecksumAlgorithm::Crc64nvme => &mut self.crc64nvme,
            ChecksumAlgorithm::Sha1 => &mut self.sha1,
            ChecksumAlgorithm::Sha256 => &mut self.sha256,
        }
    }
}

fn algorithm_name(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "CRC32",
        ChecksumAlgorithm::Crc32c => "CRC32C",
        ChecksumAlgorithm::Crc64nvme => "CRC64NVME",
        ChecksumAlgorithm::Sha1 => "SHA1",
        ChecksumAlgorithm::Sha256 => "SHA256",
    }
}

/// `mp-metadata` once unpacked; `parts` are the offsets at which the parts end.
#[derive(Debug, Serialize, Deserialize)]
struct StoredParts {
    #[serde(rename = "uploadId", default)]
    upload_id: String,
    #[serde(default)]
    parts: Vec<u64>,
}

/// A JSON object of strings whose members keep their order.
struct Ordered(Tags);

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Encodes what cannot fail: text, numbers and maps with text keys.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn from_json<'a, T: Deserialize<'a>>(name: &str, value: &'a [u8]) -> Option<T> {
    serde_json::from_slice(value)
        .inspect_err(|error| tracing::warn!(%error, attribute = name, "unreadable attribute"))
        .ok()
}
