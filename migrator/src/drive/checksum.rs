//! `x-minio-internal-crc`: the checksum that a client sent.
//!
//! ```text
//! kind (uvarint, bits) | value | parts (uvarint) and their values, multipart only
//! ```
//!
//! Seen on live drives for each algorithm, by single PUT, multipart of both types and copy;
//! `tests/data/minio-odd-drive` holds them all. Anything else is not guessed at.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use filestore_common::{Checksum, ChecksumAlgorithm, ChecksumKind};

const MULTIPART: u64 = 1 << 6;
const WITH_PARTS: u64 = 1 << 7;
const FULL_OBJECT: u64 = 1 << 9;
/// Sent as a trailer; says nothing of the value.
const TRAILER: u64 = 1;

/// Bit, algorithm and length in bytes.
const ALGORITHMS: [(u64, ChecksumAlgorithm, usize); 5] = [
    (1 << 1, ChecksumAlgorithm::Sha256, 32),
    (1 << 2, ChecksumAlgorithm::Sha1, 20),
    (1 << 3, ChecksumAlgorithm::Crc32, 4),
    (1 << 4, ChecksumAlgorithm::Crc32c, 4),
    (1 << 8, ChecksumAlgorithm::Crc64nvme, 8),
];

/// Decodes the first and only checksum; `None` for any form that was not seen on a live drive.
pub(super) fn decode(stored: &[u8]) -> Option<Checksum> {
    let (kind, rest) = uvarint(stored)?;
    let flags = MULTIPART | WITH_PARTS | FULL_OBJECT | TRAILER;
    let (_, algorithm, len) = *ALGORITHMS.iter().find(|(bit, ..)| kind & !flags == *bit)?;
    let (value, rest) = rest.split_at_checked(len)?;
    let mut text = STANDARD.encode(value);
    let mut covers = ChecksumKind::FullObject;
    let mut left = rest;
    if kind & MULTIPART != 0 {
        let (parts, values) = uvarint(rest)?;
        let bytes = usize::try_from(parts).ok()?.checked_mul(len)?;
        left = if kind & WITH_PARTS == 0 {
            values
        } else {
            values.get(bytes..)?
        };
        // CRC-64/NVME has no composite form.
        if kind & FULL_OBJECT == 0 && algorithm != ChecksumAlgorithm::Crc64nvme {
            covers = ChecksumKind::Composite;
            text = format!("{text}-{parts}");
        }
    }
    left.is_empty().then_some(Checksum {
        algorithm,
        kind: covers,
        value: text,
    })
}

/// Base-128 number, least significant group first.
fn uvarint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(hexadecimal: &str) -> Option<(ChecksumAlgorithm, ChecksumKind, String)> {
        decode(&hex::decode(hexadecimal).unwrap()).map(|sum| (sum.algorithm, sum.kind, sum.value))
    }

    /// Values from a live drive, beside what its S3 API said.
    #[test]
    fn forms_seen_on_a_live_drive() {
        use ChecksumAlgorithm::{Crc32, Crc32c, Crc64nvme};
        use ChecksumKind::{Composite, FullObject};
        for (stored, algorithm, kind, value) in [
            ("08cbf43926", Crc32, FullObject, "y/Q5Jg=="),
            (
                "8002ae8b14860a799888",
                Crc64nvme,
                FullObject,
                "rosUhgp5mIg=",
            ),
            (
                "c80176d0c0b9022514c2c97d9c564d",
                Crc32,
                Composite,
                "dtDAuQ==-2",
            ),
            (
                "c8058cb7dadc022514c2c97d9c564d",
                Crc32,
                FullObject,
                "jLfa3A==",
            ),
            ("c8058cb7dadc00", Crc32, FullObject, "jLfa3A=="),
            (
                "d0017678956e0230368baf1e374115",
                Crc32c,
                Composite,
                "dniVbg==-2",
            ),
            (
                "c00344d1195c9655ff25022ff1385989fcbfdf4c966eedeeddc3c3",
                Crc64nvme,
                FullObject,
                "RNEZXJZV/yU=",
            ),
        ] {
            assert_eq!(
                decoded(stored),
                Some((algorithm, kind, value.to_owned())),
                "{stored}"
            );
        }
    }

    #[test]
    fn other_forms_are_not_guessed_at() {
        for stored in [
            "",
            "08",
            "08cbf439",
            "08cbf4392600",
            "18cbf43926",
            "20cbf43926",
            "ff",
        ] {
            assert_eq!(decoded(stored), None, "{stored}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            drop(decode(&bytes));
        }
    }
}
