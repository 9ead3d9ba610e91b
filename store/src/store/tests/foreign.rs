//! What other programs put into a bucket, or mount there.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

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
