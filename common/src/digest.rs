//! Digests of object bodies: MD5 for ETags, the five checksums of S3, and what S3 derives from
//! those of the parts of a multipart upload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;

use crate::{Checksum, ChecksumAlgorithm, ChecksumKind, ETag};

/// MD5 of some bytes.
pub type Md5Digest = [u8; 16];

/// MD5 of `bytes` (`Content-MD5` of small XML bodies).
pub fn md5(bytes: &[u8]) -> Md5Digest {
    Md5::digest(bytes).into()
}

/// Incremental checksum of one algorithm.
#[derive(Debug, Clone)]
pub struct ChecksumHasher {
    algorithm: ChecksumAlgorithm,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl ChecksumHasher {
    /// Starts with no bytes.
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        let state = match (algorithm, crc(algorithm)) {
            (ChecksumAlgorithm::Sha1, _) => State::Sha1(Sha1::new()),
            (_, Some(crc)) => State::Crc(crc_fast::Digest::new(crc)),
            _ => State::Sha256(Sha256::new()),
        };
        Self { algorithm, state }
    }

    /// What it computes.
    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc(crc) => crc.update(bytes),
            State::Sha1(sha1) => sha1.update(bytes),
            State::Sha256(sha256) => sha256.update(bytes),
        }
    }

    /// The checksum, big-endian as S3 transports it: 4, 8, 20 or 32 bytes.
    pub fn finish(self) -> Vec<u8> {
        match self.state {
            State::Crc(crc) => crc_bytes(self.algorithm, crc.finalize()),
            State::Sha1(sha1) => sha1.finalize().to_vec(),
            State::Sha256(sha256) => sha256.finalize().to_vec(),
        }
    }
}

/// MD5 and any number of checksums over the same bytes.
#[derive(Debug, Clone)]
pub struct BodyHasher {
    md5: Md5,
    checksums: Vec<ChecksumHasher>,
}

impl BodyHasher {
    /// MD5 is always computed; `algorithms` beside it.
    pub fn new(algorithms: &[ChecksumAlgorithm]) -> Self {
        Self {
            md5: Md5::new(),
            checksums: algorithms
                .iter()
                .map(|algorithm| ChecksumHasher::new(*algorithm))
                .collect(),
        }
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        for checksum in &mut self.checksums {
            checksum.update(bytes);
        }
    }

    /// The digests.
    pub fn finish(self) -> BodyDigests {
        BodyDigests {
            md5: self.md5.finalize().into(),
            checksums: self
                .checksums
                .into_iter()
                .map(|checksum| (checksum.algorithm(), checksum.finish()))
                .collect(),
        }
    }
}

/// Digests of a whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyDigests {
    /// MD5.
    pub md5: Md5Digest,
    /// Checksums in the order they were asked for.
    pub checksums: Vec<(ChecksumAlgorithm, Vec<u8>)>,
}

impl BodyDigests {
    /// ETag of an object or part with this body.
    pub fn etag(&self) -> ETag {
        ETag::new(hex::encode(self.md5))
    }

    /// `Content-MD5` (RFC 1864): base64 of the MD5.
    pub fn content_md5(&self) -> String {
        BASE64.encode(self.md5)
    }

    /// The checksum of `algorithm`, if it was asked for.
    pub fn checksum(&self, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
        let (_, value) = self.checksums.iter().find(|(had, _)| *had == algorithm)?;
        Some(full_object(algorithm, value))
    }
}

/// A full-object checksum in the form S3 shows it.
pub fn full_object(algorithm: ChecksumAlgorithm, value: &[u8]) -> Checksum {
    Checksum {
        algorithm,
        kind: ChecksumKind::FullObject,
        value: BASE64.encode(value),
    }
}

/// ETag of a multipart object: MD5 over the parts' MD5s, then `-` and their number.
pub fn multipart_etag(parts: &[Md5Digest]) -> ETag {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(part);
    }
    ETag::new(format!("{}-{}", hex::encode(md5.finalize()), parts.len()))
}

/// [`multipart_etag`] from the ETags of the parts; `None` when one is not an MD5.
pub fn multipart_etag_of<'a>(parts: impl IntoIterator<Item = &'a ETag>) -> Option<ETag> {
    let digests: Option<Vec<Md5Digest>> = parts
        .into_iter()
        .map(|etag| {
            let mut digest = Md5Digest::default();
            hex::decode_to_slice(etag.as_str(), &mut digest).ok()?;
            Some(digest)
        })
        .collect();
    Some(multipart_etag(&digests?))
}

/// Composite checksum of a multipart object: the algorithm over the concatenated (binary)
/// checksums of the parts, then `-` and their number.
pub fn composite<'a>(
    algorithm: ChecksumAlgorithm,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Checksum {
    let mut hasher = ChecksumHasher::new(algorithm);
    let mut count = 0_usize;
    for part in parts {
        hasher.update(part);
        count += 1;
    }
    Checksum {
        algorithm,
        kind: ChecksumKind::Composite,
        value: format!("{}-{count}", BASE64.encode(hasher.finish())),
    }
}

