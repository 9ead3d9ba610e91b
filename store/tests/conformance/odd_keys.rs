//! Keys that a file tree takes badly or not at all.

use std::collections::BTreeSet;

use filestore_store::{Error, ListQuery};

use crate::support::*;

/// Names that clash with the file system, with versitygw's or MinIO's own files, or with another.
fn odd_keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "a//b",
        "//",
        "/",
        "/leading",
        "a//",
        "./x",
        "x/./y",
        ".",
        "..",
        "../x",
        "a/../../x",
        "x/..",
        "...",
        " ",
        "a b/ c ",
        "\u{1}\u{7f}",
        "new\nline",
        "tab\tkey",
        "back\\slash",
        "\\",
        "*?<>|:\"'",
        "%2F",
        "a%00b",
        "+plus+",
        "é",
        "e\u{301}",
        "日本/語",
        "😀",
        "__XLDIR__",
        "dir__XLDIR__/x",
        ".sgwtmp",
        ".sgwtmp/evil",
        ".sgwtmp/multipart/x",
        "deep/.sgwtmp/y",
        ".sgwtmp/",
        ".x.sgwtmp.1732970000000000000",
        ".vgwlocks/a",
        ".minio.sys/x",
        "meta/acl",
        "d/meta/etag",
        ".attributes.json",
        "d/.attributes.json",
        "bucket.json",
        ".filestore/volume.json",
        "xl.meta",
        "obj/xl.meta",
        "part.1",
        "-rf",
        "~",
        "$(x)",
        "null",
        "CON",
        "a.",
        "a/b/c/d/e/f/g",
    ]
    .map(str::to_owned)
    .into();
    keys.push("s".repeat(255));
    keys.push("s".repeat(256));
    keys.push(format!("p/{}/q", "l".repeat(300)));
    keys.push("x/".repeat(511) + "yz");
    keys.push("k".repeat(1024));
    keys
}

cases! {
    fn every_key_holds_its_own_bytes(volume: &Volume) {
        let store = volume.store();
        let keys = odd_keys();
        for name in &keys {
            put(store, name, content_of(name));
        }

        for name in &keys {
            assert_eq!(get(store, name), content_of(name), "{name:?}");
        }
        let expected: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(all_keys(store), Vec::from_iter(expected));
    }

    fn odd_keys_are_overwritten_and_deleted_one_by_one(volume: &Volume) {
        let store = volume.store();
        let mut left: BTreeSet<String> = odd_keys().into_iter().collect();
        for name in &left {
            put(store, name, b"first");
        }
        for name in left.clone() {
            put(store, &name, b"second!");
            assert_eq!(get(store, &name), b"second!", "{name:?}");

            assert!(delete(store, &name), "{name:?}");
            left.remove(&name);

            assert!(matches!(head(store, &name), Err(Error::NoSuchKey)), "{name:?}");
            assert!(!delete(store, &name), "{name:?}");
        }
        assert_eq!(all_keys(store), Vec::<String>::new());
        store.delete_bucket(&cases_bucket()).unwrap();
    }

    fn a_key_beside_one_that_continues_it(volume: &Volume) {
        let store = volume.store();
        for (first, second) in [("a", "a/b"), ("c/d", "c"), ("e/f", "e/f/g/h"), ("i/j/k", "i")] {
            put(store, first, b"first");
            put(store, second, b"second");

            assert_eq!(get(store, first), b"first", "{first}");
            assert_eq!(get(store, second), b"second", "{second}");
        }
        assert_eq!(
            all_keys(store),
            ["a", "a/b", "c", "c/d", "e/f", "e/f/g/h", "i", "i/j/k"]
        );
        let grouped = ListQuery { delimiter: Some("/".into()), ..ListQuery::default() };
        assert_eq!(
            keys(store, &cases_bucket(), &grouped),
            ["a", "a/", "c", "c/", "e/", "i", "i/"]
        );
    }

    fn the_other_key_stays_when_one_of_a_clash_goes(volume: &Volume) {
        let store = volume.store();
        for (first, second) in [("a", "a/b"), ("c/d", "c")] {
            put(store, first, b"first");
            put(store, second, b"second");
            assert!(delete(store, first));
            assert_eq!(get(store, second), b"second", "{second}");
            assert!(matches!(head(store, first), Err(Error::NoSuchKey)));

            put(store, first, b"third");
            assert_eq!(get(store, first), b"third");
            assert!(delete(store, second));
            assert_eq!(get(store, first), b"third");
            put(store, second, b"fourth");
            assert_eq!(get(store, second), b"fourth");
        }
        assert_eq!(all_keys(store), ["a", "a/b", "c", "c/d"]);
    }

    fn a_whole_family_of_clashes(volume: &Volume) {
        let store = volume.store();
        let family = ["x", "x/", "x/y", "x/y/", "x/y/z", "x//", "x//y"];
        for name in family {
            put(store, name, name.as_bytes());
        }
        for name in family.iter().rev() {
            assert_eq!(get(store, name), name.as_bytes());
        }
        let mut sorted = family;
        sorted.sort_unstable();
        assert_eq!(all_keys(store), sorted);
        for name in family {
            assert!(delete(store, name), "{name}");
        }
        store.delete_bucket(&cases_bucket()).unwrap();
    }

    fn the_stores_own_areas_cannot_be_reached_by_keys(volume: &Volume) {
        let store = volume.store();
        put(store, "big", &body(100, 1));
        let hidden = volume.bucket_path().join(".sgwtmp");
        std::fs::create_dir_all(&hidden).unwrap();
        std::fs::write(hidden.join("inside"), b"secret").unwrap();

        for name in [".sgwtmp/inside", "../cases/big", "x/../big", "./big", "/big", "big/"] {
            assert!(matches!(head(store, name), Err(Error::NoSuchKey)), "{name}");
            assert!(!delete(store, name), "{name}");
        }
        assert!(!delete(store, ".sgwtmp/"));
        assert_eq!(std::fs::read(hidden.join("inside")).unwrap(), b"secret");
        assert_eq!(get(store, "big"), body(100, 1));
    }
}

/// A short body that tells most keys apart.
fn content_of(name: &str) -> &[u8] {
    let end = (0..=name.len().min(40))
        .rev()
        .find(|at| name.is_char_boundary(*at))
        .unwrap();
    &name.as_bytes()[..end]
}
