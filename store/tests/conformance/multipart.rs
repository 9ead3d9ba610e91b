//! Multipart uploads from beginning to end.

use filestore_common::{ETag, ObjectInfo};
use filestore_store::{
    CompleteOptions, CompletedPart, Error, Precondition, Result, Store, UploadQuery, UploadSpec,
};
use md5::{Digest, Md5};

use crate::support::*;

/// Smallest part that is not the last.
pub(crate) const FIVE_MIB: usize = 5 << 20;

pub(crate) fn create(store: &Store, name: &str) -> String {
    store
        .create_upload(&cases_bucket(), &key(name), &UploadSpec::default())
        .unwrap()
}

/// Uploads a part and returns how a completion names it.
pub(crate) fn upload_part(
    store: &Store,
    name: &str,
    id: &str,
    number: u32,
    bytes: &[u8],
) -> CompletedPart {
    try_upload_part(store, name, id, number, bytes).unwrap()
}

pub(crate) fn try_upload_part(
    store: &Store,
    name: &str,
    id: &str,
    number: u32,
    bytes: &[u8],
) -> Result<CompletedPart> {
    let size = Some(bytes.len() as u64);
    let mut staged = store.stage_part(&cases_bucket(), &key(name), id, number, size)?;
    for chunk in bytes.chunks(1 << 20) {
        staged.write(chunk)?;
    }
    let info = store.publish_part(staged, &md5_of(bytes), None)?;
    assert_eq!((info.number, info.size), (number, bytes.len() as u64));
    assert_eq!(info.etag, md5_of(bytes));
    Ok(CompletedPart {
        number,
        etag: info.etag,
        checksum: None,
    })
}

pub(crate) fn complete(
    store: &Store,
    name: &str,
    id: &str,
    parts: &[CompletedPart],
) -> Result<ObjectInfo> {
    complete_with(store, name, id, parts, &CompleteOptions::default())
}

pub(crate) fn complete_with(
    store: &Store,
    name: &str,
    id: &str,
    parts: &[CompletedPart],
    options: &CompleteOptions,
) -> Result<ObjectInfo> {
    store.complete_upload(&cases_bucket(), &key(name), id, parts, options)
}

/// Options that take parts below 5 MiB, to keep the cases small.
pub(crate) fn small() -> CompleteOptions {
    CompleteOptions {
        allow_small_parts: true,
        ..CompleteOptions::default()
    }
}

/// ETag of a multipart object, from the definition.
pub(crate) fn multipart_etag(parts: &[&[u8]]) -> ETag {
    let digests: Vec<u8> = parts.iter().flat_map(Md5::digest).collect();
    ETag::new(format!(
        "{}-{}",
        hex::encode(Md5::digest(digests)),
        parts.len()
    ))
}

pub(crate) fn uploads(store: &Store) -> Vec<(String, String)> {
    let query = UploadQuery {
        max_uploads: 1000,
        ..UploadQuery::default()
    };
    let page = store.list_uploads(&cases_bucket(), &query).unwrap();
    page.uploads
        .into_iter()
        .map(|upload| (upload.key.to_string(), upload.upload_id))
        .collect()
}

/// Checks that nothing of any upload is left on the volume.
pub(crate) fn assert_no_upload_left(volume: &Volume) {
    let area = volume.bucket_path().join(".sgwtmp/multipart");
    let left: Vec<_> = std::fs::read_dir(area)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(uploads(volume.store()), []);
}

