//! Directories behind the buckets.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;

#[test]
fn buckets_made_by_hand_are_adopted_and_others_not_made_twice() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let create = |name: &BucketName| at.store.create_bucket(name, "o");
        assert!(matches!(create(&bucket()), Err(Error::BucketExists)));
        let by_hand = BucketName::new("by-hand").unwrap();
        fs::create_dir(at.volume().join("s3/by-hand")).unwrap();
        at.store.head_bucket(&by_hand).unwrap();
        create(&by_hand).unwrap();
        assert!(matches!(create(&by_hand), Err(Error::BucketExists)));
        symlink(at.volume(), at.volume().join("s3/linked")).unwrap();
        let linked = BucketName::new("linked").unwrap();
        assert!(matches!(
            at.store.head_bucket(&linked),
            Err(Error::NoSuchBucket)
        ));
        assert!(matches!(create(&linked), Err(Error::BucketExists)));
        let buckets = at.store.list_buckets().unwrap();
        let names: Vec<_> = buckets.into_iter().map(|b| b.name).collect();
        assert_eq!(names, [bucket(), by_hand]);
    }
}

#[test]
fn a_bucket_keeps_its_tags_and_its_date() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let before = at.store.head_bucket(&bucket()).unwrap();
        put(&at.store, "k", b"");
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        File::open(at.path(""))
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert_eq!(at.store.bucket_tags(&bucket()).unwrap(), None);
        let tags = vec![
            ("z".to_owned(), "1".to_owned()),
            ("a".to_owned(), "2".to_owned()),
        ];
        at.store.set_bucket_tags(&bucket(), Some(&tags)).unwrap();
        let at = at.reopen();
        assert_eq!(at.store.bucket_tags(&bucket()).unwrap(), Some(tags));
        at.store.set_bucket_tags(&bucket(), None).unwrap();
        assert_eq!(at.store.bucket_tags(&bucket()).unwrap(), None);
        assert_eq!(at.store.head_bucket(&bucket()).unwrap(), before);
    }
}

#[test]
fn a_bucket_takes_the_date_that_it_had_elsewhere() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let tags = vec![("a".to_owned(), "b".to_owned())];
        at.store.set_bucket_tags(&bucket(), Some(&tags)).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
        at.store.set_bucket_created(&bucket(), then).unwrap();
        let at = at.reopen();
        put(&at.store, "k", b"");
        assert_eq!(at.store.head_bucket(&bucket()).unwrap().created, then);
        assert_eq!(at.store.bucket_tags(&bucket()).unwrap(), Some(tags));
        let none = BucketName::new("none").unwrap();
        let missing = at.store.set_bucket_created(&none, then);
        assert!(matches!(missing, Err(Error::NoSuchBucket)), "{missing:?}");
    }
}

#[test]
fn deleting_a_bucket_sweeps_what_is_no_object() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        fs::create_dir_all(at.path("empty/deeper")).unwrap();
        fs::write(at.path("empty/.x.sgwtmp.1"), b"leftover").unwrap();
        let part = at.path(".sgwtmp/multipart/hash/upload/1");
        fs::create_dir_all(part.parent().unwrap()).unwrap();
        fs::write(&part, b"part").unwrap();
        assert!(keys(&at.store).is_empty());
        fs::write(at.path("empty/data"), b"data").unwrap();
        let refused = at.store.delete_bucket(&bucket());
        assert!(matches!(refused, Err(Error::BucketNotEmpty)));
        assert!(part.exists());
        fs::remove_file(at.path("empty/data")).unwrap();
        at.store.delete_bucket(&bucket()).unwrap();
        assert!(!at.path("").exists());
    }
}

#[test]
fn a_bucket_that_is_gone_is_gone_for_everything() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let k = key("a/b");
        let staged = at.store.stage(&bucket(), &k, None).unwrap();
        at.store.delete_bucket(&bucket()).unwrap();
        let none = Precondition::None;
        let outcomes = [
            at.store.publish(staged, &meta(b""), &none, None).map(drop),
            at.store.stage(&bucket(), &k, None).map(drop),
            at.store.head_object(&bucket(), &k).map(drop),
            at.store.delete_object(&bucket(), &k, &none).map(drop),
            at.store.set_object_tags(&bucket(), &k, &Vec::new()),
            at.store.delete_bucket(&bucket()),
            at.store.head_bucket(&bucket()).map(drop),
            at.store.list(&bucket(), &ListQuery::default()).map(drop),
        ];
        for (index, outcome) in outcomes.into_iter().enumerate() {
            assert!(
                matches!(outcome, Err(Error::NoSuchBucket)),
                "{index}: {outcome:?}"
            );
        }
        assert!(!at.path("").exists());
    }
}
