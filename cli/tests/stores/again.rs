//! A store that was taken over, given its changes back, and is taken over again.

use std::fs;

use filestore_s3_stub::{Act, Object, Op, Seen, Trouble, World};

use crate::harness::{ACCESS, Done, Migration, SECRET, done, filestore};

/// `filestore migrate reverse` from the volume to the store.
fn reverse(migration: &Migration, arguments: &[&str]) -> Done {
    let mut command = filestore();
    let from = format!("volume:{}", migration.volume().display());
    command
        .args(["migrate", "reverse", "--from", &from, "--to"])
        .arg(migration.stub.url())
        .args(arguments)
        .env("FILESTORE_TO_ACCESS_KEY", ACCESS)
        .env("FILESTORE_TO_SECRET_KEY", SECRET);
    done(&mut command)
}

/// Ten objects, taken over and rolled back. Its server tells of tags in answers to HEAD, and not in its
/// listings.
fn rolled_back() -> Migration {
    let mut world = World::new();
    world.server = "MinIO".into();
    for number in 0..10 {
        let object = Object::new(format!("of {number}"));
        world.bucket("abc").put(&format!("k{number}"), object);
    }
    let migration = Migration::from(world);
    migration.run("run", &[]).ends_with(0);
    reverse(&migration, &["--complete"]).ends_with(0);
    migration.stub.forget();
    migration
}

fn tag(migration: &Migration, key: &str) {
    migration.stub.change(|world| {
        let bucket = world.bucket("abc");
        let mut object = bucket.get(key).unwrap();
        object.tags = vec![("team".into(), "data".into())];
        bucket.put(key, object);
    });
}

fn looked_at(migration: &Migration) -> Vec<String> {
    let requests = migration.stub.requests().into_iter();
    let looks = requests.filter(|seen: &Seen| seen.op == Op::HeadObject);
    let mut keys: Vec<String> = looks.map(|seen| seen.key).collect();
    keys.retain(|key| !key.starts_with('.'));
    keys.sort();
    keys.dedup();
    keys
}

/// Tags change without a trace in the listings.
#[test]
fn tags_that_changed_alone_are_asked_for() {
    let migration = rolled_back();
    tag(&migration, "k3");

    let again = migration.run("run", &["--again", "--id", "second"]);

    let again = again.ends_with(0);
    assert!(
        again.out.contains("added 0, replaced 1, deleted 0"),
        "{}",
        again.out
    );
    assert_eq!(looked_at(&migration).len(), 10);
    let changes = migration
        .volume()
        .join(".filestore/runs/second/changes.jsonl");
    let changes = fs::read_to_string(changes).unwrap();
    assert!(changes.contains(r#""key":"k3""#), "{changes}");
}

/// One object that a store refuses to tell of is one failure; the others are taken over.
#[test]
fn an_object_that_cannot_be_looked_at_is_one_failure() {
    let migration = rolled_back();
    tag(&migration, "k3");
    tag(&migration, "k5");
    let refuse = Trouble::new(Act::refuse(403, "AccessDenied")).on(Op::HeadObject);
    migration
        .stub
        .change(|world| world.trouble(refuse.key("k3")));

    let again = migration.run("run", &["--again", "--id", "second"]);

    let again = again.ends_with(1);
    assert!(again.out.contains("replaced 1"), "{}", again.out);
    assert!(again.out.contains("head abc/k3: 403"), "{}", again.out);
    let status = migration.status();
    assert_eq!(status["marker"]["state"], "copying", "{status}");
    migration.stub.change(|world| world.troubles.clear());
    let again = migration
        .run("run", &["--again", "--id", "second"])
        .ends_with(0);
    assert!(again.out.contains("replaced 1"), "{}", again.out);
}

/// Looked at before anything is written.
#[test]
fn versions_that_may_not_be_left_are_refused() {
    let migration = rolled_back();
    let versioned = |query: &str, xml: &str| {
        let answer = Trouble::new(Act::Xml(xml.to_owned())).on(Op::Other);
        migration
            .stub
            .change(|world| world.trouble(answer.query(query)));
    };
    versioned(
        "versioning",
        "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    );
    versioned(
        "versions",
        "<ListVersionsResult><IsTruncated>false</IsTruncated><Version><Key>k1</Key>\
         <VersionId>v1</VersionId><IsLatest>false</IsLatest><Size>5</Size></Version>\
         </ListVersionsResult>",
    );
    let again = ["--again", "--id", "second"];
    let refused = migration.run("run", &[&again[..], &["--fail-on-versions"]].concat());
    let refused = refused.ends_with(5);
    assert!(
        refused.err.contains("1 noncurrent versions"),
        "{}",
        refused.err
    );
    assert_eq!(migration.status()["marker"]["state"], "rolledBack");
    assert!(!migration.volume().join(".filestore/runs/second").exists());
    migration.run("run", &again).ends_with(0);
}

/// What was read before the state was locked may have been changed by whoever held it.
#[test]
fn a_marker_that_moves_on_before_the_lock_is_read_again() {
    let mut world = World::new();
    world.bucket("abc").put("k", Object::new("of k"));
    let migration = Migration::from(world);
    migration.run("run", &[]).ends_with(0);
    let marker = migration.volume().join(".filestore/migration.json");
    // Opening the source comes between; it waits for the second request.
    let wait = Trouble::new(Act::Delay(std::time::Duration::ZERO)).on(Op::ListBuckets);
    migration
        .stub
        .change(|world| world.trouble(wait.together(2).times(2)));
    migration.stub.forget();
    let mut command = migration.command("run", &[]);
    let running = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while migration.stub.count(Op::ListBuckets) == 0 {
        std::thread::yield_now();
    }
    let text = fs::read_to_string(&marker).unwrap();
    let moved = text.replace(r#""state": "cutover""#, r#""state": "rolledBack""#);
    assert_ne!(moved, text);
    fs::write(&marker, &moved).unwrap();
    // Lets it go on.
    migration.run("plan", &[]);
    let done = running.wait_with_output().unwrap();

    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(5), "{told}");
    assert!(told.contains("was rolled back"), "{told}");
    assert_eq!(fs::read_to_string(&marker).unwrap(), moved);
}
