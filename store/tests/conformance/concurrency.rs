//! Many threads, and two processes' worth of stores, on the same keys.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use filestore_store::{Error, ListQuery, Precondition, Store};

use crate::support::*;

/// Runs `count` threads that start together.
fn together(count: usize, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        for number in 0..count {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(number);
            });
        }
    });
}

/// A body whose every byte says which write it was, and its metadata likewise.
fn write_version(store: &Store, name: &str, version: usize) {
    let length = if version.is_multiple_of(2) {
        10_000
    } else {
        70_001
    };
    let bytes = body(length, u8::try_from(version % 256).unwrap());
    let mut meta = meta_of(&bytes);
    meta.user.insert("version".into(), version.to_string());
    put_with(store, name, &bytes, &meta, &Precondition::None).unwrap();
}

cases! {
    fn of_many_conditional_writers_one_wins(volume: &Volume) {
        let other = volume.second_store();
        for name in ["k", "deep/k", "dir/", "over//flow"] {
            let (won, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
            together(32, |number| {
                let store = if number % 2 == 0 { volume.store() } else { &other };
                let text = if name.ends_with('/') { String::new() } else { number.to_string() };
                let mut meta = meta_of(text.as_bytes());
                meta.user.insert("writer".into(), number.to_string());
                match put_with(store, name, text.as_bytes(), &meta, &Precondition::Absent) {
                    Ok(_) => {
                        won.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(Error::PreconditionFailed | Error::Conflict) => {
                        lost.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(other) => panic!("{name}: {other:?}"),
                }
            });
            assert_eq!((won.into_inner(), lost.into_inner()), (1, 31), "{name}");
            let (info, bytes) = read(volume.store(), &cases_bucket(), name);
            if !name.ends_with('/') {
                assert_eq!(bytes, info.meta.user["writer"].as_bytes());
            }
        }
    }

    fn each_compare_and_swap_is_applied_once(volume: &Volume) {
        let store = volume.store();
        put(store, "counter", b"0");
        let applied = AtomicUsize::new(0);
        together(8, |_| {
            for _ in 0..10 {
                let (info, bytes) = read(store, &cases_bucket(), "counter");
                let next = (String::from_utf8(bytes).unwrap().parse::<usize>().unwrap() + 1).to_string();
                let condition = Precondition::Matches(info.meta.etag);
                match put_with(store, "counter", next.as_bytes(), &meta_of(next.as_bytes()), &condition) {
                    Ok(_) => {
                        applied.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(Error::PreconditionFailed | Error::Conflict) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        let count: usize = String::from_utf8(get(store, "counter")).unwrap().parse().unwrap();
        assert_eq!(count, applied.into_inner());
    }

    fn readers_see_one_write_whole_with_its_own_metadata(volume: &Volume) {
        for name in ["k", "over//flow"] {
            let store = volume.store();
            write_version(store, name, 0);
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            let (info, bytes) = read(store, &cases_bucket(), name);
                            assert_eq!(info.meta.etag, md5_of(&bytes));
                            let version: usize = info.meta.user["version"].parse().unwrap();
                            assert_eq!(bytes[0], u8::try_from(version % 256).unwrap());
                            let head = head(store, name).unwrap();
                            let length = if head.meta.user["version"].parse::<usize>().unwrap() % 2 == 0 {
                                10_000
                            } else {
                                70_001
                            };
                            assert_eq!(head.size, length);
                        }
                    });
                }
                for version in 1..60 {
                    write_version(store, name, version);
                }
                done.store(true, Ordering::Relaxed);
            });
        }
    }

    fn listings_beside_writers_show_what_is_always_there_and_nothing_half(volume: &Volume) {
        let store = volume.store();
        for number in 0..150 {
            put(store, &format!("d/kept{number:03}"), b"x");
        }
        write_version(store, "d/hot", 0);
        put(store, "over//kept", b"x");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..2 {
                let done = &done;
                scope.spawn(move || {
                    let delimiter = (reader == 1).then(|| "/".to_owned());
                    while !done.load(Ordering::Relaxed) {
                        let query = ListQuery {
                            prefix: "d/".into(),
                            delimiter: delimiter.clone(),
                            after: None,
                            max_keys: 40,
                        };
                        let mut kept = 0;
                        for page in pages(store, &cases_bucket(), &query) {
                            for entry in page.entries {
                                if name_of(&entry).contains("kept") {
                                    kept += 1;
                                }
                                if let filestore_store::ListEntry::Object(object) = entry
                                    && object.key == "d/hot"
                                {
                                    kept += 1;
                                    assert!(
                                        (0..60).any(|version| {
                                            let length: usize = if version % 2 == 0 { 10_000 } else { 70_001 };
                                            object.size == length as u64
                                                && object.etag == md5_of(&body(length, version))
                                        }),
                                        "{object:?}"
                                    );
                                }
                            }
                        }
                        assert_eq!(kept, 151);
                    }
                });
            }
            for version in 1..60 {
                write_version(store, "d/hot", version);
                put(store, &format!("d/new{version}"), b"x");
                put(store, &format!("d/kept{version:03}"), b"y");
                put(store, &format!("d/sub{version}/x"), b"x");
                delete(store, &format!("d/new{version}"));
                delete(store, &format!("d/sub{version}/x"));
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    fn puts_and_deletes_in_one_directory_never_fail(volume: &Volume) {
        // versitygw issue 1988.
        let store = volume.store();
        together(8, |number| {
            for round in 0..25 {
                let name = format!("shared/dir/{number}");
                put(store, &name, b"x");
                if round % 2 == 0 {
                    assert!(delete(store, &name));
                }
            }
            delete(store, &format!("shared/dir/{number}"));
        });
        assert_eq!(all_keys(store), Vec::<String>::new());
        store.delete_bucket(&cases_bucket()).unwrap();
    }

    fn both_sides_of_a_clash_at_once(volume: &Volume) {
        let store = volume.store();
        let family = ["x", "x/y", "x/y/z", "x/"];
        together(4, |number| {
            for round in 0..15 {
                let name = family[number];
                let text = format!("{name} {round}");
                put(store, name, text.as_bytes());
                assert_eq!(get(store, name), text.as_bytes());
                if round % 3 == 0 {
                    assert!(delete(store, name), "{name}");
                }
            }
        });
        let mut sorted = family;
        sorted.sort_unstable();
        assert_eq!(all_keys(store), sorted);
    }
}
