//! Damage of any kind is found and names the object; the rest of the drive stays readable.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use super::*;

const BUCKET: &str = "ryax-filestore";

fn flip(path: &Path, offset: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

/// Reads an object that must be found damaged, and returns the message.
fn damaged(drive: &Drive, path: &str) -> String {
    let error = match drive.look(&bucket(BUCKET), &key(path)).unwrap().unwrap() {
        Content::Object(object) => read(drive, BUCKET, path, &object).unwrap_err(),
        Content::Unreadable(reason) => Error::Object {
            object: format!("{BUCKET}/{path}"),
            reason,
        },
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(
            &error,
            Error::Object {
                reason: Unreadable::Damaged(_),
                ..
            }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("{BUCKET}/{path}: damaged: ")),
        "{text}"
    );
    text
}

#[test]
fn flipped_bits_are_found() {
    let three = "executions-data/0001/three-frames.bin";
    for name in ["minio-drive", "minio-drive-compressed"] {
        let (directory, _) = example(name);
        let drive = Drive::open(directory.path()).unwrap();
        let at = |path: &str| directory.path().join(BUCKET).join(path);
        flip(&part_file(&at(""), three, 1), 40);
        flip(&part_file(&at(""), "multi/two-parts", 2), 3);
        // The last byte of an inline value is the last of the file.
        let inline = at("iodata/0002/report.csv/xl.meta");
        flip(&inline, fs::metadata(&inline).unwrap().len() - 1);
        flip(&at("iodata/0002/no-extension/xl.meta"), 300);

        assert!(
            damaged(&drive, three).ends_with("part.1: frame 1 does not match its HighwayHash-256")
        );
        assert!(damaged(&drive, "multi/two-parts").contains("part.2: frame 1"));
        assert!(damaged(&drive, "iodata/0002/report.csv").contains("HighwayHash"));
        assert!(
            damaged(&drive, "iodata/0002/no-extension")
                .ends_with("metadata does not match its checksum")
        );
        let unreadable: Vec<_> = walk(&drive, BUCKET)
            .into_iter()
            .filter(|found| matches!(found.content, Content::Unreadable(_)))
            .map(|found| found.key.to_string())
            .collect();
        assert_eq!(unreadable, ["iodata/0002/no-extension"]);
        let fine = "executions-data/0001/one-mib.bin";
        read(&drive, BUCKET, fine, &object(&drive, BUCKET, fine)).unwrap();
    }
}

#[test]
fn a_flip_in_a_later_frame_lets_the_earlier_ones_through() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let path = "executions-data/0001/three-frames.bin";
    let shard = (1 << 20) + 32;
    flip(
        &part_file(&directory.path().join(BUCKET), path, 1),
        2 * shard + 5,
    );
    let found = object(&drive, BUCKET, path);
    let mut reader = drive
        .reader(&bucket(BUCKET), &key(path), &found, true)
        .unwrap();
    let mut piece = vec![0; 2 << 20];
    let mut good = 0;

    let error = loop {
        match reader.read_checked(&mut piece) {
            Ok(count) => good += count,
            Err(error) => break error,
        }
    };

    assert_eq!(good, 2 << 20);
    assert!(error.to_string().contains("frame 3"), "{error}");
    assert_eq!(reader.etag_check(), None);
}

#[test]
fn truncated_and_missing_files_are_found() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let base = directory.path().join(BUCKET);
    let cut = |path: &Path, by: u64| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - by).unwrap();
    };
    cut(&part_file(&base, "multi/two-parts", 2), 1);
    cut(&base.join("iodata/0002/report.csv/xl.meta"), 1);
    cut(&base.join("multi/one-part/xl.meta"), 6);
    fs::remove_file(part_file(&base, "executions-data/0001/one-mib.bin", 1)).unwrap();
    fs::write(base.join("folder/child/xl.meta"), "").unwrap();

    assert!(
        damaged(&drive, "multi/two-parts").ends_with("part.2 has 1031 bytes, 1032 belong there")
    );
    assert!(damaged(&drive, "iodata/0002/report.csv").contains("truncated"));
    assert!(damaged(&drive, "multi/one-part").contains("truncated"));
    assert!(damaged(&drive, "executions-data/0001/one-mib.bin").ends_with("part.1 is missing"));
    assert!(damaged(&drive, "folder/child").contains("shorter than its header"));
}

