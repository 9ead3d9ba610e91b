//! What a crash between two steps leaves, in sidecar mode; and failing flushes.

use super::*;
use crate::attributes::codec;
use crate::sidecar::Record;

/// Stops after the intent, and after giving the data its name if `renamed`.
fn interrupted(at: &Scratch, name: &str, body: &[u8], renamed: bool) {
    let volume = &at.store.volume;
    let mut staged = at.store.stage(&bucket(), &key(name), None).unwrap();
    staged.write(body).unwrap();
    let file = &staged.file.file;
    let stat = rustix::fs::fstat(file).unwrap();
    let stat = volume
        .make_distinct(&bucket(), &key(name), file, stat)
        .unwrap();
    let attributes = codec::encode(&meta(body), None);
    volume
        .intend(&Record::new(&bucket(), &key(name), &stat, attributes))
        .unwrap();
    if renamed {
        let dir = volume.bucket_dir(&bucket()).unwrap();
        let temp = || Ok(volume.open_temp(&bucket()).unwrap());
        staged.file.replace(&dir, name, temp).unwrap();
    }
}

#[test]
fn an_interrupted_overwrite_ends_as_old_or_new() {
    for (body, renamed, expected) in [
        (&b"new"[..], false, &b"old"[..]),
        (b"new", true, b"new"),
        (b"longer", false, b"old"),
        (b"longer", true, b"longer"),
    ] {
        let at = Scratch::new(MetadataMode::Sidecar, Durability::Durable);
        put(&at.store, "k", b"old");
        interrupted(&at, "k", body, renamed);
        // Another process that has the volume open reads it right at once.
        assert_eq!(get(&at.store, "k").unwrap(), expected);
        let at = at.reopen();
        assert_eq!(get(&at.store, "k").unwrap(), expected);
        let intents = std::fs::read_dir(at.volume().join(".filestore/intents")).unwrap();
        assert_eq!(intents.count(), 0);
        // And what follows is as ever.
        put(&at.store, "k", b"next");
        assert_eq!(get(&at.store, "k").unwrap(), b"next");
    }
}

#[test]
fn an_interrupted_creation_ends_as_nothing_or_new() {
    for renamed in [false, true] {
        let at = Scratch::new(MetadataMode::Sidecar, Durability::Durable);
        interrupted(&at, "k", b"new", renamed);
        let at = at.reopen();
        assert_eq!(get(&at.store, "k"), renamed.then(|| b"new".to_vec()));
    }
}

#[test]
fn half_an_intent_is_none() {
    let at = Scratch::new(MetadataMode::Sidecar, Durability::Durable);
    put(&at.store, "k", b"old");
    let intents = at.volume().join(".filestore/intents");
    std::fs::write(intents.join("intent.0123.filestore.1"), b"{\"vers").unwrap();
    let at = at.reopen();
    assert_eq!(get(&at.store, "k").unwrap(), b"old");
    assert_eq!(std::fs::read_dir(intents).unwrap().count(), 0);
}

#[test]
fn a_record_that_outlived_its_data_is_no_object() {
    let at = Scratch::relaxed(MetadataMode::Sidecar);
    put(&at.store, "k", b"old");
    std::fs::remove_file(at.path("k")).unwrap();
    assert_eq!(get(&at.store, "k"), None);
    assert!(keys(&at.store).is_empty());
    put(&at.store, "k", b"new");
    assert_eq!(get(&at.store, "k").unwrap(), b"new");
}

#[test]
fn a_failed_flush_is_no_acknowledgement() {
    for mode in BOTH {
        let at = Scratch::new(mode, Durability::Durable);
        at.store.volume.flush.break_for_test();
        let put = put_if(&at.store, "k", b"x", &Precondition::None);
        assert!(matches!(put, Err(Error::Io { .. })), "{put:?}");
        assert!(at.store.probe().is_err());
    }
}
