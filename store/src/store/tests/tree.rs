//! Files and directories behind the objects.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::*;
use crate::attributes::xattr;

#[test]
fn an_object_is_a_plain_file_at_its_key() {
    for mode in BOTH {
        let at = Scratch::new(mode, Durability::Durable);
        put(&at.store, "a/b c/é.txt", b"hello");
        let path = at.path("a/b c/é.txt");
        assert_eq!(fs::read(&path).unwrap(), b"hello");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o644);
        put(&at.store, "a/b c/é.txt", b"other");
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert_eq!(get(&at.store, "a/b c/é.txt").unwrap(), b"other");
        assert_eq!(fs::read_dir(at.path(".sgwtmp")).unwrap().count(), 0);
    }
}

#[test]
fn an_open_object_outlives_its_key() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        put(&at.store, "k", b"old");
        let mut reader = at.store.open_object(&bucket(), &key("k")).unwrap();
        put(&at.store, "k", b"new");
        delete(&at.store, "k");
        let mut body = String::new();
        reader.file.read_to_string(&mut body).unwrap();
        assert_eq!(body, "old");
    }
}

#[test]
fn an_unpublished_body_leaves_nothing() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let mut staged = at.store.stage(&bucket(), &key("a/b"), None).unwrap();
        staged.write(b"half").unwrap();
        assert!(keys(&at.store).is_empty());
        drop(staged);
        assert!(!at.path("a").exists());
        assert_eq!(fs::read_dir(at.path(".sgwtmp")).unwrap().count(), 0);
    }
}

#[test]
fn deletes_take_empty_parents_along_but_no_directory_objects() {
    for mode in BOTH {
        let at = Scratch::new(mode, Durability::Durable);
        put(&at.store, "a/b/c/d", b"1");
        put(&at.store, "a/b/", b"");
        put(&at.store, "a/x", b"2");
        assert!(delete(&at.store, "a/b/c/d"));
        assert!(!at.path("a/b/c").exists());
        assert_eq!(keys(&at.store), ["a/b/", "a/x"]);
        assert!(delete(&at.store, "a/b/"));
        assert!(!at.path("a/b").exists());
        assert!(delete(&at.store, "a/x"));
        assert!(!at.path("a").exists());
        assert!(!delete(&at.store, "a/x"));
        at.store.delete_bucket(&bucket()).unwrap();
    }
}

#[test]
fn a_directory_object_with_children_loses_only_itself() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        put(&at.store, "d/k", b"1");
        assert_eq!(get(&at.store, "d/"), None);
        assert!(!delete(&at.store, "d/"));
        put(&at.store, "d/", b"");
        assert_eq!(get(&at.store, "d/").unwrap(), b"");
        assert!(delete(&at.store, "d/"));
        assert_eq!(keys(&at.store), ["d/k"]);
        // A later one inherits nothing.
        let staged = at.store.stage(&bucket(), &key("d/"), None).unwrap();
        let bare = ObjectMeta::new(ETag::new("e"));
        let publish = |staged| at.store.publish(staged, &bare, &Precondition::None, None);
        publish(staged).unwrap();
        let head = || at.store.head_object(&bucket(), &key("d/")).unwrap().meta;
        assert_eq!(head(), bare);
        // Nor does one that replaces another.
        put(&at.store, "d/", b"");
        assert_ne!(head(), bare);
        publish(at.store.stage(&bucket(), &key("d/"), None).unwrap()).unwrap();
        assert_eq!(head(), bare);
    }
}

#[test]
fn keys_that_clash_live_beside_each_other() {
    for mode in BOTH {
        let at = Scratch::new(mode, Durability::Durable);
        put(&at.store, "a", b"file first");
        put(&at.store, "a/b", b"below a file");
        put(&at.store, "x/y", b"tree first");
        put(&at.store, "x", b"over a directory");
        put(&at.store, "x/", b"body of a directory");
        let all = ["a", "a/b", "x", "x/", "x/y"];
        assert_eq!(keys(&at.store), all);
        assert_eq!(get(&at.store, "a/b").unwrap(), b"below a file");
        assert_eq!(get(&at.store, "x").unwrap(), b"over a directory");
        assert_eq!(get(&at.store, "x/").unwrap(), b"body of a directory");
        // A key stays in its place when the clash ends, and is never in two.
        assert!(delete(&at.store, "a"));
        put(&at.store, "a/b", b"again");
        assert!(!at.path("a").exists());
        assert_eq!(get(&at.store, "a/b").unwrap(), b"again");
        assert_eq!(keys(&at.store), all[1..]);
        let refused = at.store.delete_bucket(&bucket());
        assert!(matches!(refused, Err(Error::BucketNotEmpty)));
        for name in &all[1..] {
            assert!(delete(&at.store, name), "{name}");
        }
        assert!(keys(&at.store).is_empty());
        at.store.delete_bucket(&bucket()).unwrap();
    }
}

