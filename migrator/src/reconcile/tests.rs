//! Random histories: clients write to both stores, between and during merges and reverses that are
//! killed anywhere. Nothing is silently lost.

mod cases;
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
                self.side(side).client_puts(&object_name(number), &body);
            }
            Write::Delete(number) => self.side(side).client_deletes(&object_name(number)),
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

    /// The versions that are kept in `lost/`.
    fn saved(&self) -> BTreeSet<String> {
        let run_dir = self.state().run_dir(RUN);
        let mut saved = BTreeSet::new();
        for line in self.journal().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
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
        saved
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
        let found = tokio::select! {
            found = reconcile(&ends, &task) => found,
            () = written.gone() => Err(Error::new(Kind::Other, "reconcile", "both", "is gone")),
        };
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

/// Every version that was ever on a store is still on one, or kept, unless a client who saw it
/// replaced or deleted it there.
fn nothing_is_lost(world: &World, ever: &Versions) {
    let after = world.versions();
    let taken = [world.legacy.taken(), world.served.taken()];
    let saved = world.saved();
    for version in ever {
        let (key, body) = version;
        assert!(
            after.contains(version)
                || saved.contains(body)
                || taken.iter().any(|taken| taken.contains(version)),
            "{key}: {body:?} is gone"
        );
    }
}

/// What an interrupted run made equal is on record, so that what clients do to it next is seen.
fn what_was_done_is_recorded(world: &World, before: [&BTreeMap<String, String>; 2]) {
    let (legacy, served) = (world.legacy.map(), world.served.map());
    let manifest = world.manifest();
    for (key, body) in &legacy {
        let was_equal = before[0].get(key) == before[1].get(key);
        if served.get(key) != Some(body) || was_equal {
            continue;
        }
        let etag = store::etag(body);
        assert!(
            manifest.iter().any(|line| line.key.as_str() == key
                && line.etag.as_ref() == Some(&etag)
                && line.settled.is_none()),
            "{key}: {body:?} was brought over and forgotten: {manifest:?}"
        );
    }
}

async fn play(steps: Vec<Step>) {
    let mut world = World::new();
    let mut ever = world.versions();
    for step in steps {
        let (rules, killed_after, intruder) = match step {
            Step::Client(side, write) => {
                world.client(side, write);
                ever.extend(world.versions());
                continue;
            }
            Step::Reconcile {
                rules,
                killed_after,
                intruder,
            } => (rules, killed_after, intruder),
        };
        let before = (world.legacy.map(), world.served.map());
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
            gone_after: None,
            intruder: intruder.clone(),
        };
        let written = world.side(rules.writes).clone();
        let came = written.intrusions();
        let found = world.reconcile(rules, blow).await;
        let came = written.intrusions() > came;
        let intruder = intruder.filter(|_| came);
        ever.extend(intruder.and_then(|one| Some((one.key, one.body?))));
        nothing_is_lost(&world, &ever);
        if found.is_err() {
            what_was_done_is_recorded(&world, [&before.0, &before.1]);
        }
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
