//! What stays behind, counted.

use std::collections::BTreeMap;

use filestore_common::marker::NotCarried;
use sha2::{Digest, Sha256};

use super::{Left, Reason};

/// How many names are kept for a reason.
const EXAMPLES: usize = 10;
/// The same for settings and users: few, and each is somebody's to look at or redo.
const ALL: usize = 1000;

/// What stays behind, counted by reason with the first few names, and a sum over all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    found: BTreeMap<Reason, NotCarried>,
    /// Sum of the digests of every single thing, so that their order does not matter.
    sum: [u64; 4],
}

fn kept(reason: Reason) -> usize {
    match reason {
        Reason::BucketSettings | Reason::Users | Reason::UnknownVersions => ALL,
        _ => EXAMPLES,
    }
}

/// The digest of one thing.
fn lanes(left: &Left) -> [u64; 4] {
    let mut digest = Sha256::new();
    for field in [left.reason.as_str(), &left.name] {
        digest.update(field.as_bytes());
        digest.update([0]);
    }
    digest.update(left.count.to_be_bytes());
    digest.update(left.bytes.to_be_bytes());
    digest.update(&left.identity);
    let digest = digest.finalize();
    let mut lanes = [0; 4];
    for (lane, chunk) in lanes.iter_mut().zip(digest.chunks_exact(8)) {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(chunk);
        *lane = u64::from_be_bytes(bytes);
    }
    lanes
}

impl Tally {
    /// Counts one more thing.
    pub fn add(&mut self, left: Left) {
        self.count(&left);
        let seen = self.found.entry(left.reason).or_default();
        seen.count += left.count;
        seen.bytes += left.bytes;
        // Versions of one key come one after the other.
        if seen.examples.len() < kept(left.reason) && seen.examples.last() != Some(&left.name) {
            seen.examples.push(left.name);
        }
    }

    fn count(&mut self, left: &Left) {
        for (sum, lane) in self.sum.iter_mut().zip(lanes(left)) {
            *sum = sum.wrapping_add(lane);
        }
    }

    /// Adds another tally to this one.
    pub fn merge(&mut self, other: Self) {
        for (reason, more) in other.found {
            let seen = self.found.entry(reason).or_default();
            seen.count += more.count;
            seen.bytes += more.bytes;
            let room = kept(reason).saturating_sub(seen.examples.len());
            seen.examples.extend(more.examples.into_iter().take(room));
        }
        for (sum, more) in self.sum.iter_mut().zip(other.sum) {
            *sum = sum.wrapping_add(more);
        }
    }

    /// Forgets things, each counted once and without bytes or identity, of one reason that `keep`
    /// refuses by name. Only of reasons whose names are all kept nothing is missed.
    pub fn retain(&mut self, reason: Reason, keep: impl Fn(&str) -> bool) {
        let Some(seen) = self.found.get_mut(&reason) else {
            return;
        };
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut seen.examples)
            .into_iter()
            .partition(|name| keep(name));
        seen.examples = kept;
        seen.count = seen.count.saturating_sub(gone.len() as u64);
        if seen.examples.is_empty() {
            self.found.remove(&reason);
        }
        for name in gone {
            for (sum, lane) in self.sum.iter_mut().zip(lanes(&Left::new(reason, name, 1))) {
                *sum = sum.wrapping_sub(lane);
            }
        }
    }

    /// Counts and names by reason.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, &NotCarried)> {
        self.found.iter().map(|(reason, left)| (*reason, left))
    }

    /// What is counted for one reason.
    pub fn get(&self, reason: Reason) -> Option<&NotCarried> {
        self.found.get(&reason)
    }

    /// How many current objects stay behind.
    pub fn losses(&self) -> u64 {
        let losses = self.found.iter().filter(|(reason, _)| reason.is_loss());
        losses.map(|(_, left)| left.count).sum()
    }

    /// Why a run that may leave no version behind is refused, and what to do: some would stay, or
    /// nobody can tell. `None` when none would.
    pub fn versions_left(&self) -> Option<(String, &'static str)> {
        versions_left(|reason| self.found.get(&reason))
    }

    /// Names the whole list, every single thing of it in whatever order it was found: 16
    /// hexadecimal digits, by which a person accepts it.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        for sum in self.sum {
            digest.update(sum.to_be_bytes());
        }
        hex::encode(&digest.finalize()[..8])
    }

    /// The form of the marker's `notCarried`.
    pub fn into_marker(self) -> BTreeMap<String, NotCarried> {
        let named = self.found.into_iter();
        named
            .map(|(reason, left)| (reason.as_str().to_owned(), left))
            .collect()
    }
}

