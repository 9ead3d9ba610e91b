//! S2 (and Snappy) streams, as MinIO's compression writes them: one stream per part.
//!
//! ```text
//! chunk = type (1) | length (3, little-endian) | payload
//! ff stream id · 00 compressed block · 01 raw block · 80–fe skippable
//! ```
//!
//! The framing is read here, with every length checked before memory is taken; the blocks are
//! decoded by the `minlz` crate.

use std::io::{self, Read};

use minlz::s2;

use super::error::Damaged;

/// Largest uncompressed block of the format in bytes.
const MAX_BLOCK: usize = 4 << 20;

/// Largest compressed form of such a block: incompressible data grows by a sixth at most.
const MAX_CHUNK: usize = MAX_BLOCK + MAX_BLOCK / 6 + 32;

/// Decompresses an S2 stream; every block is checked against its CRC-32C.
#[derive(Debug)]
pub(super) struct S2Reader<R> {
    inner: R,
    /// Stream identifier seen.
    started: bool,
    chunk: Vec<u8>,
    block: Vec<u8>,
    at: usize,
}

impl<R: Read> S2Reader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            started: false,
            chunk: Vec::new(),
            block: Vec::new(),
            at: 0,
        }
    }

    /// Reads chunks up to the next block with data; `false` at the end of the stream.
    fn next_block(&mut self) -> io::Result<bool> {
        self.block.clear();
        self.at = 0;
        while self.block.is_empty() {
            let Some((kind, len)) = self.chunk_header()? else {
                return Ok(false);
            };
            match kind {
                0xff => {
                    self.read_chunk(len, 6)?;
                    if !matches!(&self.chunk[..], b"S2sTwO" | b"sNaPpY") {
                        return Err(damage("it is no S2 stream"));
                    }
                    self.started = true;
                }
                _ if !self.started => return Err(damage("it is no S2 stream")),
                0x00 | 0x01 => {
                    self.read_chunk(len, MAX_CHUNK)?;
                    self.decode(kind == 0x00)?;
                }
                0x80..=0xfe => {
                    let skipped =
                        io::copy(&mut (&mut self.inner).take(len as u64), &mut io::sink())?;
                    if skipped < len as u64 {
                        return Err(damage("its S2 stream is truncated"));
                    }
                }
                _ => {
                    return Err(damage(format!(
                        "its S2 stream has an unknown chunk {kind:#04x}"
                    )));
                }
            }
        }
        Ok(true)
    }

    fn chunk_header(&mut self) -> io::Result<Option<(u8, usize)>> {
        let mut header = Vec::with_capacity(4);
        (&mut self.inner).take(4).read_to_end(&mut header)?;
        match header[..] {
            [] => Ok(None),
            [kind, a, b, c] => Ok(Some((kind, u32::from_le_bytes([a, b, c, 0]) as usize))),
            _ => Err(damage("its S2 stream is truncated")),
        }
    }

    /// Reads a payload of `len` bytes, at most `most`.
    fn read_chunk(&mut self, len: usize, most: usize) -> io::Result<()> {
        if len > most {
            return Err(damage(format!("its S2 stream has a chunk of {len} bytes")));
        }
        self.chunk.resize(len, 0);
        self.inner
            .read_exact(&mut self.chunk)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => damage("its S2 stream is truncated"),
                _ => error,
            })
    }

    fn decode(&mut self, compressed: bool) -> io::Result<()> {
        let Some((sum, data)) = self.chunk.split_first_chunk::<4>() else {
            return Err(damage("its S2 stream has a block without checksum"));
        };
        if compressed {
            let (len, _) = s2::decode_len(data).map_err(|error| damage(error.to_string()))?;
            if len > MAX_BLOCK {
                return Err(damage(format!("its S2 stream has a block of {len} bytes")));
            }
            self.block.resize(len, 0);
            s2::decode_into(&mut self.block, data).map_err(|error| damage(error.to_string()))?;
        } else {
            if data.len() > MAX_BLOCK {
                return Err(damage(format!(
                    "its S2 stream has a block of {} bytes",
                    data.len()
                )));
            }
            self.block.extend_from_slice(data);
        }
        if minlz::crc::crc(&self.block) != u32::from_le_bytes(*sum) {
            return Err(damage("an S2 block does not match its CRC-32C"));
        }
        Ok(())
    }
}

impl<R: Read> Read for S2Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || (self.at == self.block.len() && !self.next_block()?) {
            return Ok(0);
        }
        let count = out.len().min(self.block.len() - self.at);
        out[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn damage(text: impl Into<String>) -> io::Error {
    Damaged::new(text).into_io()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const MAGIC: &[u8] = b"\xff\x06\x00\x00S2sTwO";

    fn compressed(data: &[u8]) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut writer = s2::Writer::new(&mut stream);
        writer.write_all(data).unwrap();
        writer.flush().unwrap();
        drop(writer);
        stream
    }

    fn read(stream: &[u8]) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        S2Reader::new(stream).read_to_end(&mut data)?;
        Ok(data)
    }

    #[test]
    fn blocks_are_checked_against_their_crc() {
        let data = b"abcd".repeat(5000);
        let mut stream = compressed(&data);
        assert_eq!(read(&stream).unwrap(), data);
        let checksum = MAGIC.len() + 4;
        stream[checksum] ^= 1;

        assert_eq!(
            read(&stream).unwrap_err().to_string(),
            "an S2 block does not match its CRC-32C"
        );
    }

    #[test]
    fn padding_and_unknown_skippable_chunks_are_passed_over() {
        let data = b"x".repeat(100);
        let mut stream = compressed(&data);
        // More of them than a stack would hold frames.
        stream.splice(10..10, b"\xfe\x00\x00\x00".repeat(200_000));
        stream.extend_from_slice(b"\x99\x02\x00\x00ab");

        assert_eq!(read(&stream).unwrap(), data);
    }

    #[test]
    fn claimed_sizes_beyond_the_format_are_refused() {
        // A compressed block that claims 255 MiB.
        let bomb = [MAGIC, b"\x00\x09\x00\x00", &[0; 4], b"\xff\xff\xff\x7f\x00"].concat();
        assert!(read(&bomb).unwrap_err().to_string().contains("a block of"));
        let long = [MAGIC, b"\x01\xff\xff\xff"].concat();
        assert!(read(&long).unwrap_err().to_string().contains("a chunk of"));
        assert!(read(b"\x00\x04\x00\x00aaaa").is_err(), "no stream id");
        assert!(read(&[MAGIC, b"\x02\x00\x00\x00"].concat()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_data_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            drop(read(&[MAGIC, &bytes].concat()));
            let len = u32::try_from(bytes.len() + 4).unwrap().to_le_bytes();
            let block = [MAGIC, b"\x00", &len[..3], b"\0\0\0\0", &bytes].concat();
            drop(read(&block));
        }

        #[test]
        fn a_changed_stream_never_gives_other_data(
            seed in proptest::collection::vec(any::<u8>(), 1..60),
            repeat in 1usize..50,
            position in any::<prop::sample::Index>(),
            change in 1u8..,
        ) {
            let data = seed.repeat(repeat);
            let mut stream = compressed(&data);
            let position = position.index(stream.len());
            stream[position] ^= change;

            if let Ok(read) = read(&stream) {
                // A damaged chunk type may hide a block: shorter, which the size check finds.
                prop_assert!(read == data || read.len() < data.len());
            }
        }
    }
}
