//! One version's body: the map inside `xl.meta`.

use sha2::{Digest, Sha256};

use super::super::error::Damaged;
use super::super::msgp::Msgp;

type Result<T> = std::result::Result<T, Damaged>;

/// Most parts of an object (S3's limit).
const MAX_PARTS: usize = 10_000;

/// Most metadata entries taken from one version; S3 limits user metadata to 2 KiB.
const MAX_ENTRIES: usize = 4096;

/// One part of an object's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// S3 part number, the N of `part.N`.
    pub(crate) number: u32,
    /// Bytes stored, without the hashes between them.
    pub(crate) stored: u64,
    /// Bytes as S3 shows them, where recorded.
    pub(crate) actual: Option<u64>,
}

/// Metadata as MinIO stores it: name and value.
pub(crate) type Entries = Vec<(String, Vec<u8>)>;

/// An object version ("V2Obj").
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectVersion {
    /// Version id; zero is "null".
    pub(crate) id: [u8; 16],
    /// Data directory's UUID.
    pub(crate) data_dir: [u8; 16],
    /// Erasure algorithm, 1 is Reed-Solomon.
    pub(crate) erasure_algorithm: u64,
    /// Data shards.
    pub(crate) data_shards: u64,
    /// Parity shards.
    pub(crate) parity_shards: u64,
    /// Erasure block size in bytes.
    pub(crate) block_size: u64,
    /// Checksum algorithm, 1 is HighwayHash-256.
    pub(crate) checksum_algorithm: u64,
    /// Parts in object order.
    pub(crate) parts: Vec<Part>,
    /// Bytes stored.
    pub(crate) size: u64,
    /// Last-Modified in nanoseconds since 1970.
    pub(crate) modified_ns: i64,
    /// Internal metadata.
    pub(crate) system: Entries,
    /// Metadata that S3 shows.
    pub(crate) user: Entries,
}

impl ObjectVersion {
    /// Value of an internal entry; names are compared without case.
    pub(crate) fn system(&self, name: &str) -> Option<&[u8]> {
        find(&self.system, name)
    }

    /// Value of an entry that S3 shows; names are compared without case.
    pub(crate) fn user(&self, name: &str) -> Option<&[u8]> {
        find(&self.user, name)
    }

    /// Size in bytes as S3 shows it.
    pub(crate) fn s3_size(&self) -> Result<u64> {
        if let Some(text) = self.system("X-Minio-Internal-actual-size")
            && self.compression().is_some()
        {
            return std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| Damaged::new("the recorded actual size is no number"));
        }
        if self.compression().is_none() {
            return Ok(self.size);
        }
        self.parts
            .iter()
            .try_fold(0u64, |sum, part| sum.checked_add(part.actual?))
            .ok_or_else(|| Damaged::new("no uncompressed size is recorded"))
    }

    /// Name of the compression, when compressed.
    pub(crate) fn compression(&self) -> Option<&[u8]> {
        self.system("X-Minio-Internal-compression")
    }
}

fn find<'e>(entries: &'e Entries, name: &str) -> Option<&'e [u8]> {
    entries
        .iter()
        .find(|(have, _)| have.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_slice())
}

/// What a version is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Object(Box<ObjectVersion>),
    DeleteMarker {
        id: [u8; 16],
        modified_ns: i64,
    },
    Legacy {
        modified_ns: i64,
    },
    /// Book-keeping of tiering, not an S3 version.
    Free,
}

impl Body {
    /// Which version it is, for a digest over what stays behind.
    pub(super) fn identify(&self, digest: &mut Sha256) {
        let (id, etag) = match self {
            Self::Object(object) => (object.id, object.user("etag").unwrap_or_default()),
            Self::DeleteMarker { id, .. } => (*id, &[][..]),
            Self::Legacy { .. } | Self::Free => ([0; 16], &[][..]),
        };
        digest.update(id);
        digest.update(self.modified_ns().to_be_bytes());
        digest.update((etag.len() as u64).to_be_bytes());
        digest.update(etag);
    }

    pub(super) fn modified_ns(&self) -> i64 {
        match self {
            Self::Object(object) => object.modified_ns,
            Self::DeleteMarker { modified_ns, .. } | Self::Legacy { modified_ns } => *modified_ns,
            Self::Free => i64::MIN,
        }
    }
}

/// Reads a version's map.
pub(super) fn read_body(cursor: &mut Msgp<'_>) -> Result<Body> {
    let mut kind = 0;
    let (mut object, mut marker, mut legacy) = (None, None, None);
    cursor.map(|key, value| {
        match key {
            b"Type" => kind = value.uint()?,
            b"V2Obj" if !value.nil()? => object = Some(read_object(value)?),
            b"DelObj" if !value.nil()? => marker = Some(read_marker(value)?),
            b"V1Obj" if !value.nil()? => legacy = Some(read_legacy(value)?),
            b"V2Obj" | b"DelObj" | b"V1Obj" => {}
            _ => value.skip()?,
        }
        Ok(())
    })?;
    match (kind, object, marker, legacy) {
        (1, Some(object), _, _) => Ok(Body::Object(Box::new(object))),
        (2, _, Some(marker), _) => Ok(marker),
        (3, _, _, Some(modified_ns)) => Ok(Body::Legacy { modified_ns }),
        (1..=3, ..) => Err(Damaged::new("a version lacks its body")),
        (other, ..) => Err(Damaged::new(format!(
            "a version has the unknown type {other}"
        ))),
    }
}