/// [`Tally::versions_left`] of any such list.
pub(crate) fn versions_left<'n>(
    left: impl Fn(Reason) -> Option<&'n NotCarried>,
) -> Option<(String, &'static str)> {
    let known = [Reason::NoncurrentVersions, Reason::DeleteMarkers];
    let count: u64 = known.into_iter().filter_map(&left).map(|l| l.count).sum();
    if count > 0 {
        let problem =
            format!("would not get {count} noncurrent versions and delete markers of the source");
        return Some((problem, "go without --fail-on-versions to leave them"));
    }
    let unknown = left(Reason::UnknownVersions)?;
    let problem = format!(
        "nobody can tell whether versions or delete markers would stay behind: {}",
        unknown.examples.join(", ")
    );
    Some((
        problem,
        "give the source credentials that may read them (s3:GetBucketVersioning, \
         s3:ListBucketVersions), or go without --fail-on-versions",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(name: &str, bytes: u64) -> Left {
        Left::new(Reason::NoncurrentVersions, name, 1).with_bytes(bytes)
    }

    fn tally(things: &[(&str, u64)]) -> Tally {
        let mut tally = Tally::default();
        for (name, bytes) in things {
            tally.add(left(name, *bytes));
        }
        tally
    }

    #[test]
    fn the_hash_is_of_the_list_and_not_of_its_order() {
        let one = tally(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(one.hash(), tally(&[("c", 3), ("a", 1), ("b", 2)]).hash());
        let mut merged = tally(&[("c", 3)]);
        merged.merge(tally(&[("b", 2), ("a", 1)]));
        assert_eq!(one.hash(), merged.hash());
        assert_eq!(one.hash().len(), 16);

        for other in [
            &[("a", 1), ("b", 2)][..],
            &[("a", 1), ("b", 2), ("d", 3)],
            &[("a", 1), ("b", 2), ("c", 4)],
            &[("a", 1), ("b", 2), ("c", 3), ("c", 3)],
            // Two more of the same do not cancel out.
            &[("a", 1), ("b", 2), ("c", 3), ("x", 0), ("x", 0)],
            &[],
        ] {
            assert_ne!(one.hash(), tally(other).hash(), "{other:?}");
        }
    }

    /// Another version under the same key, of the same size, is another list.
    #[test]
    fn the_hash_tells_things_apart_that_count_alike() {
        let version = |identity: &str| {
            let mut tally = Tally::default();
            tally.add(left("b/k", 5).with_identity(identity.as_bytes()));
            tally.hash()
        };
        assert_eq!(version("v1"), version("v1"));
        assert_ne!(version("v1"), version("v2"));
    }

    #[test]
    fn what_is_forgotten_leaves_nothing_behind() {
        let bucket = |name: &str| Left::new(Reason::Unnameable, name, 1);
        let mut tally = tally(&[("a", 1)]);
        let before = tally.clone();
        tally.add(bucket("bucket X"));
        tally.add(bucket("bucket Y"));
        let mut with_y = before.clone();
        with_y.add(bucket("bucket Y"));
        tally.retain(Reason::Unnameable, |name| name != "bucket X");
        assert_eq!(tally, with_y);
        tally.retain(Reason::Unnameable, |_| false);
        assert_eq!(tally, before);
    }

    #[test]
    fn things_beyond_the_examples_count_in_the_hash() {
        let many: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let list = |skip: usize| {
            let mut tally = Tally::default();
            for name in many.iter().enumerate().filter(|(n, _)| *n != skip) {
                tally.add(left(name.1, 1));
            }
            tally
        };
        assert_eq!(
            list(48)
                .get(Reason::NoncurrentVersions)
                .map(|l| l.examples.len()),
            Some(10)
        );
        assert_ne!(list(48).hash(), list(49).hash());
    }
}
