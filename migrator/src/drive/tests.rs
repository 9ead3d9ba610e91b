//! The reader against drives that a real MinIO wrote.

mod access;
mod damage;
mod fidelity;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// Unpacks a drive into a directory of its own.
fn unpack(archive: &Path) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new("tar")
        .arg("-xJf")
        .arg(archive)
        .arg("-C")
        .arg(directory.path())
        .status()
        .expect("tar and xz-utils are installed");
    assert!(status.success(), "{}", archive.display());
    directory
}

/// A drive below `examples/`: `minio-drive` or `minio-drive-compressed`.
fn example(name: &str) -> (tempfile::TempDir, serde_json::Value) {
    fixture(&format!("../examples/{name}"))
}

/// The drive with checksums, settings, encryption and a suspended bucket.
fn odd() -> (tempfile::TempDir, serde_json::Value) {
    fixture("tests/data/minio-odd-drive")
}

fn fixture(stem: &str) -> (tempfile::TempDir, serde_json::Value) {
    let stem = Path::new(env!("CARGO_MANIFEST_DIR")).join(stem);
    let manifest = std::fs::read(stem.with_extension("json")).unwrap();
    (
        unpack(&stem.with_extension("tar.xz")),
        serde_json::from_slice(&manifest).unwrap(),
    )
}

fn bucket(name: &str) -> BucketName {
    BucketName::new(name).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).unwrap()
}

/// All keys of a bucket; strays are not expected.
fn walk(drive: &Drive, name: &str) -> Vec<WalkedKey> {
    drive
        .walk(&bucket(name), None)
        .unwrap()
        .map(|item| match item.unwrap() {
            WalkItem::Key(found) => *found,
            WalkItem::Stray(stray) => panic!("{stray}"),
        })
        .collect()
}

fn object(drive: &Drive, name: &str, path: &str) -> Box<DriveObject> {
    match drive.look(&bucket(name), &key(path)).unwrap() {
        Some(Content::Object(object)) => object,
        other => panic!("{path}: {other:?}"),
    }
}

fn read(drive: &Drive, name: &str, path: &str, object: &DriveObject) -> Result<Vec<u8>> {
    let mut reader = drive.reader(&bucket(name), &key(path), object, true)?;
    let mut body = Vec::new();
    let mut piece = vec![0; 70_000];
    loop {
        match reader.read_checked(&mut piece)? {
            0 => break,
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    assert_eq!(reader.etag_check(), Some(ETagCheck::Matches), "{path}");
    Ok(body)
}

/// Path of the only part `number` of an object.
fn part_file(drive: &Path, object: &str, number: u32) -> PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(drive.join(object))
        .unwrap()
        .map(|entry| entry.unwrap().path().join(format!("part.{number}")))
        .filter(|path| path.exists())
        .collect();
    assert_eq!(found.len(), 1, "{object}");
    found.remove(0)
}
