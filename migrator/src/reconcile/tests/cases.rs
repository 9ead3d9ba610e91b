//! Histories that went wrong once, or must go just so.

use super::store::Quirks;
use super::*;

fn rules(writes: Side, prefer: Option<Prefer>, deletes: Deletes) -> Rules {
    Rules {
        writes,
        prefer,
        deletes,
    }
}

/// What was decided for the side that is not written then, is carried out by request only, and what
/// it takes away is kept.
#[tokio::test]
async fn a_decision_is_not_carried_out_unasked_or_unsaved() {
    let mut world = World::new();
    world.client(Side::Legacy, Write::Put(0));
    world.client(Side::Served, Write::Put(0));
    let lost = world.served.map()["k0"].clone();
    let back = rules(Side::Legacy, Some(Prefer::Target), Deletes::Apply);
    let back = world.reconcile(back, Blow::default()).await.unwrap();
    assert_eq!(back.settled, 1);

    let recheck = rules(Side::Served, None, Deletes::List);
    let recheck = world.reconcile(recheck, Blow::default()).await.unwrap();
    assert_eq!((recheck.conflicts, recheck.updated), (1, 0));
    assert_eq!(world.served.map()["k0"], lost);

    let again = rules(Side::Served, None, Deletes::Apply);
    let again = world.reconcile(again, Blow::default()).await.unwrap();
    assert_eq!((again.updated, again.overruled), (1, 1));
    assert_eq!(world.served.map()["k0"], world.legacy.map()["k0"]);
    assert!(world.saved().contains(&lost));

    // Kept deleted on the served store, and taken back from there.
    world.client(Side::Legacy, Write::Put(1));
    world.client(Side::Served, Write::Delete(1));
    let lost = world.legacy.map()["k1"].clone();
    let merge = rules(Side::Served, Some(Prefer::Target), Deletes::List);
    let merge = world.reconcile(merge, Blow::default()).await.unwrap();
    assert_eq!(merge.settled, 1);
    let back = rules(Side::Legacy, None, Deletes::Apply);
    let back = world.reconcile(back, Blow::default()).await.unwrap();
    assert_eq!((back.deleted, back.overruled), (1, 1));
    assert!(world.saved().contains(&lost));
}

/// What a client deletes after a run that was stopped had brought it stays deleted.
#[tokio::test]
async fn a_stopped_run_remembers_what_it_brought() {
    for writes in [Side::Served, Side::Legacy] {
        let mut world = World::new();
        world.client(writes.other(), Write::Put(3));
        world.client(writes.other(), Write::Put(4));
        let blow = Blow {
            killed_after: Some(3),
            ..Blow::default()
        };
        let rules = rules(writes, None, Deletes::List);
        let stopped = world.reconcile(rules, blow).await.unwrap_err();
        assert_eq!(stopped.kind, Kind::Interrupted);
        let brought = world.side(writes).map();
        assert!(brought.contains_key("k3") && !brought.contains_key("k4"));
        world.client(writes, Write::Delete(3));
        let rerun = world.reconcile(rules, Blow::default()).await.unwrap();
        assert_eq!(rerun.added, 1);
        let held = world.side(writes).map();
        assert!(!held.contains_key("k3") && held.contains_key("k4"));
    }
}

/// The process is gone between two requests, after it dealt with the first keys.
async fn killed(world: &mut World, rules: Rules, after: u32) {
    let blow = Blow {
        gone_after: Some(after),
        ..Blow::default()
    };
    let gone = world.reconcile(rules, blow).await.unwrap_err();
    assert_eq!(&*gone.message, "is gone");
}

