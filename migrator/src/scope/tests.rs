use proptest::prelude::*;

use super::*;

fn given(buckets: &[&str], include: &[&str]) -> MarkerScope {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    MarkerScope {
        buckets: texts(buckets),
        include: texts(include),
        ..MarkerScope::default()
    }
}

fn scope(buckets: &[&str], include: &[&str]) -> Scope {
    Scope::read(&given(buckets, include), None).unwrap()
}

#[test]
fn a_scope_comes_back_from_its_record_and_reads_like_the_command_line() {
    assert_eq!(Scope::default().record(), None);
    assert_eq!(Scope::default().to_string(), "everything");
    let given = MarkerScope {
        exclude: vec!["*.tmp".into()],
        newer: Some("2026-01-01".into()),
        ..given(&["abc", "old=new"], &["a/"])
    };
    let scope = Scope::read(&given, None).unwrap();
    let record = scope.record().unwrap();
    assert_eq!(Scope::recorded(Some(&record)).unwrap(), scope);
    assert_eq!(
        scope.to_string(),
        "--bucket abc --bucket old=new --include a/ --exclude *.tmp --newer 2026-01-01T00:00:00Z"
    );
    let turned = MarkerScope {
        newer: Some("2026-02-01".into()),
        older: Some("2026-01-01".into()),
        ..MarkerScope::default()
    };
    assert_eq!(Scope::read(&turned, None).unwrap_err().kind, Kind::Usage);
}

#[test]
fn a_migration_goes_on_with_its_scope_or_a_wider_one() {
    let (all, a, b, ab) = (
        Scope::default(),
        scope(&[], &["a/"]),
        scope(&[], &["b/"]),
        scope(&[], &["a/", "b/"]),
    );
    // asked, recorded, what is recorded next by a pass that deletes nothing and by one that does
    for (asked, recorded, copy, last) in [
        (&all, &all, Some(&all), Some(&all)),
        (&all, &a, Some(&all), Some(&all)),
        (&ab, &a, Some(&ab), Some(&ab)),
        (&a, &a, Some(&a), Some(&a)),
        // A part may be copied ahead, but the end must be about all of it.
        (&a, &all, Some(&all), None),
        (&a, &ab, Some(&ab), None),
        (&b, &a, None, None),
    ] {
        for (deletes, expected) in [(false, copy), (true, last)] {
            match (asked.continued(recorded, deletes), expected) {
                (Ok(next), Some(expected)) => assert_eq!(next, *expected),
                (Err(error), None) => assert_eq!(error.kind, Kind::Refused),
                (other, expected) => panic!("{asked} on {recorded}: {other:?}, not {expected:?}"),
            }
        }
    }
    let renamed = scope(&["abc=def"], &[]);
    assert!(renamed.continued(&scope(&["abc"], &[]), true).is_err());
    assert!(all.continued(&renamed, false).is_err());
}

proptest! {
    #[test]
    fn ranges_of_two_places_share_no_object_and_leave_none(
        bucket in "[a-c]{3}", key in "[a-c]{1,2}", cut_bucket in "[a-c]{3}", cut_key in "[a-c]{1,2}",
    ) {
        use filestore_common::{BucketName, ObjectKey};
        let cut = Place {
            bucket: BucketName::new(cut_bucket).unwrap(),
            key: ObjectKey::new(cut_key).unwrap(),
        };
        let first = Range { after: None, last: Some(cut.clone()) };
        let second = Range { after: Some(cut), last: None };
        let bucket = BucketName::new(bucket).unwrap();
        prop_assert_ne!(first.contains(&bucket, &key), second.contains(&bucket, &key));
        prop_assert!(Range::default().contains(&bucket, &key));
        for range in [first, second] {
            let view = View::new(Scope::default(), range.clone());
            let spans = view.keys(&bucket);
            let shown = spans.iter().any(|keys| keys.takes(&key));
            prop_assert_eq!(shown, range.contains(&bucket, &key));
            prop_assert!(view.shows(&bucket) || !shown);
        }
    }
}
