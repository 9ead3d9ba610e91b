//! Files and directories behind the objects.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
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
fn links_and_fifos_are_no_objects_and_are_replaced_not_followed() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let outside = at.volume().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), b"secret").unwrap();
        symlink(outside.join("secret"), at.path("link")).unwrap();
        symlink(&outside, at.path("dir")).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, at.path("fifo"), mode).unwrap();
        for name in ["link", "dir", "dir/secret", "fifo"] {
            assert_eq!(get(&at.store, name), None, "{name}");
            assert!(!delete(&at.store, name), "{name}");
        }
        assert!(keys(&at.store).is_empty());
        for name in ["link", "fifo", "dir/secret"] {
            put(&at.store, name, b"mine");
            assert_eq!(get(&at.store, name).unwrap(), b"mine", "{name}");
        }
        assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(keys(&at.store), ["dir/secret", "fifo", "link"]);
    }
}

#[test]
fn files_put_there_by_hand_are_objects() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        fs::write(at.path("by-hand"), b"x").unwrap();
        let head = || at.store.head_object(&bucket(), &key("by-hand")).unwrap();
        let first = head();
        assert_eq!(first.size, 1);
        assert!(first.meta.etag.as_str().ends_with("-0"));
        assert_eq!(first, head());
        let absent = put_if(&at.store, "by-hand", b"y", &Precondition::Absent);
        assert!(
            matches!(absent, Err(Error::PreconditionFailed)),
            "{absent:?}"
        );
        let tags = vec![("a".to_owned(), "b".to_owned())];
        at.store
            .set_object_tags(&bucket(), &key("by-hand"), &tags)
            .unwrap();
        assert_eq!(head().meta.etag, first.meta.etag);
        assert_eq!(head().meta.tags, tags);
        put(&at.store, "by-hand", b"z");
        assert_eq!(get(&at.store, "by-hand").unwrap(), b"z");
    }
}

#[test]
fn an_edit_by_hand_in_sidecar_mode_makes_the_file_foreign() {
    let at = Scratch::relaxed(MetadataMode::Sidecar);
    put(&at.store, "k", b"ours");
    fs::write(at.path("k"), b"longer than before").unwrap();
    let info = at.store.head_object(&bucket(), &key("k")).unwrap();
    assert!(info.meta.etag.as_str().ends_with("-0"));
    assert_eq!(info.meta.headers.content_type, None);
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

#[test]
fn a_mount_inside_a_bucket_takes_objects_too() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let inside = at.path("data");
        fs::create_dir(&inside).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "tmpfs"])
            .arg(&inside)
            .stderr(std::process::Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            return;
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let large = vec![b'l'; 2 << 20];
            for body in [&b"first"[..], b"second", &large] {
                put(&at.store, "data/x", body);
                assert_eq!(get(&at.store, "data/x").unwrap(), body);
            }
            assert_eq!(keys(&at.store), ["data/x"]);
            assert!(delete(&at.store, "data/x"));
            assert_eq!(get(&at.store, "data/x"), None);
            assert!(inside.exists());
        }));
        std::process::Command::new("umount")
            .arg("-l")
            .arg(&inside)
            .status()
            .unwrap();
        outcome.unwrap();
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
