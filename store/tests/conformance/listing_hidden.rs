//! What lies on the volume and is no object.

use std::fs;
use std::os::unix::fs::symlink;

use filestore_store::{Error, ListQuery};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::*;

fn with_slash() -> ListQuery {
    ListQuery {
        delimiter: Some("/".into()),
        ..ListQuery::default()
    }
}

cases! {
    fn empty_directories_are_no_common_prefixes(volume: &Volume) {
        let root = volume.bucket_path();
        fs::create_dir_all(root.join("empty/deep/er")).unwrap();
        fs::create_dir_all(root.join("hidden/.sgwtmp")).unwrap();
        fs::write(root.join("hidden/.sgwtmp/x"), b"x").unwrap();
        fs::create_dir_all(root.join("half/empty")).unwrap();
        fs::create_dir_all(root.join("half/full/down")).unwrap();
        put(volume.store(), "half/full/down/x", b"x");

        let store = volume.store();
        assert_eq!(keys(store, &cases_bucket(), &with_slash()), ["half/"]);
        let below = ListQuery { prefix: "half/".into(), ..with_slash() };
        assert_eq!(keys(store, &cases_bucket(), &below), ["half/full/"]);
        assert_eq!(all_keys(store), ["half/full/down/x"]);
    }

    fn an_empty_directory_object_is_a_common_prefix(volume: &Volume) {
        put(volume.store(), "d/", b"");
        put(volume.store(), "e/f/", b"");

        assert_eq!(keys(volume.store(), &cases_bucket(), &with_slash()), ["d/", "e/"]);
    }

    fn temporary_files_links_and_devices_are_hidden(volume: &Volume) {
        let store = volume.store();
        let root = volume.bucket_path();
        put(store, "d/object", b"x");
        fs::create_dir_all(root.join("d/.sgwtmp/multipart")).unwrap();
        fs::write(root.join("d/.sgwtmp/multipart/1"), b"x").unwrap();
        fs::write(root.join("d/.object.sgwtmp.1732970000000000000"), b"x").unwrap();
        symlink("/etc/hostname", root.join("d/outside")).unwrap();
        symlink("object", root.join("d/inside")).unwrap();
        symlink(".", root.join("d/self")).unwrap();
        symlink("/", root.join("root")).unwrap();
        mknodat(CWD, root.join("d/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(root.join("d/socket")).unwrap();

        assert_eq!(all_keys(store), ["d/object"]);
        assert_eq!(keys(store, &cases_bucket(), &with_slash()), ["d/"]);
        for name in ["d/outside", "d/inside", "d/fifo", "d/self/object", "root/etc/hostname", "d/socket"] {
            assert!(matches!(head(store, name), Err(Error::NoSuchKey)), "{name}");
        }
        drop(socket);
    }

    fn files_put_there_by_hand_are_objects(volume: &Volume) {
        let store = volume.store();
        fs::create_dir_all(volume.bucket_path().join("by/hand")).unwrap();
        fs::write(volume.bucket_path().join("by/hand/file.txt"), b"12345").unwrap();

        let page = store
            .list(&cases_bucket(), &ListQuery { max_keys: 10, ..ListQuery::default() })
            .unwrap();

        let info = head(store, "by/hand/file.txt").unwrap();
        let [filestore_store::ListEntry::Object(object)] = page.entries.as_slice() else {
            panic!("{page:?}");
        };
        assert_eq!((object.size, &object.etag), (5, &info.meta.etag));
    }

    fn a_wide_and_deep_tree_costs_one_entry_per_common_prefix(volume: &Volume) {
        // versitygw issue 1625 in small.
        let store = volume.store();
        for top in 0..3 {
            for middle in 0..20 {
                put(store, &format!("t{top}/a/m{middle:02}/x"), b"x");
            }
        }
        assert_eq!(keys(store, &cases_bucket(), &with_slash()), ["t0/", "t1/", "t2/"]);
        let deep = ListQuery { prefix: "t1/a/".into(), ..with_slash() };
        assert_eq!(keys(store, &cases_bucket(), &deep).len(), 20);
    }
}
