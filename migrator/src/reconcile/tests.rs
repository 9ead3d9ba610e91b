//! Random histories: clients write to both stores, between and during merges and reverses that are
//! killed anywhere. Nothing is silently lost.

mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use self::store::{Blow, Intruder, Store, object_name};
use super::*;
use crate::manifest::{Line, Reader, Writer};
use crate::progress::Silent;

const KEYS: u8 = 5;
const RUN: &str = "r";

/// What a client does.
#[derive(Debug, Clone, Copy)]
enum Write {
    Put(u8),
    Delete(u8),
}

#[derive(Debug, Clone)]
enum Step {
    Client(Side, Write),
    Reconcile {
        rules: Rules,
        /// Requests to the written side before the process is killed.
        killed_after: Option<u32>,
        /// A client of the written side that comes between two requests.
        intruder: Option<(u32, Write)>,
    },
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        2 => (0..KEYS).prop_map(Write::Put),
        1 => (0..KEYS).prop_map(Write::Delete),
    ]
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Legacy), Just(Side::Served)]
}

fn rules() -> impl Strategy<Value = Rules> {
    let prefer = prop::option::of(prop_oneof![
        Just(Prefer::Newest),
        Just(Prefer::Source),
        Just(Prefer::Target)
    ]);
    let deletes = prop_oneof![
        Just(Deletes::List),
        Just(Deletes::Apply),
        Just(Deletes::Keep)
    ];
    (side(), prefer, deletes).prop_map(|(writes, prefer, deletes)| Rules {
        writes,
        prefer,
        deletes,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let reconcile = (
        rules(),
        prop::option::weighted(0.3, 0..12_u32),
        prop::option::weighted(0.3, (0..12_u32, write())),
    );
    prop_oneof![
        3 => (side(), write()).prop_map(|(side, write)| Step::Client(side, write)),
        2 => reconcile.prop_map(|(rules, killed_after, intruder)| Step::Reconcile { rules, killed_after, intruder }),
    ]
}

/// Both stores and the state between them.
struct World {
    legacy: Arc<Store>,
    served: Arc<Store>,
    directory: tempfile::TempDir,
    bodies: u32,
}

/// A version: on which key, and its bytes, which no other write repeats.
type Versions = BTreeSet<(String, String)>;

impl World {
    /// Cut over: both hold the same.
    fn new() -> Self {
        // Thousands of small files are flushed: in memory, where there is some.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        }
        .unwrap();
        let world = Self {
            legacy: Arc::new(Store::new(false)),
            served: Arc::new(Store::new(true)),
            directory,
            bodies: 0,
        };
        for number in 0..KEYS - 2 {
            let modified = world.legacy.put(&object_name(number), "old", None);
            world
                .served
                .put(&object_name(number), "old", Some(modified));
        }
        let state = world.state();
        std::fs::create_dir_all(state.run_dir(RUN)).unwrap();
        let mut writer = Writer::create(&state.manifest(RUN)).unwrap();
        for (legacy, served) in world.legacy.entries().iter().zip(world.served.entries()) {
            writer
                .add(&Line::new(&store::bucket(), legacy, &served))
                .unwrap();
        }
        writer.finish().unwrap();
        world
    }

    fn state(&self) -> State {
        State::new(self.directory.path().to_owned())
    }

    fn side(&self, side: Side) -> &Arc<Store> {
        match side {
            Side::Legacy => &self.legacy,
            Side::Served => &self.served,
        }
    }

    fn client(&mut self, side: Side, write: Write) {
        self.bodies += 1;
        let body = format!("{side:?} {}", self.bodies);
        match write {
            Write::Put(number) => {
                self.side(side).put(&object_name(number), &body, None);
            }
            Write::Delete(number) => self.side(side).remove(&object_name(number)),
        }
    }

    fn versions(&self) -> Versions {
        [&self.legacy, &self.served]
            .into_iter()
            .flat_map(|store| store.bodies())
            .collect()
    }

    fn journal(&self) -> String {
        let path = self.state().run_dir(RUN).join(CHANGES_FILE);
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Versions of which the journal says since `start` that they were replaced or deleted, by
    /// ETag, and those kept in `lost/`.
    fn told(&self, start: usize) -> (BTreeSet<(String, String)>, BTreeSet<String>) {
        let run_dir = self.state().run_dir(RUN);
        let text = self.journal().split_off(start);
        let mut replaced = BTreeSet::new();
        let mut saved = BTreeSet::new();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let key = line["key"].as_str().unwrap();
            if let Some(etag) = line["was"]["etag"].as_str() {
                replaced.insert((key.to_owned(), etag.to_owned()));
            }
            if let Some(path) = line["saved"].as_str() {
                let body = std::fs::read_to_string(run_dir.join(path)).unwrap();
                assert_eq!(
                    line["was"]["etag"].as_str(),
                    Some(store::etag(&body).as_str())
                );
                saved.insert(body);
            }
            // What a decision takes away is kept, not only named.
            let takes = matches!(line["did"].as_str(), Some("replace" | "delete"));
            assert!(
                !takes || line["conflict"] != true || line["saved"].is_string(),
                "{line}"
            );
        }
        (replaced, saved)
    }

    async fn reconcile(&mut self, rules: Rules, blow: Blow) -> Result<Found> {
        let cancel = CancellationToken::new();
        let written = self.side(rules.writes).clone();
        self.bodies += u32::from(blow.intruder.is_some());
        written.expect(blow, cancel.clone());
        let ends = Ends {
            source: self.side(rules.writes.other()).clone(),
            target: written.clone(),
            progress: Arc::new(Silent),
            cancel,
            parallel: 3,
            wait: Duration::ZERO,
            bandwidth: None,
        };
        let state = self.state();
        let task = Task {
            command: "test",
            state: &state,
            run_id: RUN,
            rules,
            keeps_times: true,
            depth: match rules.writes {
                Side::Legacy => Depth::Listings,
                Side::Served => Depth::Changes,
            },
            dry_run: false,
            report: None,
            deadline: None,
            max_delete: None,
        };
        let found = reconcile(&ends, &task).await;
        written.expect(Blow::default(), CancellationToken::new());
        found
    }

    fn undecided(&self) -> BTreeMap<String, String> {
        let file = self.state().run_dir(RUN).join(DIVERGENCE_FILE);
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let text = |name: &str| line[name].as_str().unwrap().to_owned();
                (text("key"), text("how"))
            })
            .collect()
    }

    fn manifest(&self) -> Vec<Line> {
        let mut reader = Reader::open(&self.state().manifest(RUN)).unwrap();
        std::iter::from_fn(|| reader.line().unwrap()).collect()
    }
}

