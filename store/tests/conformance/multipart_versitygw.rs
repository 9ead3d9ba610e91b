//! Uploads that versitygw 1.8.0 began, in the form that it was seen to write; and what it needs
//! of ours. Extended attributes only, as there is no such exchange in sidecar mode.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use filestore_common::{ChecksumAlgorithm, ChecksumKind};
use filestore_store::{Durability, Error, MetadataMode, UploadSpec};
use rustix::fs::XattrFlags;
use sha2::{Digest, Sha256};

use crate::multipart::*;
use crate::support::*;

const ID: &str = "61859dab-e8de-42cc-a302-6c89e19b4d9e";

fn volume() -> Volume {
    Volume::new(MetadataMode::Xattr, Durability::Relaxed)
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, format!("user.{name}"), value, XattrFlags::empty()).unwrap();
}

fn get_attribute(path: &Path, name: &str) -> Option<String> {
    let mut buffer = [0; 4096];
    let length = rustix::fs::getxattr(path, format!("user.{name}"), &mut buffer[..]).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn key_directory(volume: &Volume, name: &str) -> PathBuf {
    let hash = hex::encode(Sha256::digest(name));
    volume.bucket_path().join(".sgwtmp/multipart").join(hash)
}

/// An upload of versitygw with two parts; `directory` is the name of the upload's directory.
fn begun_there(volume: &Volume, name: &str, directory: &str) -> PathBuf {
    let parent = key_directory(volume, name);
    let upload = parent.join(directory);
    fs::create_dir_all(&upload).unwrap();
    set(&parent, "objname", name.as_bytes());
    set(&upload, "content-type", b"video/mp4");
    set(&upload, "metadata", br#"{"who":"there"}"#);
    set(&upload, "X-Amz-Tagging", br#"{"a":"b"}"#);
    for (number, bytes) in [("1", body(FIVE_MIB, 1)), ("2", b"tail".to_vec())] {
        let part = upload.join(number);
        fs::write(&part, &bytes).unwrap();
        set(&part, "etag", md5_of(&bytes).quoted().as_bytes());
        set(&part, "part-crc64nvme", b"AAAAAAAAAAA=");
    }
    upload
}

#[test]
fn an_upload_begun_there_is_completed_here() {
    let volume = volume();
    let store = volume.store();
    begun_there(&volume, "a/b", ID);
    let added = upload_part(store, "a/b", ID, 3, b"more");

    assert_eq!(uploads(store), [("a/b".to_owned(), ID.to_owned())]);
    let (listed, _) = store
        .list_parts(&cases_bucket(), &key("a/b"), ID, 0, 10)
        .unwrap();
    let named: Vec<_> = listed
        .iter()
        .map(|part| filestore_store::CompletedPart {
            number: part.number,
            etag: part.etag.clone(),
            checksum: None,
        })
        .collect();
    assert_eq!(named[2], added);
    let info = complete_with(store, "a/b", ID, &named, &small()).unwrap();

    assert_eq!(info.meta.headers.content_type.as_deref(), Some("video/mp4"));
    assert_eq!(info.meta.user["who"], "there");
    assert_eq!(info.meta.tags, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(
        get(store, "a/b"),
        [&body(FIVE_MIB, 1)[..], b"tailmore"].concat()
    );
    assert_no_upload_left(&volume);
}

#[test]
fn an_upload_that_it_left_in_the_middle_of_a_completion_is_found_again() {
    let volume = volume();
    let store = volume.store();
    let claimed = format!("{ID}.1da464b8da84c31047a65f5858e78820-2.inprogress");
    begun_there(&volume, "k", &claimed);
    begun_there(&volume, "other", &claimed);

    let found = [
        ("k".to_owned(), ID.to_owned()),
        ("other".to_owned(), ID.to_owned()),
    ];
    assert_eq!(uploads(store), found);
    store
        .abort_upload(&cases_bucket(), &key("other"), ID)
        .unwrap();
    let (listed, _) = store
        .list_parts(&cases_bucket(), &key("k"), ID, 0, 10)
        .unwrap();
    assert_eq!(listed.len(), 2);
    store.abort_upload(&cases_bucket(), &key("k"), ID).unwrap();
    assert!(matches!(
        store.abort_upload(&cases_bucket(), &key("k"), ID),
        Err(Error::NoSuchUpload)
    ));
    assert_no_upload_left(&volume);
}

#[test]
fn ours_carry_what_it_reads() {
    let volume = volume();
    let store = volume.store();
    let plain = create(store, "k");
    upload_part(store, "k", &plain, 7, b"123456789");
    let declared = store
        .create_upload(
            &cases_bucket(),
            &key("k"),
            &UploadSpec {
                checksum: Some((ChecksumAlgorithm::Crc32, ChecksumKind::FullObject)),
                ..UploadSpec::default()
            },
        )
        .unwrap();
    upload_part(store, "k", &declared, 7, b"123456789");

    let parent = key_directory(&volume, "k");
    assert_eq!(get_attribute(&parent, "objname").as_deref(), Some("k"));
    let part = parent.join(&plain).join("7");
    assert_eq!(fs::read(&part).unwrap(), b"123456789");
    assert_eq!(
        get_attribute(&part, "etag"),
        Some(md5_of(b"123456789").quoted())
    );
    // The check value of CRC-64/NVME.
    assert_eq!(
        get_attribute(&part, "part-crc64nvme").as_deref(),
        Some("rosUhgp5mIg=")
    );
    assert_eq!(get_attribute(&part, "checksums"), None);
    let upload = parent.join(&declared);
    let algorithm = get_attribute(&upload, "checksums").unwrap();
    assert!(
        algorithm.starts_with(r#"{"Algorithm":"CRC32","Type":"FULL_OBJECT","CRC32":null,"#),
        "{algorithm}"
    );
    let sum = get_attribute(&upload.join("7"), "checksums").unwrap();
    assert!(
        sum.starts_with(r#"{"Algorithm":"CRC32","Type":"","CRC32":"y/Q5Jg==","#),
        "{sum}"
    );
}

#[test]
fn nothing_of_a_part_stays_on_the_object_that_it_became() {
    let volume = volume();
    let store = volume.store();
    let id = create(store, "k");
    let only = upload_part(store, "k", &id, 1, b"whole");
    let before = fs::metadata(key_directory(&volume, "k").join(&id).join("1")).unwrap();

    let info = complete(store, "k", &id, &[only]).unwrap();

    let path = volume.bucket_path().join("k");
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.ino(), before.ino(), "not copied");
    assert_eq!(get_attribute(&path, "etag"), Some(info.meta.etag.quoted()));
    for name in [
        "part-crc64nvme",
        "filestore.part-etag",
        "filestore.checksums",
    ] {
        assert_eq!(get_attribute(&path, name), None, "{name}");
    }
}

#[test]
fn a_part_that_nearly_became_the_object_is_still_a_part() {
    let volume = volume();
    let store = volume.store();
    let id = create(store, "k");
    let one = upload_part(store, "k", &id, 1, b"one");
    let part = key_directory(&volume, "k").join(&id).join("1");
    // As a crash leaves it after the attributes were set and before the name was given.
    set(
        &part,
        "filestore.part-etag",
        md5_of(b"one").quoted().as_bytes(),
    );
    set(&part, "etag", b"\"1da464b8da84c31047a65f5858e78820-1\"");
    let sum = br#"{"Algorithm":"CRC32","Type":"COMPOSITE","CRC32":"y/Q5Jg==-1"}"#;
    set(&part, "checksums", sum);
    let (listed, _) = store
        .list_parts(&cases_bucket(), &key("k"), &id, 0, 10)
        .unwrap();
    assert_eq!((&listed[0].etag, &listed[0].checksum), (&one.etag, &None));

    let two = upload_part(store, "k", &id, 2, b"two");
    complete_with(store, "k", &id, &[one, two], &small()).unwrap();

    assert_eq!(get(store, "k"), b"onetwo");
}

#[test]
fn thousands_of_parts_become_an_object_also_where_their_sizes_do_not_fit() {
    let volume = volume();
    let store = volume.store();
    let id = create(store, "k");
    let mut sizes = Vec::new();
    let mut whole = Vec::new();
    let parts: Vec<_> = (1..=1500_u32)
        .map(|number| {
            let bytes = body(1 + (number as usize * 7919) % 97, 3);
            sizes.push(bytes.len() as u64);
            whole.extend_from_slice(&bytes);
            upload_part(store, "k", &id, number, &bytes)
        })
        .collect();

    let info = complete_with(store, "k", &id, &parts, &small()).unwrap();

    assert!(info.meta.part_sizes == sizes || info.meta.part_sizes.is_empty());
    assert_eq!(info.meta.etag.part_count(), Some(1500));
    assert_eq!(get(store, "k"), whole);
    assert_eq!(
        complete_with(store, "k", &id, &parts, &small()).unwrap(),
        info
    );
}

#[test]
fn a_completion_that_died_before_its_parts_went_is_finished_not_repeated() {
    let volume = volume();
    let store = volume.store();
    let id = create(store, "k");
    let parts = [
        upload_part(store, "k", &id, 1, b"one"),
        upload_part(store, "k", &id, 2, b"two"),
    ];
    let first = complete_with(store, "k", &id, &parts, &small()).unwrap();
    let inode = fs::metadata(volume.bucket_path().join("k")).unwrap().ino();
    // What a crash right after the object appeared leaves.
    let upload = key_directory(&volume, "k").join(&id);
    fs::create_dir_all(&upload).unwrap();
    set(&key_directory(&volume, "k"), "objname", b"k");
    fs::write(upload.join("1"), b"one").unwrap();
    assert_eq!(uploads(store), [("k".to_owned(), id.clone())]);

    let again = complete_with(store, "k", &id, &parts, &small()).unwrap();

    assert_eq!(again, first);
    let after = fs::metadata(volume.bucket_path().join("k")).unwrap().ino();
    assert_eq!(after, inode, "not written again");
    assert_no_upload_left(&volume);
}
