//! What a pass costs, and what it leaves for the next one.

use std::path::Path;
use std::sync::atomic::Ordering;

use filestore_migrator::pass::Durability;

use crate::fixture::Target;
use crate::memory::MemorySource;

/// `checkpoint.json` of the only run on the volume.
fn checkpoint(volume: &Path) -> serde_json::Value {
    let runs = std::fs::read_dir(volume.join(".filestore/runs")).unwrap();
    let runs: Vec<_> = runs.map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let text = std::fs::read(runs[0].join("checkpoint.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn only_a_relaxed_copy_leaves_objects_in_doubt() {
    for (durability, in_doubt) in [(Durability::Durable, false), (Durability::Relaxed, true)] {
        let mut target = Target::new();
        target.options.durability = durability;
        let source = MemorySource::new();
        source.put("bkt", "a", b"one", 1);
        source.put("bkt", "b", b"two", 2);

        target.copy(&source).await.unwrap();

        let left = checkpoint(target.directory.path());
        assert_eq!(left["copied"], 2);
        if in_doubt {
            let doubt = &left["unflushed"];
            assert_eq!(
                (&doubt["bucket"], &doubt["key"]),
                (&"bkt".into(), &"a".into())
            );
        } else {
            assert_eq!(left["unflushed"], serde_json::Value::Null);
        }

        target.run(&source).await.unwrap();

        // Whatever the setting, nothing is in doubt once the marker says that the target counts.
        assert_eq!(
            checkpoint(target.directory.path())["unflushed"],
            serde_json::Value::Null
        );
        assert_eq!(source.opened(), 2, "{durability:?}");
        target.equals(&source);
    }
}

#[tokio::test]
async fn a_power_loss_after_a_relaxed_copy_makes_the_next_pass_read_back() {
    let mut target = Target::new();
    target.options.durability = Durability::Relaxed;
    let source = MemorySource::new();
    for name in ["a", "b", "c"] {
        source.put("bkt", name, name.as_bytes(), 1);
    }
    target.copy(&source).await.unwrap();
    // Another start of the machine; one file was not written out in full.
    let run = std::fs::read_dir(target.directory.path().join(".filestore/runs"));
    let file = run.unwrap().next().unwrap().unwrap().path();
    let file = file.join("checkpoint.json");
    let mut told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    told["unflushed"]["bootId"] = "another".into();
    std::fs::write(&file, told.to_string()).unwrap();
    let torn = target.directory.path().join("s3/bkt/b");
    let modified = std::fs::metadata(&torn).unwrap().modified().unwrap();
    let written = std::fs::File::options().write(true).open(&torn).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&written, b"\0", 0).unwrap();
    written.set_modified(modified).unwrap();

    target.run(&source).await.unwrap();

    assert_eq!(source.opened(), 4, "only the torn one was read again");
    target.equals(&source);
}

#[tokio::test]
async fn a_second_pass_reads_no_object_and_looks_at_none() {
    let target = Target::new();
    let source = MemorySource::new();
    for number in 0..3000 {
        source.put("bkt", &format!("{number:05}"), &[7; 10], 1);
    }
    target.copy(&source).await.unwrap();
    assert_eq!(source.opened(), 3000);
    let looked = source.looked.load(Ordering::SeqCst);

    let outcome = target.copy(&source).await.unwrap();

    let text = &outcome.summary;
    assert!(text.contains("3000 were the same"), "{text}");
    assert_eq!(source.opened(), 3000);
    // The proof that source and target are two stores asks for a key or two.
    let more = source.looked.load(Ordering::SeqCst) - looked;
    assert!(more <= 2, "{more} objects were looked at");
}
