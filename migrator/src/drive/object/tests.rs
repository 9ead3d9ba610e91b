use super::*;

fn version(system: &[(&str, &str)], user: &[(&str, &str)]) -> ObjectVersion {
    let entries = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect()
    };
    let mut user: Vec<(String, Vec<u8>)> = entries(user);
    user.push(("etag".into(), b"d41d8cd98f00b204e9800998ecf8427e".to_vec()));
    ObjectVersion {
        erasure_algorithm: 1,
        checksum_algorithm: 1,
        data_shards: 1,
        block_size: 1 << 20,
        system: entries(system),
        user,
        ..ObjectVersion::default()
    }
}

fn object(version: ObjectVersion) -> Result<DriveObject, Unreadable> {
    DriveObject::new(
        version,
        Place {
            dir: "bucket/key".into(),
            stamp: Stamp {
                inode: 1,
                len: 400,
                modified: (0, 0),
            },
            inline_at: None,
        },
    )
}

#[test]
fn what_cannot_be_read_offline_says_why() {
    let prefix = "X-Minio-Internal-Server-Side-Encryption";
    for (name, text) in [
        ("Sealed-Key", "encrypted (SSE-C)"),
        ("S3-Sealed-Key", "encrypted (SSE-S3)"),
        ("Kms-Sealed-Key", "encrypted (SSE-KMS)"),
    ] {
        let iv = format!("{prefix}-Iv");
        let key = format!("{prefix}-{name}");
        let encrypted = version(&[(&iv, "x"), (&key, "y")], &[]);
        let reason = object(encrypted).unwrap_err().to_string();
        assert!(reason.starts_with(text), "{reason}");
    }
    let tiered = version(
        &[
            ("x-minio-internal-transition-status", "complete"),
            ("X-Minio-Internal-Transition-Tier", "GLACIER"),
        ],
        &[],
    );
    assert_eq!(object(tiered), Err(Unreadable::Tiered("GLACIER".into())));
    let mut spread = version(&[], &[]);
    (spread.data_shards, spread.parity_shards) = (2, 2);
    assert_eq!(
        object(spread).unwrap_err().to_string(),
        "erasure 2+2, needs the S3 path"
    );
    let odd = version(
        &[
            ("X-Minio-Internal-compression", "zip"),
            ("X-Minio-Internal-actual-size", "0"),
        ],
        &[],
    );
    assert!(matches!(object(odd), Err(Unreadable::Unsupported(_))));
    for block_size in [0, u64::MAX] {
        let mut hostile = version(&[], &[]);
        hostile.block_size = block_size;
        assert!(matches!(object(hostile), Err(Unreadable::Damaged(_))));
    }
}

#[test]
fn metadata_is_sorted_into_what_s3_knows() {
    let found = object(version(
        &[],
        &[
            ("Content-Type", "text/csv"),
            ("Expires", "Wed, 21 Oct 2026 07:28:00 GMT"),
            ("Content-Encoding", "gzip, aws-chunked"),
            ("X-Amz-Meta-Origin", "Studio"),
            ("X-Amz-Tagging", "a=x%2By+z&b="),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("X-Amz-Object-Lock-Legal-Hold", "ON"),
            ("X-Amz-Bucket-Replication-Status", ""),
        ],
    ))
    .unwrap();

    assert_eq!(found.meta.headers.content_type.as_deref(), Some("text/csv"));
    assert_eq!(found.meta.headers.content_encoding.as_deref(), Some("gzip"));
    assert_eq!(
        found.meta.headers.expires.as_deref(),
        Some("Wed, 21 Oct 2026 07:28:00 GMT")
    );
    assert_eq!(found.meta.user["origin"], "Studio");
    assert_eq!(
        found.meta.tags,
        [("a".into(), "x+y z".into()), ("b".into(), String::new())]
    );
    assert!(found.locked);
    assert_eq!(found.dropped, ["x-amz-storage-class"]);
}

#[test]
fn a_value_that_is_not_utf8_is_named_and_not_mangled() {
    let mut latin = version(&[], &[]);
    latin
        .user
        .push(("X-Amz-Meta-Name".into(), b"caf\xe9".to_vec()));

    let found = object(latin).unwrap();

    assert!(found.meta.user.is_empty());
    assert_eq!(found.dropped, ["x-amz-meta-name"]);
}

#[test]
fn times_keep_their_nanoseconds() {
    for nanos in [1_796_041_764_500_000_007, -1] {
        let mut old = version(&[], &[]);
        old.modified_ns = nanos;

        let found = object(old).unwrap().last_modified;

        let distance = Duration::from_nanos(nanos.unsigned_abs());
        if nanos < 0 {
            assert_eq!(found + distance, SystemTime::UNIX_EPOCH);
        } else {
            assert_eq!(found, SystemTime::UNIX_EPOCH + distance);
        }
    }
}
