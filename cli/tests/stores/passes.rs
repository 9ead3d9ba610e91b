//! What each pass asks of the source: nothing twice that is known already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use filestore_s3_stub::{Act, Object, Op, Synthetic, Trouble, World};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Migration, done};

const PAGE: u64 = 1000;

fn synthetic(count: u64) -> Migration {
    let mut world = World::new();
    world.bucket("abc").synthetic = Some(Synthetic::new(count));
    Migration::from(world)
}

/// HEAD requests on objects of the source. Whether source and target are one store is proved with
/// a key of its own.
fn looked_at(migration: &Migration) -> Vec<String> {
    let requests = migration.stub.requests().into_iter();
    requests
        .filter(|seen| seen.op == Op::HeadObject && !seen.key.starts_with(".filestore-probe-"))
        .map(|seen| seen.key)
        .collect()
}

/// Bodies on the volume by `bucket/key`, without what the store keeps beside them.
fn held(migration: &Migration) -> BTreeMap<String, Vec<u8>> {
    let mut held = migration.held();
    held.retain(|name, _| name.starts_with("abc/") && !name.starts_with("abc/."));
    held
}

fn read(migration: &Migration) -> BTreeSet<String> {
    let requests = migration.stub.requests().into_iter();
    requests
        .filter(|seen| seen.op == Op::GetObject)
        .map(|seen| seen.key)
        .collect()
}

