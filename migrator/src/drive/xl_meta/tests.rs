//! Envelopes of every minor version, built here, and input that nobody should have written.

use proptest::prelude::*;
use rmp::encode;

use super::*;

/// What a version in a test is made of.
#[derive(Debug, Clone)]
pub(in super::super) enum Version {
    Object { size: u64, modified: i64, dir: u8 },
    Marker { modified: i64 },
    Legacy,
    Free,
}

impl Version {
    fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let map = |out: &mut Vec<u8>, len| encode::write_map_len(out, len).map(|_| ()).unwrap();
        map(&mut out, 2);
        let text = |out: &mut Vec<u8>, text: &str| encode::write_str(out, text).unwrap();
        text(&mut out, "Type");
        match self {
            Self::Object {
                size,
                modified,
                dir,
            } => {
                encode::write_uint(&mut out, 1).unwrap();
                text(&mut out, "V2Obj");
                object(&mut out, *size, *modified, *dir);
            }
            Self::Marker { modified } => {
                encode::write_uint(&mut out, 2).unwrap();
                text(&mut out, "DelObj");
                map(&mut out, 2);
                text(&mut out, "MTime");
                encode::write_sint(&mut out, *modified).unwrap();
                text(&mut out, "MetaSys");
                encode::write_nil(&mut out).unwrap();
            }
            Self::Legacy => {
                encode::write_uint(&mut out, 3).unwrap();
                text(&mut out, "V1Obj");
                map(&mut out, 0);
            }
            Self::Free => {
                encode::write_uint(&mut out, 2).unwrap();
                text(&mut out, "DelObj");
                map(&mut out, 1);
                text(&mut out, "MetaSys");
                map(&mut out, 1);
                text(&mut out, "x-minio-internal-free-version");
                encode::write_bin(&mut out, b"").unwrap();
            }
        }
        out
    }
}

fn object(out: &mut Vec<u8>, size: u64, modified: i64, dir: u8) {
    let entry = |out: &mut Vec<u8>, name: &str, value: u64| {
        encode::write_str(out, name).unwrap();
        encode::write_uint(out, value).unwrap();
    };
    let list = |out: &mut Vec<u8>, name: &str, value: u64| {
        encode::write_str(out, name).unwrap();
        encode::write_array_len(out, 1).unwrap();
        encode::write_uint(out, value).unwrap();
    };
    encode::write_map_len(out, 13).unwrap();
    for (name, bytes) in [("ID", [0; 16]), ("DDir", [dir; 16])] {
        encode::write_str(out, name).unwrap();
        encode::write_bin(out, &bytes).unwrap();
    }
    for (name, value) in [
        ("EcAlgo", 1),
        ("EcM", 1),
        ("EcN", 0),
        ("EcBSize", 1 << 20),
        ("CSumAlgo", 1),
    ] {
        entry(out, name, value);
    }
    list(out, "PartNums", 1);
    list(out, "PartSizes", size);
    list(out, "PartASizes", size);
    entry(out, "Size", size);
    encode::write_str(out, "MTime").unwrap();
    encode::write_sint(out, modified).unwrap();
    encode::write_str(out, "MetaUsr").unwrap();
    encode::write_map_len(out, 1).unwrap();
    encode::write_str(out, "etag").unwrap();
    encode::write_str(out, "d41d8cd98f00b204e9800998ecf8427e").unwrap();
}

/// An `xl.meta` with these versions, newest first, and nothing inline.
pub(in super::super) fn build(minor: u16, versions: &[Version]) -> Vec<u8> {
    let mut metadata = Vec::new();
    if minor >= 3 {
        encode::write_uint(&mut metadata, 2).unwrap();
        encode::write_uint(&mut metadata, 3).unwrap();
        encode::write_uint(&mut metadata, versions.len() as u64).unwrap();
        for version in versions {
            let mut header = Vec::new();
            encode::write_array_len(&mut header, 5).unwrap();
            for _ in 0..4 {
                encode::write_nil(&mut header).unwrap();
            }
            let free = matches!(version, Version::Free);
            encode::write_uint(&mut header, u64::from(free)).unwrap();
            encode::write_bin(&mut metadata, &header).unwrap();
            encode::write_bin(&mut metadata, &version.body()).unwrap();
        }
    } else {
        encode::write_map_len(&mut metadata, 1).unwrap();
        encode::write_str(&mut metadata, "Versions").unwrap();
        let count = u32::try_from(versions.len()).unwrap();
        encode::write_array_len(&mut metadata, count).unwrap();
        for version in versions {
            metadata.extend(version.body());
        }
    }
    envelope(minor, &metadata)
}

fn envelope(minor: u16, metadata: &[u8]) -> Vec<u8> {
    let mut file = b"XL2 ".to_vec();
    file.extend([1, 0]);
    file.extend(minor.to_le_bytes());
    if minor == 0 {
        file.extend(metadata);
        return file;
    }
    // Go writes bin32 whatever the length.
    file.push(0xc6);
    file.extend(u32::try_from(metadata.len()).unwrap().to_be_bytes());
    file.extend(metadata);
    let sum = xxh64(metadata, 0) & 0xffff_ffff;
    match minor {
        1 => {}
        2 => {
            encode::write_uint(&mut file, sum).unwrap();
        }
        _ => encode::write_u32(&mut file, u32::try_from(sum).unwrap()).unwrap(),
    }
    file
}

