//! Order and completeness of the walk over trees of any shape.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;

use super::super::Drive;
use super::super::xl_meta::tests::{Version, build};
use super::*;

fn put(bucket: &Path, key: &str, version: &[Version]) {
    let dir = bucket.join(object_dir(key).as_ref());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("xl.meta"), build(3, version)).unwrap();
    // A data directory of the object, which is no key.
    let data = dir.join("01010101-0101-0101-0101-010101010101");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("part.1"), "").unwrap();
}

const ONE: Version = Version::Object {
    size: 0,
    modified: 1,
    dir: 1,
};

fn open(root: &Path) -> (Drive, BucketName) {
    let drive = Drive::open_without_format(root).unwrap();
    (drive, BucketName::new("bucket").unwrap())
}

fn keys(drive: &Drive, bucket: &BucketName, after: Option<&ObjectKey>) -> Vec<WalkedKey> {
    drive
        .walk(bucket, after)
        .unwrap()
        .map(|item| match item.unwrap() {
            WalkItem::Key(found) => *found,
            WalkItem::Stray(stray) => panic!("{stray}"),
        })
        .collect()
}

#[test]
fn keys_that_sort_between_an_object_and_its_subtree_come_there() {
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("bucket");
    // `!`, `-` and `.` sort before `/`, `0` after it.
    let sorted = [
        "a",
        "a!",
        "a!/x",
        "a-",
        "a.",
        "a./b",
        "a/",
        "a/!",
        "a/b",
        "a/b/c",
        "a0",
        "ab",
        "xl.meta",
        "xl.meta/deep",
    ];
    for key in sorted {
        put(&bucket, key, &[ONE]);
    }
    put(&bucket, "__XLDIR__", &[ONE]);
    let (drive, name) = open(root.path());

    let found = keys(&drive, &name, None);

    let mut expected: Vec<&str> = sorted.to_vec();
    expected.push("__XLDIR__");
    expected.sort_unstable();
    let found: Vec<_> = found.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(found, expected);
}

#[test]
fn only_data_directories_of_the_object_itself_are_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("bucket");
    let other = "02020202-0202-0202-0202-020202020202";
    put(&bucket, "a", &[ONE]);
    put(&bucket, &format!("a/{other}"), &[ONE]);
    put(&bucket, "01010101-0101-0101-0101-010101010101", &[ONE]);
    let (drive, name) = open(root.path());

    let found = keys(&drive, &name, None);

    let found: Vec<_> = found.iter().map(|found| found.key.to_string()).collect();
    assert_eq!(
        found,
        [
            "01010101-0101-0101-0101-010101010101".to_owned(),
            "a".into(),
            format!("a/{other}")
        ]
    );
}

#[test]
fn a_bucket_that_is_not_there_is_an_error_and_not_empty() {
    let root = tempfile::tempdir().unwrap();
    let (drive, name) = open(root.path());

    assert!(matches!(drive.walk(&name, None), Err(Error::Io { .. })));
}

/// Keys that MinIO takes: no empty, `.` or `..` segments; the last may end in `/`.
fn key() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        4 => "[ab!./0_~é-]{1,3}",
        1 => Just("xl.meta".to_owned()),
        1 => Just("a__XLDIR__".to_owned()),
        1 => Just("__XLDIR__".to_owned()),
    ];
    let segments = proptest::collection::vec(segment, 1..4);
    (segments, any::<bool>()).prop_filter_map("not a key of MinIO", |(segments, slash)| {
        let key = segments.join("/");
        let good = key.split('/').all(|part| !matches!(part, "" | "." | ".."));
        // `x__XLDIR__` is another name of `x/`.
        let ambiguous = key.ends_with("a__XLDIR__");
        let key = if slash { format!("{key}/") } else { key };
        (good && !ambiguous).then_some(key)
    })
}

/// Leaves out what no drive can hold: `k/xl.meta` where `k` is an object.
fn possible(mut set: BTreeSet<String>) -> BTreeSet<String> {
    let files: Vec<_> = set
        .iter()
        .map(|key| format!("{}/xl.meta/", object_dir(key)))
        .collect();
    set.retain(|key| {
        let dir = format!("{}/", object_dir(key));
        !files.iter().any(|file| dir.starts_with(file))
    });
    set
}

/// The key of the nearest object directory above, as the tree says.
fn hidden_by(dirs: &BTreeMap<String, String>, key: &str) -> Option<String> {
    let dir = object_dir(key).into_owned();
    let mut above = dir.as_str();
    while let Some((parent, _)) = above.rsplit_once('/') {
        if let Some(found) = dirs.get(parent) {
            return Some(found.clone());
        }
        above = parent;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_walk_gives_every_key_once_in_byte_order(
        set in proptest::collection::btree_set(key(), 0..25).prop_map(possible),
        after in key(),
        marker in any::<prop::sample::Index>(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let bucket = root.path().join("bucket");
        std::fs::create_dir(&bucket).unwrap();
        let marker = marker.index(set.len().max(1));
        for (index, key) in set.iter().enumerate() {
            let deleted = Version::Marker { modified: 2 };
            let versions = if index == marker { vec![deleted, ONE] } else { vec![ONE] };
            put(&bucket, key, &versions);
        }
        let (drive, name) = open(root.path());

        let found = keys(&drive, &name, None);
        let after = ObjectKey::new(after).unwrap();
        let rest = keys(&drive, &name, Some(&after));

        let dirs = set.iter().map(|key| (object_dir(key).into_owned(), key.clone())).collect();
        let expected: Vec<_> = set.iter().map(|key| (key.clone(), hidden_by(&dirs, key))).collect();
        let told = |found: Vec<WalkedKey>| -> Vec<_> {
            found
                .into_iter()
                .map(|found| (found.key.to_string(), found.hidden_by.map(String::from)))
                .collect()
        };
        let beyond: Vec<_> = expected
            .iter()
            .filter(|(key, _)| key.as_str() > after.as_str())
            .cloned()
            .collect();
        prop_assert_eq!(told(found), expected);
        prop_assert_eq!(told(rest), beyond);
    }

    #[test]
    fn directory_and_key_are_each_others_inverse(key in key()) {
        let dir = object_dir(&key).into_owned();
        let (above, last) = dir.rsplit_once('/').map_or(("", dir.as_str()), |(above, last)| (above, last));
        let joined = if above.is_empty() { String::new() } else { format!("{above}/") };
        prop_assert_eq!(format!("{joined}{}", key_of(last)), key);
    }
}

/// A tree that is far from flat costs no more than its deepest path.
#[test]
fn waiting_subtrees_stay_few() {
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("bucket");
    let mut expected = BTreeSet::new();
    for n in 0..300 {
        for key in [format!("p{n}"), format!("p{n}/x"), format!("p{n}/")] {
            put(&bucket, &key, &[ONE]);
            expected.insert(key);
        }
    }
    let (drive, name) = open(root.path());
    let mut walk = drive.walk(&name, None).unwrap();
    let mut most = 0;
    let mut found = BTreeSet::new();

    while let Some(item) = walk.next() {
        let waiting: usize = walk.levels.iter().map(|level| level.waiting.len()).sum();
        most = most.max(waiting);
        if let WalkItem::Key(walked) = item.unwrap() {
            found.insert(walked.key.to_string());
        }
    }

    assert_eq!(found, expected);
    // `p1`, `p10`, `p100` and their `__XLDIR__` twins at once.
    assert!(most <= 8, "{most}");
}
