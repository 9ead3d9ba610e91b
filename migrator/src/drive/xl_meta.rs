//! `xl.meta`: the envelope, its checksum, and the versions inside.
//!
//! ```text
//! "XL2 " major minor | METADATA (bin) | xxHash64 of METADATA | INLINE (1, map name → body)
//! ```
//!
//! Minor 0 has no frame around METADATA, minor 1 no checksum, and before minor 3 METADATA is one
//! map with unordered versions. A single drive was never written below minor 3; the others are
//! there when somebody moved a drive of an old erasure set.

mod fold;
mod inline;
mod version;

use std::fs::File;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh64::xxh64;

use super::error::Damaged;
use super::msgp::Msgp;

pub(super) use fold::{Current, Summary, summarize};
pub(super) use inline::find_inline;
pub(super) use version::{ObjectVersion, Part};

/// Longest METADATA that is read, in bytes. 10 000 versions (MinIO's own limit) take about 6 MiB.
const MAX_METADATA: u64 = 64 << 20;

/// Bytes read at first: enough for METADATA of all but objects with many parts or versions.
const FIRST_READ: usize = 8 << 10;

/// Longest frame before METADATA: magic, version, `bin32` with its length.
const PREFIX: usize = 13;

/// Where METADATA lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Envelope {
    minor: u16,
    start: usize,
    len: usize,
}

impl Envelope {
    /// Reads the first bytes of a file of `file_len` bytes.
    fn parse(head: &[u8], file_len: u64) -> Result<Self, Damaged> {
        let Some((prefix, rest)) = head.split_first_chunk::<8>() else {
            return Err(Damaged::new("xl.meta is shorter than its header"));
        };
        if &prefix[..4] != b"XL2 " {
            return Err(Damaged::new("xl.meta does not start with \"XL2 \""));
        }
        let (major, minor) = if &prefix[4..] == b"1   " {
            (1, 0)
        } else {
            (
                u16::from_le_bytes([prefix[4], prefix[5]]),
                u16::from_le_bytes([prefix[6], prefix[7]]),
            )
        };
        if major != 1 || minor > 3 {
            return Err(Damaged::new(format!(
                "xl.meta has version {major}.{minor}, known are 1.0 to 1.3"
            )));
        }
        let (start, len) = if minor == 0 {
            (8, file_len.saturating_sub(8))
        } else {
            let mut frame = rest;
            let before = frame.len();
            let len = rmp::decode::read_bin_len(&mut frame)
                .map_err(|_| Damaged::new("xl.meta holds no metadata"))?;
            (8 + before - frame.len(), u64::from(len))
        };
        if len > MAX_METADATA {
            return Err(Damaged::new(format!(
                "xl.meta claims {len} bytes of metadata"
            )));
        }
        if start as u64 + len > file_len {
            return Err(Damaged::new(format!(
                "xl.meta is truncated: {file_len} bytes, metadata alone has {len}"
            )));
        }
        // Fits: MAX_METADATA is far below usize on every target.
        let len = usize::try_from(len).map_err(|error| Damaged::new(error.to_string()))?;
        Ok(Self { minor, start, len })
    }

    /// Bytes from the start of the file to the end of METADATA's checksum, at most.
    fn extent(&self) -> usize {
        self.start + self.len + if self.minor >= 2 { 9 } else { 0 }
    }
}

/// METADATA of one `xl.meta`, checked against its checksum.
#[derive(Debug)]
pub(super) struct Metadata<'a> {
    minor: u16,
    bytes: &'a [u8],
    /// Where INLINE begins, if there is any.
    pub(super) inline_at: Option<u64>,
}

impl<'a> Metadata<'a> {
    /// Takes METADATA out of the beginning of a file of `file_len` bytes.
    fn parse(envelope: Envelope, head: &'a [u8], file_len: u64) -> Result<Self, Damaged> {
        let end = envelope.start + envelope.len;
        let bytes = head
            .get(envelope.start..end)
            .ok_or_else(|| Damaged::new("xl.meta is truncated"))?;
        let mut inline_at = end;
        if envelope.minor >= 2 {
            let after = head.get(end..).unwrap_or_default();
            let mut cursor = Msgp::new(after);
            let stored = cursor
                .uint()
                .map_err(|_| Damaged::new("xl.meta is truncated: no checksum after metadata"))?;
            if stored != xxh64(bytes, 0) & 0xffff_ffff {
                return Err(Damaged::new("metadata does not match its checksum"));
            }
            inline_at += after.len() - cursor.rest().len();
        }
        let inline_at = inline_at as u64;
        Ok(Self {
            minor: envelope.minor,
            bytes,
            inline_at: (envelope.minor > 0 && inline_at < file_len).then_some(inline_at),
        })
    }

    /// Reads METADATA of a whole `xl.meta` in memory.
    #[cfg(test)]
    pub(super) fn from_bytes(file: &'a [u8]) -> Result<Self, Damaged> {
        let len = file.len() as u64;
        Self::parse(Envelope::parse(file, len)?, file, len)
    }

    /// Reads METADATA (not INLINE) of the open `file` of `file_len` bytes into `buffer`.
    ///
    /// The outer error is the file system's.
    pub(super) fn read(
        file: &File,
        file_len: u64,
        buffer: &'a mut Vec<u8>,
    ) -> std::io::Result<Result<Self, Damaged>> {
        let first = usize::try_from(file_len).map_or(FIRST_READ, |len| len.min(FIRST_READ));
        fill(file, buffer, 0, first)?;
        let envelope = match Envelope::parse(buffer, file_len) {
            Ok(envelope) => envelope,
            Err(damage) => return Ok(Err(damage)),
        };
        let wanted = usize::try_from(file_len)
            .unwrap_or(usize::MAX)
            .min(envelope.extent());
        if wanted > buffer.len() {
            let have = buffer.len();
            fill(file, buffer, have, wanted)?;
        }
        Ok(Self::parse(envelope, buffer, file_len))
    }
}

/// Makes `buffer` hold the file's bytes up to `to`, the first `from` being there already. A file
/// that got shorter meanwhile leaves it shorter.
fn fill(file: &File, buffer: &mut Vec<u8>, from: usize, to: usize) -> std::io::Result<()> {
    buffer.resize(to, 0);
    let mut at = from;
    while at < to {
        match file.read_at(&mut buffer[at..], at as u64) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(at);
    Ok(())
}

/// Textual name of a version or data directory: `null` for the zero id of a version.
pub(super) fn uuid_text(id: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(id).hyphenated().to_string()
}

const _: () = assert!(PREFIX < FIRST_READ, "the first read covers the envelope");

#[cfg(test)]
pub(super) mod tests;
