//! Manifest and listings side by side: one key after the other, in order of bucket and key.

use std::collections::BTreeSet;
use std::path::Path;

use filestore_common::{BucketName, ObjectKey};

use super::done::{Done, Doubt, Overlay};
use crate::copy::Ends;
use crate::manifest::{Line, Reader};
use crate::merge::Ordered;
use crate::source::{Bucket, Entry, Listed, Tally};
use crate::{Event, Result};

/// What is known of a key.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) bucket: BucketName,
    pub(super) key: ObjectKey,
    /// As it was recorded.
    pub(super) base: Option<Line>,
    /// What an earlier process did with it, where that is in doubt.
    pub(super) doubtful: Option<Done>,
    /// On the side that is read.
    pub(super) reading: Option<Entry>,
    /// On the side that is written; [`Far::NotAsked`] unless that is listed as well.
    pub(super) writing: Far,
    /// The read side's listing showed it as something that cannot be read or carried.
    pub(super) left: bool,
}

/// What is known of the written side.
#[derive(Debug, Clone)]
pub(super) enum Far {
    NotAsked,
    Listed(Option<Entry>),
}

/// A listing with its next entry in sight.
struct Ahead {
    listing: Option<Ordered>,
    /// Keys that it showed as lost, as far as no later one was asked for.
    left: BTreeSet<String>,
    next: Option<Entry>,
    /// That is outside of the window of time that is migrated.
    outside: bool,
}

impl Ahead {
    fn new(listing: Option<Ordered>) -> Self {
        Self {
            listing,
            left: BTreeSet::new(),
            next: None,
            outside: false,
        }
    }

    async fn peek(&mut self, tally: &mut Tally) -> Result<Option<&Entry>> {
        while let (None, Some(listing)) = (&self.next, &mut self.listing) {
            let item = listing.next().await?;
            self.outside = matches!(item, Some(Listed::Outside(_)));
            match item {
                Some(Listed::Object(entry) | Listed::Outside(entry)) => self.next = Some(entry),
                Some(Listed::Left(left)) => {
                    // `bucket/key`, by the store's own name of the bucket.
                    if left.reason.is_loss()
                        && let Some((_, key)) = left.name.split_once('/')
                    {
                        self.left.insert(key.to_owned());
                    }
                    tally.add(left);
                }
                None => self.listing = None,
            }
        }
        Ok(self.next.as_ref())
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Entry> {
        self.next.take_if(|entry| entry.key == *key)
    }

    /// Whether `key` is one of those; keys before it are not asked for any more.
    fn left(&mut self, key: &str) -> bool {
        while let Some(first) = self.left.first()
            && first.as_str() < key
        {
            self.left.pop_first();
        }
        self.left.contains(key)
    }
}

struct Open {
    bucket: BucketName,
    reading: Ahead,
    writing: Option<Ahead>,
}

/// Reads everything once.
pub(super) struct Join<'a> {
    ends: &'a Ends,
    manifest: Reader,
    recorded: Option<Line>,
    /// What was done since the manifest was written.
    overlay: Overlay,
    read: BTreeSet<BucketName>,
    /// `None` = the written side is not listed.
    written: Option<BTreeSet<BucketName>>,
    /// Last bucket that was opened.
    done: Option<BucketName>,
    open: Option<Open>,
    /// Objects that the read side's listings showed.
    pub(super) seen: u64,
    /// What they showed that cannot travel.
    pub(super) tally: Tally,
}

fn names(buckets: &[Bucket]) -> BTreeSet<BucketName> {
    buckets.iter().map(|bucket| bucket.name.clone()).collect()
}

