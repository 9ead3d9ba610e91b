//! A MessagePack cursor over borrowed bytes: nothing is allocated, no length is trusted, and any
//! input ends in a value or in [`Damaged`].

use rmp::Marker;
use rmp::decode;

use super::error::Damaged;

type Result<T> = std::result::Result<T, Damaged>;

/// Reads values one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Msgp<'a> {
    rest: &'a [u8],
}

impl<'a> Msgp<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        decode::read_int(&mut self.rest).map_err(|error| wrong("an integer", &error))
    }

    pub(super) fn uint(&mut self) -> Result<u64> {
        decode::read_int(&mut self.rest).map_err(|error| wrong("an unsigned integer", &error))
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        decode::read_bool(&mut self.rest).map_err(|error| wrong("a boolean", &error))
    }

    pub(super) fn array_len(&mut self) -> Result<u32> {
        decode::read_array_len(&mut self.rest).map_err(|error| wrong("an array", &error))
    }

    pub(super) fn bin(&mut self) -> Result<&'a [u8]> {
        let len =
            decode::read_bin_len(&mut self.rest).map_err(|error| wrong("a byte string", &error))?;
        self.take(len as usize)
    }

    /// Exactly `N` bytes.
    pub(super) fn bin_exact<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bin()?;
        bytes
            .try_into()
            .map_err(|_| Damaged::new(format!("{} bytes where {N} belong", bytes.len())))
    }

    /// Text or a byte string, as bytes: Go writes either for metadata values.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        match self.peek()? {
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let len =
                    decode::read_str_len(&mut self.rest).map_err(|error| wrong("text", &error))?;
                self.take(len as usize)
            }
            _ => self.bin(),
        }
    }

    /// Reads a time as `msgp` writes it: extension 5, seconds and nanoseconds, both big-endian.
    /// Returns nanoseconds since 1970.
    pub(super) fn time(&mut self) -> Result<i128> {
        let meta =
            decode::read_ext_meta(&mut self.rest).map_err(|error| wrong("a time", &error))?;
        let bytes = self.take(meta.size as usize)?;
        let (Some(seconds), Some(nanos), 5, 12) = (
            bytes.first_chunk::<8>(),
            bytes.last_chunk::<4>(),
            meta.typeid,
            bytes.len(),
        ) else {
            return Err(Damaged::new("an extension that is no time"));
        };
        Ok(i128::from(i64::from_be_bytes(*seconds)) * 1_000_000_000
            + i128::from(u32::from_be_bytes(*nanos)))
    }

    /// Consumes a nil if one is next.
    pub(super) fn nil(&mut self) -> Result<bool> {
        let nil = self.peek()? == Marker::Null;
        if nil {
            self.take(1)?;
        }
        Ok(nil)
    }

    /// Calls `entry` for each key of a map, which must read the value; nil is an empty map.
    pub(super) fn map(
        &mut self,
        mut entry: impl FnMut(&'a [u8], &mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.nil()? {
            return Ok(());
        }
        let len = decode::read_map_len(&mut self.rest).map_err(|error| wrong("a map", &error))?;
        for _ in 0..len {
            let key = self.bytes()?;
            entry(key, self)?;
        }
        Ok(())
    }

    /// Calls `item` for each element of an array, which must read it; nil is an empty array.
    pub(super) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.nil()? {
            return Ok(());
        }
        for _ in 0..self.array_len()? {
            item(self)?;
        }
        Ok(())
    }

    /// Reads past one value of any type and depth, without recursion.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut values: u64 = 1;
        while values > 0 {
            values -= 1;
            let (payload, nested) = self.value_extent()?;
            self.take(payload)?;
            // Each nested value takes at least a byte, so that the input bounds the loop.
            values += nested;
        }
        Ok(())
    }

    /// Consumes a marker and its length; returns payload bytes and nested values that follow.
    fn value_extent(&mut self) -> Result<(usize, u64)> {
        let marker = self.peek()?;
        self.take(1)?;
        Ok(match marker {
            Marker::FixPos(_)
            | Marker::FixNeg(_)
            | Marker::Null
            | Marker::True
            | Marker::False
            | Marker::Reserved => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 | Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::FixExt4 => (5, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::FixStr(len) => (usize::from(len), 0),
            Marker::Str8 | Marker::Bin8 => (self.length(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (self.length(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (self.length(4)?, 0),
            Marker::Ext8 => (self.length(1)? + 1, 0),
            Marker::Ext16 => (self.length(2)? + 1, 0),
            Marker::Ext32 => (self.length(4)? + 1, 0),
            Marker::FixArray(len) => (0, u64::from(len)),
            Marker::Array16 => (0, self.length(2)? as u64),
            Marker::Array32 => (0, self.length(4)? as u64),
            Marker::FixMap(len) => (0, 2 * u64::from(len)),
            Marker::Map16 => (0, 2 * self.length(2)? as u64),
            Marker::Map32 => (0, 2 * self.length(4)? as u64),
        })
    }

    /// A big-endian length of `width` bytes.
    fn length(&mut self, width: usize) -> Result<usize> {
        let bytes = self.take(width)?;
        Ok(bytes
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn peek(&self) -> Result<Marker> {
        let first = self.rest.first().ok_or_else(truncated)?;
        Ok(Marker::from_u8(*first))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn truncated() -> Damaged {
    Damaged::new("metadata ends in the middle of a value")
}

fn wrong(expected: &str, error: &dyn std::fmt::Debug) -> Damaged {
    Damaged::new(format!(
        "metadata holds no {expected} where one belongs: {error:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_passes_over_nested_values() {
        // {"a": [1, nil, ext(5, 2 bytes)], "b": bin(3)} then 7
        let bytes = b"\x82\xa1a\x93\x01\xc0\xd5\x05xx\xa1b\xc4\x03xyz\x07";

        let mut cursor = Msgp::new(bytes);
        cursor.skip().unwrap();

        assert_eq!(cursor.int().unwrap(), 7);
    }

    #[test]
    fn lengths_beyond_the_input_are_damage() {
        for bytes in [
            &b"\xdf\xff\xff\xff\xff"[..],
            b"\xdd\xff\xff\xff\xff\x01",
            b"\xc6\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\xc9\xff\xff\xff\xff",
        ] {
            assert!(Msgp::new(bytes).skip().is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn times_are_seconds_and_nanoseconds() {
        let bytes = b"\xc7\x0c\x05\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x07";

        assert_eq!(Msgp::new(bytes).time().unwrap(), 2_000_000_007);
    }
}
