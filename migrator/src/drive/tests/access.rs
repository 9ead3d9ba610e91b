//! The drive is only read, and what may not be read is said.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use super::*;

/// Owner, group, mode, size and the three times.
type Row = (u32, u32, u32, u64, [(i64, i64); 3]);

/// Everything below a directory.
fn inventory(directory: &Path) -> BTreeMap<PathBuf, Row> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        let times = [
            (stat.atime(), stat.atime_nsec()),
            (stat.mtime(), stat.mtime_nsec()),
            (stat.ctime(), stat.ctime_nsec()),
        ];
        let row = (stat.uid(), stat.gid(), stat.mode(), stat.size(), times);
        found.insert(path.clone(), row);
        if stat.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    found
}

fn read_everything(drive: &Drive) -> Result<()> {
    drive.system()?;
    drive.fingerprint()?;
    for found in drive.buckets()? {
        for item in drive.walk(&found.name, None)? {
            if let WalkItem::Key(walked) = item?
                && let Content::Object(object) = &walked.content
            {
                let mut reader = drive.reader(&found.name, &walked.key, object, false)?;
                while reader.read_checked(&mut [0; 4096])? > 0 {}
            }
        }
    }
    Ok(())
}

#[test]
fn owner_mode_and_times_stay_as_they_were() {
    let (directory, _) = example("minio-drive");
    // Long ago, so that `relatime` would move them.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for path in inventory(directory.path()).keys() {
        let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
        fs::File::open(path).unwrap().set_times(times).unwrap();
    }
    // Taking the inventory itself reads directories; the second one is the steady state.
    inventory(directory.path());
    let before = inventory(directory.path());

    read_everything(&Drive::open(directory.path()).unwrap()).unwrap();

    assert_eq!(inventory(directory.path()), before);
}

#[test]
fn what_may_not_be_read_is_named_with_the_uid_that_could() {
    if !rustix::process::geteuid().is_root() {
        // Only root can become somebody else; without it the permission bits do the same.
        return;
    }
    let (directory, _) = example("minio-drive");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let closed = directory.path().join("ryax-filestore/iodata");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let drive = Drive::open(directory.path()).unwrap();

    let error = std::thread::spawn(move || {
        // This thread alone; file access then goes by this uid.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(1200)).unwrap();
        read_everything(&drive).unwrap_err()
    })
    .join()
    .unwrap();

    let Error::Denied { path, uid, owner } = &error else {
        panic!("{error}")
    };
    assert!(path.starts_with(&closed), "{}", path.display());
    assert_eq!((*uid, *owner), (1200, 0));
    assert!(
        error.to_string().ends_with(
            "permission denied for uid 1200; it belongs to uid 0: run as that user or as root"
        ),
        "{error}"
    );
}

#[test]
fn the_owner_can_read_a_drive_of_private_directories() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (directory, _) = example("minio-drive");
    for path in inventory(directory.path()).into_keys() {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&path, Some(1001), Some(1001)).unwrap();
    }
    let path = directory.path().to_owned();

    std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(1001)).unwrap();
        read_everything(&Drive::open(&path).unwrap()).unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn a_tree_without_minio_sys_is_read_only_when_told_to() {
    let (directory, _) = example("minio-drive");
    fs::remove_dir_all(directory.path().join(".minio.sys")).unwrap();

    let refused = Drive::open(directory.path()).unwrap_err();
    let forced = Drive::open_without_format(directory.path()).unwrap();

    assert!(matches!(
        refused,
        Error::Format(FormatError::Missing { .. })
    ));
    read_everything(&forced).unwrap();
    assert_eq!(forced.buckets().unwrap().len(), 3);
}