#[test]
fn no_key_is_refused() {
    let long = "l".repeat(300);
    let odd = [
        "/",
        "//",
        "/lead",
        "a//b",
        "./x",
        "q/../w",
        "..",
        "../esc",
        ".sgwtmp/evil",
        ".sgwtmp/",
        "t/.x.sgwtmp.1",
        &long,
        "new\nline",
        "meta/acl",
        "d/meta/etag",
    ];
    let tags = vec![("t".to_owned(), "v".to_owned())];
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        for name in odd {
            put(&at.store, name, name.as_bytes());
        }
        let at = at.reopen();
        let mut sorted = odd.to_vec();
        sorted.sort_unstable();
        assert_eq!(keys(&at.store), sorted);
        for name in odd {
            assert_eq!(get(&at.store, name).unwrap(), name.as_bytes());
            at.store
                .set_object_tags(&bucket(), &key(name), &tags)
                .unwrap();
            let info = at.store.head_object(&bucket(), &key(name)).unwrap();
            assert_eq!(info.meta.tags, tags);
            assert!(delete(&at.store, name));
            assert_eq!(get(&at.store, name), None);
        }
    }
}

#[test]
fn large_files_are_replaced_and_deleted() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let body = vec![b'x'; 2 << 20];
        put(&at.store, "large", &body);
        put(&at.store, "large", &body[1..]);
        assert_eq!(get(&at.store, "large").unwrap().len(), body.len() - 1);
        assert!(delete(&at.store, "large"));
        assert_eq!(get(&at.store, "large"), None);
        assert_eq!(fs::read_dir(at.path(".sgwtmp")).unwrap().count(), 0);
    }
}

#[test]
fn import_keeps_the_time() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        let publish = |name: &str, meta: &ObjectMeta| {
            let staged = at.store.stage(&bucket(), &key(name), None).unwrap();
            at.store
                .publish(staged, meta, &Precondition::None, Some(then))
                .unwrap()
        };
        for name in ["k", "d/", "a//b"] {
            assert_eq!(publish(name, &meta(b"")).last_modified, then);
            let info = at.store.head_object(&bucket(), &key(name)).unwrap();
            assert_eq!(info.last_modified, then, "{name}");
        }
        // Same size and time as the object that it replaces, other metadata.
        let other = ObjectMeta::new(ETag::new("other"));
        publish("k", &other);
        assert_eq!(
            at.store.head_object(&bucket(), &key("k")).unwrap().meta,
            other
        );
    }
}

#[test]
fn attributes_are_few_and_those_of_versitygw() {
    let at = Scratch::relaxed(MetadataMode::Xattr);
    put(&at.store, "k", b"x");
    let set = xattr::read(File::open(at.path("k")).unwrap()).unwrap();
    let mut names: Vec<_> = set.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "etag"]);
    assert_eq!(set.text("etag"), Some("\"ex\""));
    let acl = xattr::get(File::open(at.path("")).unwrap(), "acl").unwrap();
    let expected = br#"{"Owner":"owner","Grantees":[{"Permission":"FULL_CONTROL","Access":"owner","Type":"CanonicalUser"}]}"#;
    assert_eq!(acl.as_deref(), Some(&expected[..]));
}

#[test]
fn metadata_that_the_file_system_cannot_hold_leaves_the_old_object() {
    let at = Scratch::relaxed(MetadataMode::Xattr);
    put(&at.store, "k", b"old");
    let mut huge = meta(b"new");
    huge.user.insert("x".into(), "y".repeat(100_000));
    let staged = at.store.stage(&bucket(), &key("k"), None).unwrap();
    let refused = at.store.publish(staged, &huge, &Precondition::None, None);
    assert!(
        matches!(refused, Err(Error::MetadataTooLarge(_))),
        "{refused:?}"
    );
    assert_eq!(get(&at.store, "k").unwrap(), b"old");
}
