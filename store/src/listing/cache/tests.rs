use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use super::*;

/// Opens `path`, loads its names and returns them with whether they came from memory.
fn load(cache: &NameCache, path: &Path, now: Instant, wall: SystemTime) -> Loaded {
    let directory = File::open(path).unwrap();
    cache
        .load_at(directory.as_fd(), &mut Vec::new(), now, wall)
        .unwrap()
}

fn directory_with(count: usize) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for number in 0..count {
        File::create(root.path().join(format!("{number:05}"))).unwrap();
    }
    root
}

fn is_same(left: &Loaded, right: &Loaded) -> bool {
    Arc::ptr_eq(&left.names, &right.names)
}

#[test]
fn a_quiet_directory_is_read_once_and_a_changed_one_again() {
    let root = directory_with(200);
    let cache = NameCache::default();
    let wall = SystemTime::now() + Duration::from_mins(1);
    let now = Instant::now();

    let first = load(&cache, root.path(), now, wall);
    let second = load(&cache, root.path(), now, wall);
    File::create(root.path().join("new")).unwrap();
    let third = load(&cache, root.path(), now, wall);

    assert!(is_same(&first, &second));
    assert_eq!(first.names.len(), 200);
    assert_eq!(third.names.len(), 201);
}

#[test]
fn a_directory_that_just_changed_is_not_believed_until_a_tick_has_passed() {
    let root = directory_with(200);
    let cache = NameCache::default();
    let wall = SystemTime::now();
    let now = Instant::now();

    let young = load(&cache, root.path(), now, wall);
    let same_tick = load(&cache, root.path(), now, wall);
    let after_tick = load(&cache, root.path(), now + FINE_TICK, wall);
    let later = load(&cache, root.path(), now + FINE_TICK, wall);

    assert!(!young.settled);
    assert!(!is_same(&young, &same_tick));
    assert!(after_tick.settled);
    assert!(is_same(&after_tick, &later));
}

#[test]
fn whole_second_times_need_seconds_of_quiet() {
    let stamp = Stamp {
        mtime: (1_700_000_000, 0),
        ctime: (1_700_000_000, 0),
    };

    assert_eq!(stamp.tick(), COARSE_TICK);
}

#[test]
fn a_time_in_the_future_is_never_long_past() {
    let stamp = Stamp {
        mtime: (4_000_000_000, 5),
        ctime: (1_700_000_000, 5),
    };

    assert!(!stamp.is_long_past(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_001_001)));
}

#[test]
fn a_new_directory_of_the_same_name_is_read_anew() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("d");
    let cache = NameCache::default();
    let wall = SystemTime::now() + Duration::from_mins(1);
    let now = Instant::now();
    fs::create_dir(&path).unwrap();
    for number in 0..200 {
        File::create(path.join(format!("old{number}"))).unwrap();
    }
    let old = load(&cache, &path, now, wall);

    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for number in 0..200 {
        File::create(path.join(format!("new{number}"))).unwrap();
    }
    let new = load(&cache, &path, now, wall);

    assert_eq!(old.names.get(0), Some(b"old0".as_slice()));
    assert_eq!(new.names.get(0), Some(b"new0".as_slice()));
}

#[test]
fn memory_stays_within_the_budget() {
    let roots: Vec<_> = (0..4).map(|_| directory_with(300)).collect();
    let wall = SystemTime::now() + Duration::from_mins(1);
    let now = Instant::now();
    let one = NameCache::default();
    load(&one, roots[0].path(), now, wall);
    let budget = one.kept_bytes() * 2;
    let cache = NameCache::with_budget(budget);

    let oldest = load(&cache, roots[0].path(), now, wall);
    for root in &roots {
        load(&cache, root.path(), now, wall);
        assert!(cache.kept_bytes() <= budget);
    }
    let newest = load(&cache, roots[3].path(), now, wall);

    assert!(is_same(&newest, &load(&cache, roots[3].path(), now, wall)));
    assert!(!is_same(&oldest, &load(&cache, roots[0].path(), now, wall)));
}
