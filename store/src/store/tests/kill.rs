//! SIGKILL at any moment: what was acknowledged is there, and everything that is there is whole.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// Makes the test binary run [`writes_until_killed`] on this volume.
const VOLUME: &str = "FILESTORE_TEST_VOLUME";
/// Makes it open the volume durably.
const DURABLE: &str = "FILESTORE_TEST_DURABLE";

/// Acknowledged changes after which a round is killed; the next change is then under way.
const ROUNDS: [usize; 6] = [1, 2, 3, 7, 20, 45];

/// The body that belongs to a change: long enough to be written in several steps.
fn body(number: usize) -> Vec<u8> {
    format!("change {number} ")
        .repeat(1 + number % 5 * 4000)
        .into_bytes()
}

/// Overwrites few keys again and again, some of them clashing, and deletes every seventh.
fn change(store: &Store, number: usize) -> (&'static str, Option<Vec<u8>>) {
    let names = ["a", "a/b", "dir/k", "odd//k", "large"];
    let name = names[number % names.len()];
    if number % 7 == 6 {
        delete(store, name);
        return (name, None);
    }
    put(store, name, &body(number));
    (name, Some(body(number)))
}

/// Run by the tests below in a process of its own.
#[test]
fn writes_until_killed() {
    let Some(volume) = std::env::var_os(VOLUME) else {
        return;
    };
    let options = StoreOptions {
        durability: if std::env::var_os(DURABLE).is_some() {
            Durability::Durable
        } else {
            Durability::Relaxed
        },
        ..StoreOptions::default()
    };
    let store = Store::open(Path::new(&volume), &options).unwrap();
    let first: usize = std::env::var("FILESTORE_TEST_FIRST")
        .unwrap()
        .parse()
        .unwrap();
    let mut stdout = std::io::stdout();
    for number in first.. {
        change(&store, number);
        writeln!(stdout, "done {number}").unwrap();
        stdout.flush().unwrap();
    }
}

fn survives(mode: MetadataMode, durability: Durability) {
    let at = Scratch::new(mode, durability);
    let volume = at.volume().to_owned();
    let mut at = Some(at);
    let mut model = std::collections::BTreeMap::new();
    let mut next = 0;
    for acknowledged in ROUNDS {
        let closed = at.take().unwrap();
        let Scratch {
            dir,
            store,
            options,
        } = closed;
        drop(store);
        let mut writer = Command::new(std::env::current_exe().unwrap());
        writer
            .args([
                "--exact",
                "store::tests::kill::writes_until_killed",
                "--nocapture",
            ])
            .env(VOLUME, &volume)
            .env("FILESTORE_TEST_FIRST", next.to_string())
            .stdout(Stdio::piped());
        if durability == Durability::Durable {
            writer.env(DURABLE, "1");
        }
        let mut writer = writer.spawn().unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut done = lines
            .map_while(Result::ok)
            .filter_map(|line| line.split_once("done ")?.1.parse::<usize>().ok());
        let seen = done.by_ref().take(acknowledged).last().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        // What it still said before it died was acknowledged too.
        let last = done.last().unwrap_or(seen);

        let store = open_alone(&volume, &options);
        let replay = Scratch::relaxed(MetadataMode::Xattr);
        for number in next..=last {
            let (name, body) = change(&replay.store, number);
            model.insert(name, body);
        }
        // The change after the last may have happened or not; nothing in between.
        let (name, body) = change(&replay.store, last + 1);
        for (other, expected) in &model {
            let found = get(&store, other);
            let either = &found == expected || (*other == name && found == body);
            assert!(either, "{other} after change {last}");
        }
        model.insert(name, get(&store, name));
        let listed: Vec<_> = model.iter().filter(|(_, body)| body.is_some()).collect();
        let listed: Vec<_> = listed
            .into_iter()
            .map(|(name, _)| (*name).to_owned())
            .collect();
        assert_eq!(keys(&store), listed);
        next = last + 2;
        at = Some(Scratch {
            dir,
            store,
            options,
        });
    }
    let at = at.unwrap();
    let temp = std::fs::read_dir(at.path(".sgwtmp")).unwrap();
    assert_eq!(temp.count(), 0, "temporary files of killed processes");
}

#[test]
fn xattr_durable() {
    survives(MetadataMode::Xattr, Durability::Durable);
}

#[test]
fn xattr_relaxed() {
    survives(MetadataMode::Xattr, Durability::Relaxed);
}

#[test]
fn sidecar_durable() {
    survives(MetadataMode::Sidecar, Durability::Durable);
}

#[test]
fn sidecar_relaxed() {
    survives(MetadataMode::Sidecar, Durability::Relaxed);
}
