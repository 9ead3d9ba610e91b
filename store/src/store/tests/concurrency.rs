//! Many writers at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::io::Errno;

use super::*;
use crate::staged::StagedFile;

/// versitygw issue 1988: parents removed by one request while another enters them.
#[test]
fn puts_and_deletes_under_one_prefix_never_fail() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let store = &at.store;
        thread::scope(|scope| {
            for writer in 0..12 {
                scope.spawn(move || {
                    for round in 0..100 {
                        let name = format!("p/q/{writer}-{round}");
                        put(store, &name, name.as_bytes());
                        assert_eq!(get(store, &name).unwrap(), name.as_bytes());
                        assert!(delete(store, &name));
                    }
                });
            }
        });
        assert!(keys(store).is_empty());
        assert!(!at.path("p").exists());
        store.delete_bucket(&bucket()).unwrap();
    }
}

#[test]
fn one_of_many_conditional_creations_wins_also_between_processes() {
    for mode in BOTH {
        for name in ["k", "d/", "a//b", "in/k"] {
            let at = Scratch::relaxed(mode);
            let second = at.second();
            let won = AtomicUsize::new(0);
            thread::scope(|scope| {
                for writer in 0..32 {
                    let store = if writer % 2 == 0 { &at.store } else { &second };
                    let won = &won;
                    scope.spawn(
                        move || match put_if(store, name, b"", &Precondition::Absent) {
                            Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                            Err(Error::PreconditionFailed) => {}
                            Err(error) => panic!("{name}: {error}"),
                        },
                    );
                }
            });
            assert_eq!(won.into_inner(), 1, "{name} {mode:?}");
        }
    }
}

#[test]
fn compare_and_swap_loses_no_update() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let second = at.second();
        put(&at.store, "n", b"0");
        thread::scope(|scope| {
            for writer in 0..4 {
                let store = if writer % 2 == 0 { &at.store } else { &second };
                scope.spawn(move || {
                    let mut done = 0;
                    while done < 25 {
                        let body = get(store, "n").unwrap();
                        let next: u32 = String::from_utf8(body.clone()).unwrap().parse().unwrap();
                        let seen = Precondition::Matches(meta(&body).etag);
                        match put_if(store, "n", (next + 1).to_string().as_bytes(), &seen) {
                            Ok(_) => done += 1,
                            Err(Error::PreconditionFailed) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert_eq!(get(&at.store, "n").unwrap(), b"100");
    }
}

/// Body and metadata of one object are never those of two (`get` compares them).
#[test]
fn readers_see_whole_objects() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let second = at.second();
        put(&at.store, "k", b"1");
        thread::scope(|scope| {
            for writer in 0..4 {
                let store = if writer % 2 == 0 { &at.store } else { &second };
                scope.spawn(move || {
                    for round in 0..100 {
                        put(store, "k", "x".repeat(1 + writer + round % 3).as_bytes());
                    }
                });
            }
            for reader in 0..2 {
                let store = if reader == 0 { &at.store } else { &second };
                scope.spawn(move || {
                    for _ in 0..200 {
                        assert!(get(store, "k").is_some());
                    }
                });
            }
        });
    }
}

#[test]
fn clashing_keys_put_at_once_are_all_kept() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        let store = &at.store;
        let names = ["a", "a/b", "a/b/c", "a/", "a/b/"];
        for round in 0..20 {
            thread::scope(|scope| {
                for name in names {
                    let body = if round % 2 == 0 { &b""[..] } else { b"x" };
                    scope.spawn(move || put(store, name, body));
                }
            });
            for name in names {
                assert!(get(store, name).is_some(), "{name}");
            }
            thread::scope(|scope| {
                for name in names {
                    scope.spawn(move || assert!(delete(store, name), "{name}"));
                }
            });
            assert!(keys(store).is_empty());
        }
        store.delete_bucket(&bucket()).unwrap();
    }
}

#[test]
fn a_bucket_is_deleted_or_keeps_its_object() {
    for mode in BOTH {
        let at = Scratch::relaxed(mode);
        for _ in 0..50 {
            let (put, deleted) = thread::scope(|scope| {
                let put = scope.spawn(|| put_if(&at.store, "a/b", b"x", &Precondition::None));
                let deleted = scope.spawn(|| at.store.delete_bucket(&bucket()));
                (put.join().unwrap(), deleted.join().unwrap())
            });
            match (put, deleted) {
                (Ok(_), Err(Error::BucketNotEmpty)) => {
                    assert!(delete(&at.store, "a/b"));
                }
                (Err(Error::NoSuchBucket), Ok(())) => {
                    at.store.create_bucket(&bucket(), "o").unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// ext4 answers EPERM to an unnamed file in a directory that is removed while it is found.
#[test]
fn a_temporary_area_that_goes_away_is_missing_and_nothing_else() {
    const OFTEN: usize = 1_000;
    let at = Scratch::relaxed(MetadataMode::Xattr);
    let area = at.path("area");
    let path = format!("{}/area", bucket());
    let (made, missing) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let over = || {
        let enough = |count: &AtomicUsize| count.load(Ordering::Relaxed) >= OFTEN;
        enough(&made) && enough(&missing)
    };
    let create = || {
        let mut others = Vec::new();
        while !over() {
            match StagedFile::create(&at.store.volume, &path) {
                Ok(_) => drop(made.fetch_add(1, Ordering::Relaxed)),
                Err(Errno::NOENT) => drop(missing.fetch_add(1, Ordering::Relaxed)),
                Err(other) => others.push(other),
            }
        }
        others.dedup();
        others
    };
    thread::scope(|scope| {
        let creators = [scope.spawn(create), scope.spawn(create)];
        while !over() {
            // A file with a name may be in it for a moment.
            let _busy = std::fs::create_dir(&area);
            let _busy = std::fs::remove_dir(&area);
        }
        for creator in creators {
            assert_eq!(creator.join().unwrap(), []);
        }
    });
}

/// As on NFS, where temporary files have names.
#[test]
fn named_temporary_files_are_as_good() {
    for mode in BOTH {
        let mut at = Scratch::relaxed(mode);
        let mut second = at.second();
        at.store.volume.unnamed_files = false;
        second.volume.unnamed_files = false;
        let won = AtomicUsize::new(0);
        thread::scope(|scope| {
            for writer in 0..16 {
                let store = if writer % 2 == 0 { &at.store } else { &second };
                let won = &won;
                scope.spawn(move || {
                    match put_if(store, "d/k", b"", &Precondition::Absent) {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::PreconditionFailed) => {}
                        Err(error) => panic!("{error}"),
                    }
                    for round in 0..20 {
                        let name = format!("d/{writer}-{round}");
                        put(store, &name, name.as_bytes());
                        put(store, &name, name.as_bytes());
                        assert!(delete(store, &name));
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
        assert_eq!(keys(&at.store), ["d/k"]);
        let temp = std::fs::read_dir(at.path(".sgwtmp")).unwrap();
        assert_eq!(temp.count(), 0);
    }
}
