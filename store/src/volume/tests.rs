mod waiting;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use filestore_common::marker::MarkerState;

use super::*;
use crate::query::{Access, Durability};
use crate::store::tests::open_alone;
use crate::{Store, read_marker};

fn options() -> StoreOptions {
    StoreOptions {
        durability: Durability::Relaxed,
        ..StoreOptions::default()
    }
}

fn refusal(path: &Path, options: &StoreOptions) -> String {
    match Store::open(path, options) {
        Err(Error::Volume(line)) => {
            assert_eq!(line.lines().count(), 1, "{line}");
            line
        }
        other => panic!("{other:?}"),
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect()
}

#[test]
fn a_volume_is_created_once_and_opened_again() {
    let scratch = tempfile::tempdir().unwrap();
    let identity = scratch.path().join(".filestore/volume.json");
    drop(Store::open(scratch.path(), &options()).unwrap());
    let first = fs::read_to_string(&identity).unwrap();
    let store = Store::open(scratch.path(), &options()).unwrap();
    assert_eq!(first, fs::read_to_string(&identity).unwrap());
    assert_eq!(store.metadata_mode(), MetadataMode::Xattr);
    assert!(scratch.path().join("s3").is_dir());
    store.probe().unwrap();
    assert!(store.space().unwrap().total_bytes > 0);
}

#[test]
fn what_is_no_usable_volume_is_refused_in_one_line_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let missing = scratch.path().join("missing");
    assert!(refusal(&missing, &options()).contains("does not exist"));
    assert!(!missing.exists());

    let file = scratch.path().join("file");
    fs::write(&file, b"").unwrap();
    assert!(refusal(&file, &options()).contains("is not a directory"));

    let drive = scratch.path().join("drive");
    fs::create_dir_all(drive.join(".minio.sys")).unwrap();
    assert!(refusal(&drive, &options()).contains("MinIO drive"));
    assert_eq!(files(&drive).len(), 1);
}

#[test]
fn a_read_only_directory_is_refused() {
    // Root may write everywhere, whatever the mode.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o555)).unwrap();
    assert!(refusal(scratch.path(), &options()).contains("not accessible"));
    assert!(files(scratch.path()).is_empty());
}

#[test]
fn another_mode_or_format_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let sidecar = StoreOptions {
        metadata: Some(MetadataMode::Sidecar),
        ..options()
    };
    drop(Store::open(scratch.path(), &sidecar).unwrap());
    let xattr = StoreOptions {
        metadata: Some(MetadataMode::Xattr),
        ..options()
    };
    assert!(refusal(scratch.path(), &xattr).contains("sidecar mode"));
    let identity = scratch.path().join(".filestore/volume.json");
    let newer = fs::read_to_string(&identity)
        .unwrap()
        .replace("\"version\":1", "\"version\":2");
    fs::write(&identity, newer).unwrap();
    assert!(refusal(scratch.path(), &options()).contains("newer"));
}

#[test]
fn a_file_system_without_extended_attributes_is_refused_only_when_they_are_asked_for() {
    // procfs and the like have none, but are not writable; ramfs needs root to be mounted.
    let scratch = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "ramfs", "ramfs"])
        .arg(scratch.path())
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let xattr = StoreOptions {
        metadata: Some(MetadataMode::Xattr),
        ..options()
    };
    let line = refusal(scratch.path(), &xattr);
    let left = files(scratch.path());
    let mode = Store::open(scratch.path(), &options()).map(|store| store.metadata_mode());
    std::process::Command::new("umount")
        .arg("-l")
        .arg(scratch.path())
        .status()
        .unwrap();
    assert!(line.contains("no extended attributes"), "{line}");
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(mode.unwrap(), MetadataMode::Sidecar);
}

#[test]
fn a_lock_keeps_migrations_and_gateways_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let exclusive = StoreOptions {
        access: Access::Exclusive,
        ..options()
    };
    let first = Store::open(scratch.path(), &options()).unwrap();
    let second = Store::open(scratch.path(), &options()).unwrap();
    assert!(refusal(scratch.path(), &exclusive).contains("gateway"));
    drop((first, second));
    drop(open_alone(scratch.path(), &options()));
}

