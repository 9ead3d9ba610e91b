//! A volume that changes while somebody waits for its lock.

use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::convert::{ConvertOptions, Outcome, Phase, convert};
use crate::store::tests::{Scratch, get, put};

/// Open files of this process that are the volume's `lock.opening`.
fn openings(volume: &Path) -> usize {
    let name = volume.join(".filestore").join(layout::OPENING_LOCK_FILE);
    let targets = files(Path::new("/proc/self/fd"));
    let names = targets.iter().filter_map(|fd| fs::read_link(fd).ok());
    names.filter(|target: &PathBuf| *target == name).count()
}

/// Runs `open` in a thread up to where it waits for the lock, changes the volume by `change`, and
/// lets it go on.
fn meanwhile<T: Send>(
    volume: &Path,
    open: impl FnOnce() -> T + Send,
    change: impl FnOnce(&dyn Fn()),
) -> T {
    let volume = volume.canonicalize().unwrap();
    let name = volume.join(".filestore").join(layout::OPENING_LOCK_FILE);
    std::thread::scope(|scope| {
        let waiter = std::cell::RefCell::new(None::<(fs::File, ScopedJoinHandle<'_, T>)>);
        let open = std::cell::Cell::new(Some(open));
        change(&|| {
            let Some(open) = open.take() else {
                return;
            };
            let opening = fs::File::open(&name).unwrap();
            flock(&opening, FlockOperation::LockExclusive).unwrap();
            let thread = scope.spawn(open);
            while openings(&volume) < 2 {
                assert!(!thread.is_finished(), "it did not wait");
                std::thread::yield_now();
            }
            waiter.replace(Some((opening, thread)));
        });
        let (opening, thread) = waiter.take().expect("nobody waits");
        drop(opening);
        thread.join().unwrap()
    })
}

fn convert_to(volume: &Path, to: MetadataMode, progress: &mut dyn FnMut(Phase)) -> Outcome {
    let options = ConvertOptions { to, dry_run: false };
    loop {
        match convert(volume, options, progress) {
            Err(Error::Volume(line)) if line.contains("in use") => std::thread::yield_now(),
            other => return other.unwrap().outcome,
        }
    }
}

fn filled(mode: MetadataMode) -> tempfile::TempDir {
    let at = Scratch::relaxed(mode);
    put(&at.store, "key", b"body");
    at.close()
}

#[test]
fn a_gateway_that_waits_for_a_conversion_serves_what_became_of_the_volume() {
    for from in crate::store::tests::BOTH {
        let to = match from {
            MetadataMode::Xattr => MetadataMode::Sidecar,
            MetadataMode::Sidecar => MetadataMode::Xattr,
        };
        let scratch = filled(from);
        let store = meanwhile(
            scratch.path(),
            || opened(scratch.path(), &options()),
            |wait| {
                let outcome = convert_to(scratch.path(), to, &mut |_| wait());
                assert_eq!(outcome, Outcome::Converted);
            },
        );
        assert_eq!(store.metadata_mode(), to);
        assert_eq!(get(&store, "key").as_deref(), Some(&b"body"[..]));
    }
}

#[test]
fn of_two_conversions_at_once_the_second_finds_nothing_to_do() {
    let scratch = filled(MetadataMode::Xattr);
    let second = meanwhile(
        scratch.path(),
        || convert_to(scratch.path(), MetadataMode::Sidecar, &mut |_| ()),
        |wait| {
            let first = convert_to(scratch.path(), MetadataMode::Sidecar, &mut |_| wait());
            assert_eq!(first, Outcome::Converted);
        },
    );
    assert_eq!(second, Outcome::Unchanged);
    let store = open_alone(scratch.path(), &options());
    assert_eq!(get(&store, "key").as_deref(), Some(&b"body"[..]));
}

#[test]
fn who_waits_while_an_import_begins_does_not_get_in() {
    let scratch = filled(MetadataMode::Xattr);
    let outcome = meanwhile(
        scratch.path(),
        || Store::open(scratch.path(), &options()).map(drop),
        |wait| {
            let alone = StoreOptions {
                access: Access::Exclusive,
                ..options()
            };
            drop(open_alone(scratch.path(), &options()));
            let volume = Volume::open_to_import(scratch.path(), &alone).unwrap();
            wait();
            volume.begin_import().unwrap();
        },
    );
    match outcome {
        Err(Error::Volume(line)) => assert!(line.contains("import-sidecar"), "{line}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_of_a_volume_that_was_unmade_keeps_nobody_out() {
    let scratch = tempfile::tempdir().unwrap();
    let alone = StoreOptions {
        access: Access::Exclusive,
        ..options()
    };
    let outcome = meanwhile(
        scratch.path(),
        || Store::open(scratch.path(), &options()).map(drop),
        |wait| {
            let volume = Volume::open_to_import(scratch.path(), &alone).unwrap();
            wait();
            volume.unmake().unwrap();
        },
    );
    assert!(matches!(outcome, Err(Error::Volume(_))), "{outcome:?}");
    assert!(!scratch.path().join(".filestore").exists());
    drop(open_alone(scratch.path(), &options()));
}

#[test]
fn each_file_system_of_the_buckets_is_flushed_once() {
    let scratch = filled(MetadataMode::Xattr);
    let root = scratch.path().join("s3");
    for name in ["second", "mounted", "no_bucket"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    let volume = || Volume::open(scratch.path(), &options()).unwrap();
    assert_eq!(volume().devices().unwrap().count(), 1);
    volume().sync().unwrap();
    let mount = |name: &str| {
        std::process::Command::new("mount")
            .args(["-t", "tmpfs", "tmpfs"])
            .arg(root.join(name))
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !mount("mounted") {
        return;
    }
    mount("no_bucket");
    fs::create_dir_all(root.join("second/deep/er")).unwrap();
    mount("second/deep/er");
    let count = volume().devices().map(|devices| devices.count());
    let synced = volume().sync();
    for name in ["mounted", "no_bucket", "second/deep/er"] {
        std::process::Command::new("umount")
            .arg("-l")
            .arg(root.join(name))
            .status()
            .unwrap();
    }
    assert_eq!(count.unwrap(), 3);
    synced.unwrap();
}
