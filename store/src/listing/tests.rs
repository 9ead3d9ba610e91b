//! Listings of a bare tree in xattr mode, against the sorted set of its keys.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use filestore_common::{ETag, ObjectInfo, ObjectMeta};
use proptest::prelude::*;
use rustix::fs::XattrFlags;

use super::*;
use crate::query::ListEntry;

/// Puts the keys into a tree; those that it cannot hold are returned.
fn fill<'k>(root: &Path, keys: &'k BTreeSet<String>) -> BTreeSet<&'k str> {
    let mut outside = BTreeSet::new();
    for key in keys {
        let path = root.join(key);
        if key.split('/').any(|segment| segment == "..")
            || key.contains("//")
            || key.starts_with('/')
        {
            outside.insert(key.as_str());
        } else if key.ends_with('/') {
            if fs::create_dir_all(&path).is_ok() {
                rustix::fs::setxattr(&path, "user.etag", b"\"dir\"", XattrFlags::empty()).unwrap();
            } else {
                outside.insert(key);
            }
        } else {
            let parent = path.parent().unwrap();
            if fs::create_dir_all(parent).is_err() || path.is_dir() {
                outside.insert(key);
            } else {
                fs::write(&path, key).unwrap();
                rustix::fs::setxattr(&path, "user.etag", b"\"file\"", XattrFlags::empty()).unwrap();
            }
        }
    }
    outside
}

fn page(root: &Path, cache: &NameCache, outside: &BTreeSet<&str>, query: &ListQuery) -> ListPage {
    let bucket = Dir::open_root(root).unwrap();
    let source = Source {
        bucket: &bucket,
        mode: MetadataMode::Xattr,
        cache,
        head: &|_| Ok(None),
        head_overflow: &|_| {
            Ok(Some(ObjectInfo {
                size: 1,
                last_modified: std::time::SystemTime::UNIX_EPOCH,
                meta: ObjectMeta::new(ETag::new("outside")),
            }))
        },
        overflow: &|prefix, bound| {
            let keys = outside
                .iter()
                .filter(|key| key.as_bytes() >= bound && key.starts_with(prefix));
            Ok(keys.map(|key| (*key).to_owned()).collect())
        },
    };
    list(&source, query).unwrap()
}

fn name(entry: &ListEntry) -> &str {
    match entry {
        ListEntry::Object(object) => &object.key,
        ListEntry::Prefix(prefix) => prefix,
    }
}

fn all_pages(
    root: &Path,
    cache: &NameCache,
    outside: &BTreeSet<&str>,
    mut query: ListQuery,
) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let page = page(root, cache, outside, &query);
        assert!(page.entries.len() <= query.max_keys);
        names.extend(page.entries.iter().map(|entry| name(entry).to_owned()));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return names,
        }
    }
}

/// The answer by definition.
fn model(keys: &BTreeSet<String>, query: &ListQuery) -> Vec<String> {
    let mut entries: Vec<String> = keys
        .iter()
        .filter_map(|key| {
            let rest = key.strip_prefix(&query.prefix)?;
            let group = query.delimiter.as_deref().and_then(|delimiter| {
                let end = rest.find(delimiter)? + delimiter.len();
                Some(format!("{}{}", query.prefix, &rest[..end]))
            });
            Some(group.unwrap_or_else(|| key.clone()))
        })
        .filter(|entry| query.after.as_ref().is_none_or(|after| entry > after))
        .collect();
    entries.dedup();
    entries
}

fn key() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "ab", "a!", "a-", "a.", "a0", "é", "..", ""]);
    (prop::collection::vec(segment, 1..5), any::<bool>()).prop_map(|(segments, slash)| {
        let key = segments.join("/");
        if slash || key.is_empty() {
            key + "/"
        } else {
            key
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_together_are_the_sorted_filtered_grouped_keys(
        keys in prop::collection::btree_set(key(), 1..30),
        questions in prop::collection::vec((
            prop_oneof![Just(String::new()), key()],
            0_usize..5,
            prop::option::of(prop::sample::select(vec!["/", "a", "b/", "/a", "-", "//", "é"])),
            prop::option::of(key()),
            1_usize..8,
        ), 10),
    ) {
        let root = tempfile::tempdir().unwrap();
        let outside = fill(root.path(), &keys);
        let cache = NameCache::default();
        for (prefix, cut, delimiter, after, max_keys) in questions {
            let end = prefix.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(prefix.len());
            let query = ListQuery {
                prefix: prefix[..end].to_owned(),
                delimiter: delimiter.map(str::to_owned),
                after,
                max_keys,
            };
            let found = all_pages(root.path(), &cache, &outside, query.clone());
            prop_assert_eq!(found, model(&keys, &query), "{:?}", query);
        }
    }
}

#[test]
fn deep_trees_are_listed_with_few_directories_open() {
    let root = tempfile::tempdir().unwrap();
    let deep = "d/".repeat(200);
    let keys: BTreeSet<String> = (0..200)
        .map(|level| format!("{}f", "d/".repeat(level)))
        .chain([format!("{deep}x"), format!("{}z", "d/".repeat(3))])
        .collect();
    let outside = fill(root.path(), &keys);
    assert!(outside.is_empty());

    let query = ListQuery {
        max_keys: 1000,
        ..ListQuery::default()
    };
    let found = all_pages(root.path(), &NameCache::default(), &outside, query);

    assert_eq!(found, Vec::from_iter(keys));
}

#[test]
fn what_vanishes_between_names_and_files_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let keys: BTreeSet<String> = (0..200).map(|number| format!("d/{number:03}")).collect();
    fill(root.path(), &keys);
    let query = ListQuery {
        max_keys: 1000,
        prefix: "d/".into(),
        ..ListQuery::default()
    };
    let bucket = Dir::open_root(root.path()).unwrap();
    let directory = bucket.open_dir("d").unwrap();
    let objects = objects::Objects {
        mode: MetadataMode::Xattr,
        head: &|_| Ok(None),
        head_overflow: &|_| Ok(None),
    };
    fs::remove_file(root.path().join("d/007")).unwrap();

    let described = objects
        .describe(&directory, keys.iter().cloned().collect(), 2, None)
        .unwrap();

    assert_eq!(described.len(), 199);
    assert_eq!(
        all_pages(root.path(), &NameCache::default(), &BTreeSet::new(), query).len(),
        199
    );
}