/// The first signal ends in order, which may take a while when a store is silent; the second one is
/// obeyed at once: nothing is written down any more.
#[test]
fn the_second_signal_ends_everything() {
    let mut world = World::new();
    world.bucket("abc").synthetic = Some(Synthetic::new(3));
    world.trouble(Trouble::new(Act::Hang).on(Op::ListBuckets));
    let migration = Migration::from(world);
    let summary = migration.volume().with_file_name("summary.json");
    let path = summary.to_str().unwrap();
    let mut command = migration.command("copy", &["--summary-file", path]);
    let mut running = command.spawn().unwrap();
    while migration.stub.count(Op::ListBuckets) == 0 {
        std::thread::yield_now();
    }
    let process = Pid::from_child(&running);
    // Signals of one kind that were not taken yet are one.
    let status = loop {
        // Until it was waited for, its number is nobody else's.
        kill_process(process, Signal::INT).unwrap();
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(std::fs::read_to_string(&summary).unwrap(), "");
    migration.stub.change(|world| world.troubles.clear());
    migration.run("copy", &[]).ends_with(0);
    assert_eq!(held(&migration).len(), 3);
}

/// rclone/rclone#2199, #2889: a request for each object makes a pass without changes slow.
#[test]
fn a_pass_without_changes_costs_only_listings() {
    let migration = synthetic(4 * PAGE + 500);
    migration.run("copy", &[]).ends_with(0);
    assert_eq!(migration.stub.count(Op::GetObject), 4 * PAGE + 500);
    migration.stub.forget();

    let again = migration.run("copy", &[]).ends_with(0);

    assert!(again.out.contains("4500 were the same"), "{}", again.out);
    assert_eq!(migration.stub.count(Op::ListObjects), 5);
    assert_eq!(migration.stub.count(Op::GetObject), 0);
    assert_eq!(looked_at(&migration), Vec::<String>::new());
}

/// minio/minio#19671: what writers wait for is the final pass; it costs what changed.
#[test]
fn the_final_pass_reads_only_what_changed() {
    let migration = synthetic(PAGE);
    migration.run("copy", &[]).ends_with(0);
    let first = migration.stub.requests().len();
    migration.stub.forget();
    let changed: BTreeSet<String> = (0..10).map(|n| format!("{:012}", n * 100)).collect();
    migration.stub.change(|world| {
        for key in &changed {
            world.bucket("abc").put(key, Object::new("changed"));
        }
    });

    let last = migration.run("final", &[]).ends_with(0);

    assert!(last.out.contains("0 new and 10 changed"), "{}", last.out);
    assert_eq!(read(&migration), changed);
    assert_eq!(migration.stub.count(Op::GetObject), 10);
    let requests = migration.stub.requests().len();
    assert!(requests * 10 < first, "{requests} of {first}");
    for key in &changed {
        assert_eq!(held(&migration)[&format!("abc/{key}")], b"changed");
    }
}

/// A whole take-over compares twice: for the plan, and at the end. The copy is between them.
#[test]
fn a_take_over_lists_the_source_three_times_and_reads_it_once() {
    let migration = synthetic(300);

    migration.run("run", &["--no-cutover"]).ends_with(0);

    assert_eq!(migration.stub.count(Op::ListObjects), 3);
    assert_eq!(migration.stub.count(Op::GetObject), 300);
    migration.stub.forget();

    let again = migration.run("run", &["--no-cutover"]).ends_with(0);

    assert!(again.out.contains("verified 300 objects"), "{}", again.out);
    assert_eq!(migration.stub.count(Op::ListObjects), 2);
    assert_eq!(migration.stub.count(Op::GetObject), 0);
}

/// cobbzilla/s3s3mirror#64, #75: the ETag of parts depends on their sizes, not on the bytes alone.
#[test]
fn objects_of_several_parts_are_copied_once() {
    let mut world = World::new();
    for (key, parts) in [("even", [700, 700, 100]), ("uneven", [100, 1000, 400])] {
        let body: Vec<u8> = (0..1500_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut digests, mut rest) = (Vec::new(), &body[..]);
        for size in parts {
            let (part, more) = rest.split_at(size);
            digests.push(filestore_common::digest::md5(part));
            rest = more;
        }
        let etag = filestore_common::digest::multipart_etag(&digests);
        let mut object = Object::new(body.clone()).with_etag(Some(etag.as_str()));
        object.parts = parts.iter().map(|size| *size as u64).collect();
        world.bucket("abc").put(key, object);
    }
    let migration = Migration::from(world);
    migration.run("copy", &[]).ends_with(0);
    assert_eq!(held(&migration).len(), 2);
    migration.run("verify", &["--mode", "etag"]).ends_with(0);
    migration.stub.forget();

    migration.run("copy", &[]).ends_with(0);

    assert_eq!(migration.stub.count(Op::GetObject), 0);
}

/// aws/aws-cli#3273, #406: a restore brings back something older than what was copied.
#[test]
fn a_changed_object_with_an_older_date_is_copied() {
    let mut world = World::new();
    for key in ["other-size", "same-size"] {
        world.bucket("abc").put(key, Object::new("first"));
    }
    let migration = Migration::from(world);
    migration.run("copy", &[]).ends_with(0);
    migration.stub.change(|world| {
        for (key, body) in [("other-size", "older!"), ("same-size", "older")] {
            let mut object = Object::new(body);
            object.modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            world.bucket("abc").put(key, object);
        }
    });

    migration.run("copy", &[]).ends_with(0);

    let now = held(&migration);
    assert_eq!(now["abc/other-size"], b"older!");
    assert_eq!(now["abc/same-size"], b"older");
    migration.run("verify", &["--mode", "bytes"]).ends_with(0);
}

/// minio/mc#1560: stopped half way, what is there is not read again.
#[test]
fn a_copy_that_was_stopped_goes_on_with_the_rest() {
    const COUNT: u64 = 400;
    let mut world = World::new();
    world.bucket("abc").synthetic = Some(Synthetic::new(COUNT));
    // From the middle on, no answer comes.
    world.trouble(Trouble::new(Act::Hang).on(Op::GetObject).after(COUNT / 2));
    let migration = Migration::from(world);
    let mut command = migration.command("copy", &["--parallel", "4"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begin = std::time::Instant::now();
    while held(&migration).len() < usize::try_from(COUNT / 2).unwrap() {
        assert!(
            begin.elapsed() < Duration::from_mins(1),
            "the copy does not go on"
        );
        assert_eq!(child.try_wait().unwrap(), None, "the copy ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before: BTreeSet<String> = held(&migration).into_keys().collect();
    migration.stub.change(|world| world.troubles.clear());
    migration.stub.forget();

    let rest = done(&mut migration.command("copy", &[])).ends_with(0);

    let new = COUNT - before.len() as u64;
    assert!(
        rest.out.contains(&format!("copied {new} new")),
        "{}",
        rest.out
    );
    assert_eq!(held(&migration).len() as u64, COUNT);
    let read_again = read(&migration);
    assert_eq!(read_again.len() as u64, new);
    assert!(
        read_again
            .iter()
            .all(|key| !before.contains(&format!("abc/{key}")))
    );
}

/// peak/s5cmd#852, minio/mc#5020: deletes that silently do not happen, or happen unasked.
#[test]
fn what_went_from_the_source_is_deleted_by_the_final_pass_alone() {
    let migration = synthetic(10);
    migration.run("copy", &[]).ends_with(0);
    let gone = ["000000000002", "000000000005", "000000000009"];
    migration.stub.change(|world| {
        for key in gone {
            world.bucket("abc").remove(key);
        }
    });

    let copied = migration.run("copy", &[]).ends_with(0);
    assert!(
        copied.out.contains("only on the target: 3"),
        "{}",
        copied.out
    );
    let compared = migration.run("verify", &[]).ends_with(3);
    for key in gone {
        assert!(copied.out.contains(key), "{}", copied.out);
        assert!(compared.out.contains(key), "{}", compared.out);
    }
    let refused = migration.run("final", &["--max-delete", "2"]).ends_with(5);
    let told = "3 objects would go, more than --max-delete 2 allows; find out who deleted them";
    assert!(refused.err.contains(told), "{}", refused.err);
    assert_eq!(held(&migration).len(), 10);

    let last = migration.run("final", &[]).ends_with(0);

    assert!(last.out.contains("3 deleted"), "{}", last.out);
    let now = held(&migration);
    assert_eq!(now.len(), 7);
    assert!(
        gone.iter()
            .all(|key| !now.contains_key(&format!("abc/{key}")))
    );
}
