//! An object version as the rest of the migrator wants it: S3 metadata and where the body lies.

use std::time::{Duration, SystemTime};

use filestore_common::{ContentHeaders, ETag, ObjectMeta, Tags};
use percent_encoding::percent_decode_str;

use super::checksum;
use super::error::{Damaged, Encryption, Unreadable};
use super::fs::Stamp;
use super::xl_meta::{ObjectVersion, Part, uuid_text};

/// Largest erasure block that is read, in bytes; MinIO wrote 10 MiB, later 1 MiB.
const MAX_BLOCK: u64 = 16 << 20;

/// A current object of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveObject {
    /// Size in bytes as S3 shows it (after decompression).
    pub size: u64,
    /// Last-Modified, to the nanosecond.
    pub last_modified: SystemTime,
    /// Metadata as S3 shows it.
    pub meta: ObjectMeta,
    /// Retention or a legal hold is set; it does not travel.
    pub locked: bool,
    /// Names of stored metadata that has no place in [`ObjectMeta`] and does not travel.
    pub dropped: Vec<String>,
    pub(super) body: BodyPlan,
}

/// Where a body lies and how it is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyPlan {
    /// Object directory, relative to the drive.
    pub(super) dir: String,
    /// `xl.meta` as it was when it was read.
    pub(super) stamp: Stamp,
    /// Where INLINE begins in it.
    pub(super) inline_at: Option<u64>,
    /// Name of the inline entry.
    pub(super) version: String,
    /// Name of the data directory.
    pub(super) data_dir: String,
    /// Payload bytes of a full frame.
    pub(super) shard: usize,
    pub(super) compressed: bool,
    pub(super) parts: Vec<Part>,
}

/// Where an `xl.meta` was found.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Object directory, relative to the drive.
    pub(super) dir: String,
    pub(super) stamp: Stamp,
    pub(super) inline_at: Option<u64>,
}

impl DriveObject {
    /// Takes a version that can be read.
    ///
    /// # Errors
    /// Why it cannot.
    pub(super) fn new(version: ObjectVersion, place: Place) -> Result<Self, Unreadable> {
        refuse_unreadable(&version)?;
        let compressed = match version.compression() {
            None => false,
            Some(b"klauspost/compress/s2" | b"golang/snappy/LZ77") => true,
            Some(other) => {
                let name = String::from_utf8_lossy(other).into_owned();
                return Err(Unreadable::Unsupported(format!("compression {name:?}")));
            }
        };
        let size = version.s3_size()?;
        let mut described = describe(&version)?;
        described.meta.part_sizes = part_sizes(&version, compressed, &described.meta.etag);
        // Bounded by MAX_BLOCK, which fits usize on every target.
        let shard = usize::try_from(version.block_size.div_ceil(version.data_shards))
            .map_err(|error| Damaged::new(error.to_string()))?;
        Ok(Self {
            size,
            last_modified: time(version.modified_ns),
            meta: described.meta,
            locked: described.locked,
            dropped: described.dropped,
            body: BodyPlan {
                dir: place.dir,
                stamp: place.stamp,
                inline_at: place.inline_at,
                version: if version.id == [0; 16] {
                    "null".to_owned()
                } else {
                    uuid_text(version.id)
                },
                data_dir: uuid_text(version.data_dir),
                shard,
                compressed,
                parts: version.parts,
            },
        })
    }
}

/// Names what this reader cannot give the bytes of.
fn refuse_unreadable(version: &ObjectVersion) -> Result<(), Unreadable> {
    if let Some(status) = version.system("x-minio-internal-transition-status")
        && status.eq_ignore_ascii_case(b"complete")
    {
        let tier = version
            .system("x-minio-internal-transition-tier")
            .unwrap_or_default();
        return Err(Unreadable::Tiered(
            String::from_utf8_lossy(tier).into_owned(),
        ));
    }
    if let Some(encryption) = encryption(version) {
        return Err(Unreadable::Encrypted(encryption));
    }
    if (version.data_shards, version.parity_shards) != (1, 0) {
        return Err(Unreadable::Erasure {
            data: version.data_shards,
            parity: version.parity_shards,
        });
    }
    if version.erasure_algorithm != 1 || version.checksum_algorithm != 1 {
        return Err(Unreadable::Unsupported(format!(
            "erasure algorithm {} with checksum algorithm {}",
            version.erasure_algorithm, version.checksum_algorithm
        )));
    }
    if !(1..=MAX_BLOCK).contains(&version.block_size) {
        return Err(Unreadable::Damaged(format!(
            "it claims an erasure block of {} bytes",
            version.block_size
        )));
    }
    Ok(())
}

