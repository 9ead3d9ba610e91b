use std::collections::BTreeMap;
use std::time::SystemTime;

use filestore_common::ETag;
use futures::stream;
use proptest::prelude::*;

use super::*;

fn entry(key: &str, size: u64) -> Entry {
    Entry {
        key: ObjectKey::new(key).unwrap(),
        size,
        etag: Some(ETag::new("d41d8cd98f00b204e9800998ecf8427e")),
        last_modified: SystemTime::UNIX_EPOCH,
        meta: None,
        hidden: false,
    }
}

fn listing(items: Vec<Result<Listed>>) -> Ordered {
    Ordered::new("test", stream::iter(items).boxed())
}

fn objects(keys: &[&str]) -> Ordered {
    listing(
        keys.iter()
            .map(|key| Ok(Listed::Object(entry(key, 1))))
            .collect(),
    )
}

async fn all(mut merge: Merge) -> Result<Vec<Merged>> {
    let mut items = Vec::new();
    while let Some(item) = merge.next().await? {
        items.push(item);
    }
    Ok(items)
}

#[tokio::test]
async fn a_repeated_or_unordered_key_ends_the_merge_with_an_error() {
    for keys in [["a", "b", "b"], ["a", "c", "b"], ["b", "b", "c"]] {
        let error = all(Merge::new(objects(&keys), objects(&[])))
            .await
            .unwrap_err();
        assert_eq!(error.kind, Kind::Listing, "{keys:?}");
        let error = all(Merge::new(objects(&[]), objects(&keys)))
            .await
            .unwrap_err();
        assert_eq!(error.kind, Kind::Listing, "{keys:?}");
    }
}

#[tokio::test]
async fn an_error_of_a_listing_is_passed_on_and_never_taken_for_its_end() {
    let broken = listing(vec![
        Ok(Listed::Object(entry("a", 1))),
        Err(Error::new(Kind::Down, "list", "b", "gone")),
    ]);
    let error = all(Merge::new(broken, objects(&["a", "b"])))
        .await
        .unwrap_err();
    assert_eq!(error.kind, Kind::Down);
}

#[tokio::test]
async fn a_reader_that_dies_is_no_end() {
    let dying = stream::iter([Ok(Listed::Object(entry("a", 1)))])
        .chain(stream::once(async { panic!("reader died") }));
    let error = all(Merge::new(
        Ordered::new("test", dying.boxed()),
        objects(&["a", "b"]),
    ))
    .await
    .unwrap_err();
    assert_eq!(error.kind, Kind::Listing);
}

#[tokio::test]
async fn what_stays_behind_passes_through() {
    let left = Left::new(crate::source::Reason::DeleteMarkers, "b/gone", 1);
    let source = listing(vec![
        Ok(Listed::Left(left.clone())),
        Ok(Listed::Object(entry("a", 1))),
    ]);
    let items = all(Merge::new(source, objects(&["a"]))).await.unwrap();
    assert_eq!(
        items,
        vec![
            Merged::Left(left),
            Merged::Pair(Pair::Both(entry("a", 1), entry("a", 1)))
        ]
    );
}

proptest! {
    /// The merge of two sorted sets says of every key, once and in order, who has it.
    #[test]
    fn merge_equals_the_join_of_two_maps(
        source in prop::collection::btree_map("[a-c/é+%]{1,4}", 0_u64..3, 0..40),
        target in prop::collection::btree_map("[a-c/é+%]{1,4}", 0_u64..3, 0..40),
    ) {
        let stream_of = |map: &BTreeMap<String, u64>| {
            map.iter().map(|(key, size)| Ok(Listed::Object(entry(key, *size)))).collect::<Vec<_>>()
        };
        let mut expected = BTreeMap::<&String, (Option<u64>, Option<u64>)>::new();
        for (key, size) in &source {
            expected.entry(key).or_default().0 = Some(*size);
        }
        for (key, size) in &target {
            expected.entry(key).or_default().1 = Some(*size);
        }
        let expected = expected.into_iter().map(|(key, sides)| Merged::Pair(match sides {
            (Some(ours), Some(theirs)) => Pair::Both(entry(key, ours), entry(key, theirs)),
            (Some(ours), None) => Pair::Source(entry(key, ours)),
            (None, Some(theirs)) => Pair::Target(entry(key, theirs)),
            (None, None) => unreachable!(),
        })).collect::<Vec<_>>();

        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let merged = runtime.block_on(async {
            all(Merge::new(listing(stream_of(&source)), listing(stream_of(&target)))).await
        }).unwrap();

        prop_assert_eq!(merged, expected);
    }
}