cases! {
    fn parts_become_one_object(volume: &Volume) {
        let store = volume.store();
        let (first, second, last) = (body(FIVE_MIB, 1), body(FIVE_MIB + 13, 2), body(77, 3));
        for name in ["big", "deep/er/big", "over//flow"] {
            let spec = UploadSpec {
                headers: filestore_common::ContentHeaders {
                    content_type: Some("video/mp4".into()),
                    cache_control: Some("no-store".into()),
                    ..filestore_common::ContentHeaders::default()
                },
                user: [("who".to_owned(), "Zoë".to_owned())].into(),
                tags: vec![("b".into(), "1".into()), ("a".into(), "2".into())],
                checksum: None,
            };
            let id = store.create_upload(&cases_bucket(), &key(name), &spec).unwrap();
            assert!(matches!(head(store, name), Err(Error::NoSuchKey)), "{name}");
            // In any order, one of them twice.
            let c = upload_part(store, name, &id, 9000, &last);
            upload_part(store, name, &id, 1, b"replaced below");
            let b = upload_part(store, name, &id, 2, &second);
            let a = upload_part(store, name, &id, 1, &first);
            let upload = store.upload(&cases_bucket(), &key(name), &id).unwrap();
            assert_eq!((upload.spec, upload.upload_id), (spec.clone(), id.clone()));
            assert_eq!(all_keys(store), Vec::<String>::new(), "unseen until completed");

            let done = complete(store, name, &id, &[a, b, c]).unwrap();

            let (info, bytes) = read(store, &cases_bucket(), name);
            assert_eq!(info, done);
            assert!(bytes == [first.as_slice(), &second, &last].concat());
            assert_eq!(info.meta.etag, multipart_etag(&[&first, &second, &last]));
            assert_eq!(info.meta.part_sizes, [first.len(), second.len(), last.len()].map(|n| n as u64));
            assert_eq!(info.meta.headers, spec.headers);
            assert_eq!(info.meta.user, spec.user);
            assert_eq!(info.meta.tags, spec.tags);
            assert_no_upload_left(volume);
            assert!(delete(store, name));
        }
    }

    fn parts_left_out_of_the_completion_are_dropped(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "k");
        upload_part(store, "k", &id, 1, b"one");
        let two = upload_part(store, "k", &id, 2, b"two");
        upload_part(store, "k", &id, 3, b"three");

        let info = complete(store, "k", &id, &[two]).unwrap();

        assert_eq!(get(store, "k"), b"two");
        assert_eq!(info.meta.etag, multipart_etag(&[b"two"]));
        assert_eq!(info.meta.part_sizes, [3]);
        assert_no_upload_left(volume);
    }

    fn an_empty_last_part_is_a_part(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "empty");
        let only = upload_part(store, "empty", &id, 1, b"");
        let info = complete(store, "empty", &id, &[only]).unwrap();
        assert_eq!((info.size, info.meta.etag), (0, multipart_etag(&[b""])));
        assert_eq!(info.meta.part_sizes, [0]);
    }

    fn a_wrong_completion_says_what_is_wrong_and_may_be_repeated(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "k");
        let one = upload_part(store, "k", &id, 1, b"small");
        let two = upload_part(store, "k", &id, 2, b"tail");
        let attempt = |parts: &[&CompletedPart], options: &CompleteOptions| {
            let parts: Vec<_> = parts.iter().map(|part| (*part).clone()).collect();
            complete_with(store, "k", &id, &parts, options)
        };
        let other = CompletedPart { etag: two.etag.clone(), ..one.clone() };
        let missing = CompletedPart { number: 3, ..two.clone() };

        assert!(matches!(attempt(&[&two, &one], &small()), Err(Error::InvalidPartOrder)));
        assert!(matches!(attempt(&[&one, &one], &small()), Err(Error::InvalidPartOrder)));
        assert!(matches!(attempt(&[&other, &two], &small()), Err(Error::InvalidPart(1))));
        assert!(matches!(attempt(&[&one, &missing], &small()), Err(Error::InvalidPart(3))));
        assert!(matches!(
            attempt(&[&one, &two], &CompleteOptions::default()),
            Err(Error::PartTooSmall { number: 1, size: 5 })
        ));
        let wrong_size = CompleteOptions { object_size: Some(10), ..small() };
        assert!(matches!(attempt(&[&one, &two], &wrong_size), Err(Error::BadDigest(_))));
        assert!(matches!(head(store, "k"), Err(Error::NoSuchKey)));

        let right_size = CompleteOptions { object_size: Some(9), ..small() };
        attempt(&[&one, &two], &right_size).unwrap();
        assert_eq!(get(store, "k"), b"smalltail");
    }

    fn repeating_a_completion_succeeds_with_the_same_answer(volume: &Volume) {
        // versitygw issue 1064.
        let store = volume.store();
        for name in ["k", "over//flow"] {
            let id = create(store, name);
            let parts = [
                upload_part(store, name, &id, 1, b"a"),
                upload_part(store, name, &id, 2, b"b"),
            ];
            let first = complete_with(store, name, &id, &parts, &small()).unwrap();

            assert_eq!(complete_with(store, name, &id, &parts, &small()).unwrap(), first);
            let absent = CompleteOptions { precondition: Precondition::Absent, ..small() };
            assert_eq!(complete_with(store, name, &id, &parts, &absent).unwrap(), first);

            put(store, name, b"newer");
            let late = complete_with(store, name, &id, &parts, &small());
            assert!(matches!(late, Err(Error::NoSuchUpload)), "{late:?}");
            assert_eq!(get(store, name), b"newer");
        }
    }

    fn completions_at_once_all_succeed_and_write_once(volume: &Volume) {
        let store = volume.store();
        let other = volume.second_store();
        let id = create(store, "k");
        let parts = [
            upload_part(store, "k", &id, 1, &body(300_000, 1)),
            upload_part(store, "k", &id, 2, &body(200_000, 2)),
        ];
        let infos: Vec<ObjectInfo> = std::thread::scope(|scope| {
            let threads: Vec<_> = [store, &other, store, &other]
                .into_iter()
                .map(|store| scope.spawn(|| complete_with(store, "k", &id, &parts, &small()).unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });

        assert!(infos.iter().all(|info| *info == infos[0]), "{infos:?}");
        assert_no_upload_left(volume);
    }

    fn completions_obey_preconditions(volume: &Volume) {
        let store = volume.store();
        for name in ["k", "over//flow"] {
            put(store, name, b"there");
            let id = create(store, name);
            let parts = [upload_part(store, name, &id, 1, b"new")];
            let with = |precondition| CompleteOptions { precondition, ..CompleteOptions::default() };

            let absent = complete_with(store, name, &id, &parts, &with(Precondition::Absent));
            assert!(matches!(absent, Err(Error::PreconditionFailed)), "{absent:?}");
            let other = with(Precondition::Matches(ETag::new("other")));
            let refused = complete_with(store, name, &id, &parts, &other);
            assert!(matches!(refused, Err(Error::PreconditionFailed)), "{refused:?}");
            assert_eq!(get(store, name), b"there");

            let right = with(Precondition::Matches(md5_of(b"there")));
            complete_with(store, name, &id, &parts, &right).unwrap();
            assert_eq!(get(store, name), b"new");
        }
        assert_no_upload_left(volume);
    }

    fn one_of_many_conditional_completions_wins(volume: &Volume) {
        let store = volume.store();
        let prepared: Vec<_> = (0..8)
            .map(|number| {
                let id = create(store, "k");
                let part = upload_part(store, "k", &id, 1, format!("from {number}").as_bytes());
                (id, part)
            })
            .collect();
        let absent = CompleteOptions { precondition: Precondition::Absent, ..small() };

        let won = std::thread::scope(|scope| {
            let threads: Vec<_> = prepared
                .iter()
                .map(|(id, part)| {
                    let absent = &absent;
                    scope.spawn(move || {
                        match complete_with(store, "k", id, std::slice::from_ref(part), absent) {
                            Ok(_) => 1,
                            Err(Error::PreconditionFailed | Error::Conflict) => 0,
                            Err(other) => panic!("{other:?}"),
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>()
        });

        assert_eq!(won, 1);
        assert_eq!(uploads(store).len(), 7);
    }
}