/// Full-object checksum of a multipart object from (checksum, length in bytes) of its parts,
/// without reading them again. `None` for SHA-1 and SHA-256, which cannot be combined, and for a
/// value of the wrong length.
pub fn combine<'a>(
    algorithm: ChecksumAlgorithm,
    parts: impl IntoIterator<Item = (&'a [u8], u64)>,
) -> Option<Checksum> {
    let crc = crc(algorithm)?;
    let mut whole = crc_fast::Digest::new(crc).finalize();
    for (value, length) in parts {
        whole = crc_fast::checksum_combine(crc, whole, crc_value(algorithm, value)?, length);
    }
    Some(full_object(algorithm, &crc_bytes(algorithm, whole)))
}

fn crc(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64nvme => Some(CrcAlgorithm::Crc64Nvme),
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => None,
    }
}

fn crc_width(algorithm: ChecksumAlgorithm) -> usize {
    if algorithm == ChecksumAlgorithm::Crc64nvme {
        8
    } else {
        4
    }
}

fn crc_bytes(algorithm: ChecksumAlgorithm, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    bytes.into_iter().skip(8 - crc_width(algorithm)).collect()
}

fn crc_value(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> Option<u64> {
    if bytes.len() != crc_width(algorithm) {
        return None;
    }
    Some(
        bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> String {
        let mut hasher = BodyHasher::new(&[algorithm]);
        for piece in bytes.chunks(3) {
            hasher.update(piece);
        }
        hasher.finish().checksum(algorithm).unwrap().value
    }

    // Check values: CRC catalogue ("123456789") and RFC 3174/6234 test vectors ("abc").
    #[test]
    fn checksums_match_published_check_values() {
        let hex = |text: &str| BASE64.encode(hex::decode(text).unwrap());
        let digits = b"123456789";
        assert_eq!(checksum(ChecksumAlgorithm::Crc32, digits), hex("cbf43926"));
        assert_eq!(checksum(ChecksumAlgorithm::Crc32c, digits), hex("e3069283"));
        assert_eq!(
            checksum(ChecksumAlgorithm::Crc64nvme, digits),
            hex("ae8b14860a799888")
        );
        assert_eq!(
            checksum(ChecksumAlgorithm::Sha1, b"abc"),
            hex("a9993e364706816aba3e25717850c26c9cd0d89d")
        );
        assert_eq!(
            checksum(ChecksumAlgorithm::Sha256, b"abc"),
            hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
    }

    #[test]
    fn etag_is_the_md5_of_the_body() {
        let empty = BodyHasher::new(&[]).finish();

        assert_eq!(empty.etag().as_str(), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(empty.content_md5(), "1B2M2Y8AsgTpgAmY7PhCfg==");
        assert_eq!(empty.checksum(ChecksumAlgorithm::Crc32), None);
    }

    #[test]
    fn multipart_etag_covers_binary_digests() {
        // printf '%s' "$(md5 of "")$(md5 of "abc")" | xxd -r -p | md5sum
        let parts = [md5(b""), md5(b"abc")];
        let expected = ETag::new(format!("{}-2", hex::encode(md5(&parts.concat()))));

        assert_eq!(multipart_etag(&parts), expected);
        let etags = parts.map(|part| ETag::new(hex::encode(part)));
        assert_eq!(multipart_etag_of(&etags), Some(expected));
        assert_eq!(multipart_etag_of(&[ETag::new("not-md5")]), None);
    }

    #[test]
    fn crcs_of_parts_combine_to_that_of_the_whole() {
        let whole = b"The quick brown fox jumps over the lazy dog";
        let (first, second) = whole.split_at(10);
        for algorithm in [
            ChecksumAlgorithm::Crc32,
            ChecksumAlgorithm::Crc32c,
            ChecksumAlgorithm::Crc64nvme,
        ] {
            let crc = |bytes: &[u8]| {
                let mut hasher = ChecksumHasher::new(algorithm);
                hasher.update(bytes);
                hasher.finish()
            };
            let (a, b, all) = (crc(first), crc(second), crc(whole));

            let combined = combine(
                algorithm,
                [(a.as_slice(), 10), (b.as_slice(), second.len() as u64)],
            );

            assert_eq!(combined, Some(full_object(algorithm, &all)));
        }
        assert_eq!(
            combine(ChecksumAlgorithm::Sha1, [(&[0_u8; 20][..], 1)]),
            None
        );
        assert_eq!(
            combine(ChecksumAlgorithm::Crc32, [(&[0_u8; 3][..], 1)]),
            None
        );
    }

    #[test]
    fn composite_checksums_name_the_number_of_parts() {
        let mut hasher = ChecksumHasher::new(ChecksumAlgorithm::Sha256);
        hasher.update(&[1; 32]);
        hasher.update(&[2; 32]);
        let expected = format!("{}-2", BASE64.encode(hasher.finish()));

        let checksum = composite(
            ChecksumAlgorithm::Sha256,
            [&[1_u8; 32][..], &[2_u8; 32][..]],
        );

        assert_eq!(checksum.value, expected);
        assert_eq!(checksum.kind, ChecksumKind::Composite);
    }
}
