//! Uploads in progress: looking them up, listing, aborting.

use std::collections::BTreeSet;
use std::sync::Barrier;

use filestore_store::{Error, UploadQuery, UploadSpec};

use crate::multipart::*;
use crate::support::*;

/// Ids that no upload has, and that must lead nowhere.
const STRANGE_IDS: [&str; 9] = [
    "",
    "../x",
    "..",
    ".",
    "a/b",
    "0191d9c5-9c2e-7bb0-8000-000000000000",
    "x\ny",
    "é",
    "filestore.lock",
];

/// All pages of one entry: (key, id) of uploads, and prefixes.
fn walk(volume: &Volume, mut query: UploadQuery) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    loop {
        let page = volume
            .store()
            .list_uploads(&cases_bucket(), &query)
            .unwrap();
        assert!(page.uploads.len() + page.prefixes.len() <= query.max_uploads);
        seen.extend(
            page.uploads
                .into_iter()
                .map(|upload| (upload.key.to_string(), upload.upload_id)),
        );
        seen.extend(
            page.prefixes
                .into_iter()
                .map(|prefix| (prefix, String::new())),
        );
        let Some((key, id)) = page.next else {
            return seen;
        };
        query.key_marker = Some(key);
        query.upload_id_marker = Some(id).filter(|id| !id.is_empty());
    }
}