/// Opens a volume that is free. Tests that start processes at the same time hold copies of its
/// lock for a moment.
fn opened(path: &Path, options: &StoreOptions) -> Store {
    loop {
        match Store::open(path, options) {
            Err(Error::Volume(line)) if line.contains("in use") => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

/// The kinds that may have a volume open, and whether two of them may at once.
#[test]
fn each_kind_excludes_the_others_whatever_the_order() {
    let scratch = tempfile::tempdir().unwrap();
    let kind = |access| StoreOptions {
        access,
        ..options()
    };
    let kinds = [Access::Shared, Access::Exclusive, Access::Worker];
    for first in kinds {
        let held = opened(scratch.path(), &kind(first));
        for second in kinds {
            let together = first == second && first != Access::Exclusive;
            if together {
                drop(opened(scratch.path(), &kind(second)));
            } else {
                let line = refusal(scratch.path(), &kind(second));
                assert!(
                    line.contains("wait for") || line.contains("stop it"),
                    "{line}"
                );
            }
        }
        // What was refused or came and went leaves the first as it was.
        let other = if first == Access::Worker {
            Access::Shared
        } else {
            Access::Worker
        };
        refusal(scratch.path(), &kind(other));
        drop(held);
    }
}

/// Processes of all kinds that open and leave at random: a file that each kind marks shows who is
/// in together.
#[test]
fn no_order_of_starts_lets_two_kinds_in_together() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let scratch = tempfile::tempdir().unwrap();
    drop(Store::open(scratch.path(), &options()).unwrap());
    let inside: [AtomicUsize; 3] = Default::default();
    let entered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_usize {
            let (inside, entered, path) = (&inside, &entered, scratch.path());
            scope.spawn(move || {
                let kind = thread % 3;
                let access = [Access::Shared, Access::Exclusive, Access::Worker][kind];
                let options = StoreOptions {
                    access,
                    ..options()
                };
                for _ in 0..4 {
                    // Locks belong to open files, not to processes: threads stand for them.
                    let Ok(store) = Store::open(path, &options) else {
                        continue;
                    };
                    let mine = inside[kind].fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(mine == 1 || access != Access::Exclusive, "two are alone");
                    for other in (0..3).filter(|other| *other != kind) {
                        let others = inside[other].load(Ordering::SeqCst);
                        assert_eq!(others, 0, "kind {kind} beside kind {other}");
                    }
                    entered.fetch_add(1, Ordering::SeqCst);
                    inside[kind].fetch_sub(1, Ordering::SeqCst);
                    drop(store);
                }
            });
        }
    });
    assert!(entered.into_inner() > 0);
}

#[test]
fn a_volume_of_versitygw_is_taken_as_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let bucket = scratch.path().join("some-bucket");
    fs::create_dir(&bucket).unwrap();
    let dir = fs::File::open(&bucket).unwrap();
    crate::attributes::xattr::put(&dir, "acl", b"{}").unwrap();
    let store = Store::open(scratch.path(), &options()).unwrap();
    let names: Vec<_> = store
        .list_buckets()
        .unwrap()
        .into_iter()
        .map(|b| b.name)
        .collect();
    assert_eq!(
        names,
        [filestore_common::BucketName::new("some-bucket").unwrap()]
    );
    assert!(!scratch.path().join("s3").exists());
    drop(store);
    let sidecar = StoreOptions {
        metadata: Some(MetadataMode::Sidecar),
        ..options()
    };
    refusal(scratch.path(), &sidecar);
}

