//! What other tools get wrong about single objects, from stores that no real server can be made into.

use std::time::{Duration, SystemTime};

use filestore_s3_stub::{Act, Object, Op, Trouble, World};

use crate::harness::Migration;

/// minio/minio#14566: such an answer never changes, and asking again and again took a source down.
#[test]
fn an_object_with_a_customer_key_is_asked_for_once() {
    let mut world = World::new();
    for n in 0..99 {
        world
            .bucket("abc")
            .put(&format!("open{n:02}"), Object::new("x"));
    }
    world.bucket("abc").put("locked", Object::new("secret"));
    world.trouble(
        Trouble::new(Act::Refuse {
            status: 400,
            code: "InvalidRequest",
            message: "The object was stored using a form of Server Side Encryption. The correct \
                      parameters must be provided to retrieve the object."
                .into(),
            headers: Vec::new(),
        })
        .key("locked"),
    );
    let migration = Migration::from(world);

    let done = migration.run("copy", &["--wait", "600"]).ends_with(1);

    let requests = migration.stub.requests().into_iter();
    let asked: Vec<Op> = requests
        .filter(|seen| seen.key == "locked")
        .map(|seen| seen.op)
        .collect();
    assert_eq!(asked, [Op::GetObject]);
    assert!(
        (done.out.clone() + &done.err).contains("encrypted with a key that only its owner has"),
        "{}{}",
        done.out,
        done.err
    );
    assert_eq!(migration.held().len(), 99);
}

/// aws/aws-cli#5456: every object was copied each time, as times never matched.
#[test]
fn a_clock_that_is_ahead_makes_nothing_copied_twice() {
    let mut world = World::new();
    world.clock_ahead = 600;
    for n in 0..5 {
        let mut object = Object::new(format!("of {n}"));
        object.modified = SystemTime::now() + Duration::from_hours(1);
        world.bucket("abc").put(&format!("k{n}"), object);
    }
    let migration = Migration::from(world);
    migration.run("copy", &[]).ends_with(0);
    migration.stub.forget();

    let again = migration.run("copy", &[]).ends_with(0);

    assert!(
        again
            .out
            .contains("copied 0 new and 0 changed objects (0 B); 5 were the same"),
        "{}",
        again.out
    );
    assert_eq!(migration.stub.count(Op::GetObject), 0);
}

/// nidor1998/s3sync#54: false alarms where a server does not tell how an object was cut into parts.
#[test]
fn an_etag_of_unknown_parts_is_no_damage() {
    let parts = [vec![b'a'; 300_000], vec![b'b'; 100_000]];
    // MD5 of both parts' MD5s, by Python's hashlib.
    let etag = "b946eeb2792bcf1c8df2377ca99a4d87-2";
    let whole = Object::new(parts.concat()).with_etag(Some(etag));
    let mut told = whole.clone();
    told.parts = parts.iter().map(|part| part.len() as u64).collect();
    let mut world = World::new();
    world.bucket("abc").put("silent", whole);
    world.bucket("abc").put("told", told.clone());
    let migration = Migration::from(world);

    for verb in [
        &["run", "--no-cutover", "--verify", "etag"][..],
        &["verify", "--mode", "etag"],
    ] {
        migration.run(verb[0], &verb[1..]).ends_with(0);
    }
    for key in ["silent", "told"] {
        assert_eq!(
            migration.held()[&format!("abc/{key}")],
            parts.concat(),
            "{key}"
        );
    }

    // Where the parts are known, other bytes are found out, and never published.
    told.body = [&b"X"[..], &told.body[1..]].concat().into();
    migration
        .stub
        .change(|world| world.bucket("abc").put("damaged", told).get("damaged"));
    let done = migration.run("copy", &[]).ends_with(1);
    let said = done.out + &done.err;
    assert!(said.contains("abc/damaged"), "{said}");
    assert!(!migration.held().contains_key("abc/damaged"));
}