#[test]
fn every_cut_of_an_xl_meta_is_refused_or_reads_the_same() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let path = "iodata/0002/no-extension";
    let meta = directory.path().join(BUCKET).join(path).join("xl.meta");
    let whole = fs::read(&meta).unwrap();
    for len in 0..whole.len() {
        fs::write(&meta, &whole[..len]).unwrap();

        damaged(&drive, path);
    }
}

#[test]
fn an_object_that_is_replaced_under_the_reader_is_no_damage() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let base = directory.path().join(BUCKET);
    let replace = |path: &str| {
        let meta = base.join(path).join("xl.meta");
        let body = fs::read(&meta).unwrap();
        fs::remove_file(&meta).unwrap();
        fs::write(base.join("placeholder"), "").unwrap();
        fs::write(&meta, body).unwrap();
        fs::remove_file(base.join("placeholder")).unwrap();
    };
    for path in ["iodata/0002/report.csv", "executions-data/0001/one-mib.bin"] {
        let found = object(&drive, BUCKET, path);
        replace(path);
        if path.ends_with("one-mib.bin") {
            fs::remove_file(part_file(&base, path, 1)).unwrap();
        }

        let error = read(&drive, BUCKET, path, &found).unwrap_err();

        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
}

#[test]
fn an_etag_of_another_store_is_told_but_is_no_damage() {
    let (directory, _) = example("minio-drive");
    let drive = Drive::open(directory.path()).unwrap();
    let path = "iodata/0002/no-extension";
    let mut found = object(&drive, BUCKET, path);
    for (etag, expected) in [
        ("00000000000000000000000000000000", ETagCheck::Differs),
        ("00000000000000000000000000000000-1", ETagCheck::Differs),
        (
            "00000000000000000000000000000000-7",
            ETagCheck::NotComputable,
        ),
        ("an-etag", ETagCheck::NotComputable),
    ] {
        found.meta.etag = filestore_common::ETag::new(etag);
        let mut reader = drive
            .reader(&bucket(BUCKET), &key(path), &found, true)
            .unwrap();

        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();

        assert_eq!(reader.etag_check(), Some(expected), "{etag}");
    }
}

#[test]
fn strays_links_and_old_formats_are_named() {
    let (directory, _) = example("minio-drive");
    let base = directory.path().join("empty-bucket");
    fs::create_dir_all(base.join("old/object")).unwrap();
    fs::write(base.join("old/object/xl.json"), "{}").unwrap();
    fs::write(base.join("plain-file"), "FS mode").unwrap();
    std::os::unix::fs::symlink("/etc", base.join("link")).unwrap();
    fs::create_dir(base.join("5f0f480c-cbf8-42a4-8dcf-8ee7ce5641bc")).unwrap();
    fs::write(
        base.join("5f0f480c-cbf8-42a4-8dcf-8ee7ce5641bc/part.1"),
        "orphan",
    )
    .unwrap();
    let latin = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(base.join(latin)).unwrap();
    let drive = Drive::open(directory.path()).unwrap();

    let mut strays = Vec::new();
    let mut keys = Vec::new();
    for item in drive.walk(&bucket("empty-bucket"), None).unwrap() {
        match item.unwrap() {
            WalkItem::Stray(stray) => strays.push(stray.path().to_owned()),
            WalkItem::Key(found) => {
                keys.push((found.key.to_string(), format!("{:?}", found.content)));
            }
        }
    }

    strays.sort_unstable();
    assert_eq!(
        strays,
        [
            "empty-bucket/5f0f480c-cbf8-42a4-8dcf-8ee7ce5641bc/part.1",
            "empty-bucket/caf\u{fffd}",
            "empty-bucket/link",
            "empty-bucket/plain-file"
        ]
    );
    assert_eq!(
        keys,
        [("old/object".to_owned(), "Unreadable(Legacy)".to_owned())]
    );
}
