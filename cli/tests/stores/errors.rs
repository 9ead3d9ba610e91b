//! What people are told of objects that cannot be had.

use filestore_s3_stub::{Act, Object, Op, Stub, Synthetic, Trouble, World};

use crate::harness::{Migration, filestore};

fn ten(bucket: &str) -> World {
    let mut world = World::new();
    world.bucket(bucket).synthetic = Some(Synthetic::new(10).keys(|index| format!("k{index}")));
    world
}

/// "We encountered an internal error", a hundred times and no key named (minio/mc#1144).
#[test]
fn an_object_that_always_fails_is_one_line_that_says_everything() {
    let mut world = ten("abc");
    world.trouble(Trouble::new(Act::refuse(500, "InternalError")).key("k3"));
    let migration = Migration::from(world);

    let done = migration.run("copy", &[]).ends_with(1);

    let lines: Vec<_> = done
        .out
        .lines()
        .filter(|line| line.contains("k3"))
        .collect();
    let [line] = lines[..] else {
        panic!("{}", done.out);
    };
    for part in [
        "get abc/k3: ",
        "500 InternalError: scripted InternalError",
        "(request STUB",
        "after 5 attempts",
        "; look for the request id in the server's log",
    ] {
        assert!(line.contains(part), "{part:?} in {line}");
    }
    let attempts = migration.stub.requests();
    let attempts = attempts.iter().filter(|seen| seen.key == "k3").count();
    assert_eq!(attempts, 5);
    let held = migration.held();
    assert_eq!(held.len(), 9);
    assert!(!held.contains_key("abc/k3"));
}

/// Endless retries of a 400 took a server down (minio/minio#14566).
#[test]
fn what_no_retry_can_change_is_asked_for_once() {
    for (status, code) in [(403, "AccessDenied"), (400, "InvalidRequest")] {
        let mut world = ten("abc");
        world.trouble(Trouble::new(Act::refuse(status, code)).key("k3"));
        let migration = Migration::from(world);

        let done = migration.run("copy", &[]).ends_with(1);

        assert!(
            done.out.contains(&format!("{status} {code}")),
            "{}",
            done.out
        );
        assert_eq!(migration.stub.count(Op::GetObject), 10, "{code}");
        assert_eq!(migration.held().len(), 9, "{code}");
    }
}

/// An object that is written anew while it is read is copied from a fresh look.
#[test]
fn an_object_that_moved_once_is_copied_as_it_is_now() {
    let mut world = ten("abc");
    let now = Object::new("the new generation");
    world.trouble(
        Trouble::new(Act::Rewrite(now))
            .on(Op::GetObject)
            .key("k3")
            .times(1),
    );
    let migration = Migration::from(world);

    migration.run("copy", &[]).ends_with(0);

    assert_eq!(migration.held()["abc/k3"], b"the new generation");
    let head = migration.stub.count(Op::HeadObject);
    assert_eq!(head, 1, "one fresh look");
}

/// One that moves again is listed, and the exit code says that nothing else went wrong
/// (rclone/rclone#6424).
#[test]
fn an_object_that_keeps_moving_is_listed_with_a_code_of_its_own() {
    let mut world = ten("abc");
    for generation in ["one", "two", "three"] {
        let rewritten = Act::Rewrite(Object::new(generation));
        world.trouble(Trouble::new(rewritten).on(Op::GetObject).key("k3").times(1));
    }
    let migration = Migration::from(world);

    let done = migration.run("copy", &[]).ends_with(7);

    let line = done
        .out
        .lines()
        .find(|line| line.contains("abc/k3"))
        .unwrap();
    assert!(line.contains("changed during copy"), "{line}");
    assert_eq!(migration.held().len(), 9);
}

/// A server that does not isolate its generations sends half of one and half of another.
#[test]
fn a_body_of_two_generations_is_read_again_and_never_appears() {
    for (times, code, held) in [(1, 0, 10), (9, 1, 9)] {
        let mut world = ten("abc");
        let mix = Act::Mix("other".into());
        world.trouble(Trouble::new(mix).on(Op::GetObject).key("k3").times(times));
        let migration = Migration::from(world);

        let done = migration.run("copy", &[]).ends_with(code);

        let bodies = migration.held();
        assert_eq!(bodies.len(), held, "{}", done.out);
        let whole = bodies
            .get("abc/k3")
            .is_none_or(|body| body == b"3;3;3;3;3;3;3;3;");
        assert!(whole, "{:?}", bodies["abc/k3"]);
    }
}

/// Whatever answers instead of S3 is named by its status.
#[test]
fn a_page_of_a_proxy_is_no_listing() {
    let mut world = ten("abc");
    world.trouble(Trouble::new(Act::Page(502)).on(Op::ListObjects));
    let migration = Migration::from(world);

    let done = migration.run("copy", &[]).ends_with(4);

    assert!(done.err.contains("list abc: 502"), "{}", done.err);
    assert_eq!(migration.held().len(), 0);
}

/// Each state of a source has its own words and, where that differs, its own exit code.
#[test]
fn a_source_that_refuses_is_told_from_one_that_is_down() {
    let cases: [(Act, i32, &str); 4] = [
        (Act::refuse(403, "AccessDenied"), 6, "403 AccessDenied"),
        (
            Act::refuse(403, "InvalidAccessKeyId"),
            6,
            "the access key is not known there",
        ),
        (Act::refuse(500, "InternalError"), 4, "500 InternalError"),
        (
            Act::refuse(503, "XMinioServerNotInitialized"),
            4,
            "503 XMinioServerNotInitialized",
        ),
    ];
    for (act, code, words) in cases {
        let mut world = ten("abc");
        world.trouble(Trouble::new(act).on(Op::ListBuckets));
        let migration = Migration::from(world);

        let done = migration.run("copy", &[]).ends_with(code);

        assert!(done.err.contains(words), "{}", done.err);
        assert_eq!(migration.held().len(), 0);
        assert!(
            !migration
                .volume()
                .join(".filestore/migration.json")
                .exists()
        );
    }
}

/// Nothing listens there any more.
#[test]
fn a_refused_connection_is_a_source_that_is_down() {
    let gone = Stub::start(World::new()).unwrap().url();
    let migration = Migration::from(World::new());
    let mut command = filestore();
    command
        .args(["migrate", "run", "--wait", "0", "--from", &gone, "--to"])
        .arg(format!("volume:{}", migration.volume().display()))
        .env("FILESTORE_FROM_ACCESS_KEY", "ryax")
        .env("FILESTORE_FROM_SECRET_KEY", "Ab3dEf6hIj9k");

    let done = crate::harness::done(&mut command).ends_with(4);

    assert!(done.err.contains("refused"), "{}", done.err);
    assert!(!migration.volume().join(".filestore").exists());
}
