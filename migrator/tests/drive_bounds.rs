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
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use xxhash_rust::xxh64::xxh64;

/// Address space that reading may take beyond what the process has.
const BOUND: u64 = 128 << 20;

const BUCKET: &str = "ryax-filestore";
const KEYS: [&str; 5] = [
    "iodata/0002/report.csv",
    "executions-data/0001/inline-max.bin",
    "executions-data/0001/three-frames.bin",
    "multi/two-parts",
    "multi/one-part",
];

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

#[test]
fn damage_is_bounded() {
    let drives = [unpack("minio-drive"), unpack("minio-drive-compressed")];
    let bucket = BucketName::new(BUCKET).unwrap();
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

    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let case = (
        0..2usize,
        0..KEYS.len(),
        changes,
        any::<bool>(),
        any::<bool>(),
    );
    let mut runner = TestRunner::new(Config {
        cases: 500,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&case, |(drive, key, changes, meta, repaired)| {
        let root = drives[drive].path();
        let object = root.join(BUCKET).join(KEYS[key]);
        let parts = part_files(&object);
        let target = match parts.first() {
            Some(part) if !meta => part.clone(),
            _ => object.join("xl.meta"),
        };
        let good = fs::read(&target).unwrap();
        let mut bad = good.clone();
        for (at, byte) in changes {
            let at = at.index(bad.len());
            bad[at] = byte;
        }
        if repaired && target.ends_with("xl.meta") {
            repair(&mut bad);
        }
        fs::write(&target, bad).unwrap();
        let opened = Drive::open(root).unwrap();
        read(&opened, &bucket, &ObjectKey::new(KEYS[key]).unwrap());
        fs::write(&target, good).unwrap();
        Ok(())
    });

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
