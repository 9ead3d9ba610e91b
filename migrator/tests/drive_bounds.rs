//! Damaged drives under a memory limit: whatever `xl.meta` and part files hold, reading ends in
//! bytes or in an error, never in a panic and never in memory that a hostile length asks for.
//!
//! The only test of its binary, as the limit is the whole process's.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test are outside of clippy's allowance for tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use filestore_common::{BucketName, ObjectKey};
use filestore_migrator::drive::{Content, Drive, DriveBucket};
use highway::{HighwayHash, HighwayHasher, Key};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xxhash_rust::xxh64::xxh64;

/// Address space that reading may take beyond what the process has.
const BOUND: u64 = 128 << 20;

/// Damaged files that are tried.
const CASES: u32 = 1000;

const BUCKET: &str = "ryax-filestore";
const KEYS: [&str; 5] = [
    "iodata/0002/report.csv",
    "executions-data/0001/inline-max.bin",
    "executions-data/0001/three-frames.bin",
    "multi/two-parts",
    "multi/one-part",
];

/// What is damaged, besides one of [`KEYS`].
#[derive(Debug, Clone, Copy)]
enum File {
    Meta,
    Part,
    /// Settings of the bucket, an object in the same form.
    BucketMeta,
    Format,
}

/// How a file is damaged.
#[derive(Debug, Clone)]
enum Damage {
    Bytes(Vec<(Index, u8)>),
    Bits(Vec<(Index, u8)>),
    Cut(Index),
    /// A stretch of the file of another key goes in between two places of this one.
    Splice {
        at: (Index, Index),
        key: usize,
        piece: (Index, Index),
    },
    /// A MessagePack value is replaced by the head of one that claims `len` bytes or elements.
    Length {
        at: Index,
        marker: u8,
        len: u32,
    },
    /// An S2 chunk that claims a block of up to 4 GiB takes the place of what was there; the first
    /// one of the stream or any.
    Block {
        at: Option<Index>,
        claims: u32,
        compressed: bool,
    },
}

fn damage() -> impl Strategy<Value = Damage> {
    let changes = || proptest::collection::vec((any::<Index>(), any::<u8>()), 1..6);
    let two = || (any::<Index>(), any::<Index>());
    let marker = prop::sample::select(&[0xc6_u8, 0xc9, 0xdb, 0xdd, 0xdf][..]);
    let large = prop_oneof![
        Just(u32::MAX),
        Just(i32::MAX as u32),
        1_u32 << 24..=u32::MAX,
        0_u32..=1 << 24
    ];
    prop_oneof![
        changes().prop_map(Damage::Bytes),
        changes().prop_map(Damage::Bits),
        any::<Index>().prop_map(Damage::Cut),
        (two(), 0..KEYS.len(), two()).prop_map(|(at, key, piece)| Damage::Splice {
            at,
            key,
            piece
        }),
        (any::<Index>(), marker, large.clone()).prop_map(|(at, marker, len)| Damage::Length {
            at,
            marker,
            len
        }),
        (any::<Option<Index>>(), large, any::<bool>()).prop_map(|(at, claims, compressed)| {
            Damage::Block {
                at,
                claims,
                compressed,
            }
        }),
    ]
}

fn ordered(one: usize, other: usize) -> std::ops::Range<usize> {
    one.min(other)..one.max(other)
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>, other: impl Fn(usize) -> Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Bytes(changes) => {
                for (at, byte) in changes {
                    *at.get_mut(bytes) = *byte;
                }
            }
            Self::Bits(changes) => {
                for (at, bit) in changes {
                    *at.get_mut(bytes) ^= 1 << (bit % 8);
                }
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Splice { at, key, piece } => {
                let other = other(*key);
                let whole = other.len() + 1;
                let piece = ordered(piece.0.index(whole), piece.1.index(whole));
                let whole = bytes.len() + 1;
                let place = ordered(at.0.index(whole), at.1.index(whole));
                bytes.splice(place, other[piece].iter().copied());
            }
            Self::Length { at, marker, len } => {
                // Places that can be the head of a value: not the small numbers and plain text.
                let heads: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] >= 0x80).collect();
                if !heads.is_empty() {
                    let at = *at.get(&heads);
                    let head = [*marker].into_iter().chain(len.to_be_bytes());
                    bytes.splice(at..=at, head);
                }
            }
            Self::Block {
                at,
                claims,
                compressed,
            } => {
                // Behind the frame's hash and the stream's name, where the first block begins.
                let at = at.map_or(32 + 10, |at| at.index(bytes.len()));
                let claimed = claims.to_le_bytes();
                let mut chunk = vec![u8::from(!compressed)];
                if *compressed {
                    // Nine bytes: a checksum and the length as a varint.
                    chunk.extend([9, 0, 0, 0, 0, 0, 0]);
                    chunk.extend(claimed.map(|byte| byte | 0x80));
                    chunk.push(0x0f);
                } else {
                    chunk.extend(&claimed[..3]);
                }
                for (to, from) in bytes.iter_mut().skip(at).zip(chunk) {
                    *to = from;
                }
            }
        }
    }
}

fn unpack(name: &str) -> tempfile::TempDir {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/{name}.tar.xz"));
    let directory = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(archive).arg("-C").arg(directory.path());
    assert!(tar.status().unwrap().success());
    directory
}

