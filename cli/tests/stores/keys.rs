//! Keys that no file name, terminal or XML was made for.

use filestore_s3_stub::{Object, World};

use crate::harness::Migration;

/// Every control character that a key may hold; XML 1.0 cannot express most of them, so that only
/// a listing with `encoding-type=url` can name them (aws/aws-cli#5050).
#[test]
fn keys_with_control_characters_are_copied() {
    let mut world = World::new();
    let keys: Vec<String> = (1_u8..0x20)
        .chain([0x7f])
        .map(|byte| format!("ctl/{:02x}-{}-end", byte, char::from(byte)))
        .collect();
    for key in &keys {
        world.bucket("abc").put(key, Object::new(key.clone()));
    }
    let migration = Migration::from(world);

    migration.run("run", &["--verify", "bytes"]).ends_with(0);

    let held = migration.held();
    assert_eq!(held.len(), keys.len());
    for key in keys {
        assert_eq!(held[&format!("abc/{key}")], key.as_bytes(), "{key:?}");
    }
}

/// What is printed of such a key stays one line and does nothing to the terminal.
#[test]
fn a_failing_key_with_control_characters_is_one_clean_line() {
    use filestore_s3_stub::{Act, Trouble};
    let key = "evil\r\n\u{1b}[2Jkey";
    let mut world = World::new();
    world.bucket("abc").put(key, Object::new("x"));
    world.trouble(Trouble::new(Act::refuse(403, "AccessDenied")).key(key));
    let migration = Migration::from(world);

    let done = migration.run("copy", &[]).ends_with(1);

    for text in [&done.out, &done.err] {
        assert!(!text.contains(['\r', '\u{1b}']), "{text:?}");
        let line = text.lines().find(|line| line.contains("evil")).unwrap();
        assert!(line.contains(r"abc/evil\r\n\u{1b}[2Jkey"), "{line}");
        assert!(line.contains("403 AccessDenied"), "{line}");
    }
}