/// Every version that a store held before is still on one, or on record; what a decision took from
/// a client is kept.
fn nothing_is_lost(
    world: &World,
    before: &Versions,
    journal: usize,
    intruder: Option<&(String, String)>,
) {
    let after = world.versions();
    let (told, saved) = world.told(journal);
    for (key, body) in before {
        let etag = store::etag(body).as_str().to_owned();
        let on_record = told.contains(&(key.clone(), etag)) || saved.contains(body);
        assert!(
            after.contains(&(key.clone(), body.clone())) || on_record,
            "{key}: {body:?} is gone and nobody was told; {told:?}"
        );
    }
    if let Some((key, body)) = intruder {
        let etag = store::etag(body).as_str().to_owned();
        assert!(
            after.contains(&(key.clone(), body.clone()))
                || told.contains(&(key.clone(), etag))
                || saved.contains(body),
            "{key}: what a client wrote meanwhile is gone"
        );
    }
}

async fn play(steps: Vec<Step>) {
    let mut world = World::new();
    for step in steps {
        let (rules, killed_after, intruder) = match step {
            Step::Client(side, write) => {
                world.client(side, write);
                continue;
            }
            Step::Reconcile {
                rules,
                killed_after,
                intruder,
            } => (rules, killed_after, intruder),
        };
        let (before, journal) = (world.versions(), world.journal().len());
        let read = world.side(rules.writes.other()).bodies();
        let body = format!("intruder {}", world.bodies);
        let intruder = intruder.map(|(after, write)| match write {
            Write::Put(number) => Intruder {
                after,
                key: object_name(number),
                body: Some(body),
            },
            Write::Delete(number) => Intruder {
                after,
                key: object_name(number),
                body: None,
            },
        });
        let blow = Blow {
            killed_after,
            intruder: intruder.clone(),
        };
        let written = world.side(rules.writes).clone();
        let came = written.intrusions();
        let found = world.reconcile(rules, blow).await;
        let came = written.intrusions() > came;
        let intruder = intruder.filter(|_| came);
        // A client that writes or deletes takes away what it saw there.
        let kept = before
            .into_iter()
            .filter(|(key, _)| intruder.as_ref().is_none_or(|one| one.key != *key))
            .collect();
        let wrote = intruder.and_then(|one| Some((one.key, one.body?)));
        nothing_is_lost(&world, &kept, journal, wrote.as_ref());
        assert_eq!(
            world.side(rules.writes.other()).bodies(),
            read,
            "the side that is read was written"
        );
        if found.is_ok() && !came {
            quiet_after(&mut world, rules).await;
        }
    }
}

