use filestore_migrator::{Error, Kind};

use super::snapshot::permille;
use super::*;

fn amount(objects: u64, bytes: u64) -> Amount {
    Amount { objects, bytes }
}

fn phase(phase: Phase, objects: Option<u64>, bytes: Option<u64>) -> Event<'static> {
    Event::Phase {
        phase,
        objects,
        bytes,
    }
}

#[test]
fn the_time_left_is_that_of_what_is_further_behind() {
    let second = Duration::from_secs(10);
    assert_eq!(eta(amount(5, 0), amount(10, 0), second), Some(second));
    assert_eq!(
        eta(amount(5, 10), amount(10, 100), second),
        Some(Duration::from_secs(90))
    );
    assert_eq!(eta(amount(0, 10), amount(10, 100), second), None);
    assert_eq!(eta(amount(7, 7), amount(0, 0), second), None);
    assert_eq!(permille(amount(5, 10), amount(10, 100)), Some(100));
    assert_eq!(permille(amount(5, 10), amount(0, 0)), None);
}

#[test]
fn a_store_that_does_not_answer_is_the_last_error_also_later() {
    let now = Instant::now();
    let mut tracker = Tracker::new(now);
    let error = Error::new(Kind::Down, "list buckets", "http://m:9000", "refused");
    let next = Duration::from_secs(2);
    tracker.apply(
        &Event::Waiting {
            error: &error,
            next,
        },
        now,
    );
    let seen = tracker.snapshot(now);
    assert_eq!(seen.phase, Phase::Connect);
    assert_eq!(seen.last_error.unwrap().1, seen.waiting.unwrap());
    tracker.apply(&Event::Listed { bytes: 1 }, now);
    let seen = tracker.snapshot(now);
    assert_eq!(seen.waiting, None);
    assert!(seen.last_error.is_some());
}

#[test]
fn the_rate_is_of_the_last_moments() {
    let begin = Instant::now();
    let mut tracker = Tracker::new(begin);
    tracker.apply(&phase(Phase::Copy, Some(1000), Some(1_000_000)), begin);
    for second in 0..100u64 {
        let now = begin + Duration::from_secs(second);
        // Fast for a minute, then ten times slower.
        for _ in 0..if second < 60 { 100 } else { 10 } {
            tracker.apply(&Event::Bytes(7), now);
            tracker.apply(
                &Event::Copied {
                    object: "b/k",
                    bytes: 7,
                },
                now,
            );
        }
        tracker.snapshot(now);
    }
    let last = tracker.snapshot(begin + Duration::from_secs(99));
    assert_eq!((last.rate.objects, last.rate.bytes), (10, 70));
    assert_eq!(last.outcomes.copied, 60 * 100 + 40 * 10);
}

#[test]
fn the_time_of_a_phase_is_that_of_all_its_rounds() {
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    let mut tracker = Tracker::new(begin);
    for (second, next) in [
        (1, Phase::Held),
        (4, Phase::Final),
        (6, Phase::Verify),
        (7, Phase::Final),
        (12, Phase::Verify),
    ] {
        tracker.apply(&phase(next, None, None), at(second));
    }
    let spent = tracker.snapshot(at(20)).spent;
    for (phase, seconds) in [
        (Phase::Connect, 1),
        (Phase::Held, 3),
        (Phase::Final, 7),
        (Phase::Verify, 9),
    ] {
        assert_eq!(spent[&phase], Duration::from_secs(seconds), "{phase:?}");
    }
    assert!(!spent.contains_key(&Phase::Mark));
}

#[test]
fn a_comparison_counts_what_it_compared() {
    let now = Instant::now();
    let mut tracker = Tracker::new(now);
    tracker.apply(&phase(Phase::Verify, Some(2), None), now);
    tracker.apply(&Event::Listed { bytes: 5 }, now);
    let seen = tracker.snapshot(now);
    assert_eq!((seen.done.objects, seen.permille()), (1, Some(500)));
}

/// A pass that no plan precedes is counted against the pass before it.
#[test]
fn an_expected_number_is_of_objects_to_compare() {
    let now = Instant::now();
    let mut tracker = Tracker::new(now);
    tracker.apply(&phase(Phase::Copy, None, None), now);
    let (objects, bytes) = (4, None);
    tracker.apply(&Event::Expected { objects, bytes }, now);
    tracker.apply(&Event::Listed { bytes: 5 }, now);
    let copied = Event::Copied {
        object: "b/k",
        bytes: 5,
    };
    tracker.apply(&copied, now);
    tracker.apply(&Event::Listed { bytes: 5 }, now);
    let seen = tracker.snapshot(now + Duration::from_secs(10));
    assert_eq!((seen.done.objects, seen.permille()), (2, Some(500)));
    assert_eq!(seen.eta, Some(Duration::from_secs(10)));
    // The next step knows nothing of it.
    tracker.apply(&phase(Phase::Copy, Some(1), Some(5)), now);
    tracker.apply(&Event::Listed { bytes: 5 }, now);
    let seen = tracker.snapshot(now);
    assert_eq!((seen.done.objects, seen.total.objects), (0, 1));
}

/// A pass that is counted while it runs: what is skipped is done, what is under way is not.
#[test]
fn counted_bytes_are_of_objects_to_compare() {
    let now = Instant::now();
    let mut tracker = Tracker::new(now);
    tracker.apply(&phase(Phase::Copy, None, None), now);
    let started = |object| Event::Started { object, bytes: 100 };
    let copied = |object| Event::Copied { object, bytes: 100 };
    for event in [
        Event::Listed { bytes: 600 },
        Event::Skipped,
        Event::Listed { bytes: 100 },
        started("b/1"),
        Event::Bytes(100),
        Event::Ended { object: "b/1" },
        copied("b/1"),
        Event::Listed { bytes: 100 },
        started("b/2"),
        Event::Bytes(40),
    ] {
        tracker.apply(&event, now);
    }
    let seen = tracker.snapshot(now);
    assert_eq!((seen.permille(), seen.eta), (None, None));
    let (objects, bytes) = (5, Some(1000));
    tracker.apply(&Event::Expected { objects, bytes }, now);
    let seen = tracker.snapshot(now + Duration::from_secs(10));
    assert_eq!(seen.total, amount(5, 1000));
    assert_eq!(seen.done, amount(2, 740));
    assert_eq!(seen.eta, Some(Duration::from_secs(15)));
    assert_eq!(seen.rate.bytes, 14, "what was skipped was not moved");
    // Read once more after a failure: no more than it is.
    tracker.apply(&Event::Bytes(100), now);
    assert_eq!(tracker.snapshot(now).done, amount(2, 800));
    tracker.apply(&Event::Ended { object: "b/2" }, now);
    tracker.apply(&copied("b/2"), now);
    assert_eq!(tracker.snapshot(now).done, amount(3, 800));
}

#[test]
fn what_is_in_flight_leaves_whatever_became_of_it() {
    let now = Instant::now();
    let mut tracker = Tracker::new(now);
    for object in ["b/1", "b/2"] {
        tracker.apply(&Event::Started { object, bytes: 1 }, now);
    }
    tracker.apply(&Event::Ended { object: "b/1" }, now);
    let seen = tracker.snapshot(now);
    assert_eq!(
        (seen.in_flight, &*seen.current),
        (1, &["b/2".to_owned()][..])
    );
}
