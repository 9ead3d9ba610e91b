//! Objects one at a time: bodies, metadata, tags, directories, deletes.

use std::time::{Duration, SystemTime};

use filestore_common::{ContentHeaders, Tags};
use filestore_store::{Error, ListEntry, ListQuery, Precondition};

use crate::support::*;

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

cases! {
    fn bodies_of_all_sizes_come_back(volume: &Volume) {
        let store = volume.store();
        for length in [0, 1, 511, 4095, 4096, 65_537, (1 << 20) - 1, 1 << 20, (3 << 20) + 17] {
            let name = format!("size/{length}");
            let bytes = body(length, 3);

            let published = put(store, &name, &bytes);
            let (info, back) = read(store, &cases_bucket(), &name);

            assert_eq!(back, bytes, "{length}");
            assert_eq!(info, published, "{length}");
            assert_eq!(head(store, &name).unwrap(), info, "{length}");
            assert_eq!(info.meta.etag, md5_of(&bytes), "{length}");
        }
    }

    fn a_body_of_unknown_size_comes_back(volume: &Volume) {
        let store = volume.store();
        let bytes = body(300_000, 9);
        let mut staged = store.stage(&cases_bucket(), &key("stream"), None).unwrap();
        for chunk in bytes.chunks(7_777) {
            staged.write(chunk).unwrap();
        }
        assert_eq!(staged.len(), 300_000);
        let mut start = [0; 10];
        assert_eq!(staged.read_at(&mut start, 5).unwrap(), 10);
        assert_eq!(start, bytes[5..15]);

        store.publish(staged, &meta_of(&bytes), &Precondition::None, None).unwrap();

        assert_eq!(get(store, "stream"), bytes);
    }

    fn an_announced_size_that_is_not_reached_leaves_no_padding(volume: &Volume) {
        let store = volume.store();
        let mut staged = store.stage(&cases_bucket(), &key("short"), Some(1 << 20)).unwrap();
        staged.write(b"abc").unwrap();

        let info = store.publish(staged, &meta_of(b"abc"), &Precondition::None, None).unwrap();

        assert_eq!(info.size, 3);
        assert_eq!(get(store, "short"), b"abc");
    }

    fn what_is_staged_and_dropped_was_never_there(volume: &Volume) {
        let store = volume.store();
        put(store, "kept/a", b"old");
        for name in ["kept/a", "gone/b"] {
            let mut staged = store.stage(&cases_bucket(), &key(name), Some(3)).unwrap();
            staged.write(b"new").unwrap();
        }

        assert_eq!(get(store, "kept/a"), b"old");
        assert!(matches!(head(store, "gone/b"), Err(Error::NoSuchKey)));
        assert_eq!(all_keys(store), ["kept/a"]);
    }

    fn overwriting_replaces_body_and_all_metadata(volume: &Volume) {
        let store = volume.store();
        let mut rich = meta_of(b"first");
        rich.headers.cache_control = Some("no-cache".into());
        rich.headers.content_type = Some("text/plain".into());
        rich.user.insert("colour".into(), "blue".into());
        rich.tags = tags(&[("team", "a")]);
        put_with(store, "k", b"first", &rich, &Precondition::None).unwrap();
        assert_eq!(head(store, "k").unwrap().meta, rich);

        put(store, "k", b"second, longer");

        let (info, bytes) = read(store, &cases_bucket(), "k");
        assert_eq!(bytes, b"second, longer");
        assert_eq!(info.meta, meta_of(b"second, longer"));
    }

    fn all_metadata_comes_back(volume: &Volume) {
        let store = volume.store();
        let mut meta = meta_of(b"x");
        meta.headers = ContentHeaders {
            content_type: Some("application/x-ünicode; charset=utf-8".into()),
            content_encoding: Some("gzip".into()),
            content_language: Some("de-CH".into()),
            content_disposition: Some("attachment; filename=\"a b.txt\"".into()),
            cache_control: Some("max-age=60, private".into()),
            expires: Some("Thu, 01 Dec 2044 16:00:00 GMT".into()),
            website_redirect_location: Some("/other".into()),
        };
        meta.user.insert("plain".into(), "value".into());
        meta.user.insert("uni".into(), "Grüße 日本 \"quoted\" \\ \t".into());
        meta.user.insert("n".repeat(300), "long name".into());
        meta.user.insert("big".into(), "v".repeat(1500));
        meta.tags = tags(&[("zeta", "1"), ("alpha", "2"), ("ünï", "a b+c=d")]);

        for name in ["plain", "deep/er/key", "dir/"] {
            let bytes: &[u8] = if name.ends_with('/') { b"" } else { b"x" };
            meta.etag = md5_of(bytes);
            put_with(store, name, bytes, &meta, &Precondition::None).unwrap();

            assert_eq!(head(store, name).unwrap().meta, meta, "{name}");
        }
    }

    fn tags_are_replaced_without_touching_the_object(volume: &Volume) {
        let store = volume.store();
        let before = put(store, "t", b"body");
        let (bucket, name) = (cases_bucket(), key("t"));

        store.set_object_tags(&bucket, &name, &tags(&[("b", "1"), ("a", "2")])).unwrap();
        let tagged = head(store, "t").unwrap();
        store.set_object_tags(&bucket, &name, &Tags::new()).unwrap();
        let bare = head(store, "t").unwrap();

        assert_eq!(tagged.meta.tags, tags(&[("b", "1"), ("a", "2")]));
        assert_eq!(tagged.last_modified, before.last_modified);
        assert_eq!(tagged.meta.etag, before.meta.etag);
        assert_eq!(bare, before);
        assert!(matches!(
            store.set_object_tags(&bucket, &key("none"), &Tags::new()),
            Err(Error::NoSuchKey)
        ));
    }

    fn bucket_tags_come_back(volume: &Volume) {
        let store = volume.store();
        let bucket = cases_bucket();
        assert_eq!(store.bucket_tags(&bucket).unwrap(), None);

        store.set_bucket_tags(&bucket, Some(&tags(&[("z", "1"), ("a", "2")]))).unwrap();
        assert_eq!(
            store.bucket_tags(&bucket).unwrap(),
            Some(tags(&[("z", "1"), ("a", "2")]))
        );

        store.set_bucket_tags(&bucket, None).unwrap();
        assert_eq!(store.bucket_tags(&bucket).unwrap(), None);
    }

    fn imported_times_are_kept(volume: &Volume) {
        let store = volume.store();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_000_000);
        let mut staged = store.stage(&cases_bucket(), &key("old"), None).unwrap();
        staged.write(b"x").unwrap();

        store.publish(staged, &meta_of(b"x"), &Precondition::None, Some(time)).unwrap();

        assert_eq!(head(store, "old").unwrap().last_modified, time);
    }

    fn a_directory_object_is_an_object_beside_what_it_holds(volume: &Volume) {
        let store = volume.store();
        put(store, "d/", b"");
        put(store, "d/x", b"1");
        assert_eq!(all_keys(store), ["d/", "d/x"]);
        assert_eq!(head(store, "d/").unwrap().size, 0);
        assert!(matches!(head(store, "d"), Err(Error::NoSuchKey)));

        assert!(delete(store, "d/"));
        assert_eq!(all_keys(store), ["d/x"]);
        assert!(matches!(head(store, "d/"), Err(Error::NoSuchKey)));
        assert!(!delete(store, "d/"));

        put(store, "d/", b"");
        assert!(delete(store, "d/x"));
        assert_eq!(all_keys(store), ["d/"]);
        assert!(delete(store, "d/"));
        assert!(!volume.bucket_path().join("d").exists());
    }

    fn a_directory_object_keeps_its_time_whatever_happens_below(volume: &Volume) {
        let store = volume.store();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_000_000);
        let staged = store.stage(&cases_bucket(), &key("d/"), None).unwrap();
        store.publish(staged, &meta_of(b""), &Precondition::None, Some(time)).unwrap();

        put(store, "d/x", b"1");
        put(store, "d/y", b"2");
        assert!(delete(store, "d/y"));

        assert_eq!(head(store, "d/").unwrap().last_modified, time);
        let listed = store.list(&cases_bucket(), &ListQuery { max_keys: 10, ..ListQuery::default() });
        let first = listed.unwrap().entries.remove(0);
        assert!(
            matches!(&first, ListEntry::Object(object) if object.key == "d/" && object.last_modified == time),
            "{first:?}"
        );

        put(store, "d/", b"");
        assert!(head(store, "d/").unwrap().last_modified > time);
    }

    fn a_key_ending_in_a_slash_may_have_a_body(volume: &Volume) {
        let store = volume.store();
        put(store, "f/", b"bytes");
        put(store, "f/x", b"x");

        assert_eq!(get(store, "f/"), b"bytes");
        assert_eq!(all_keys(store), ["f/", "f/x"]);

        put(store, "f/", b"");
        assert_eq!(get(store, "f/"), b"");
        put(store, "f/", b"again");
        assert_eq!(get(store, "f/"), b"again");
        assert!(delete(store, "f/"));
        assert_eq!(all_keys(store), ["f/x"]);
    }

    fn directories_made_on_the_way_are_no_objects(volume: &Volume) {
        let store = volume.store();
        put(store, "a/b/c", b"1");

        for name in ["a", "a/", "a/b", "a/b/", "a/b/c/", "a/b/c/d"] {
            assert!(matches!(head(store, name), Err(Error::NoSuchKey)), "{name}");
            assert!(!delete(store, name), "{name}");
        }
        assert_eq!(get(store, "a/b/c"), b"1");
    }

    fn deletes_leave_nothing_behind(volume: &Volume) {
        let store = volume.store();
        put(store, "a/b/c", b"1");
        put(store, "a/d", &body(2 << 20, 1));
        assert!(delete(store, "a/b/c"));
        assert!(!delete(store, "a/b/c"));
        assert!(!volume.bucket_path().join("a/b").exists());
        assert_eq!(all_keys(store), ["a/d"]);

        assert!(delete(store, "a/d"));

        assert!(!volume.bucket_path().join("a").exists());
        store.delete_bucket(&cases_bucket()).unwrap();
        assert!(matches!(store.head_bucket(&cases_bucket()), Err(Error::NoSuchBucket)));
    }

    fn an_open_body_outlives_its_key(volume: &Volume) {
        let store = volume.store();
        let bytes = body(2 << 20, 5);
        put(store, "k", &bytes);
        let first = store.open_object(&cases_bucket(), &key("k")).unwrap();
        put(store, "k", b"other");
        let second = store.open_object(&cases_bucket(), &key("k")).unwrap();
        assert!(delete(store, "k"));

        for (reader, expected) in [(first, bytes.as_slice()), (second, b"other")] {
            let mut back = vec![0; expected.len()];
            std::os::unix::fs::FileExt::read_exact_at(&reader.file, &mut back, 0).unwrap();
            assert_eq!(back, expected);
        }
    }

    fn a_copy_reads_another_object_in_the_kernel(volume: &Volume) {
        let store = volume.store();
        let bytes = body((1 << 20) + 133, 7);
        put(store, "source", &bytes);
        let source = store.open_object(&cases_bucket(), &key("source")).unwrap();
        let mut staged = store.stage(&cases_bucket(), &key("target"), None).unwrap();
        staged.write(b"head").unwrap();

        staged.copy_from(&source, 100, 1 << 20).unwrap();
        assert!(staged.copy_from(&source, 1 << 20, 134).is_err(), "source is shorter");
        drop(staged);

        let mut staged = store.stage(&cases_bucket(), &key("target"), None).unwrap();
        staged.write(b"head").unwrap();
        staged.copy_from(&source, 100, 1 << 20).unwrap();
        staged.write(b"tail").unwrap();
        let expected = [b"head", &bytes[100..100 + (1 << 20)], b"tail"].concat();
        store.publish(staged, &meta_of(&expected), &Precondition::None, None).unwrap();
        assert_eq!(get(store, "target"), expected);
    }

    fn a_bucket_that_does_not_exist_is_said_so(volume: &Volume) {
        let store = volume.store();
        let none = bucket("nowhere");
        let name = key("k");

        assert!(matches!(store.head_bucket(&none), Err(Error::NoSuchBucket)));
        assert!(matches!(store.delete_bucket(&none), Err(Error::NoSuchBucket)));
        assert!(matches!(store.stage(&none, &name, None), Err(Error::NoSuchBucket)));
        assert!(matches!(store.head_object(&none, &name), Err(Error::NoSuchBucket)));
        assert!(matches!(
            store.delete_object(&none, &name, &Precondition::None),
            Err(Error::NoSuchBucket)
        ));
        assert!(matches!(
            store.create_bucket(&cases_bucket(), "owner"),
            Err(Error::BucketExists)
        ));
        put(store, "k", b"1");
        assert!(matches!(
            store.delete_bucket(&cases_bucket()),
            Err(Error::BucketNotEmpty)
        ));
    }
}
