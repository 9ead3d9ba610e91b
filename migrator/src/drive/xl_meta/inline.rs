//! INLINE: bodies small enough to live in `xl.meta`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

use rmp::decode;

use super::super::error::Damaged;

/// Longest entry name that is compared; names are `null` or a UUID.
const MAX_NAME: usize = 64;

/// Finds the entry called `names[0]`, else `names[1]`, in the INLINE section at `offset`, and
/// returns where in the file its value lies. Values are passed over, not read.
///
/// # Errors
/// [`Damaged`] inside the I/O error when the section makes no sense.
pub(crate) fn find_inline(
    file: &File,
    offset: u64,
    file_len: u64,
    names: [&str; 2],
) -> io::Result<Option<Range<u64>>> {
    let mut reader = BufReader::with_capacity(4 << 10, file);
    reader.seek(SeekFrom::Start(offset))?;
    let mut format = [0];
    reader.read_exact(&mut format).map_err(ends)?;
    if format != [1] {
        return Err(damage(format!(
            "inline data has the unknown format {}",
            format[0]
        )));
    }
    let entries = decode::read_map_len(&mut reader).map_err(|_| damage("no inline map"))?;
    let mut fallback = None;
    for _ in 0..entries {
        let len = decode::read_str_len(&mut reader).map_err(|_| damage("no inline name"))?;
        let mut name = [0; MAX_NAME];
        let name = name
            .get_mut(..len as usize)
            .ok_or_else(|| damage("an inline name is too long"))?;
        reader.read_exact(name).map_err(ends)?;
        let len =
            u64::from(decode::read_bin_len(&mut reader).map_err(|_| damage("no inline value"))?);
        let start = reader.stream_position()?;
        if start + len > file_len {
            return Err(damage("xl.meta is truncated in its inline data"));
        }
        if name == names[0].as_bytes() {
            return Ok(Some(start..start + len));
        }
        if name == names[1].as_bytes() {
            fallback = Some(start..start + len);
        }
        // Cannot overflow: `len` came from a u32.
        reader.seek_relative(i64::try_from(len).map_err(io::Error::other)?)?;
    }
    Ok(fallback)
}

fn damage(text: impl Into<String>) -> io::Error {
    Damaged::new(text).into_io()
}

fn ends(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        damage("xl.meta is truncated in its inline data")
    } else {
        error
    }
}
