//! MD5 (RFC 1321) of long streams, several of them at a time.
//!
//! Each step of MD5 needs the result of the one before, so a core that hashes one stream mostly
//! waits for itself. [`Md5Pool`] takes blocks of up to four streams, from as many threads, and
//! works on them side by side. See ADR 14.

mod lanes;
mod pool;

use bytes::Bytes;

use crate::digest::Md5Digest;

pub use pool::Md5Pool;

/// Bytes that MD5 takes at a time.
const BLOCK: usize = 64;
/// State before the first byte (RFC 1321, 3.3).
const INIT: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// Fewer bytes are hashed by who brings them: meeting others costs more than it saves.
const WORTH_MEETING: usize = 32 << 10;

/// Incremental MD5 of one stream.
#[derive(Debug, Clone)]
pub struct Md5Stream {
    state: [u32; 4],
    /// Bytes taken so far.
    length: u64,
    /// Begin of a block that is not complete: the first `length % BLOCK` bytes count.
    tail: [u8; BLOCK],
}

impl Default for Md5Stream {
    fn default() -> Self {
        Self {
            state: INIT,
            length: 0,
            tail: [0; BLOCK],
        }
    }
}

impl Md5Stream {
    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let rest = self.fill_tail(bytes);
        let (whole, tail) = rest.split_at(rest.len() / BLOCK * BLOCK);
        lanes::one(&mut self.state, whole);
        self.keep(whole.len(), tail);
    }

    /// Takes more bytes; blocks the thread while they are hashed beside those that other threads
    /// brought to `pool`.
    pub fn update_beside(&mut self, pool: &Md5Pool, bytes: &Bytes) {
        if bytes.len() < WORTH_MEETING {
            return self.update(bytes);
        }
        let rest = self.fill_tail(bytes).len();
        let begin = bytes.len() - rest;
        let end = begin + rest / BLOCK * BLOCK;
        self.state = pool.compress(self.state, bytes.slice(begin..end));
        self.keep(end - begin, &bytes[end..]);
    }

    /// The digest of all bytes.
    pub fn finalize(mut self) -> Md5Digest {
        let bits = self.length.wrapping_mul(8);
        let filled = self.filled();
        let mut end = [0; 2 * BLOCK];
        end[..filled].copy_from_slice(&self.tail[..filled]);
        end[filled] = 0x80;
        let length = if filled + 9 <= BLOCK {
            BLOCK
        } else {
            2 * BLOCK
        };
        end[length - 8..length].copy_from_slice(&bits.to_le_bytes());
        lanes::one(&mut self.state, &end[..length]);
        let mut digest = [0; 16];
        for (to, word) in digest.chunks_exact_mut(4).zip(self.state) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    fn filled(&self) -> usize {
        // 256 is a multiple of BLOCK.
        usize::from(self.length.to_le_bytes()[0]) % BLOCK
    }

    /// Completes the block that was begun; gives back what is left of `bytes`, which is nothing
    /// unless the block is complete now.
    fn fill_tail<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let filled = self.filled();
        if filled == 0 {
            return bytes;
        }
        let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - filled));
        self.tail[filled..filled + now.len()].copy_from_slice(now);
        self.length += now.len() as u64;
        if self.filled() == 0 && !now.is_empty() {
            lanes::one(&mut self.state, &self.tail);
        }
        rest
    }

    /// Counts `hashed` bytes of whole blocks, and keeps what came after them.
    fn keep(&mut self, hashed: usize, tail: &[u8]) {
        self.tail[..tail.len()].copy_from_slice(tail);
        self.length += (hashed + tail.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use md5::{Digest, Md5};
    use proptest::prelude::*;

    use super::*;

    /// RFC 1321, A.5.
    #[test]
    fn the_digests_of_the_standard() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            let mut stream = Md5Stream::default();
            stream.update(text.as_bytes());
            assert_eq!(hex::encode(stream.finalize()), digest, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Several threads, each a stream of chunks of any length, against another implementation.
        #[test]
        fn streams_that_meet_do_not_mix(
            streams in proptest::collection::vec(
                proptest::collection::vec((0_usize..150_000, any::<u8>()), 0..5),
                1..7,
            ),
        ) {
            let pool = Md5Pool::new();
            let begin = Barrier::new(streams.len());
            let digests: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = streams.iter().map(|chunks| {
                    let (pool, begin) = (&pool, &begin);
                    scope.spawn(move || {
                        let mut ours = Md5Stream::default();
                        let mut theirs = Md5::new();
                        begin.wait();
                        for (length, seed) in chunks {
                            let chunk: Vec<u8> = (0..*length)
                                .map(|at| (at as u64 * 31 + u64::from(*seed)).to_le_bytes()[0])
                                .collect();
                            ours.update_beside(pool, &Bytes::from(chunk.clone()));
                            theirs.update(&chunk);
                        }
                        (ours.finalize(), <[u8; 16]>::from(theirs.finalize()))
                    })
                }).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for (ours, theirs) in digests {
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