fn encryption(version: &ObjectVersion) -> Option<Encryption> {
    const PREFIX: &str = "x-minio-internal-server-side-encryption-";
    let mut found = None;
    for (name, _) in &version.system {
        let name = name.to_ascii_lowercase();
        if name == "x-minio-internal-encrypted-multipart" {
            found.get_or_insert(Encryption::SseC);
        } else if let Some(rest) = name.strip_prefix(PREFIX) {
            match rest {
                "kms-sealed-key" => return Some(Encryption::SseKms),
                "s3-sealed-key" => found = Some(Encryption::SseS3),
                _ => {
                    found.get_or_insert(Encryption::SseC);
                }
            }
        }
    }
    found
}

/// S3 sizes of the parts of a multipart object; empty for any other, and when a size is unknown.
fn part_sizes(version: &ObjectVersion, compressed: bool, etag: &ETag) -> Vec<u64> {
    if etag.part_count().map(|count| count as usize) != Some(version.parts.len()) {
        return Vec::new();
    }
    // `minio server --no-compat` gives single puts a random ETag that ends in `-1`; a completed
    // upload records its size.
    if version.parts.len() == 1 && version.system("X-Minio-Internal-actual-size").is_none() {
        return Vec::new();
    }
    let sizes = version.parts.iter().map(|part| match part.actual {
        Some(actual) => Some(actual),
        None if compressed => None,
        None => Some(part.stored),
    });
    sizes.collect::<Option<_>>().unwrap_or_default()
}

struct Described {
    meta: ObjectMeta,
    locked: bool,
    dropped: Vec<String>,
}

/// Sorts the stored metadata into S3's.
fn describe(version: &ObjectVersion) -> Result<Described, Damaged> {
    let etag = version
        .user("etag")
        .and_then(|etag| std::str::from_utf8(etag).ok())
        .ok_or_else(|| Damaged::new("it has no ETag"))?;
    let mut meta = ObjectMeta::new(ETag::new(etag));
    let (mut locked, mut dropped) = (false, Vec::new());
    for (name, value) in &version.user {
        let lower = name.to_ascii_lowercase();
        let Ok(value) = std::str::from_utf8(value) else {
            dropped.push(lower);
            continue;
        };
        if let Some(name) = lower
            .strip_prefix("x-amz-meta-")
            .or_else(|| lower.strip_prefix("x-minio-meta-"))
        {
            meta.user.insert(name.to_owned(), value.to_owned());
        } else if let Some(slot) = header(&mut meta.headers, &lower) {
            *slot = Some(value.to_owned()).filter(|value| !value.is_empty());
        } else {
            match lower.as_str() {
                "etag" => {}
                "content-encoding" => meta.headers.content_encoding = encoding(value),
                "x-amz-tagging" => meta.tags = tags(value)?,
                "x-amz-object-lock-mode"
                | "x-amz-object-lock-retain-until-date"
                | "x-amz-object-lock-legal-hold" => locked |= !matches!(value, "" | "OFF"),
                _ if value.is_empty() => {}
                _ => dropped.push(lower),
            }
        }
    }
    if let Some(stored) = version.system("x-minio-internal-crc") {
        meta.checksum = checksum::decode(stored);
        if meta.checksum.is_none() {
            dropped.push("x-amz-checksum".to_owned());
        }
    }
    Ok(Described {
        meta,
        locked,
        dropped,
    })
}

fn header<'h>(headers: &'h mut ContentHeaders, name: &str) -> Option<&'h mut Option<String>> {
    Some(match name {
        "content-type" => &mut headers.content_type,
        "content-language" => &mut headers.content_language,
        "content-disposition" => &mut headers.content_disposition,
        "cache-control" => &mut headers.cache_control,
        "expires" => &mut headers.expires,
        "x-amz-website-redirect-location" => &mut headers.website_redirect_location,
        _ => return None,
    })
}

/// `Content-Encoding` without `aws-chunked`, which old releases stored.
fn encoding(value: &str) -> Option<String> {
    let chunked = |token: &str| token.eq_ignore_ascii_case("aws-chunked");
    if !value.split(',').any(|token| chunked(token.trim())) {
        return Some(value.to_owned()).filter(|value| !value.is_empty());
    }
    let kept: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|token| !chunked(token))
        .collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// Tags as a URL query (`application/x-www-form-urlencoded`).
fn tags(query: &str) -> Result<Tags, Damaged> {
    let decode = |text: &str| {
        percent_decode_str(&text.replace('+', " "))
            .decode_utf8()
            .map(std::borrow::Cow::into_owned)
            .map_err(|_| Damaged::new("a tag is not UTF-8"))
    };
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

fn time(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        SystemTime::UNIX_EPOCH - distance
    } else {
        SystemTime::UNIX_EPOCH + distance
    }
}

#[cfg(test)]
mod tests;
