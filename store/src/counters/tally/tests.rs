use std::collections::BTreeMap;

use super::*;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Pseudo-random numbers (xorshift64), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

fn usage_of(objects: &BTreeMap<&str, u64>) -> Usage {
    Usage {
        objects: objects.len() as u64,
        bytes: objects.values().sum(),
    }
}

/// A change, step by step: begun, done (seen by readers), ended.
struct Step {
    key: &'static str,
    new: Size,
    /// What was there, once it is done.
    old: Option<Size>,
}

/// A page that was read and is to be handed over: its objects and its end.
type Page = (Vec<(String, u64)>, Option<String>);

/// Runs changes and counts in any order of their steps.
fn run(seed: u64) {
    let mut random = Random(seed);
    let mut tally = Tally::default();
    let mut objects: BTreeMap<&str, u64> = BTreeMap::new();
    let mut steps: Vec<Step> = Vec::new();
    let mut read: Option<Page> = None;
    let mut after: Option<String> = None;
    let mut counting = false;
    let mut counts = 0;
    for round in 0.. {
        // Later, only what has begun comes to its end.
        let draining = round > 60;
        if draining && steps.is_empty() && !counting {
            break;
        }
        match random.below(5) {
            0 if !draining => {
                let key = KEYS[random.below(KEYS.len())];
                if steps.iter().all(|step| step.key != key) {
                    let new = (random.below(3) > 0).then(|| random.below(100) as u64);
                    assert!(tally.begin(key, new, None));
                    steps.push(Step {
                        key,
                        new,
                        old: None,
                    });
                }
            }
            1 | 2 if !steps.is_empty() => {
                let index = random.below(steps.len());
                let step = &mut steps[index];
                if let Some(old) = step.old {
                    tally.end(step.key, old, step.new);
                    steps.swap_remove(index);
                } else if random.below(8) == 0 {
                    tally.cancel(step.key);
                    steps.swap_remove(index);
                } else {
                    step.old = Some(match step.new {
                        Some(size) => objects.insert(step.key, size),
                        None => objects.remove(step.key),
                    });
                }
            }
            3 | 4 if !counting && (!draining || counts == 0) => {
                assert!(tally.start());
                (counting, after) = (true, None);
            }
            3 if counting && read.is_none() => {
                let mut left: Vec<(String, u64)> = objects
                    .iter()
                    .filter(|(key, _)| after.as_deref().is_none_or(|after| **key > after))
                    .map(|(key, size)| ((*key).to_owned(), *size))
                    .collect();
                let more = left.len() > 2;
                left.truncate(2);
                let end = more.then(|| left[1].0.clone());
                read = Some((left, end));
            }
            4 => {
                if let Some((found, end)) = read.take() {
                    tally.page(&found, end.as_deref());
                    counting = end.is_some();
                    counts += u32::from(end.is_none());
                    after = end;
                }
            }
            _ => {}
        }
    }
    assert_eq!(tally.usage(), Some(usage_of(&objects)), "seed {seed}");
    assert_eq!(tally.reserved, Usage::default(), "seed {seed}");
    assert!(tally.pending.is_empty() && tally.count.is_none());
}

#[test]
fn a_count_beside_changes_comes_out_right() {
    for seed in 1..20_000 {
        run(seed);
    }
}

fn with_quota(bytes: Option<u64>, objects: Option<u64>) -> Tally {
    let mut tally = Tally::default();
    tally.restart(Usage::default());
    tally.set_quota(Some(Quota { bytes, objects }));
    tally
}

#[test]
fn a_quota_counts_what_is_under_way() {
    let mut tally = with_quota(Some(100), None);
    assert!(tally.begin("a", Some(60), None));
    assert!(!tally.begin("b", Some(60), None));
    assert!(tally.begin("b", Some(40), None));
    tally.end("a", None, Some(60));
    assert!(!tally.begin("c", Some(1), None));
    // What did not become an object is free again.
    tally.cancel("b");
    assert!(tally.begin("c", Some(40), None));
    tally.end("c", None, Some(40));
    assert_eq!(
        tally.usage(),
        Some(Usage {
            objects: 2,
            bytes: 100
        })
    );
    // Nothing is no growth; nor is less than there was.
    assert!(tally.admits(0, None));
    assert!(!tally.admits(1, None));
    assert!(tally.admits(60, Some(Some(60))));
    assert!(!tally.admits(61, Some(Some(60))));
    assert!(!tally.admits(1, Some(None)));
    // Deleting is always possible.
    assert!(tally.begin("a", None, None));
    tally.end("a", Some(60), None);
    assert!(tally.admits(60, None));
}

#[test]
fn a_quota_of_objects_lets_them_be_replaced() {
    let mut tally = with_quota(None, Some(1));
    assert!(tally.begin("a", Some(1), None));
    assert!(!tally.begin("b", Some(1), None));
    tally.end("a", None, Some(1));
    assert!(!tally.begin("a", Some(2), None));
    assert!(tally.begin("a", Some(2), Some(Some(1))));
    tally.end("a", Some(1), Some(2));
    assert!(!tally.begin("b", Some(0), Some(None)));
}

#[test]
fn without_a_count_or_a_quota_all_is_let_in() {
    let mut tally = Tally::default();
    tally.set_quota(Some(Quota {
        bytes: Some(1),
        objects: Some(1),
    }));
    assert!(tally.begin("a", Some(60), None));
    tally.end("a", None, Some(60));
    assert_eq!(tally.usage(), None);
    tally.restart(Usage::default());
    assert!(!tally.begin("a", Some(60), None));
    tally.set_quota(None);
    assert!(tally.begin("a", Some(60), None));
}

#[test]
fn a_bucket_over_its_quota_may_shrink() {
    let mut tally = with_quota(Some(10), Some(1));
    tally.restart(Usage {
        objects: 3,
        bytes: 300,
    });
    assert!(tally.admits(100, Some(Some(100))));
    assert!(tally.admits(5, Some(Some(100))));
    assert!(!tally.admits(101, Some(Some(100))));
    assert!(!tally.admits(0, Some(None)));
}