/// A finished reconciliation leaves nothing to do for the next, and what both sides hold
/// differently is either listed or decided.
async fn quiet_after(world: &mut World, rules: Rules) {
    let undecided = world.undecided();
    let again = world.reconcile(rules, Blow::default()).await.unwrap();
    assert!(!again.changed(), "not the same again: {again:?}");
    assert_eq!(world.undecided(), undecided);
    let recorded: BTreeMap<String, Option<Side>> = world
        .manifest()
        .into_iter()
        .map(|line| (line.key.as_str().to_owned(), line.settled))
        .collect();
    let (legacy, served) = (world.legacy.map(), world.served.map());
    let keys: BTreeSet<&String> = legacy.keys().chain(served.keys()).collect();
    for key in keys {
        let written = match rules.writes {
            Side::Legacy => (&served, &legacy),
            Side::Served => (&legacy, &served),
        };
        let (read, there) = (written.0.get(key), written.1.get(key));
        let explained = read == there
            || undecided.contains_key(key)
            || recorded.get(key).is_some_and(Option::is_some)
            // Only the written side changed: the other one is as it was recorded, or never was.
            || match recorded.get(key) {
                Some(_) => read.is_some(),
                None => read.is_none(),
            };
        assert!(explained, "{key}: {read:?} and {there:?} without a reason");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_silently_lost(steps in prop::collection::vec(step(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(play(steps));
    }
}

/// Take over, back, over again: writes on either side are kept.
#[tokio::test]
async fn over_and_back_and_over_again() {
    let mut world = World::new();
    let rules = |writes| Rules {
        writes,
        prefer: None,
        deletes: Deletes::Apply,
    };
    world.client(Side::Served, Write::Put(0));
    world.client(Side::Served, Write::Put(4));
    world.client(Side::Served, Write::Delete(1));
    let back = world.reconcile(rules(Side::Legacy), Blow::default()).await;
    let back = back.unwrap();
    assert_eq!((back.added, back.updated, back.deleted), (1, 1, 1));
    assert_eq!(world.legacy.bodies(), world.served.bodies());
    // The old store serves; somebody missed it.
    world.client(Side::Legacy, Write::Put(0));
    world.client(Side::Legacy, Write::Delete(4));
    world.client(Side::Served, Write::Put(3));
    let again = world.reconcile(rules(Side::Served), Blow::default()).await;
    let again = again.unwrap();
    assert_eq!((again.added, again.updated, again.deleted), (0, 1, 1));
    let served = world.served.map();
    assert_eq!(served.get("k0"), world.legacy.map().get("k0"));
    assert!(served.contains_key("k3") && !served.contains_key("k4"));
}