/// Makes the metadata's checksum right, so that what lies behind it is reached.
fn repair(file: &mut [u8]) -> Option<()> {
    let len = u32::from_be_bytes(*file.get(9..13)?.first_chunk()?) as usize;
    let end = 13_usize.checked_add(len)?;
    let sum = u32::try_from(xxh64(file.get(13..end)?, 0) & 0xffff_ffff).ok()?;
    file.get_mut(end + 1..end + 5)?
        .copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Makes the hash of every frame right, so that the S2 stream behind it is reached.
fn repair_part(file: &mut [u8]) {
    let key = Key([
        0xcd8a_238e_fa34_e74b,
        0x5285_96bb_e683_3e26,
        0x1444_9fa3_5d93_0f04,
        0xa036_de22_139d_e097,
    ]);
    for frame in file.chunks_mut((1 << 20) + 32) {
        let Some((stored, payload)) = frame.split_first_chunk_mut::<32>() else {
            return;
        };
        let words = HighwayHasher::new(key).hash256(payload);
        for (to, word) in stored.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Looks at all that a take-over looks at besides objects; whatever is found or refused is right.
fn survey(drive: &Drive, bucket: &BucketName) {
    drop(drive.buckets());
    drop(drive.bucket(bucket.clone()));
    drop(drive.system());
    if let Ok(walk) = drive.walk(bucket, None) {
        // Errors end a walk; there are few keys.
        walk.take(10_000).for_each(drop);
    }
}

/// Reads an object as far as it goes.
fn read(drive: &Drive, bucket: &BucketName, key: &ObjectKey) {
    let Ok(Some(Content::Object(object))) = drive.look(bucket, key) else {
        return;
    };
    let Ok(mut reader) = drive.reader(bucket, key, &object, true) else {
        return;
    };
    let mut piece = vec![0; 1 << 20];
    let mut total = 0;
    while let Ok(count) = reader.read_checked(&mut piece) {
        if count == 0 {
            assert_eq!(total, object.size);
            return;
        }
        total += count as u64;
        assert!(total <= object.size);
    }
}

fn part_files(object: &Path) -> Vec<PathBuf> {
    let below = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let directories = below(object).into_iter().filter(|path| path.is_dir());
    directories.flat_map(|path| below(&path)).collect()
}

/// Holds this process to what it has and [`BOUND`].
fn limit_memory() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let used = status
        .lines()
        .find(|line| line.starts_with("VmSize:"))
        .unwrap();
    let used: u64 = used.split_whitespace().nth(1).unwrap().parse().unwrap();
    let limit = Some(used * 1024 + BOUND);
    let hard = getrlimit(Resource::As).maximum;
    setrlimit(
        Resource::As,
        Rlimit {
            current: limit,
            maximum: hard,
        },
    )
    .unwrap();

    let mut hostile = Vec::<u8>::new();
    let twice = usize::try_from(2 * BOUND).unwrap();
    assert!(hostile.try_reserve_exact(twice).is_err(), "the limit holds");
}

#[test]
fn damage_is_bounded() {
    let drives = [unpack("minio-drive"), unpack("minio-drive-compressed")];
    let bucket = BucketName::new(BUCKET).unwrap();
    limit_memory();

    let file = prop_oneof![
        4 => Just(File::Meta),
        4 => Just(File::Part),
        1 => Just(File::BucketMeta),
        1 => Just(File::Format),
    ];
    let case = (0..2usize, 0..KEYS.len(), file, damage(), any::<bool>());
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let reached = std::cell::Cell::new(0);
    let outcome = runner.run(&case, |(drive, key, file, damage, repaired)| {
        let root = drives[drive].path();
        let path = |key: usize| {
            let object = root.join(BUCKET).join(KEYS[key]);
            match file {
                File::Meta => object.join("xl.meta"),
                // Small objects have none.
                File::Part => part_files(&object)
                    .pop()
                    .unwrap_or_else(|| object.join("xl.meta")),
                File::BucketMeta => root
                    .join(".minio.sys/buckets")
                    .join(BUCKET)
                    .join(".metadata.bin/xl.meta"),
                File::Format => root.join(".minio.sys/format.json"),
            }
        };
        let target = path(key);
        let good = fs::read(&target).unwrap();
        let mut bad = good.clone();
        damage.apply(&mut bad, |other| fs::read(path(other)).unwrap());
        if repaired && target.ends_with("xl.meta") {
            repair(&mut bad);
        } else if repaired && !matches!(file, File::Format) {
            repair_part(&mut bad);
        }
        fs::write(&target, &bad).unwrap();
        if let Ok(opened) = Drive::open(root) {
            survey(&opened, &bucket);
            read(&opened, &bucket, &ObjectKey::new(KEYS[key]).unwrap());
            reached.set(reached.get() + 1);
        }
        fs::write(&target, good).unwrap();
        Ok(())
    });
    assert!(reached.get() > CASES / 2, "most of it gets past the format");

    outcome.unwrap();
    // Restored as it was: still whole.
    for root in &drives {
        let drive = Drive::open(root.path()).unwrap();
        let names: Vec<DriveBucket> = drive.buckets().unwrap();
        assert_eq!(names.len(), 3);
        for key in KEYS {
            let key = ObjectKey::new(key).unwrap();
            assert!(
                matches!(drive.look(&bucket, &key), Ok(Some(Content::Object(_)))),
                "{key}"
            );
            read(&drive, &bucket, &key);
        }
    }
}
