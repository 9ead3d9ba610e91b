//! MinIO's bitrot protection: each MiB of a body is preceded by its HighwayHash-256.
//!
//! ```text
//! part file or inline value = { hash (32 bytes) | up to `shard` bytes } …
//! ```

use std::io::{self, Read};

use highway::{HighwayHash, HighwayHasher, Key};

use super::error::Damaged;

/// Length of a hash in bytes.
const HASH: usize = 32;

/// MinIO's fixed key: HighwayHash-256, keyed with zeros, of the first 100 decimals of pi.
const KEY: Key = Key([
    0xcd8a_238e_fa34_e74b,
    0x5285_96bb_e683_3e26,
    0x1444_9fa3_5d93_0f04,
    0xa036_de22_139d_e097,
]);

/// Bytes in a file that holds `size` bytes of body in frames of `shard` bytes.
pub(super) fn framed_len(size: u64, shard: u64) -> Option<u64> {
    size.checked_add(size.div_ceil(shard).checked_mul(HASH as u64)?)
}

fn hash(key: Key, data: &[u8]) -> [u8; HASH] {
    let words = HighwayHasher::new(key).hash256(data);
    let mut bytes = [0; HASH];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Strips the hashes and checks each of them before it lets a byte of its frame through.
#[derive(Debug)]
pub(super) struct BitrotReader<R> {
    inner: R,
    /// Bytes of body not yet taken from `inner`.
    left: u64,
    shard: usize,
    frame: u64,
    /// A checked frame that did not fit the caller's buffer.
    kept: Vec<u8>,
    at: usize,
}

impl<R: Read> BitrotReader<R> {
    /// Reads `size` bytes of body in frames of `shard` bytes.
    pub(super) fn new(inner: R, size: u64, shard: usize) -> Self {
        Self {
            inner,
            left: size,
            shard,
            frame: 0,
            kept: Vec::new(),
            at: 0,
        }
    }

    /// Reads the next frame into `payload`, which has its exact length.
    fn next_frame(inner: &mut R, frame: u64, payload: &mut [u8]) -> io::Result<()> {
        let mut stored = [0; HASH];
        inner
            .read_exact(&mut stored)
            .and_then(|()| inner.read_exact(payload))
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    Damaged::new(format!("it ends within frame {frame}")).into_io()
                }
                _ => error,
            })?;
        if hash(KEY, payload) == stored {
            Ok(())
        } else {
            Err(Damaged::new(format!("frame {frame} does not match its HighwayHash-256")).into_io())
        }
    }
}

impl<R: Read> Read for BitrotReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.kept.len() {
            let next = usize::try_from(self.left).map_or(self.shard, |left| left.min(self.shard));
            if next == 0 || out.is_empty() {
                return Ok(0);
            }
            self.frame += 1;
            if let Some(payload) = out.get_mut(..next) {
                Self::next_frame(&mut self.inner, self.frame, payload)?;
                self.left -= next as u64;
                return Ok(next);
            }
            self.at = next;
            self.kept.resize(next, 0);
            Self::next_frame(&mut self.inner, self.frame, &mut self.kept)?;
            self.at = 0;
            self.left -= next as u64;
        }
        let count = out.len().min(self.kept.len() - self.at);
        out[..count].copy_from_slice(&self.kept[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frames `body` as MinIO would.
    pub(in super::super) fn framed(body: &[u8], shard: usize) -> Vec<u8> {
        body.chunks(shard)
            .flat_map(|frame| [&hash(KEY, frame)[..], frame].concat())
            .collect()
    }

    #[test]
    fn the_key_is_the_hash_of_pi() {
        let decimals = "1415926535897932384626433832795028841971693993751058209749445923078164\
                        062862089986280348253421170679";
        let mut key = [0; HASH];
        for (to, word) in key.chunks_exact_mut(8).zip(KEY.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }

        assert_eq!(decimals.len(), 100);
        assert_eq!(hash(Key([0; 4]), decimals.as_bytes()), key);
    }

    #[test]
    fn a_changed_bit_or_a_missing_byte_is_found() {
        let body: Vec<u8> = (0..2500u32).map(|n| n.to_le_bytes()[0]).collect();
        let good = framed(&body, 1000);
        assert_eq!(framed_len(2500, 1000), Some(good.len() as u64));
        for position in [0, 31, 32, 1031, 1032, 2595] {
            let mut bad = good.clone();
            bad[position] ^= 1;
            let frame = position / 1032 + 1;

            let error = io::copy(
                &mut BitrotReader::new(&bad[..], 2500, 1000),
                &mut io::sink(),
            )
            .unwrap_err();

            assert_eq!(
                error.to_string(),
                format!("frame {frame} does not match its HighwayHash-256")
            );
        }
        let error = io::copy(
            &mut BitrotReader::new(&good[..2595], 2500, 1000),
            &mut io::sink(),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "it ends within frame 3");
    }

    proptest! {
        #[test]
        fn frames_come_back_whatever_the_buffer(
            body in proptest::collection::vec(any::<u8>(), 0..300),
            shard in 1usize..100,
            buffer in 1usize..150,
        ) {
            let file = framed(&body, shard);
            let mut reader = BitrotReader::new(&file[..], body.len() as u64, shard);
            let mut read = Vec::new();
            let mut piece = vec![0; buffer];

            loop {
                let count = reader.read(&mut piece).unwrap();
                if count == 0 { break; }
                read.extend_from_slice(&piece[..count]);
            }

            prop_assert_eq!(read, body);
        }
    }
}
