//! All versions of a key folded into what a migration needs: the current one, and counts of what
//! stays behind.

use sha2::{Digest, Sha256};

use super::super::error::Damaged;
use super::super::msgp::Msgp;
use super::Metadata;
use super::version::{Body, ObjectVersion, read_body};

type Result<T> = std::result::Result<T, Damaged>;

/// Header flag of a free version.
const FREE_VERSION: u64 = 1;

/// The version that a plain GET answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Current {
    /// No version at all: the object is gone.
    #[default]
    None,
    /// An object.
    Object(Box<ObjectVersion>),
    /// The key was deleted in a versioned bucket.
    DeleteMarker,
    /// A converted `xl.json`.
    Legacy,
}

/// What an `xl.meta` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Current version.
    pub(crate) current: Current,
    /// Object versions older than the current one.
    pub(crate) noncurrent: u64,
    /// Their bytes, as S3 shows them.
    pub(crate) noncurrent_bytes: u64,
    /// Delete markers, a current one included.
    pub(crate) delete_markers: u64,
    /// Free versions (left by tiering).
    pub(crate) free_versions: u64,
    /// Data directories that versions use, sorted.
    pub(crate) data_dirs: Vec<[u8; 16]>,
    /// SHA-256 over what tells those versions and delete markers from others; empty when there
    /// are none.
    pub(crate) left_identity: Vec<u8>,
}

impl Summary {
    /// Takes the next version, newest first; `left` is the digest over what stays behind.
    fn add(&mut self, body: Body, left: &mut Option<Sha256>) {
        let first = self.noncurrent == 0 && self.current == Current::None;
        let stays = match body {
            Body::Free => false,
            Body::DeleteMarker { .. } => true,
            Body::Object(_) | Body::Legacy { .. } => !first,
        };
        if stays {
            body.identify(left.get_or_insert_default());
        }
        match body {
            Body::Free => self.free_versions += 1,
            Body::Object(object) => {
                self.data_dirs.push(object.data_dir);
                if first {
                    self.current = Current::Object(object);
                } else {
                    self.noncurrent += 1;
                    let size = object.s3_size().unwrap_or(object.size);
                    self.noncurrent_bytes = self.noncurrent_bytes.saturating_add(size);
                }
            }
            Body::DeleteMarker { .. } => {
                self.delete_markers += 1;
                if first {
                    self.current = Current::DeleteMarker;
                }
            }
            Body::Legacy { .. } => {
                if first {
                    self.current = Current::Legacy;
                } else {
                    self.noncurrent += 1;
                }
            }
        }
    }
}

/// Reads all versions.
///
/// # Errors
/// [`Damaged`] when one of them makes no sense.
pub(crate) fn summarize(metadata: &Metadata<'_>) -> Result<Summary> {
    let (mut summary, mut left) = (Summary::default(), None);
    if metadata.minor >= 3 {
        each_version(metadata.bytes, |body| summary.add(body, &mut left))?;
    } else {
        let mut bodies = unordered_versions(metadata.bytes)?;
        bodies.sort_by_key(|body| std::cmp::Reverse(body.modified_ns()));
        for body in bodies {
            summary.add(body, &mut left);
        }
    }
    // Metadata-only copies share a directory.
    summary.data_dirs.sort_unstable();
    summary.data_dirs.dedup();
    summary.left_identity = left
        .map(|left| left.finalize().to_vec())
        .unwrap_or_default();
    Ok(summary)
}

/// Minor 3: a sequence of values, newest version first, a header before each body.
fn each_version(bytes: &[u8], mut take: impl FnMut(Body)) -> Result<()> {
    let mut cursor = Msgp::new(bytes);
    let (header_format, metadata_format) = (cursor.uint()?, cursor.uint()?);
    if !(1..=3).contains(&header_format) || !(1..=3).contains(&metadata_format) {
        return Err(Damaged::new(format!(
            "versions are in the unknown format {header_format}/{metadata_format}"
        )));
    }
    let count = cursor.uint()?;
    for _ in 0..count {
        let flags = header_flags(&mut Msgp::new(cursor.bin()?))?;
        let body = read_body(&mut Msgp::new(cursor.bin()?))?;
        take(if flags & FREE_VERSION == 0 {
            body
        } else {
            Body::Free
        });
    }
    Ok(())
}

/// Version id, time, signature, type, flags and, in newer headers, erasure shards.
fn header_flags(cursor: &mut Msgp<'_>) -> Result<u64> {
    if cursor.array_len()? < 5 {
        return Err(Damaged::new("a version header is too short"));
    }
    for _ in 0..4 {
        cursor.skip()?;
    }
    cursor.uint()
}

/// Before minor 3: a map with the array `Versions`, in any order.
fn unordered_versions(bytes: &[u8]) -> Result<Vec<Body>> {
    let mut bodies = Vec::new();
    let mut cursor = Msgp::new(bytes);
    cursor.map(|key, value| {
        if key == b"Versions" {
            value.array(|item| {
                bodies.push(read_body(item)?);
                Ok(())
            })
        } else {
            value.skip()
        }
    })?;
    Ok(bodies)
}