#[test]
fn a_data_root_names_its_volume() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("s3");
    fs::create_dir(&root).unwrap();
    let (volume, at_s3) = options().for_data_root(&root);
    assert_eq!(volume, scratch.path());
    drop(Store::open(&volume, &at_s3).unwrap());
    assert!(scratch.path().join(".filestore/volume.json").is_file());

    let plain = scratch.path().join("data");
    fs::create_dir(&plain).unwrap();
    let (volume, at_data) = options().for_data_root(&plain);
    assert_eq!(volume, plain);
    drop(Store::open(&volume, &at_data).unwrap());
    assert!(plain.join(".filestore/volume.json").is_file());
    // Once chosen, the data root is known; another one is refused.
    drop(Store::open(&plain, &options()).unwrap());
    assert!(!plain.join("s3").exists());
    let other = StoreOptions {
        data_root: Some(scratch.path().to_owned()),
        ..options()
    };
    assert!(refusal(scratch.path(), &other).contains("point to"));
}

#[test]
fn what_is_mounted_at_a_data_root_is_a_volume_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("s3");
    fs::create_dir(&root).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&root)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let (volume, _) = options().for_data_root(&root);
    std::process::Command::new("umount")
        .arg(&root)
        .status()
        .unwrap();
    assert_eq!(volume, root);
}

#[test]
fn a_missing_data_root_is_not_an_empty_store() {
    let scratch = tempfile::tempdir().unwrap();
    drop(Store::open(scratch.path(), &options()).unwrap());
    fs::remove_dir(scratch.path().join("s3")).unwrap();
    assert!(refusal(scratch.path(), &options()).contains("mounted"));
}

#[test]
fn the_chart_of_an_earlier_release_is_adopted_once() {
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(read_marker(scratch.path()).unwrap(), None);
    fs::write(scratch.path().join(".ryax-migrated-from-minio"), b"").unwrap();
    let unopened = read_marker(scratch.path()).unwrap().unwrap();
    assert_eq!(unopened.state, MarkerState::Cutover);
    assert!(!scratch.path().join(".filestore").exists());
    let store = Store::open(scratch.path(), &options()).unwrap();
    let marker = store.marker().unwrap().unwrap();
    assert_eq!(marker.state, MarkerState::Cutover);
    assert_eq!(marker.source.kind, "adopted");
    drop(store);
    drop(Store::open(scratch.path(), &options()).unwrap());
    assert_eq!(read_marker(scratch.path()).unwrap(), Some(marker));
}

#[test]
fn a_start_removes_what_crashes_left() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path(), &options()).unwrap();
    store
        .create_bucket(&filestore_common::BucketName::new("bucket").unwrap(), "me")
        .unwrap();
    drop(store);
    let temp = scratch.path().join("s3/bucket/.sgwtmp");
    fs::create_dir(&temp).unwrap();
    let ours = temp.join("filestore.123.4");
    let theirs = temp.join("0123abcd.5678");
    let trash = scratch.path().join(".filestore/trash/filestore.old");
    for file in [&ours, &theirs, &trash] {
        fs::write(file, b"x").unwrap();
    }
    drop(open_alone(scratch.path(), &options()));
    assert!(!ours.exists());
    // Not while another gateway, whose files these may be, has the volume open.
    let other = Store::open(scratch.path(), &options()).unwrap();
    fs::write(&ours, b"x").unwrap();
    let store = Store::open(scratch.path(), &options()).unwrap();
    assert!(ours.exists());
    assert!(theirs.exists());
    drop((store, other));
}

#[test]
fn a_volume_that_was_swapped_fails_its_probe() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, other) = (scratch.path().join("v"), scratch.path().join("other"));
    for path in [&path, &other] {
        fs::create_dir(path).unwrap();
        drop(Store::open(path, &options()).unwrap());
    }
    let store = Store::open(&path, &options()).unwrap();
    store.probe().unwrap();
    fs::rename(&path, scratch.path().join("away")).unwrap();
    assert!(store.probe().is_err());
    fs::rename(&other, &path).unwrap();
    assert!(matches!(store.probe(), Err(Error::Volume(_))));
}

#[test]
fn an_unhealthy_volume_fails_its_probe() {
    let scratch = tempfile::tempdir().unwrap();
    let volume = Volume::open(scratch.path(), &StoreOptions::default()).unwrap();
    volume.probe().unwrap();
    volume.flush.break_for_test();
    assert!(volume.probe().is_err());
}
