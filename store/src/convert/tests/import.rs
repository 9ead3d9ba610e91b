//! Metadata that versitygw kept beside the data.

use super::kill::{killed_at, killed_in_survey};
use super::*;
use crate::attributes::xattr;

/// A filled directory of buckets as versitygw would leave it with `--sidecar`: attributes in
/// files of their own, nothing of ours.
struct Foreign {
    scratch: tempfile::TempDir,
    before: BTreeMap<String, String>,
}

impl Foreign {
    fn new() -> Self {
        let at = Scratch::relaxed(MetadataMode::Xattr);
        fill(&at);
        for ours_alone in ["a//b", "plain/below", "b/", ".sgwtmp/x"] {
            delete(&at.store, ours_alone);
        }
        let before = described(&at.store);
        let scratch = at.close();
        let buckets = scratch.path().join("s3");
        move_attributes(&buckets, &scratch.path().join("beside"));
        fs::remove_dir_all(scratch.path().join(".filestore")).unwrap();
        Self { scratch, before }
    }

    fn volume(&self) -> &Path {
        self.scratch.path()
    }

    fn options(&self, metadata: MetadataMode) -> ImportOptions {
        ImportOptions {
            sidecar: self.volume().join("beside"),
            metadata: Some(metadata),
            dry_run: false,
        }
    }
}

fn move_attributes(from: &Path, beside: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let file = fs::File::open(entry.path()).unwrap();
        let beside = beside.join(entry.file_name());
        for (name, value) in xattr::read(&file).unwrap().iter() {
            let meta = beside.join("meta");
            fs::create_dir_all(&meta).unwrap();
            fs::write(meta.join(name), value).unwrap();
        }
        // What versitygw left of a write that failed.
        if beside.join("meta").exists() {
            fs::write(beside.join("meta/etag12345"), b"half").unwrap();
        }
        xattr::strip(&file, |_| true).unwrap();
        if entry.path().is_dir() {
            move_attributes(&entry.path(), &beside);
        }
    }
}

/// Without when uploads were initiated: versitygw does not write that down.
fn described(store: &Store) -> BTreeMap<String, String> {
    let mut told = picture(store);
    told.retain(|name, _| !name.starts_with("initiated"));
    told
}

fn import_alone(path: &Path, options: &ImportOptions) -> Conversion {
    attempt(path, options).unwrap()
}

fn attempt(path: &Path, options: &ImportOptions) -> Result<Conversion> {
    loop {
        match import_sidecar(path, options, &mut |_| ()) {
            Err(Error::Volume(line)) if line.contains("in use") => std::thread::yield_now(),
            other => return other,
        }
    }
}