/// What clients do between a SIGKILL and the next run is theirs, as after a run that came to its end.
#[tokio::test]
async fn a_killed_run_remembers_what_it_did() {
    for writes in [Side::Served, Side::Legacy] {
        let rules = rules(writes, None, Deletes::Apply);
        let mut world = World::new();
        world.client(writes.other(), Write::Put(0));
        world.client(writes.other(), Write::Put(3));
        world.client(writes.other(), Write::Put(4));
        // A look and a write for each; the legacy store is asked again what time it gave.
        killed(
            &mut world,
            rules,
            if writes == Side::Served { 5 } else { 7 },
        )
        .await;
        let brought = world.side(writes).map();
        assert!(brought.contains_key("k3") && !brought.contains_key("k4"));
        world.client(writes, Write::Put(0));
        let theirs = world.side(writes).map()["k0"].clone();
        world.client(writes, Write::Delete(3));
        let rerun = world.reconcile(rules, Blow::default()).await.unwrap();
        let told = (rerun.added, rerun.updated, rerun.left, rerun.conflicts);
        // Where only the read side is listed, the others are not even looked at.
        let left = if writes == Side::Served { 0 } else { 2 };
        assert_eq!(told, (1, 0, left, 0), "{writes:?}");
        let held = world.side(writes).map();
        assert!(!held.contains_key("k3") && held.contains_key("k4"));
        assert_eq!(held["k0"], theirs);
        // And so it stays: nothing is left beside the manifest.
        let third = world.reconcile(rules, Blow::default()).await.unwrap();
        assert!(!third.changed() && !third.diverged());
    }
}

/// The same of deletions: what a client puts there again is new.
#[tokio::test]
async fn a_killed_run_remembers_what_it_deleted() {
    let rules = rules(Side::Served, None, Deletes::Apply);
    let mut world = World::new();
    world.client(Side::Legacy, Write::Delete(0));
    world.client(Side::Legacy, Write::Delete(1));
    // Both are looked at; then each is looked at again and deleted.
    killed(&mut world, rules, 5).await;
    assert!(!world.served.map().contains_key("k0") && world.served.map().contains_key("k1"));
    world.client(Side::Served, Write::Put(0));
    let rerun = world.reconcile(rules, Blow::default()).await.unwrap();
    assert_eq!((rerun.deleted, rerun.conflicts), (1, 0));
    let held: Vec<String> = world.served.map().into_keys().collect();
    assert_eq!(held, ["k0", "k2"]);
}