fn read_marker(cursor: &mut Msgp<'_>) -> Result<Body> {
    let (mut id, mut modified_ns) = ([0; 16], 0);
    let mut free = false;
    cursor.map(|key, value| {
        match key {
            b"ID" if !value.nil()? => id = value.bin_exact()?,
            b"ID" => {}
            b"MTime" => modified_ns = value.int()?,
            b"MetaSys" => value.map(|name, value| {
                free |= name.eq_ignore_ascii_case(b"x-minio-internal-free-version");
                value.skip()
            })?,
            _ => value.skip()?,
        }
        Ok(())
    })?;
    Ok(if free {
        Body::Free
    } else {
        Body::DeleteMarker { id, modified_ns }
    })
}

/// A converted `xl.json`: only its time is of use.
fn read_legacy(cursor: &mut Msgp<'_>) -> Result<i64> {
    let mut modified_ns = 0;
    cursor.map(|key, value| {
        if key != b"Stat" {
            return value.skip();
        }
        value.map(|key, value| {
            if key == b"ModTime" {
                modified_ns = i64::try_from(value.time()?).unwrap_or(0);
                Ok(())
            } else {
                value.skip()
            }
        })
    })?;
    Ok(modified_ns)
}

fn read_object(cursor: &mut Msgp<'_>) -> Result<ObjectVersion> {
    let mut object = ObjectVersion::default();
    let (mut numbers, mut stored, mut actual) = (Vec::new(), Vec::new(), Vec::new());
    cursor.map(|key, value| {
        match key {
            b"ID" => object.id = value.bin_exact()?,
            b"DDir" => object.data_dir = value.bin_exact()?,
            b"EcAlgo" => object.erasure_algorithm = value.uint()?,
            b"EcM" => object.data_shards = value.uint()?,
            b"EcN" => object.parity_shards = value.uint()?,
            b"EcBSize" => object.block_size = value.uint()?,
            b"CSumAlgo" => object.checksum_algorithm = value.uint()?,
            b"PartNums" => numbers = read_ints(value)?,
            b"PartSizes" => stored = read_ints(value)?,
            b"PartASizes" => actual = read_ints(value)?,
            b"Size" => object.size = value.uint()?,
            b"MTime" => object.modified_ns = value.int()?,
            b"MetaSys" => object.system = read_entries(value)?,
            b"MetaUsr" => object.user = read_entries(value)?,
            _ => value.skip()?,
        }
        Ok(())
    })?;
    object.parts = join_parts(&numbers, &stored, &actual)?;
    let sum = object
        .parts
        .iter()
        .try_fold(0u64, |sum, part| sum.checked_add(part.stored));
    if sum != Some(object.size) {
        return Err(Damaged::new(format!(
            "its parts do not add up to its size of {} bytes",
            object.size
        )));
    }
    Ok(object)
}

fn join_parts(numbers: &[i64], stored: &[i64], actual: &[i64]) -> Result<Vec<Part>> {
    if numbers.len() != stored.len() || !(actual.is_empty() || actual.len() == numbers.len()) {
        return Err(Damaged::new("its lists of parts differ in length"));
    }
    numbers
        .iter()
        .zip(stored)
        .enumerate()
        .map(|(index, (number, stored))| {
            let part = || Damaged::new(format!("part {number} of {stored} bytes"));
            Ok(Part {
                number: u32::try_from(*number)
                    .ok()
                    .filter(|number| (1..=10_000).contains(number))
                    .ok_or_else(part)?,
                stored: u64::try_from(*stored).map_err(|_| part())?,
                actual: actual
                    .get(index)
                    .and_then(|actual| u64::try_from(*actual).ok()),
            })
        })
        .collect()
}

fn read_ints(cursor: &mut Msgp<'_>) -> Result<Vec<i64>> {
    let mut values = Vec::new();
    cursor.array(|item| {
        if values.len() == MAX_PARTS {
            return Err(Damaged::new(format!("more than {MAX_PARTS} parts")));
        }
        values.push(item.int()?);
        Ok(())
    })?;
    Ok(values)
}

fn read_entries(cursor: &mut Msgp<'_>) -> Result<Entries> {
    let mut entries = Entries::new();
    cursor.map(|name, value| {
        if entries.len() == MAX_ENTRIES {
            return Err(Damaged::new(format!(
                "more than {MAX_ENTRIES} metadata entries"
            )));
        }
        let name = std::str::from_utf8(name)
            .map_err(|_| Damaged::new("a metadata name is not UTF-8"))?
            .to_owned();
        let value = if value.nil()? { &[] } else { value.bytes()? };
        entries.push((name, value.to_vec()));
        Ok(())
    })?;
    Ok(entries)
}
