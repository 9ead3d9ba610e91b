//! What a comparison says of each key, and what it reads for that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use filestore_s3_stub::{Act, Object, Op, Trouble, World};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::harness::Migration;

/// What MinIO shows for files that it did not write (minio/minio#6512).
const PLACEHOLDER: &str = "00000000000000000000000000000000-1";

/// Report lines by key.
fn report(
    migration: &Migration,
    arguments: &[&str],
    code: i32,
) -> (BTreeMap<String, Value>, String) {
    let file = migration.volume().with_file_name("report");
    let path = file.to_str().unwrap();
    let all = [&["--report", path], arguments].concat();
    let done = migration.run("verify", &all).ends_with(code);
    let lines = fs::read_to_string(&file).unwrap();
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["key"].as_str().unwrap().to_owned(), line)
    });
    (lines.collect(), done.out)
}

fn read(migration: &Migration) -> BTreeSet<String> {
    let requests = migration.stub.requests().into_iter();
    let gets = requests.filter(|seen| seen.op == Op::GetObject);
    gets.map(|seen| seen.key).collect()
}

#[test]
fn every_key_is_reported_with_what_was_found_and_why() {
    let mut world = World::new();
    for key in ["changed", "gone", "rotten", "same", "torn"] {
        world
            .bucket("abc")
            .put(key, Object::new(format!("of {key}")));
    }
    let migration = Migration::from(world);
    migration.run("copy", &[]).ends_with(0);
    migration.stub.change(|world| {
        let bucket = world.bucket("abc");
        bucket.put("changed", Object::new("of changeD"));
        bucket.remove("gone");
        bucket.put("new", Object::new("of new"));
        world.trouble(
            Trouble::new(Act::refuse(403, "AccessDenied"))
                .on(Op::GetObject)
                .key("torn"),
        );
    });
    // Same size, same time, same ETag: only the bytes tell.
    let rotten = migration.volume().join("s3/abc/rotten");
    let time = fs::metadata(&rotten).unwrap().modified().unwrap();
    fs::write(&rotten, "of rotteN").unwrap();
    let file = fs::File::options().write(true).open(&rotten).unwrap();
    file.set_modified(time).unwrap();

    let (listing, _) = report(&migration, &[], 3);
    let (etag, _) = report(&migration, &["--mode", "etag"], 3);
    let (bytes, out) = report(&migration, &["--mode", "bytes"], 1);

    let told = |report: &BTreeMap<String, Value>| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let lines = report.iter();
        lines
            .map(|(key, line)| (key.clone(), text(&line["status"]), text(&line["by"])))
            .collect()
    };
    let expected = |rows: [[&str; 3]; 6]| rows.map(|row| row.map(str::to_owned).into()).to_vec();
    assert_eq!(
        told(&listing),
        expected([
            ["changed", "*", "listing"],
            ["gone", "-", "-"],
            ["new", "+", "-"],
            ["rotten", "=", "listing"],
            ["same", "=", "listing"],
            ["torn", "=", "listing"],
        ])
    );
    assert_eq!(
        told(&etag),
        expected([
            ["changed", "*", "listing"],
            ["gone", "-", "-"],
            ["new", "+", "-"],
            ["rotten", "*", "etag"],
            ["same", "=", "etag"],
            ["torn", "=", "etag"],
        ])
    );
    assert_eq!(
        told(&bytes),
        expected([
            ["changed", "*", "listing"],
            ["gone", "-", "-"],
            ["new", "+", "-"],
            ["rotten", "*", "bytes"],
            ["same", "=", "bytes"],
            ["torn", "!", "bytes"],
        ])
    );
    let reason = |key: &str| bytes[key]["reason"].as_str().unwrap().to_owned();
    assert!(reason("changed").starts_with("source 10 bytes, ETag "));
    assert_eq!(reason("rotten"), "the bytes differ");
    assert!(
        reason("torn").contains("403 AccessDenied"),
        "{}",
        reason("torn")
    );
    assert!(
        out.contains("2 differ, 1 missing on the target, 1 only there, 1 unreadable"),
        "{out}"
    );
}

