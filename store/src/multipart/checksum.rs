//! Checksum of a whole from those of its parts (S3 user guide, "Checking object integrity").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use filestore_common::{Checksum, ChecksumAlgorithm, ChecksumKind};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Value and size of a part's checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartSum<'a> {
    /// Base64.
    pub(super) value: &'a str,
    /// Size of the part in bytes.
    pub(super) size: u64,
}

/// Checksum of the object; `None` when a part has none, or one that is not base64 of the right
/// length, or the algorithm cannot be combined (full-object SHA).
pub(super) fn whole<'a>(
    algorithm: ChecksumAlgorithm,
    kind: ChecksumKind,
    parts: impl ExactSizeIterator<Item = Option<PartSum<'a>>>,
) -> Option<Checksum> {
    let value = match kind {
        ChecksumKind::FullObject => full_object(algorithm, parts)?,
        ChecksumKind::Composite => composite(algorithm, parts)?,
    };
    Some(Checksum {
        algorithm,
        kind,
        value,
    })
}

fn full_object<'a>(
    algorithm: ChecksumAlgorithm,
    parts: impl Iterator<Item = Option<PartSum<'a>>>,
) -> Option<String> {
    let crc = crc_of(algorithm)?;
    let mut sum = None;
    for part in parts {
        let part = part?;
        let value = number(algorithm, part.value)?;
        sum = Some(match sum {
            None => value,
            Some(before) => crc_fast::checksum_combine(crc, before, value, part.size),
        });
    }
    Some(STANDARD.encode(bytes(algorithm, sum?)))
}

fn composite<'a>(
    algorithm: ChecksumAlgorithm,
    parts: impl ExactSizeIterator<Item = Option<PartSum<'a>>>,
) -> Option<String> {
    let count = parts.len();
    let mut all = Vec::new();
    for part in parts {
        all.extend(decode(algorithm, part?.value)?);
    }
    let digest = of_bytes(algorithm, &all);
    Some(format!("{}-{count}", STANDARD.encode(digest)))
}

/// Digest of bytes in memory.
pub(super) fn of_bytes(algorithm: ChecksumAlgorithm, data: &[u8]) -> Vec<u8> {
    let mut running = Running::new(algorithm);
    running.update(data);
    running.finish()
}

/// A checksum in the making.
pub(super) enum Running {
    Crc(ChecksumAlgorithm, crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Running {
    pub(super) fn new(algorithm: ChecksumAlgorithm) -> Self {
        match (algorithm, crc_of(algorithm)) {
            (_, Some(crc)) => Self::Crc(algorithm, crc_fast::Digest::new(crc)),
            (ChecksumAlgorithm::Sha1, None) => Self::Sha1(Sha1::new()),
            (_, None) => Self::Sha256(Sha256::new()),
        }
    }

    pub(super) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Crc(_, digest) => digest.update(data),
            Self::Sha1(digest) => digest.update(data),
            Self::Sha256(digest) => digest.update(data),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc(algorithm, digest) => bytes(algorithm, digest.finalize()),
            Self::Sha1(digest) => digest.finalize().to_vec(),
            Self::Sha256(digest) => digest.finalize().to_vec(),
        }
    }

    /// The value as S3 writes it.
    pub(super) fn finish_base64(self) -> String {
        STANDARD.encode(self.finish())
    }
}

fn crc_of(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64nvme => Some(CrcAlgorithm::Crc64Nvme),
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => None,
    }
}

const fn length(algorithm: ChecksumAlgorithm) -> usize {
    match algorithm {
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
        ChecksumAlgorithm::Crc64nvme => 8,
        ChecksumAlgorithm::Sha1 => 20,
        ChecksumAlgorithm::Sha256 => 32,
    }
}

fn decode(algorithm: ChecksumAlgorithm, value: &str) -> Option<Vec<u8>> {
    STANDARD
        .decode(value)
        .ok()
        .filter(|bytes| bytes.len() == length(algorithm))
}

fn number(algorithm: ChecksumAlgorithm, value: &str) -> Option<u64> {
    let bytes = decode(algorithm, value)?;
    Some(
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

/// Big-endian bytes of a CRC, as many as it has.
fn bytes(algorithm: ChecksumAlgorithm, crc: u64) -> Vec<u8> {
    let all = crc.to_be_bytes();
    let skipped = all.len().saturating_sub(length(algorithm));
    all.get(skipped..).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn check_values_of_the_crc_catalogue() {
        // "123456789", from the catalogue of parametrised CRC algorithms.
        for (algorithm, value) in [
            (ChecksumAlgorithm::Crc32, "cbf43926"),
            (ChecksumAlgorithm::Crc32c, "e3069283"),
            (ChecksumAlgorithm::Crc64nvme, "ae8b14860a799888"),
        ] {
            let digest = of_bytes(algorithm, b"123456789");
            assert_eq!(hex::encode(digest), value, "{algorithm:?}");
        }
    }

    #[test]
    fn composite_values_carry_the_number_of_parts() {
        let one = STANDARD.encode(of_bytes(ChecksumAlgorithm::Sha256, b"a"));
        let two = STANDARD.encode(of_bytes(ChecksumAlgorithm::Sha256, b"b"));
        let sums = [&one, &two].map(|value| Some(PartSum { value, size: 1 }));
        let mut expected = Sha256::new();
        expected.update(Sha256::digest(b"a"));
        expected.update(Sha256::digest(b"b"));

        let sum = whole(
            ChecksumAlgorithm::Sha256,
            ChecksumKind::Composite,
            sums.into_iter(),
        );

        let expected = format!("{}-2", STANDARD.encode(expected.finalize()));
        assert_eq!(sum.map(|sum| sum.value), Some(expected));
    }

    #[test]
    fn what_cannot_be_combined_has_no_checksum() {
        let good = Some(PartSum {
            value: "y/Q5Jg==",
            size: 9,
        });
        let short = Some(PartSum {
            value: "y/Q5",
            size: 9,
        });
        let full = |algorithm, parts: [Option<PartSum<'static>>; 2]| {
            whole(algorithm, ChecksumKind::FullObject, parts.into_iter())
        };

        assert!(full(ChecksumAlgorithm::Crc32, [good, good]).is_some());
        assert!(full(ChecksumAlgorithm::Crc32, [good, None]).is_none());
        assert!(full(ChecksumAlgorithm::Crc32, [good, short]).is_none());
        assert!(full(ChecksumAlgorithm::Sha1, [good, good]).is_none());
    }

    proptest! {
        #[test]
        fn combined_crcs_are_those_of_the_whole(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
        ) {
            for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64nvme] {
                let values: Vec<String> = parts
                    .iter()
                    .map(|part| STANDARD.encode(of_bytes(algorithm, part)))
                    .collect();
                let sums = values.iter().zip(&parts).map(|(value, part)| {
                    Some(PartSum { value, size: part.len() as u64 })
                });

                let combined = whole(algorithm, ChecksumKind::FullObject, sums);

                let expected = STANDARD.encode(of_bytes(algorithm, &parts.concat()));
                prop_assert_eq!(combined.map(|sum| sum.value), Some(expected));
            }
        }
    }
}