impl World {
    /// The machine lost its power since the last process: what lines of its file survived, and as if
    /// of another start.
    fn lose_power(&self, lines: usize) {
        let path = self.state().run_dir(RUN).join("done/1.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let kept: Vec<&str> = text.lines().take(1 + lines).collect();
        let kept = kept.join("\n") + "\n";
        std::fs::write(&path, kept.replace(&crate::state::boot_id(), "an earlier")).unwrap();
    }
}

#[tokio::test]
async fn after_a_power_loss_what_was_written_is_read_back() {
    let rules = rules(Side::Served, None, Deletes::List);
    // How much of the file survived, whether the object did.
    for (lines, torn) in [(1, false), (1, true), (0, false), (0, true)] {
        let mut world = World::new();
        world.client(Side::Legacy, Write::Put(3));
        world.client(Side::Legacy, Write::Put(4));
        killed(&mut world, rules, 3).await;
        assert!(world.served.map().contains_key("k3"));
        world.lose_power(lines);
        if torn {
            world.served.tear("k3");
        }
        let rerun = world.reconcile(rules, Blow::default()).await.unwrap();
        let told = (rerun.added, rerun.updated, rerun.failed, rerun.conflicts);
        assert_eq!(told, (1, u64::from(torn), 0, 0), "{lines} {torn}");
        assert!(world.served.torn().is_empty());
        assert_eq!(world.served.map(), world.legacy.map());
    }
    // What it was to be is nowhere any more: told, and not taken for whole.
    let mut world = World::new();
    world.client(Side::Legacy, Write::Put(3));
    world.client(Side::Legacy, Write::Put(4));
    killed(&mut world, rules, 3).await;
    world.lose_power(1);
    world.served.tear("k3");
    world.client(Side::Legacy, Write::Delete(3));
    let rerun = world.reconcile(rules, Blow::default()).await.unwrap();
    assert_eq!(rerun.failed, 1);
    assert!(
        rerun.failures[0].contains("did not survive"),
        "{:?}",
        rerun.failures
    );
}

/// An object that did not survive at all was not deleted by anybody.
#[tokio::test]
async fn after_a_power_loss_what_is_gone_is_brought_again() {
    let rules = rules(Side::Served, None, Deletes::List);
    let mut world = World::new();
    world.client(Side::Legacy, Write::Put(0));
    world.client(Side::Legacy, Write::Put(3));
    world.client(Side::Legacy, Write::Put(4));
    let before = world.served.entries().remove(0);
    killed(&mut world, rules, 5).await;
    world.lose_power(2);
    // One replacement is undone, one new object is gone.
    world.served.put("k0", "old", Some(before.last_modified));
    world.served.client_deletes("k3");
    let rerun = world.reconcile(rules, Blow::default()).await.unwrap();
    assert_eq!((rerun.added, rerun.updated, rerun.conflicts), (2, 1, 0));
    assert_eq!(world.served.map(), world.legacy.map());
}

/// Only what a complete look showed as gone goes, however many have gone by then.
#[tokio::test]
async fn the_bound_of_the_deletions_is_kept() {
    let mut world = World::new();
    world.client(Side::Served, Write::Delete(0));
    world.served.has(Quirks {
        short_lived: Some("k1".into()),
        ..Quirks::default()
    });
    let back = rules(Side::Legacy, None, Deletes::Apply);
    let found = world.reconcile(back, Blow::default()).await.unwrap();
    assert_eq!(found.deleted, 1);
    let held: Vec<String> = world.legacy.map().into_keys().collect();
    assert_eq!(held, ["k1", "k2"]);
    assert_eq!(world.manifest().len(), 2);
}

/// A store that refuses to tell of an object did not say that nothing happened to it.
#[tokio::test]
async fn a_refusal_is_a_failure_unless_the_listing_told_of_it() {
    let recheck = rules(Side::Served, None, Deletes::Apply);
    for (told, failed) in [(false, 1), (true, 0)] {
        let mut world = World::new();
        world.legacy.has(Quirks {
            refused: Some("k0".into()),
            told: told.then(|| "k0".into()),
            ..Quirks::default()
        });
        let found = world.reconcile(recheck, Blow::default()).await.unwrap();
        assert_eq!((found.failed, found.deleted), (failed, 0), "told: {told}");
        assert_eq!(world.served.map().len(), 3);
        assert_eq!(world.manifest().len(), 3);
    }
    // The side that is written.
    let mut world = World::new();
    world.client(Side::Legacy, Write::Put(0));
    world.served.has(Quirks {
        refused: Some("k0".into()),
        ..Quirks::default()
    });
    let found = world.reconcile(recheck, Blow::default()).await.unwrap();
    assert_eq!((found.failed, found.exit()), (1, ExitCode::Failures));
}

#[test]
fn the_exit_code_is_that_of_the_worst() {
    let error = |kind| Error::new(kind, "get", "bkt/k", "no");
    for (kinds, conflicts, expected) in [
        (&[][..], 0, ExitCode::Ok),
        (&[Kind::Down], 0, ExitCode::Retryable),
        (&[Kind::Changed, Kind::Down], 0, ExitCode::Changed),
        (
            &[Kind::Down, Kind::Damaged, Kind::Down],
            0,
            ExitCode::Failures,
        ),
        (&[Kind::Conflict], 0, ExitCode::Failures),
        (&[Kind::Down], 1, ExitCode::Conflicts),
        (&[Kind::Damaged], 1, ExitCode::Failures),
    ] {
        let mut found = Found {
            conflicts,
            ..Found::default()
        };
        for kind in kinds {
            found.fail(&error(*kind));
        }
        assert_eq!(found.exit(), expected, "{kinds:?}");
        assert_eq!(found.failed, kinds.len() as u64);
    }
}

/// Take over, back, over again: writes on either side are kept.
#[tokio::test]
async fn over_and_back_and_over_again() {
    let mut world = World::new();
    let rules = |writes| rules(writes, None, Deletes::Apply);
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