#[test]
fn a_sample_reads_the_same_keys_each_time_and_compares_all_listings() {
    let names: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    let mut world = World::new();
    for key in &names {
        world.bucket("abc").put(key, Object::new(key.clone()));
    }
    let migration = Migration::from(world);
    migration.run("copy", &[]).ends_with(0);
    // As documented: SHA-256 over bucket NUL key, its first eight bytes as a fraction.
    let below = |share: f64| -> BTreeSet<String> {
        let fraction = |key: &&String| {
            let digest = Sha256::digest(format!("abc\0{key}"));
            let first = u64::from_be_bytes(digest[..8].try_into().unwrap());
            #[expect(clippy::cast_precision_loss, reason = "no name is that near the edge")]
            let fraction = first as f64 / 2_f64.powi(64);
            fraction < share
        };
        names.iter().filter(fraction).cloned().collect()
    };

    for (share, part) in [("20%", 0.2), ("20%", 0.2), ("50", 0.5)] {
        migration.stub.forget();
        let (lines, out) = report(&migration, &["--mode", "bytes", "--sample", share], 0);
        let expected = below(part);

        assert_eq!(read(&migration), expected);
        let by_bytes = lines.iter().filter(|(_, line)| line["by"] == "bytes");
        assert_eq!(
            by_bytes
                .map(|(key, _)| key.clone())
                .collect::<BTreeSet<_>>(),
            expected
        );
        assert_eq!(lines.len(), 60);
        let count = expected.len();
        let share = share.trim_end_matches('%');
        assert!(
            out.contains(&format!("read {count} objects, a sample of {share}%")),
            "{out}"
        );
    }

    for wrong in ["0", "101%", "many"] {
        let done = migration.run("verify", &["--sample", wrong]).ends_with(2);
        assert!(
            done.err.contains("is no share: a number above 0"),
            "{}",
            done.err
        );
    }
}

/// Old MinIO shows no ETag, or one of zeros (minio/minio#6198, #6512).
#[test]
fn objects_without_an_etag_are_judged_by_size_and_time_and_read_by_verify_alone() {
    let mut world = World::new();
    let bucket = world.bucket("abc");
    for (key, etag) in [
        ("none", None),
        ("zeros", Some(PLACEHOLDER)),
        ("later", None),
    ] {
        bucket.put(key, Object::new(format!("of {key}")).with_etag(etag));
    }
    bucket.put("known", Object::new("of known"));
    let migration = Migration::from(world);

    let plan = migration.run("plan", &["--measure", "0"]).ends_with(0).out;
    assert!(
        plan.contains("etag unknown: 3 (judged by size and time)"),
        "{plan}"
    );
    let run = migration.run("run", &["--no-cutover"]).ends_with(0);
    assert!(
        run.out
            .contains("3 of them without an ETag, judged by size and time"),
        "{}",
        run.out
    );
    for key in ["none", "zeros", "later", "known"] {
        assert_eq!(
            migration.held()[&format!("abc/{key}")],
            format!("of {key}").as_bytes()
        );
    }

    migration.stub.forget();
    let again = migration.run("copy", &[]).ends_with(0);
    assert!(
        again.out.contains("copied 0 new and 0 changed objects"),
        "{}",
        again.out
    );
    assert_eq!(read(&migration), BTreeSet::new());
    let (lines, _) = report(&migration, &[], 0);
    assert_eq!(
        read(&migration),
        ["later", "none", "zeros"].map(str::to_owned).into()
    );
    assert_eq!(lines["none"]["by"], "bytes");
    assert_eq!(lines["known"]["by"], "listing");

    // Same size and time, other bytes: only reading tells.
    migration.stub.change(|world| {
        world
            .bucket("abc")
            .put("none", Object::new("OF NONE").with_etag(None));
        let mut later = Object::new("OF LATER").with_etag(None);
        later.modified += std::time::Duration::from_secs(1);
        world.bucket("abc").put("later", later);
    });
    let (lines, _) = report(&migration, &[], 3);
    assert_eq!(
        (&lines["none"]["status"], &lines["none"]["by"]),
        (&"*".into(), &"bytes".into())
    );
    assert_eq!(lines["later"]["status"], "*");
    let copy = migration.run("copy", &[]).ends_with(0);
    assert!(copy.out.contains("0 new and 1 changed"), "{}", copy.out);
    assert_eq!(migration.held()["abc/later"], b"OF LATER");
}
