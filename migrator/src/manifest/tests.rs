use super::*;

fn line(bucket: &str, key: &str, etag: &str, size: u64) -> Line {
    Line {
        bucket: BucketName::new(bucket).unwrap(),
        key: ObjectKey::new(key).unwrap(),
        etag: Some(ETag::new(etag)),
        target_etag: None,
        size,
        modified: 5,
        target_modified: None,
        meta: None,
        target_meta: None,
        settled: None,
    }
}

#[test]
fn lines_of_older_manifests_are_read() {
    let old = r#"{"bucket":"bkt","key":"a","etag":"e1","size":3,"modified":5}"#;
    let read: Line = serde_json::from_str(old).unwrap();
    assert_eq!(read, line("bkt", "a", "e1", 3));
    assert_eq!(serde_json::to_string(&read).unwrap(), old);
}

#[test]
fn the_metadata_digest_covers_all_that_s3_shows() {
    let plain = ObjectMeta::new(ETag::new("e"));
    let with = |change: &dyn Fn(&mut ObjectMeta)| {
        let mut meta = plain.clone();
        change(&mut meta);
        meta_digest(&meta)
    };
    let tags = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        with(&|meta| meta.tags = pairs.clone().collect())
    };
    let different = [
        meta_digest(&plain),
        with(&|meta| meta.headers.content_type = Some("text/plain".into())),
        with(&|meta| meta.headers.expires = Some("text/plain".into())),
        with(&|meta| drop(meta.user.insert("a".into(), "b".into()))),
        tags(&[("a", "b")]),
        tags(&[("a", "b"), ("c", "d")]),
        tags(&[("a", "b\0t c\0d")]),
    ];
    let mut unique = different.to_vec();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), different.len(), "{different:?}");
    assert_eq!(
        tags(&[("c", "d"), ("a", "b")]),
        tags(&[("a", "b"), ("c", "d")])
    );
    // Neither the ETag nor a default that the store put in counts.
    assert_eq!(with(&|meta| meta.etag = ETag::new("f")), different[0]);
    let named = |meta: &mut ObjectMeta| {
        meta.headers.content_type = Some("binary/octet-stream".into());
    };
    assert_eq!(with(&named), different[0]);
}

#[test]
fn lines_come_back_and_the_digest_can_be_recomputed_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(MANIFEST_FILE);
    let lines = [line("bkt", "a\nb", "e1", 3), line("bkt", "é", "e2-2", 0)];
    let mut writer = Writer::create(&path).unwrap();
    for line in &lines {
        writer.add(line).unwrap();
    }
    assert!(!path.exists(), "visible before it is complete");
    let (digest, counts) = writer.finish().unwrap();

    let by_hand = Sha256::digest("bkt\0a\nb\0e1\x003\0bkt\0é\0e2-2\x000\0".as_bytes());
    assert_eq!(digest, hex::encode(by_hand));
    assert_eq!((counts.objects, counts.bytes), (2, 3));
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.line().unwrap().as_ref(), Some(&lines[0]));
    assert_eq!(reader.line().unwrap().as_ref(), Some(&lines[1]));
    assert_eq!(reader.line().unwrap(), None);
}

#[test]
fn a_truncated_manifest_is_damaged_and_not_shorter() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(MANIFEST_FILE);
    let mut writer = Writer::create(&path).unwrap();
    writer.add(&line("bkt", "a", "e1", 3)).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();

    let mut reader = Reader::open(&path).unwrap();
    let end = loop {
        match reader.line() {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert_eq!(end.unwrap_err().kind, Kind::Damaged);
}

#[test]
fn two_writers_of_one_manifest_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(MANIFEST_FILE);
    std::fs::write(directory.path().join("manifest.jsonl.gz.new"), "killed").unwrap();
    let mut first = Writer::create(&path).unwrap();
    first.add(&line("bkt", "a", "first", 1)).unwrap();
    let mut second = Writer::create(&path).unwrap();
    second.add(&line("bkt", "b", "second", 2)).unwrap();
    second.finish().unwrap();

    // Goes on writing, and must not reach what has the name by now.
    for key in 0..10_000 {
        first
            .add(&line("bkt", &format!("c{key}"), "first", 1))
            .unwrap();
    }
    assert!(first.finish().is_err());

    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.line().unwrap(), Some(line("bkt", "b", "second", 2)));
    assert_eq!(reader.line().unwrap(), None);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