cases! {
    fn strange_ids_name_no_upload(volume: &Volume) {
        let store = volume.store();
        let real = create(store, "k");
        let part = upload_part(store, "k", &real, 1, b"x");
        let (bucket, name) = (cases_bucket(), key("k"));
        for id in STRANGE_IDS {
            assert!(matches!(store.upload(&bucket, &name, id), Err(Error::NoSuchUpload)), "{id:?}");
            assert!(matches!(store.stage_part(&bucket, &name, id, 1, None), Err(Error::NoSuchUpload)));
            assert!(matches!(store.list_parts(&bucket, &name, id, 0, 10), Err(Error::NoSuchUpload)));
            assert!(matches!(store.abort_upload(&bucket, &name, id), Err(Error::NoSuchUpload)));
            let parts = [part.clone()];
            assert!(matches!(complete(store, "k", id, &parts), Err(Error::NoSuchUpload)));
        }
        // The right id under another key.
        assert!(matches!(store.upload(&bucket, &key("other"), &real), Err(Error::NoSuchUpload)));
        assert!(matches!(
            store.abort_upload(&bucket, &key("other"), &real),
            Err(Error::NoSuchUpload)
        ));
        let nowhere = filestore_common::BucketName::new("nowhere").unwrap();
        assert!(matches!(store.upload(&nowhere, &name, &real), Err(Error::NoSuchBucket)));
        assert!(matches!(
            store.create_upload(&nowhere, &name, &UploadSpec::default()),
            Err(Error::NoSuchBucket)
        ));
        assert!(matches!(
            store.list_uploads(&nowhere, &UploadQuery::default()),
            Err(Error::NoSuchBucket)
        ));
        assert_eq!(uploads(store), [("k".to_owned(), real)]);
    }

    fn parts_are_listed_in_order_and_by_pages(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "k");
        for number in [10, 2, 1, 10_000, 300] {
            upload_part(store, "k", &id, number, number.to_string().as_bytes());
        }
        let list = |after, max| {
            let (parts, more) = store.list_parts(&cases_bucket(), &key("k"), &id, after, max).unwrap();
            let numbers: Vec<u32> = parts.iter().map(|part| part.number).collect();
            for part in parts {
                let text = part.number.to_string();
                assert_eq!(part.etag, md5_of(text.as_bytes()));
                assert_eq!(part.size, text.len() as u64);
                assert_eq!(part.checksum, None);
            }
            (numbers, more)
        };

        assert_eq!(list(0, 1000), (vec![1, 2, 10, 300, 10_000], false));
        assert_eq!(list(0, 2), (vec![1, 2], true));
        assert_eq!(list(2, 3), (vec![10, 300, 10_000], false));
        assert_eq!(list(10_000, 3), (vec![], false));
        for number in [0, 10_001] {
            let staged = store.stage_part(&cases_bucket(), &key("k"), &id, number, None);
            assert!(staged.is_err(), "{number}");
        }
    }

    fn the_last_upload_of_a_part_counts(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "k");
        let old = upload_part(store, "k", &id, 1, b"old bytes");
        let new = upload_part(store, "k", &id, 1, b"new");

        let (parts, _) = store.list_parts(&cases_bucket(), &key("k"), &id, 0, 10).unwrap();
        assert_eq!((parts.len(), parts[0].size), (1, 3));
        assert!(matches!(complete(store, "k", &id, &[old]), Err(Error::InvalidPart(1))));
        complete(store, "k", &id, &[new]).unwrap();
        assert_eq!(get(store, "k"), b"new");
    }

    fn aborting_leaves_nothing(volume: &Volume) {
        let store = volume.store();
        for name in ["k", "over//flow"] {
            let (first, second) = (create(store, name), create(store, name));
            upload_part(store, name, &first, 1, &body(2 << 20, 1));
            let part = upload_part(store, name, &second, 1, b"x");
            let (bucket, id) = (cases_bucket(), key(name));

            store.abort_upload(&bucket, &id, &first).unwrap();

            assert!(matches!(store.abort_upload(&bucket, &id, &first), Err(Error::NoSuchUpload)));
            assert!(matches!(store.list_parts(&bucket, &id, &first, 0, 1), Err(Error::NoSuchUpload)));
            assert_eq!(uploads(store), [(name.to_owned(), second.clone())]);
            complete(store, name, &second, &[part]).unwrap();
            assert_no_upload_left(volume);
            delete(store, name);
        }
    }

    fn a_part_whose_upload_was_aborted_is_refused(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "k");
        let mut staged = store.stage_part(&cases_bucket(), &key("k"), &id, 1, None).unwrap();
        staged.write(b"late").unwrap();

        store.abort_upload(&cases_bucket(), &key("k"), &id).unwrap();

        let late = store.publish_part(staged, &md5_of(b"late"), None);
        assert!(matches!(late, Err(Error::NoSuchUpload)), "{late:?}");
        assert_no_upload_left(volume);
    }

    fn aborts_and_parts_at_once_leave_nothing(volume: &Volume) {
        let store = volume.store();
        for _ in 0..10 {
            let id = create(store, "k");
            let barrier = Barrier::new(4);
            std::thread::scope(|scope| {
                for number in 1..4 {
                    let (barrier, id) = (&barrier, &id);
                    scope.spawn(move || {
                        barrier.wait();
                        for round in 0_u8..5 {
                            match try_upload_part(store, "k", id, number, &body(5000, round)) {
                                Ok(_) => {}
                                Err(Error::NoSuchUpload) => return,
                                Err(other) => panic!("{other:?}"),
                            }
                        }
                    });
                }
                barrier.wait();
                store.abort_upload(&cases_bucket(), &key("k"), &id).unwrap();
            });
            assert_no_upload_left(volume);
        }
    }

    fn an_abort_during_a_completion_comes_before_or_after_it(volume: &Volume) {
        let store = volume.store();
        for round in 0..10 {
            let name = format!("k{round}");
            let id = create(store, &name);
            let parts = [
                upload_part(store, &name, &id, 1, &body(100_000, 1)),
                upload_part(store, &name, &id, 2, b"x"),
            ];
            let (completed, aborted) = std::thread::scope(|scope| {
                let abort = scope.spawn(|| store.abort_upload(&cases_bucket(), &key(&name), &id));
                let completed = complete_with(store, &name, &id, &parts, &small());
                (completed, abort.join().unwrap())
            });
            match (completed, aborted) {
                (Ok(_), Err(Error::NoSuchUpload)) => assert!(head(store, &name).is_ok()),
                (Err(Error::NoSuchUpload), Ok(())) => {
                    assert!(matches!(head(store, &name), Err(Error::NoSuchKey)));
                }
                other => panic!("{other:?}"),
            }
            assert_no_upload_left(volume);
        }
    }

    fn uploads_are_listed_by_key_then_age_each_once(volume: &Volume) {
        // versitygw issue 2149.
        let store = volume.store();
        let mut expected = Vec::new();
        for name in ["a", "b", "b", "b", "b/c", "over//flow"] {
            expected.push((name.to_owned(), create(store, name)));
        }
        let all = UploadQuery { max_uploads: 1000, ..UploadQuery::default() };
        assert_eq!(walk(volume, all.clone()), expected);
        for max_uploads in [1, 2, 5] {
            assert_eq!(walk(volume, UploadQuery { max_uploads, ..all.clone() }), expected);
        }
        let none = store.list_uploads(&cases_bucket(), &UploadQuery::default()).unwrap();
        assert!(none.uploads.is_empty() && none.next.is_none());

        let below = UploadQuery { prefix: "b".into(), ..all.clone() };
        assert_eq!(walk(volume, below), expected[1..5]);
        let after = UploadQuery { key_marker: Some("b".into()), ..all.clone() };
        assert_eq!(walk(volume, after), expected[4..]);
        let inside = UploadQuery {
            key_marker: Some("b".into()),
            upload_id_marker: Some(expected[2].1.clone()),
            ..all
        };
        assert_eq!(walk(volume, inside), expected[3..]);
    }

    fn uploads_are_grouped_by_delimiter(volume: &Volume) {
        let store = volume.store();
        for name in ["x", "x/1", "x/2", "y/z/1", "z"] {
            create(store, name);
        }
        let names = |query: UploadQuery| -> BTreeSet<String> {
            walk(volume, query).into_iter().map(|(name, _)| name).collect()
        };
        for max_uploads in [1, 1000] {
            let top = UploadQuery { delimiter: Some("/".into()), max_uploads, ..UploadQuery::default() };
            assert_eq!(names(top.clone()), ["x", "x/", "y/", "z"].map(str::to_owned).into());
            let below = UploadQuery { prefix: "y/".into(), ..top };
            assert_eq!(names(below), ["y/z/"].map(str::to_owned).into());
        }
    }

    fn a_bucket_with_unfinished_uploads_can_be_deleted(volume: &Volume) {
        let store = volume.store();
        let id = create(store, "k");
        upload_part(store, "k", &id, 1, b"x");

        store.delete_bucket(&cases_bucket()).unwrap();

        store.create_bucket(&cases_bucket(), "owner").unwrap();
        assert_eq!(uploads(store), []);
        assert!(matches!(
            store.upload(&cases_bucket(), &key("k"), &id),
            Err(Error::NoSuchUpload)
        ));
    }
}
