//! The last look before a legacy store serves again: both listings side by side, by ETag and size,
//! whatever the manifest says of them.

use std::collections::BTreeSet;

use filestore_common::BucketName;
use futures::{StreamExt as _, stream};

use super::Held;
use crate::manifest::{Line, Reader};
use crate::merge::{Merge, Merged, Ordered, Pair};
use crate::policy::{Sameness, compare};
use crate::reconcile::Found;
use crate::session::{Session, phase};
use crate::source::{Entry, Reason};
use crate::{Error, Event, Kind, Phase, Result};

/// Names given as examples.
const EXAMPLES: usize = 10;

/// Keys that are not the same on both sides.
#[derive(Debug, Default)]
struct Odd {
    count: u64,
    examples: Vec<String>,
}

impl Odd {
    fn add(&mut self, bucket: &BucketName, key: &str) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{bucket}/{key}"));
        }
    }
}

/// Both sides are the same, but for what `found` says of it: changes of the legacy store alone,
/// conflicts that were decided for one side, keys that the legacy store cannot hold.
///
/// # Errors
/// [`Kind::Refused`] when more differs than that explains.
pub(super) async fn verify(session: &Session<'_>, held: &Held, found: &Found) -> Result<()> {
    let ends = &session.ends;
    phase(&*ends.progress, Phase::Verify, Some(found.objects), None);
    let mut names: BTreeSet<BucketName> = BTreeSet::new();
    let ours: BTreeSet<BucketName> = buckets(ends.source.buckets().await?);
    let theirs: BTreeSet<BucketName> = buckets(ends.target.buckets().await?);
    names.extend(ours.iter().chain(&theirs).cloned());
    let mut decided = Decided::open(held)?;
    let mut odd = Odd::default();
    for name in names {
        let listing = |there: bool, listing| {
            if there {
                listing
            } else {
                stream::empty().boxed()
            }
        };
        let read = listing(ours.contains(&name), ends.source.list(&name));
        let written = listing(theirs.contains(&name), ends.target.list(&name));
        let mut merge = Merge::new(
            Ordered::new(format!("{name} on the served store"), read),
            Ordered::new(format!("{name} on the legacy store"), written),
        );
        while let Some(item) = merge.next().await? {
            ends.go_on()?;
            let Merged::Pair(pair) = item else {
                // Told and accepted, or the way back ended before this.
                continue;
            };
            let entry = match &pair {
                Pair::Source(entry) | Pair::Target(entry) | Pair::Both(entry, _) => entry,
            };
            let bytes = entry.size;
            ends.progress.event(&Event::Listed { bytes });
            let key = entry.key.clone();
            let line = decided.line(&name, key.as_str())?;
            if !same(session, &name, &pair, line.as_ref()).await? {
                odd.add(&name, key.as_str());
            }
        }
    }
    let unnameable = found
        .tally
        .get(Reason::Unnameable)
        .map_or(0, |left| left.count);
    if odd.count <= found.left + unnameable {
        return Ok(());
    }
    let location = ends.target.traits().location;
    let problem = format!(
        "does not hold what was written to it: {} keys differ, {} would be explained: {}",
        odd.count,
        found.left + unnameable,
        odd.examples.join(", ").escape_debug()
    );
    Err(Error::new(Kind::Refused, "verify", location, problem)
        .with_cure("look at that store and run this again; the marker stays rollingBack"))
}

fn buckets(found: Vec<crate::source::Bucket>) -> BTreeSet<BucketName> {
    found.into_iter().map(|bucket| bucket.name).collect()
}

async fn same(
    session: &Session<'_>,
    bucket: &BucketName,
    pair: &Pair,
    line: Option<&Line>,
) -> Result<bool> {
    if line.is_some_and(|line| line.settled.is_some()) {
        return Ok(true);
    }
    let target = &session.ends.target;
    let equal = |ours: &Entry, theirs: &Entry| {
        // A store that makes ETags of its own is held to what it showed when it was written.
        let known = line.is_some_and(|line| {
            line.target_etag.is_some() && line.size == ours.size && line.size == theirs.size
        });
        known
            || compare(ours, theirs, &target.traits(), session.ends.source.tells())
                != Sameness::Different
    };
    match pair {
        Pair::Both(ours, theirs) => Ok(equal(ours, theirs)),
        Pair::Target(_) => Ok(false),
        // MinIO hides `a/b` beside `a` from its listings; asked for, it has it.
        Pair::Source(ours) => {
            let found = target.head(bucket, &ours.key).await?;
            Ok(found.is_some_and(|theirs| equal(ours, &theirs)))
        }
    }
}

/// The manifest, read along with the listings, which have the same order.
struct Decided {
    lines: Reader,
    next: Option<Line>,
}

impl Decided {
    fn open(held: &Held) -> Result<Self> {
        let mut lines = Reader::open(&held.state.manifest(&held.marker.run_id))?;
        let next = lines.line()?;
        Ok(Self { lines, next })
    }

    /// The line of a key, if it has one; keys are asked for in their order.
    fn line(&mut self, bucket: &BucketName, key: &str) -> Result<Option<Line>> {
        while let Some(line) = &self.next {
            match (&line.bucket, line.key.as_str()).cmp(&(bucket, key)) {
                std::cmp::Ordering::Less => self.next = self.lines.line()?,
                std::cmp::Ordering::Equal => return Ok(self.next.clone()),
                std::cmp::Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }
}
