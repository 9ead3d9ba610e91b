use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use filestore_common::*;
use proptest::prelude::*;

use super::*;
use crate::layout::attribute;

fn stat() -> rustix::fs::Stat {
    let file = tempfile::tempfile().unwrap();
    rustix::fs::fstat(file).unwrap()
}

fn set(attributes: &[(&'static str, &[u8])]) -> AttributeSet {
    let mut set = AttributeSet::default();
    for (name, value) in attributes {
        set.set(*name, *value);
    }
    set
}

/// The values below were read with getfattr from a volume that versitygw 1.8.0 wrote.
#[test]
fn what_versitygw_wrote_is_read() {
    let checksums = br#"{"Algorithm":"CRC32","Type":"FULL_OBJECT","CRC32":"NhCmhg==","CRC32C":null,"SHA1":null,"SHA256":null,"CRC64NVME":null,"SHA512":null,"MD5":null,"XXHASH64":null,"XXHASH3":null,"XXHASH128":null}"#;
    let decoded = codec::decode(
        &set(&[
            ("etag", b"\"5d41402abc4b2a76b9719d911017c592\""),
            ("content-type", b"text/plain"),
            ("metadata", br#"{"foo":"Bar","uni":"v1"}"#),
            ("X-Amz-Tagging", br#"{"b":"1","a":"2"}"#),
            ("checksums", checksums),
            (
                "mp-metadata",
                br#"{"uploadId":"u","parts":[5242880,5242884]}"#,
            ),
        ]),
        &stat(),
    );
    assert_eq!(
        decoded.meta.etag.as_str(),
        "5d41402abc4b2a76b9719d911017c592"
    );
    assert_eq!(
        decoded.meta.headers.content_type.as_deref(),
        Some("text/plain")
    );
    let user = BTreeMap::from([("foo", "Bar"), ("uni", "v1")].map(|(k, v)| (k.into(), v.into())));
    assert_eq!(decoded.meta.user, user);
    let tags = [("b", "1"), ("a", "2")].map(|(k, v)| (k.into(), v.into()));
    assert_eq!(decoded.meta.tags, tags);
    let checksum = decoded.meta.checksum.clone().unwrap();
    assert_eq!(checksum.value, "NhCmhg==");
    assert_eq!(checksum.algorithm, ChecksumAlgorithm::Crc32);
    assert_eq!(decoded.meta.part_sizes, [5_242_880, 4]);
    assert_eq!(decoded.upload_id.as_deref(), Some("u"));

    let encoded = codec::encode(&decoded.meta, decoded.upload_id.as_deref());
    for (name, value) in [
        ("etag", &b"\"5d41402abc4b2a76b9719d911017c592\""[..]),
        ("metadata", br#"{"foo":"Bar","uni":"v1"}"#),
        ("X-Amz-Tagging", br#"{"b":"1","a":"2"}"#),
        ("checksums", checksums),
    ] {
        assert_eq!(encoded.get(name), Some(value), "{name}");
    }
    assert_eq!(
        &encoded.get("mp-metadata").unwrap()[..2],
        [0x1f, 0x8b],
        "gzip"
    );
}

#[test]
fn legacy_metadata_is_read() {
    let legacy = set(&[("etag", b"\"x\""), ("X-Amz-Meta.Foo", b"Bar")]);
    let decoded = codec::decode(&legacy, &stat());
    assert_eq!(
        decoded.meta.user.get("foo").map(String::as_str),
        Some("Bar")
    );
}

#[test]
fn few_attributes_are_written() {
    let mut meta = ObjectMeta::new(ETag::new("abc"));
    meta.headers.content_type = Some("binary/octet-stream".into());
    let names: Vec<_> = codec::encode(&meta, None)
        .iter()
        .map(|(n, _)| n.to_owned())
        .collect();
    assert_eq!(names, [attribute::ETAG, attribute::CONTENT_TYPE]);
}

#[test]
fn foreign_etags_are_stable_and_no_md5() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let stat = || rustix::fs::stat(file.path()).unwrap();
    let first = codec::foreign_etag(&stat());
    assert_eq!(first, codec::foreign_etag(&stat()));
    assert!(!first.is_md5());
    assert_eq!(first.part_count(), None);
    std::fs::write(file.path(), b"x").unwrap();
    assert_ne!(first, codec::foreign_etag(&stat()));
}

#[test]
fn unreadable_values_cost_only_themselves() {
    let damaged = set(&[
        ("etag", b"\"x\""),
        ("metadata", b"{"),
        ("content-type", b"a/b"),
    ]);
    let decoded = codec::decode(&damaged, &stat());
    assert!(decoded.meta.user.is_empty());
    assert_eq!(decoded.meta.headers.content_type.as_deref(), Some("a/b"));
}

#[test]
fn extended_attributes_of_any_size_come_back() {
    let scratch = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(scratch.path().join("f")).unwrap();
    let mut wanted = set(&[("etag", b"\"x\""), ("empty", b""), ("own", &[0, 255, 1])]);
    wanted.set(attribute::METADATA, vec![b'm'; 2500]);
    xattr::write(&file, &wanted).unwrap();
    let read = xattr::read(&file).unwrap();
    assert_eq!(BTreeMap::from(read), BTreeMap::from(wanted.clone()));
    assert_eq!(
        xattr::get(&file, "etag").unwrap().as_deref(),
        Some(&b"\"x\""[..])
    );
    assert_eq!(xattr::get(&file, "none").unwrap(), None);
    assert!(xattr::remove(&file, "etag").unwrap());
    assert!(!xattr::remove(&file, "etag").unwrap());
    let huge = xattr::put(&file, "huge", &vec![0; 70_000]);
    assert!(
        matches!(huge, Err(crate::Error::MetadataTooLarge(_))),
        "{huge:?}"
    );
    assert_eq!(file.metadata().unwrap().size(), 0);
}

#[test]
fn directories_carry_attributes_in_both_modes() {
    for mode in [MetadataMode::Xattr, MetadataMode::Sidecar] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(scratch.path()).unwrap();
        assert_eq!(read_directory(mode, &dir).unwrap(), AttributeSet::default());
        let wanted = set(&[("objname", b"a/b"), ("x", &[0xff])]);
        write_directory(mode, &dir, &wanted).unwrap();
        let read = read_directory(mode, &dir).unwrap();
        assert_eq!(BTreeMap::from(read), BTreeMap::from(wanted), "{mode:?}");
    }
}

impl PartialEq for JsonValue {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é\"<&\\\\]{1,12}"
}

proptest! {
    #[test]
    fn any_metadata_survives(
        content_type in proptest::option::of(text()),
        user in proptest::collection::btree_map("[a-z-]{1,8}", text(), 0..4),
        tags in proptest::collection::vec((text(), text()), 0..5),
        part_sizes in proptest::collection::vec(1u64..1 << 33, 0..5),
        composite in any::<bool>(),
    ) {
        let mut meta = ObjectMeta::new(ETag::new("00112233445566778899aabbccddeeff-2"));
        meta.headers.content_type = content_type;
        meta.user = user;
        meta.tags = tags;
        meta.part_sizes = part_sizes;
        meta.checksum = Some(Checksum {
            algorithm: ChecksumAlgorithm::Sha256,
            kind: if composite { ChecksumKind::Composite } else { ChecksumKind::FullObject },
            value: "q83v-2".into(),
        });
        let set = codec::encode(&meta, Some("id"));
        // Through the JSON of sidecar mode as well.
        let json = serde_json::to_vec(&set).unwrap();
        let back: AttributeSet = serde_json::from_slice(&json).unwrap();
        for set in [set, back] {
            let decoded = codec::decode(&set, &stat());
            prop_assert_eq!(&decoded.meta, &meta);
            prop_assert_eq!(decoded.upload_id.as_deref(), Some("id"));
        }
    }
}
