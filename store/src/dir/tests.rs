use std::os::unix::fs::symlink;

use super::*;

fn both(check: impl Fn(&Path, Dir)) {
    for resolver in [Resolver::Kernel, Resolver::Walk] {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), b"inside").unwrap();
        std::fs::write(scratch.path().join("secret"), b"outside").unwrap();
        let mut dir = Dir::open_root(&root).unwrap();
        dir.set_resolver(resolver);
        check(&root, dir);
    }
}

#[test]
fn regular_files_below_are_opened() {
    both(|_, dir| {
        let (_, stat) = dir.open_file("a/b/file").unwrap().unwrap();
        assert_eq!(size(&stat), 6);
        assert!(
            dir.open_dir("a")
                .unwrap()
                .open_file("b/file")
                .unwrap()
                .is_some()
        );
        assert!(dir.open_file("a/b").unwrap().is_none());
        assert!(dir.open_file("a/b/file/c").unwrap().is_none());
        assert!(dir.open_file("missing").unwrap().is_none());
    });
}

#[test]
fn nothing_leads_out() {
    both(|root, dir| {
        symlink("../secret", root.join("link")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("b", root.join("a/inside")).unwrap();
        for path in [
            "link",
            "up/secret",
            "../secret",
            "a/../../secret",
            "a/inside/file",
        ] {
            assert!(dir.open_file(path).unwrap().is_none(), "{path}");
        }
        assert!(dir.open_dir("up").is_err());
        let outside = dir.open("up", OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR);
        assert!(outside.is_err());
    });
}

#[test]
fn fifos_neither_hang_nor_open() {
    both(|root, dir| {
        rustix::fs::mkfifoat(CWD, root.join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        assert!(dir.open_file("fifo").unwrap().is_none());
    });
}

#[test]
fn unnamed_files_get_a_name_once() {
    both(|root, dir| {
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let file = File::from(dir.open("a", flags, Mode::RUSR | Mode::WUSR).unwrap());
        std::io::Write::write_all(&mut &file, b"x").unwrap();
        let inside = dir.open_dir("a").unwrap();
        inside.link(&file, "new").unwrap();
        assert_eq!(std::fs::read(root.join("a/new")).unwrap(), b"x");
        assert_eq!(inside.link(&file, "new"), Err(Errno::EXIST));
    });
}

#[test]
fn removing_a_tree_leaves_what_links_point_to() {
    both(|root, dir| {
        symlink("../../secret", root.join("a/link")).unwrap();
        symlink("../..", root.join("a/b/up")).unwrap();
        dir.remove_tree("a").unwrap();
        assert!(!root.join("a").exists());
        assert!(root.join("../secret").exists());
        dir.remove_tree("a").unwrap();
    });
}

#[test]
fn times_survive_the_way_through_nanoseconds() {
    for ns in [0, 1, -1, 1_732_970_000_123_456_789, -86_400_000_000_000] {
        assert_eq!(ns_of(time_from_ns(ns)), ns);
    }
}