impl<'a> Join<'a> {
    /// Opens the manifest; `read` are the buckets of the side that is read.
    pub(super) async fn open(
        ends: &'a Ends,
        manifest: &Path,
        overlay: Overlay,
        read: &[Bucket],
        list_target: bool,
    ) -> Result<Self> {
        let mut manifest = Reader::open(manifest)?;
        let recorded = manifest.line()?;
        let written = if list_target {
            Some(names(&ends.target.buckets().await?))
        } else {
            None
        };
        Ok(Self {
            ends,
            manifest,
            recorded,
            overlay,
            read: names(read),
            written,
            done: None,
            open: None,
            seen: 0,
            tally: Tally::default(),
        })
    }

    fn next_bucket(&mut self) -> Option<BucketName> {
        let done = self.overlay.peek().map(|(bucket, _)| bucket.clone());
        let after = |name: &&BucketName| self.done.as_ref().is_none_or(|done| *name > done);
        let listed = self.read.iter().find(after);
        let written = self.written.iter().flatten().find(after);
        let recorded = self.recorded.as_ref().map(|line| &line.bucket);
        [listed, written, recorded, done.as_ref()]
            .into_iter()
            .flatten()
            .min()
            .cloned()
    }

    fn open_bucket(&mut self, bucket: BucketName) {
        let ends = self.ends;
        let reading = self.read.contains(&bucket).then(|| {
            Ordered::new(
                format!("{bucket} on the side that is read"),
                ends.source.list_full(&bucket),
            )
        });
        let writing = self.written.as_ref().map(|written| {
            Ahead::new(written.contains(&bucket).then(|| {
                Ordered::new(
                    format!("{bucket} on the side that is written"),
                    ends.target.list(&bucket),
                )
            }))
        });
        self.done = Some(bucket.clone());
        self.open = Some(Open {
            bucket,
            reading: Ahead::new(reading),
            writing,
        });
    }

    /// The next key, `None` when every listing came to its proper end.
    pub(super) async fn next(&mut self) -> Result<Option<Place>> {
        loop {
            let Some(open) = &mut self.open else {
                match self.next_bucket() {
                    Some(bucket) => self.open_bucket(bucket),
                    None => return Ok(None),
                }
                continue;
            };
            let recorded = self
                .recorded
                .as_ref()
                .filter(|line| line.bucket == open.bucket)
                .map(|line| &line.key);
            let reading = open
                .reading
                .peek(&mut self.tally)
                .await?
                .map(|entry| &entry.key);
            let mut ignored = Tally::default();
            let writing = match &mut open.writing {
                Some(writing) => writing.peek(&mut ignored).await?.map(|entry| &entry.key),
                None => None,
            };
            let done = self.overlay.peek();
            let done = done.filter(|(bucket, _)| **bucket == open.bucket);
            let done = done.map(|(_, key)| key);
            let Some(key) = [recorded, reading, writing, done]
                .into_iter()
                .flatten()
                .min()
                .cloned()
            else {
                self.open = None;
                continue;
            };
            let (bucket, reading) = (open.bucket.clone(), open.reading.take(&key));
            let outside = open.reading.outside && reading.is_some();
            let left = reading.is_none() && open.reading.left(key.as_str());
            let writing = match &mut open.writing {
                Some(writing) => Far::Listed(writing.take(&key)),
                None => Far::NotAsked,
            };
            let due = self
                .recorded
                .as_ref()
                .is_some_and(|line| line.bucket == bucket && line.key == key);
            let mut base = if due {
                let next = self.manifest.line()?;
                std::mem::replace(&mut self.recorded, next)
            } else {
                None
            };
            let mut doubtful = None;
            match self.overlay.take(&bucket, &key) {
                Some(done) if done.doubt == Doubt::None => base = done.line,
                done => doubtful = done,
            }
            if outside && base.is_none() && doubtful.is_none() {
                // Was not to be carried, and is not now. What was carried stays so whatever its
                // time becomes.
                continue;
            }
            if let Some(entry) = &reading {
                self.seen += 1;
                self.ends
                    .progress
                    .event(&Event::Listed { bytes: entry.size });
            }
            return Ok(Some(Place {
                bucket,
                key,
                base,
                doubtful,
                reading,
                writing,
                left,
            }));
        }
    }
}
