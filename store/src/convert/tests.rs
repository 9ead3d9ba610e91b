//! Objects of all kinds through conversions, and through conversions that are killed.

mod fill;
mod import;
mod kill;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::layout::attribute;
use crate::store::tests::{BOTH, Scratch, bucket, delete, key, put};
use crate::{Store, UploadQuery};
use fill::{assert_same, fill, picture, traces};

fn to(mode: MetadataMode) -> ConvertOptions {
    ConvertOptions {
        to: mode,
        dry_run: false,
    }
}

/// Converts as often as a process that is being started holds a copy of the lock.
fn convert_alone(path: &Path, options: ConvertOptions) -> Conversion {
    loop {
        match convert(path, options, &mut |_| ()) {
            Err(Error::Volume(line)) if line.contains("in use") => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

fn refusal(path: &Path, options: ConvertOptions) -> String {
    match convert(path, options, &mut |_| ()) {
        Err(Error::Volume(line)) => {
            assert_eq!(line.lines().count(), 1, "{line}");
            line
        }
        other => panic!("{other:?}"),
    }
}

fn open(path: &Path) -> Store {
    crate::store::tests::open_alone(path, &StoreOptions::default())
}

/// A filled volume, closed.
fn filled(mode: MetadataMode) -> tempfile::TempDir {
    let at = Scratch::relaxed(mode);
    fill(&at);
    at.close()
}

#[test]
fn everything_is_the_same_there_and_back() {
    for from in BOTH {
        let scratch = filled(from);
        let path = scratch.path();
        let before = picture(&open(path));
        for mode in [form::other(from), from] {
            let done = convert_alone(path, to(mode));
            assert_eq!(done.outcome, Outcome::Converted);
            assert_eq!(done.from, form::other(mode));
            assert_eq!(done.counts.buckets, 2);
            assert_eq!(done.counts.without_metadata, 1);
            assert_eq!((done.counts.uploads, done.counts.parts), (2, 3));
            let store = open(path);
            assert_eq!(store.metadata_mode(), mode);
            assert_same(&picture(&store), &before, &format!("{mode:?}"));
            assert_eq!(traces(path, form::other(mode)), Vec::<String>::new());
            drop(store);
            let again = convert_alone(path, to(mode));
            assert_eq!(again.outcome, Outcome::Unchanged);
        }
    }
}

#[test]
fn a_converted_volume_goes_on() {
    for from in BOTH {
        let scratch = filled(from);
        convert_alone(scratch.path(), to(form::other(from)));
        let store = open(scratch.path());
        fill::go_on(&store);
        for name in crate::store::tests::keys(&store) {
            assert!(delete(&store, &name), "{name}");
        }
        store.delete_bucket(&bucket()).unwrap();
    }
}

#[test]
fn attributes_of_others_stay() {
    let scratch = filled(MetadataMode::Xattr);
    let file = scratch.path().join("s3/bucket/plain");
    let mine = || crate::attributes::xattr::get(fs::File::open(&file).unwrap(), "mine").unwrap();
    for mode in [MetadataMode::Sidecar, MetadataMode::Xattr] {
        convert_alone(scratch.path(), to(mode));
        assert_eq!(mine().as_deref(), Some(&b"of somebody else"[..]));
    }
}

#[test]
fn what_a_deleted_version_left_stays_deleted() {
    let scratch = filled(MetadataMode::Xattr);
    let file = fs::File::open(scratch.path().join("s3/bucket/plain")).unwrap();
    crate::attributes::xattr::put(&file, attribute::DELETE_MARKER, b"").unwrap();
    convert_alone(scratch.path(), to(MetadataMode::Sidecar));
    let store = open(scratch.path());
    assert!(matches!(
        store.head_object(&bucket(), &key("plain")),
        Err(Error::NoSuchKey)
    ));
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    for from in BOTH {
        let scratch = filled(from);
        fill::claim_an_upload(scratch.path());
        let before = fill::files(scratch.path());
        let options = ConvertOptions {
            to: form::other(from),
            dry_run: true,
        };
        let told = convert_alone(scratch.path(), options);
        assert_eq!(told.outcome, Outcome::DryRun);
        assert_eq!(told.counts.buckets, 2);
        assert_eq!(fill::files(scratch.path()), before);
        assert_eq!((told.counts.uploads, told.counts.parts), (2, 3));
        assert_eq!(open(scratch.path()).metadata_mode(), from);
        let done = convert_alone(scratch.path(), to(form::other(from)));
        assert_eq!(done.counts, told.counts);
        fill::complete(&open(scratch.path()));
    }
}

#[test]
fn what_does_not_fit_is_named_and_nothing_is_changed() {
    let at = Scratch::relaxed(MetadataMode::Sidecar);
    put(&at.store, "small", b"x");
    for name in ["large", "odd//large"] {
        let mut meta = crate::store::tests::meta(b"x");
        meta.user.insert("note".into(), "y".repeat(100_000));
        let mut staged = at.store.stage(&bucket(), &key(name), None).unwrap();
        staged.write(b"x").unwrap();
        let none = crate::Precondition::None;
        at.store.publish(staged, &meta, &none, None).unwrap();
    }
    let before = picture(&at.store);
    let scratch = at.close();
    let files = fill::files(scratch.path());
    let refused = convert_alone(scratch.path(), to(MetadataMode::Xattr));
    assert_eq!(refused.outcome, Outcome::Refused);
    let mut names: Vec<_> = refused.unfit.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names[0], "bucket/large");
    assert!(
        names[1].starts_with("bucket: .filestore/keys/"),
        "{names:?}"
    );
    assert!(refused.unfit[0].reason.contains("metadata"));
    assert_eq!(fill::files(scratch.path()), files);
    assert_eq!(
        traces(scratch.path(), MetadataMode::Xattr),
        Vec::<String>::new()
    );
    assert_same(&picture(&open(scratch.path())), &before, "");
}

/// The trial cannot know of what else lies in the file's own attributes.
#[test]
fn what_turns_out_not_to_fit_takes_everything_back() {
    let at = Scratch::relaxed(MetadataMode::Sidecar);
    fill(&at);
    let volume = at.path("full");
    let filler = vec![b'f'; 3950];
    let set = rustix::fs::setxattr(
        &volume,
        "trusted.filler",
        &filler,
        rustix::fs::XattrFlags::empty(),
    );
    let before = picture(&at.store);
    let scratch = at.close();
    let outcome = convert_alone(scratch.path(), to(MetadataMode::Xattr));
    // Others have more room; and only root may set it.
    let is_ext4 = rustix::fs::statfs(scratch.path()).unwrap().f_type == 0xef53;
    if set.is_err() || !is_ext4 {
        return;
    }
    assert_eq!(outcome.outcome, Outcome::Refused);
    let names: Vec<_> = outcome.unfit.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["bucket/full"]);
    assert_eq!(
        traces(scratch.path(), MetadataMode::Xattr),
        Vec::<String>::new()
    );
    let store = open(scratch.path());
    assert_eq!(store.metadata_mode(), MetadataMode::Sidecar);
    assert_same(&picture(&store), &before, "");
}

#[test]
fn a_volume_in_use_or_none_at_all_is_refused() {
    let at = Scratch::relaxed(MetadataMode::Xattr);
    assert!(refusal(at.volume(), to(MetadataMode::Sidecar)).contains("in use by a gateway"));
    let scratch = tempfile::tempdir().unwrap();
    assert!(refusal(scratch.path(), to(MetadataMode::Sidecar)).contains("no volume"));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_file_system_without_extended_attributes_keeps_its_sidecars() {
    let scratch = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "ramfs", "ramfs"])
        .arg(scratch.path())
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let store = Store::open(scratch.path(), &StoreOptions::default()).unwrap();
    let mode = store.metadata_mode();
    drop(store);
    let line = refusal(scratch.path(), to(MetadataMode::Xattr));
    std::process::Command::new("umount")
        .arg("-l")
        .arg(scratch.path())
        .status()
        .unwrap();
    assert_eq!(mode, MetadataMode::Sidecar);
    assert!(line.contains("no extended attributes"), "{line}");
}
