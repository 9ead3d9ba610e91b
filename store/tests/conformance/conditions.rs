//! Preconditions of writes and deletes.

use filestore_common::ETag;
use filestore_store::{Error, Precondition, Store};

use crate::support::*;

const NAMES: [&str; 5] = ["plain", "deep/er", "dir/", "over//flow", "clash/x"];

fn bytes_for(name: &str, text: &'static str) -> &'static [u8] {
    if name.ends_with('/') {
        b""
    } else {
        text.as_bytes()
    }
}

fn put_if(
    store: &Store,
    name: &str,
    text: &'static str,
    condition: &Precondition,
) -> Result<(), Error> {
    let bytes = bytes_for(name, text);
    put_with(store, name, bytes, &meta_of(bytes), condition).map(drop)
}

cases! {
    fn absent_wins_only_once(volume: &Volume) {
        let store = volume.store();
        put(store, "clash", b"a file where a directory is needed");
        for name in NAMES {
            put_if(store, name, "one", &Precondition::Absent).unwrap();
            let second = put_if(store, name, "two", &Precondition::Absent);
            assert!(matches!(second, Err(Error::PreconditionFailed)), "{name}: {second:?}");
            assert_eq!(get(store, name), bytes_for(name, "one"));

            assert!(delete(store, name));
            put_if(store, name, "three", &Precondition::Absent).unwrap();
            assert_eq!(get(store, name), bytes_for(name, "three"));
        }
    }

    fn a_file_without_attributes_exists(volume: &Volume) {
        let store = volume.store();
        std::fs::write(volume.bucket_path().join("foreign"), b"by hand").unwrap();

        let outcome = put_if(store, "foreign", "x", &Precondition::Absent);

        assert!(matches!(outcome, Err(Error::PreconditionFailed)), "{outcome:?}");
        assert_eq!(get(store, "foreign"), b"by hand");
        let info = head(store, "foreign").unwrap();
        assert!(!info.meta.etag.as_str().is_empty());
        assert_eq!(info, head(store, "foreign").unwrap());
        put_if(store, "foreign", "x", &Precondition::Matches(info.meta.etag)).unwrap();
        assert_eq!(get(store, "foreign"), b"x");
    }

    fn a_matching_etag_is_asked_for(volume: &Volume) {
        let store = volume.store();
        put(store, "clash", b"a file where a directory is needed");
        for name in NAMES {
            let first = md5_of(bytes_for(name, "one"));
            let missing = put_if(store, name, "one", &Precondition::Matches(first.clone()));
            assert!(matches!(missing, Err(Error::NoSuchKey)), "{name}: {missing:?}");
            put_if(store, name, "one", &Precondition::None).unwrap();

            let other = put_if(store, name, "two", &Precondition::Matches(ETag::new("other")));
            assert!(matches!(other, Err(Error::PreconditionFailed)), "{name}: {other:?}");
            assert_eq!(get(store, name), bytes_for(name, "one"));
            put_if(store, name, "two", &Precondition::Matches(ETag::new(first.quoted()))).unwrap();
            assert_eq!(get(store, name), bytes_for(name, "two"));
        }
    }

    fn present_asks_for_any(volume: &Volume) {
        let store = volume.store();
        for name in NAMES {
            let missing = put_if(store, name, "one", &Precondition::Present);
            assert!(matches!(missing, Err(Error::NoSuchKey)), "{name}: {missing:?}");
            put_if(store, name, "one", &Precondition::None).unwrap();
            put_if(store, name, "two", &Precondition::Present).unwrap();
            assert_eq!(get(store, name), bytes_for(name, "two"));
        }
    }

    fn a_failed_condition_leaves_no_directories(volume: &Volume) {
        let store = volume.store();
        let outcome = put_if(store, "new/dir/x", "one", &Precondition::Present);

        assert!(matches!(outcome, Err(Error::NoSuchKey)));
        store.delete_bucket(&cases_bucket()).unwrap();
    }

    fn deletes_take_conditions(volume: &Volume) {
        let store = volume.store();
        for name in NAMES {
            put_if(store, name, "one", &Precondition::None).unwrap();
            let etag = md5_of(bytes_for(name, "one"));
            let (bucket, id) = (cases_bucket(), key(name));

            let wrong = Precondition::Matches(ETag::new("other"));
            let refused = store.delete_object(&bucket, &id, &wrong);
            assert!(matches!(refused, Err(Error::PreconditionFailed)), "{name}: {refused:?}");
            assert!(head(store, name).is_ok());

            assert!(store.delete_object(&bucket, &id, &Precondition::Matches(etag)).unwrap());
            assert!(matches!(head(store, name), Err(Error::NoSuchKey)));
        }
    }
}
