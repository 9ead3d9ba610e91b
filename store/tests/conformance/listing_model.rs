//! Listings against a sorted set of keys, for random keys and questions.

use std::collections::BTreeSet;

use filestore_store::{Durability, ListQuery, MetadataMode};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::*;

/// Keys made of segments that sort around `/`, clash with each other, or fit no directory.
fn nasty_key() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "ab", "a!", "a-", "a.", "a0", "é", "\u{1}"]),
        1 => prop::sample::select(vec!["", ".", "..", ".sgwtmp", "~"]),
    ];
    let long = "l".repeat(256);
    (
        prop::collection::vec(segment, 1..5),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.03),
    )
        .prop_map(move |(segments, slash, overlong)| {
            let mut key = segments.join("/");
            if slash {
                key.push('/');
            }
            if overlong {
                key.push_str(&long);
            }
            if key.is_empty() { "/".to_owned() } else { key }
        })
}

#[derive(Debug, Clone)]
struct Question {
    prefix: String,
    delimiter: Option<String>,
    after: Option<String>,
    max_keys: usize,
}

fn question() -> impl Strategy<Value = Question> {
    let delimiter = prop::sample::select(vec!["/", "/", "/", "a", "b/", "/a", "-", "//", "é"]);
    (
        prop_oneof![2 => Just(String::new()), 3 => nasty_key()],
        prop::option::weighted(0.7, delimiter),
        prop::option::weighted(0.4, nasty_key()),
        1_usize..9,
        0_usize..6,
    )
        .prop_map(|(prefix, delimiter, after, max_keys, cut)| {
            let end = prefix.char_indices().map(|(at, _)| at).nth(cut);
            Question {
                prefix: prefix[..end.unwrap_or(prefix.len())].to_owned(),
                delimiter: delimiter.map(str::to_owned),
                after,
                max_keys,
            }
        })
}

/// The right answer, from the definition: group, then drop what is not after the marker.
fn model(keys: &BTreeSet<String>, question: &Question) -> Vec<String> {
    let mut entries: Vec<String> = keys
        .iter()
        .filter_map(|key| {
            let rest = key.strip_prefix(&question.prefix)?;
            let grouped = question.delimiter.as_deref().and_then(|delimiter| {
                let at = rest.find(delimiter)?;
                Some(format!(
                    "{}{}",
                    question.prefix,
                    &rest[..at + delimiter.len()]
                ))
            });
            Some(grouped.unwrap_or_else(|| key.clone()))
        })
        .filter(|entry| question.after.as_ref().is_none_or(|after| entry > after))
        .collect();
    entries.dedup();
    entries
}

fn check(metadata: MetadataMode) {
    let volume = Volume::new(metadata, Durability::Relaxed);
    let store = volume.store();
    let mut runner = TestRunner::new(Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    });
    let input = (
        prop::collection::btree_set(nasty_key(), 1..25),
        prop::collection::btree_set(nasty_key(), 0..5),
        prop::collection::vec(question(), 12),
    );
    runner
        .run(&input, |(mut keys, deleted, questions)| {
            let left = all_keys(store);
            for name in &left {
                delete(store, name);
            }
            for name in keys.iter().chain(&deleted) {
                put(store, name, b"x");
            }
            for name in &deleted {
                delete(store, name);
                keys.remove(name);
            }
            for question in questions {
                let query = ListQuery {
                    prefix: question.prefix.clone(),
                    delimiter: question.delimiter.clone(),
                    after: question.after.clone(),
                    max_keys: question.max_keys,
                };
                let found = crate::support::keys(store, &cases_bucket(), &query);
                prop_assert_eq!(found, model(&keys, &question), "{:?} {:?}", question, keys);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn pages_together_are_the_sorted_filtered_grouped_keys_xattr() {
    check(MetadataMode::Xattr);
}

#[test]
fn pages_together_are_the_sorted_filtered_grouped_keys_sidecar() {
    check(MetadataMode::Sidecar);
}
