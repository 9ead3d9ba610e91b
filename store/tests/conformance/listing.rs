//! Order, grouping and paging of listings, by example.

use filestore_store::{Error, ListEntry, ListQuery};

use crate::support::*;

fn grouped(prefix: &str, delimiter: &str, after: Option<&str>) -> ListQuery {
    ListQuery {
        prefix: prefix.to_owned(),
        delimiter: Some(delimiter.to_owned()),
        after: after.map(str::to_owned),
        max_keys: 1000,
    }
}

fn put_all(volume: &Volume, names: &[&str]) {
    for name in names {
        put(volume.store(), name, b"");
    }
}

cases! {
    fn keys_come_in_byte_order_of_the_whole_key(volume: &Volume) {
        // versitygw issue 1283 is the second line.
        let names = [
            "a!", "a-b", "a.b", "a/", "a/x", "a/x/y", "a0",
            "obj+", "obj/", "obj1",
            "z", "é",
        ];
        put_all(volume, &names);

        assert_eq!(all_keys(volume.store()), names);
    }

    fn listed_objects_are_described_as_head_does(volume: &Volume) {
        let store = volume.store();
        let names = ["a", "b/", "b/c", "over//flow", "z/z/z"];
        for name in names {
            put(store, name, name.as_bytes());
        }

        let page = store
            .list(&cases_bucket(), &ListQuery { max_keys: 10, ..ListQuery::default() })
            .unwrap();

        let mut seen = Vec::new();
        for entry in page.entries {
            let ListEntry::Object(object) = entry else { panic!("{entry:?}") };
            let info = head(store, &object.key).unwrap();
            assert_eq!(object.size, info.size, "{}", object.key);
            assert_eq!(object.etag, info.meta.etag, "{}", object.key);
            assert_eq!(object.last_modified, info.last_modified, "{}", object.key);
            seen.push(object.key);
        }
        assert_eq!(seen, names);
        assert_eq!(page.next, None);
    }

    fn directory_objects_are_listed_and_implicit_directories_are_not(volume: &Volume) {
        // versitygw issue 1108.
        put_all(volume, &["foo/bar/", "foo/bar/baz", "other/x"]);

        assert_eq!(all_keys(volume.store()), ["foo/bar/", "foo/bar/baz", "other/x"]);
    }

    fn start_after_with_a_delimiter_that_is_not_a_slash(volume: &Volume) {
        // versitygw issue 1845.
        put_all(volume, &["f3", "f4", "f5", "f6"]);

        let found = keys(volume.store(), &cases_bucket(), &grouped("", "5", Some("f3")));

        assert_eq!(found, ["f4", "f5", "f6"]);
        let page = volume.store().list(&cases_bucket(), &grouped("", "5", None)).unwrap();
        assert!(matches!(&page.entries[2], ListEntry::Prefix(prefix) if prefix == "f5"));
    }

    fn delimiters_of_several_characters(volume: &Volume) {
        put_all(volume, &["a", "a--b/c", "a--d", "b-/-c", "b-/-d/e", "b-/x", "c/--x"]);
        let store = volume.store();
        let listed = |prefix: &str, delimiter: &str| {
            keys(store, &cases_bucket(), &grouped(prefix, delimiter, None))
        };

        assert_eq!(listed("", "--"), ["a", "a--", "b-/-c", "b-/-d/e", "b-/x", "c/--"]);
        assert_eq!(listed("", "-/"), ["a", "a--b/c", "a--d", "b-/", "c/--x"]);
        assert_eq!(listed("", "/-"), ["a", "a--b/c", "a--d", "b-/-", "b-/x", "c/-"]);
        assert_eq!(listed("b", "/-"), ["b-/-", "b-/x"]);
        assert_eq!(listed("a--", "d"), ["a--b/c", "a--d"]);
    }

    fn prefixes_need_not_end_at_a_directory(volume: &Volume) {
        put_all(volume, &["p/ab/1", "p/abc/2", "p/abd", "p/b", "q"]);
        let store = volume.store();
        let listed = |prefix: &str| keys(store, &cases_bucket(), &ListQuery {
            prefix: prefix.to_owned(), ..ListQuery::default()
        });

        assert_eq!(listed("p/ab"), ["p/ab/1", "p/abc/2", "p/abd"]);
        assert_eq!(listed("p/ab/"), ["p/ab/1"]);
        assert_eq!(listed("p/ab/1"), ["p/ab/1"]);
        assert_eq!(listed("p"), ["p/ab/1", "p/abc/2", "p/abd", "p/b"]);
        for none in ["p//", "p/ab/1/", "x", "p/ab/12", "../", "./p", "/p", "p/../", ".sgwtmp/"] {
            assert_eq!(listed(none), Vec::<String>::new(), "{none}");
        }
        assert_eq!(keys(store, &cases_bucket(), &grouped("p/", "/", None)), ["p/ab/", "p/abc/", "p/abd", "p/b"]);
        assert_eq!(keys(store, &cases_bucket(), &grouped("p/ab", "/", None)), ["p/ab/", "p/abc/", "p/abd"]);
    }

    fn a_page_that_ends_in_a_common_prefix_is_followed_by_what_comes_after_it(volume: &Volume) {
        put_all(volume, &["a/1", "a/2/3", "a0", "b/1", "c", "d/1", "d/2"]);
        let query = ListQuery { max_keys: 1, ..grouped("", "/", None) };

        let found = keys(volume.store(), &cases_bucket(), &query);

        assert_eq!(found, ["a/", "a0", "b/", "c", "d/"]);
    }

    fn a_marker_inside_a_common_prefix_passes_over_it(volume: &Volume) {
        put_all(volume, &["a/1", "a/2", "b", "c/1"]);
        let store = volume.store();
        let listed = |after: &str| keys(store, &cases_bucket(), &grouped("", "/", Some(after)));

        assert_eq!(listed("a/"), ["b", "c/"]);
        assert_eq!(listed("a/1"), ["b", "c/"]);
        assert_eq!(listed("a"), ["a/", "b", "c/"]);
        assert_eq!(listed("b"), ["c/"]);
        assert_eq!(listed("c/9"), Vec::<String>::new());
    }

    fn markers_that_name_no_key(volume: &Volume) {
        put_all(volume, &["a", "b/c/d", "b/e", "f"]);
        let store = volume.store();
        let listed = |after: &str| keys(store, &cases_bucket(), &ListQuery {
            after: Some(after.to_owned()), ..ListQuery::default()
        });

        assert_eq!(listed(""), ["a", "b/c/d", "b/e", "f"]);
        assert_eq!(listed("a/zzz"), ["b/c/d", "b/e", "f"]);
        assert_eq!(listed("b/c/d/x"), ["b/e", "f"]);
        assert_eq!(listed("b/d"), ["b/e", "f"]);
        assert_eq!(listed("b/c"), ["b/c/d", "b/e", "f"]);
        assert_eq!(listed("b0"), ["f"]);
        assert_eq!(listed("zzz"), Vec::<String>::new());
    }

    fn page_sizes_of_zero_and_one(volume: &Volume) {
        let store = volume.store();
        put_all(volume, &["a", "b", "c"]);
        let list = |max_keys| store
            .list(&cases_bucket(), &ListQuery { max_keys, ..ListQuery::default() })
            .unwrap();

        let none = list(0);
        assert_eq!((none.entries.len(), none.next), (0, None));
        let one = list(1);
        assert_eq!((one.entries.len(), one.next.as_deref()), (1, Some("a")));
        let exact = list(3);
        assert_eq!((exact.entries.len(), exact.next), (3, None));
    }

    fn changes_show_in_the_next_listing(volume: &Volume) {
        let store = volume.store();
        // Enough names in one directory to be worth remembering.
        for number in 0..300 {
            put(store, &format!("many/{number:03}"), b"");
        }
        assert_eq!(all_keys(store).len(), 300);

        for round in 0..20 {
            let name = format!("many/new{round}");
            put(store, &name, b"");
            assert!(all_keys(store).contains(&name), "{name}");
            assert!(delete(store, &name));
            assert!(!all_keys(store).contains(&name), "{name}");
        }
    }

    fn buckets_do_not_show_each_others_keys(volume: &Volume) {
        let store = volume.store();
        store.create_bucket(&bucket("cases-2"), "owner").unwrap();
        put_all(volume, &["mine", "over//flow"]);

        assert_eq!(keys(store, &bucket("cases-2"), &ListQuery::default()), Vec::<String>::new());
        let none = store.list(&bucket("nowhere"), &ListQuery::default());
        assert!(matches!(none, Err(Error::NoSuchBucket)), "{none:?}");
        let names: Vec<_> = store.list_buckets().unwrap().into_iter().map(|b| b.name).collect();
        assert_eq!(names, [cases_bucket(), bucket("cases-2")]);
    }
}