fn refusal(path: &Path, options: &ImportOptions) -> String {
    match attempt(path, options) {
        Err(Error::Volume(line)) => line,
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_is_there_in_either_mode() {
    for mode in BOTH {
        let foreign = Foreign::new();
        let beside = fill::files(&foreign.volume().join("beside"));
        let dry_run = ImportOptions {
            dry_run: true,
            ..foreign.options(mode)
        };
        let told = import_alone(foreign.volume(), &dry_run);
        assert!(!foreign.volume().join(".filestore").exists());

        let done = import_alone(foreign.volume(), &foreign.options(mode));
        assert_eq!(done.outcome, Outcome::Converted);
        assert_eq!(done.counts, told.counts);
        assert_eq!(done.counts.without_metadata, 1);
        let store = open(foreign.volume());
        assert_eq!(store.metadata_mode(), mode);
        assert_same(&described(&store), &foreign.before, &format!("{mode:?}"));
        assert_eq!(fill::files(&foreign.volume().join("beside")), beside);

        // What was written since is not taken back.
        put(&store, "plain", b"since then");
        let after = described(&store);
        drop(store);
        import_alone(foreign.volume(), &foreign.options(mode));
        let store = open(foreign.volume());
        assert_same(&described(&store), &after, "");
        fill::complete(&store);
    }
}

#[test]
fn killed_anywhere_nobody_serves_half_of_it() {
    for mode in BOTH {
        for step in 1.. {
            let foreign = Foreign::new();
            let options = foreign.options(mode);
            if !killed_at(foreign.volume(), mode, Some(&options.sidecar), step) {
                assert!(step > 10, "{step}");
                break;
            }
            let line = match Store::open(foreign.volume(), &StoreOptions::default()) {
                Err(Error::Volume(line)) => line,
                other => panic!("{other:?}"),
            };
            assert!(line.contains("import-sidecar"), "{line}");
            import_alone(foreign.volume(), &options);
            let store = open(foreign.volume());
            assert_same(
                &described(&store),
                &foreign.before,
                &format!("{mode:?} {step}"),
            );
        }
    }
}

fn no_volume(path: &Path) -> String {
    match Store::open(path, &StoreOptions::default()) {
        Err(Error::Volume(line)) => line,
        other => panic!("{other:?}"),
    }
}

#[test]
fn killed_before_it_writes_nobody_serves_and_it_starts_anew() {
    for mode in BOTH {
        for step in [1, 5] {
            let foreign = Foreign::new();
            let before = fill::files(&foreign.volume().join("s3"));
            let options = foreign.options(mode);
            let killed = || killed_in_survey(foreign.volume(), mode, &options.sidecar, step);
            assert!(killed());
            assert!(no_volume(foreign.volume()).contains("import-sidecar"));
            let dry_run = ImportOptions {
                dry_run: true,
                ..options.clone()
            };
            import_alone(foreign.volume(), &dry_run);
            assert!(!foreign.volume().join(".filestore").exists());
            assert_eq!(fill::files(&foreign.volume().join("s3")), before);

            // The mode may be chosen anew as well.
            assert!(killed());
            let other = foreign.options(form::other(mode));
            import_alone(foreign.volume(), &other);
            let store = open(foreign.volume());
            assert_eq!(store.metadata_mode(), form::other(mode));
            assert_same(&described(&store), &foreign.before, &format!("{step}"));
        }
    }
}

#[test]
fn what_stops_it_before_it_writes_leaves_no_volume() {
    let foreign = Foreign::new();
    let options = foreign.options(MetadataMode::Xattr);
    // Longer than any attribute.
    let long = options.sidecar.join("bucket/plain/meta/metadata");
    fs::write(&long, vec![b'x'; 70_000]).unwrap();
    // What an earlier start left that was killed before it knew what the volume is.
    fs::create_dir(foreign.volume().join(".filestore")).unwrap();
    fs::write(foreign.volume().join(".filestore/lock"), b"").unwrap();
    let outcome = attempt(foreign.volume(), &options);
    assert!(matches!(outcome, Err(Error::Damaged(_))), "{outcome:?}");
    assert!(!foreign.volume().join(".filestore").exists());

    fs::write(&long, b"{}").unwrap();
    import_alone(foreign.volume(), &options);
    let names = fs::read_dir(foreign.volume()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".filestore", "beside", "s3"]);
}

#[test]
fn a_new_volume_with_files_of_others_is_not_unmade_in_silence() {
    let foreign = Foreign::new();
    let options = ImportOptions {
        dry_run: true,
        ..foreign.options(MetadataMode::Xattr)
    };
    fs::create_dir(foreign.volume().join(".filestore")).unwrap();
    fs::write(foreign.volume().join(".filestore/mine"), b"").unwrap();
    assert!(refusal(foreign.volume(), &options).contains("other files"));
    assert!(foreign.volume().join(".filestore/mine").exists());
    assert!(!foreign.volume().join(".filestore/volume.json").exists());
}

/// Empties the records of a volume; how many there were.
fn lose_power(volume: &Path) -> usize {
    let is_record = |path: &str| {
        (path.contains("/.filestore/meta/") || path.contains("/.sgwtmp/multipart/"))
            && Path::new(path).extension().is_some_and(|it| it == "json")
    };
    let files = fill::files(volume).into_keys();
    let records: Vec<_> = files.filter(|path| is_record(path)).collect();
    for record in &records {
        fs::write(record, b"").unwrap();
    }
    records.len()
}

#[test]
fn an_import_is_finished_after_a_power_failure() {
    let mode = MetadataMode::Sidecar;
    let foreign = Foreign::new();
    let options = foreign.options(mode);
    let mut steps = 0;
    let mut count = |phase| steps += usize::from(phase == Phase::Writing);
    import_sidecar(Foreign::new().volume(), &options, &mut count).unwrap();
    let killed = killed_at(foreign.volume(), mode, Some(&options.sidecar), steps);
    assert!(killed);
    assert!(lose_power(foreign.volume()) > 5);
    import_alone(foreign.volume(), &options);
    let store = open(foreign.volume());
    assert_same(&described(&store), &foreign.before, "");
    drop(store);

    // Of a volume that was served since, records are not lost by an import.
    lose_power(foreign.volume());
    let outcome = attempt(foreign.volume(), &options);
    assert!(matches!(outcome, Err(Error::Damaged(_))), "{outcome:?}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let foreign = Foreign::new();
    let other = tempfile::tempdir().unwrap();
    let options = foreign.options(MetadataMode::Xattr);
    assert!(refusal(other.path(), &options).contains("does not belong to"));
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    let nothing = ImportOptions {
        sidecar: other.path().to_owned(),
        ..options
    };
    assert!(refusal(foreign.volume(), &nothing).contains("no sidecar directory"));
    assert!(!foreign.volume().join(".filestore").exists());
}

#[test]
fn buckets_directly_in_the_volume_are_found() {
    let foreign = Foreign::new();
    let root = foreign.volume().join("s3");
    import_alone(&root, &foreign.options(MetadataMode::Xattr));
    assert!(root.join(".filestore/volume.json").exists());
    assert_same(&described(&open(&root)), &foreign.before, "");
}