fn read(file: &[u8]) -> Result<Summary, Damaged> {
    summarize(&Metadata::from_bytes(file)?)
}

#[test]
fn every_minor_version_gives_the_same_versions() {
    let mut versions = vec![
        Version::Free,
        Version::Object {
            size: 3,
            modified: 30,
            dir: 7,
        },
        Version::Object {
            size: 20,
            modified: 20,
            dir: 7,
        },
        Version::Marker { modified: 15 },
        Version::Object {
            size: 100,
            modified: 10,
            dir: 9,
        },
    ];
    let expected = read(&build(3, &versions)).unwrap();
    assert!(matches!(&expected.current, Current::Object(object) if object.size == 3));
    assert_eq!((expected.noncurrent, expected.noncurrent_bytes), (2, 120));
    assert_eq!((expected.delete_markers, expected.free_versions), (1, 1));
    assert_eq!(expected.data_dirs, [[7; 16], [9; 16]]);
    // Before minor 3 they come in any order.
    versions.reverse();
    versions.swap(0, 2);
    for minor in 0..3 {
        assert_eq!(
            read(&build(minor, &versions)).unwrap(),
            expected,
            "1.{minor}"
        );
    }
    let mut old = build(0, &versions);
    old[4..8].copy_from_slice(b"1   ");
    assert_eq!(read(&old).unwrap(), expected, "1.0 in letters");
}

#[test]
fn markers_legacy_and_no_version_are_told_apart() {
    let marker = read(&build(3, &[Version::Marker { modified: 1 }])).unwrap();
    let legacy = read(&build(3, &[Version::Legacy])).unwrap();
    let none = read(&build(3, &[])).unwrap();

    assert_eq!(
        (marker.current, marker.delete_markers),
        (Current::DeleteMarker, 1)
    );
    assert_eq!(legacy.current, Current::Legacy);
    assert_eq!(none.current, Current::None);
}

#[test]
fn unknown_envelopes_are_refused() {
    let good = build(3, &[]);
    for (at, byte) in [(0, b'Y'), (4, 2), (6, 4), (8, 0xa0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert!(read(&bad).is_err(), "byte {at}");
    }
    let huge = b"XL2 \x01\x00\x03\x00\xc6\xff\xff\xff\xff";
    assert!(
        read(huge)
            .unwrap_err()
            .0
            .contains("4294967295 bytes of metadata")
    );
}

#[test]
fn metadata_longer_than_the_first_read_is_read_to_its_end() {
    let versions: Vec<_> = (0..200)
        .map(|n| Version::Object {
            size: 1,
            modified: 1000 - n,
            dir: 1,
        })
        .collect();
    let bytes = build(3, &versions);
    assert!(bytes.len() > 4 * FIRST_READ);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let mut buffer = Vec::new();

    let metadata = Metadata::read(&file, bytes.len() as u64, &mut buffer)
        .unwrap()
        .unwrap();

    assert_eq!(summarize(&metadata).unwrap().noncurrent, 199);
    assert_eq!(metadata.inline_at, None);
}

#[test]
fn lists_without_end_are_refused() {
    let mut list = Vec::new();
    encode::write_map_len(&mut list, 2).unwrap();
    encode::write_str(&mut list, "Type").unwrap();
    encode::write_uint(&mut list, 1).unwrap();
    encode::write_str(&mut list, "V2Obj").unwrap();
    encode::write_map_len(&mut list, 1).unwrap();
    encode::write_str(&mut list, "PartNums").unwrap();
    encode::write_array_len(&mut list, 20_000).unwrap();
    list.extend(vec![1; 20_000]);

    let error = version::read_body(&mut Msgp::new(&list)).unwrap_err();

    assert_eq!(error.0, "more than 10000 parts");
}

fn versions() -> impl Strategy<Value = Vec<Version>> {
    let version = prop_oneof![
        (any::<u32>(), any::<i64>(), any::<u8>()).prop_map(|(size, modified, dir)| {
            Version::Object {
                size: size.into(),
                modified,
                dir,
            }
        }),
        any::<i64>().prop_map(|modified| Version::Marker { modified }),
        Just(Version::Legacy),
        Just(Version::Free),
    ];
    proptest::collection::vec(version, 0..5)
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(read(&bytes));
        for minor in 0..=3 {
            drop(read(&envelope(minor, &bytes)));
        }
        drop(version::read_body(&mut Msgp::new(&bytes)));
    }

    #[test]
    fn changed_metadata_is_read_or_refused(
        minor in 0u16..4,
        versions in versions(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let good = build(minor, &versions);
        let start = if minor == 0 { 8 } else { 13 };
        let end = good.len() - if minor == 3 { 5 } else { 0 };
        let mut metadata = good[start..end].to_vec();
        for (at, byte) in changes {
            if !metadata.is_empty() {
                let at = at.index(metadata.len());
                metadata[at] = byte;
            }
        }
        // With a checksum that fits, so that what lies behind it is reached.
        drop(read(&envelope(minor, &metadata)));
        drop(read(&good[..cut.index(good.len())]));
    }

    #[test]
    fn a_changed_byte_below_the_checksum_never_goes_unseen(
        versions in versions(),
        at in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut file = build(3, &versions);
        let at = 13 + at.index(file.len() - 13 - 4);
        file[at] ^= change;

        prop_assert!(read(&file).is_err());
    }
}
