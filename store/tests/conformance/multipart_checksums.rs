//! Checksums of parts and of what they become.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use filestore_common::{Checksum, ChecksumAlgorithm, ChecksumKind};
use filestore_store::{CompleteOptions, CompletedPart, Error, Store, UploadSpec};
use sha2::{Digest, Sha256};

use crate::multipart::*;
use crate::support::*;

/// CRC-32 of bytes, bit by bit from its definition (ISO-HDLC).
fn crc32(bytes: &[u8]) -> String {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
    }
    STANDARD.encode((!crc).to_be_bytes())
}

fn sha256(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

fn sum(algorithm: ChecksumAlgorithm, kind: ChecksumKind, value: String) -> Checksum {
    Checksum {
        algorithm,
        kind,
        value,
    }
}

fn create_with(
    store: &Store,
    name: &str,
    algorithm: ChecksumAlgorithm,
    kind: ChecksumKind,
) -> String {
    let spec = UploadSpec {
        checksum: Some((algorithm, kind)),
        ..UploadSpec::default()
    };
    store
        .create_upload(&cases_bucket(), &key(name), &spec)
        .unwrap()
}

fn upload_with(
    store: &Store,
    name: &str,
    id: &str,
    number: u32,
    bytes: &[u8],
    checksum: Option<&Checksum>,
) -> CompletedPart {
    let mut staged = store
        .stage_part(&cases_bucket(), &key(name), id, number, None)
        .unwrap();
    staged.write(bytes).unwrap();
    let info = store
        .publish_part(staged, &md5_of(bytes), checksum)
        .unwrap();
    CompletedPart {
        number,
        etag: info.etag,
        checksum: info.checksum,
    }
}

cases! {
    fn full_object_crcs_are_combined(volume: &Volume) {
        use {ChecksumAlgorithm::Crc32, ChecksumKind::FullObject};
        let store = volume.store();
        let (one, two) = (body(70_000, 1), body(123, 2));
        let id = create_with(store, "k", Crc32, FullObject);
        let first = sum(Crc32, FullObject, crc32(&one));
        let parts = [
            upload_with(store, "k", &id, 1, &one, Some(&first)),
            // Without one: the upload asks for it, so the store computes it.
            upload_with(store, "k", &id, 2, &two, None),
        ];
        assert_eq!(parts[1].checksum.as_ref().map(|sum| sum.value.clone()), Some(crc32(&two)));
        let whole = sum(Crc32, FullObject, crc32(&[one, two].concat()));
        let wrong = CompleteOptions {
            checksum: Some(sum(Crc32, FullObject, crc32(b"other"))),
            ..small()
        };
        let refused = complete_with(store, "k", &id, &parts, &wrong);
        assert!(matches!(refused, Err(Error::BadDigest(_))), "{refused:?}");

        let right = CompleteOptions { checksum: Some(whole.clone()), ..small() };
        let info = complete_with(store, "k", &id, &parts, &right).unwrap();

        assert_eq!(info.meta.checksum, Some(whole));
        assert_eq!(head(store, "k").unwrap(), info);
    }

    fn composite_checksums_are_digests_of_digests(volume: &Volume) {
        use {ChecksumAlgorithm::Sha256 as Algorithm, ChecksumKind::Composite};
        let store = volume.store();
        let (one, two) = (body(70_000, 1), body(123, 2));
        let id = create_with(store, "k", Algorithm, Composite);
        let parts: Vec<_> = [&one, &two]
            .into_iter()
            .zip(1..)
            .map(|(bytes, number)| {
                let checksum = sum(Algorithm, Composite, sha256(bytes));
                upload_with(store, "k", &id, number, bytes, Some(&checksum))
            })
            .collect();
        let (listed, _) = store.list_parts(&cases_bucket(), &key("k"), &id, 0, 10).unwrap();
        assert_eq!(listed[0].checksum.as_ref().map(|sum| sum.value.clone()), Some(sha256(&one)));

        let info = complete_with(store, "k", &id, &parts, &small()).unwrap();

        let digests = [Sha256::digest(&one), Sha256::digest(&two)].concat();
        let value = format!("{}-2", sha256(&digests));
        assert_eq!(info.meta.checksum, Some(sum(Algorithm, Composite, value)));
    }

    fn a_part_named_with_another_checksum_is_invalid(volume: &Volume) {
        use {ChecksumAlgorithm::Crc32, ChecksumKind::Composite};
        let store = volume.store();
        let id = create_with(store, "k", Crc32, Composite);
        let checksum = sum(Crc32, Composite, crc32(b"x"));
        let good = upload_with(store, "k", &id, 1, b"x", Some(&checksum));
        let bad = CompletedPart {
            checksum: Some(sum(Crc32, Composite, crc32(b"y"))),
            ..good.clone()
        };

        let refused = complete(store, "k", &id, &[bad]);
        assert!(matches!(refused, Err(Error::InvalidPart(1))), "{refused:?}");
        complete(store, "k", &id, &[good]).unwrap();
    }

    fn checksums_of_parts_are_kept_where_the_upload_declares_none(volume: &Volume) {
        use {ChecksumAlgorithm::Crc32, ChecksumKind::FullObject};
        let store = volume.store();
        let id = create(store, "k");
        let checksum = sum(Crc32, FullObject, crc32(b"x"));
        let part = upload_with(store, "k", &id, 1, b"x", Some(&checksum));
        assert_eq!(part.checksum, Some(checksum));
        let other = CompletedPart {
            checksum: Some(sum(Crc32, FullObject, crc32(b"y"))),
            ..part.clone()
        };

        assert!(matches!(complete(store, "k", &id, &[other]), Err(Error::InvalidPart(1))));
        complete(store, "k", &id, &[part]).unwrap();
    }

    fn a_refused_completion_of_one_part_can_be_repeated(volume: &Volume) {
        use {ChecksumAlgorithm::Sha256 as Algorithm, ChecksumKind::Composite};
        let store = volume.store();
        put(store, "k", b"there");
        let id = create_with(store, "k", Algorithm, Composite);
        let checksum = sum(Algorithm, Composite, sha256(b"only"));
        let part = upload_with(store, "k", &id, 1, b"only", Some(&checksum));
        let absent = CompleteOptions {
            precondition: filestore_store::Precondition::Absent,
            ..CompleteOptions::default()
        };

        for _ in 0..2 {
            let refused = complete_with(store, "k", &id, std::slice::from_ref(&part), &absent);
            assert!(matches!(refused, Err(Error::PreconditionFailed)), "{refused:?}");
            let (listed, _) = store.list_parts(&cases_bucket(), &key("k"), &id, 0, 10).unwrap();
            assert_eq!(listed[0].checksum, part.checksum);
            assert_eq!(listed[0].etag, part.etag);
        }
        let info = complete(store, "k", &id, &[part]).unwrap();

        let value = format!("{}-1", sha256(&Sha256::digest(b"only")));
        assert_eq!(info.meta.checksum, Some(sum(Algorithm, Composite, value)));
        assert_eq!(head(store, "k").unwrap(), info);
    }
}
