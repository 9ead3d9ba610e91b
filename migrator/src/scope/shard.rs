//! Shards: the objects of a scope cut into ranges of about equal work, for workers side by side.
//!
//! The cuts are made once, from one listing of the source, by whichever worker comes first, and
//! kept with the run: all workers cut alike. Whatever they are, each object lies in exactly one
//! range, so that it does not matter what is added or removed meanwhile.

use std::fmt;
use std::str::FromStr;

use filestore_common::BucketName;
use serde::{Deserialize, Serialize};

use super::{Place, Range};
use crate::source::Entry;
use crate::{Error, Kind, Result};

/// Most shards of one migration.
const MAX_SHARDS: u32 = 1000;
/// What an object costs beside its bytes, in bytes that take as long.
const OBJECT_COST: u64 = 256 << 10;
/// Samples kept while the source is listed; more are thinned out.
const SAMPLES: usize = 8192;

/// Which of several workers this one is: `index/count`, counted from 0 as a Kubernetes Job counts
/// its pods (`JOB_COMPLETION_INDEX`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// 0 to `count` - 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |message: String| {
            Error::new(Kind::Usage, "read", text, message)
                .with_cure("use INDEX/COUNT, 0/4 to 3/4 for four workers")
        };
        let numbers = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        let Some((index, count)) = numbers else {
            return Err(refused("is no shard".into()));
        };
        match count {
            1..=MAX_SHARDS if index < count => Ok(Self { index, count }),
            1..=MAX_SHARDS => Err(refused(format!("the last of {count} is {}", count - 1))),
            _ => Err(refused(format!("there are 1 to {MAX_SHARDS} shards"))),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// Where the objects are cut: the last object of every range but the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// In order; one fewer than there are shards, or none when there was nothing to cut.
    pub places: Vec<Place>,
    /// Objects in each range when it was cut; empty when nobody counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<u64>,
}

impl Cuts {
    /// What `shard` does.
    pub fn range(&self, shard: Shard) -> Range {
        let index = usize::try_from(shard.index).unwrap_or(usize::MAX);
        if self.places.is_empty() {
            // All that comes later is the first one's.
            return if index == 0 {
                Range::default()
            } else {
                Range::nothing()
            };
        }
        Range {
            after: index
                .checked_sub(1)
                .and_then(|before| self.places.get(before).cloned()),
            last: self.places.get(index).cloned(),
        }
    }
}

/// Cuts a listing whose length nobody knows before its end, in bounded memory: keeps places at
/// equal distances of work, and only every second one whenever there are too many.
#[derive(Debug)]
pub(crate) struct Sampler {
    distance: u64,
    work: u64,
    objects: u64,
    sampled: u64,
    samples: Vec<Sample>,
}

/// Where a listing could be cut.
#[derive(Debug)]
struct Sample {
    /// Work up to the place, itself among it.
    work: u64,
    /// Objects up to the place, itself among them.
    objects: u64,
    place: Place,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            distance: 1,
            work: 0,
            objects: 0,
            sampled: 0,
            samples: Vec::new(),
        }
    }
}

impl Sampler {
    /// Takes the next object; buckets and keys ascend.
    pub(crate) fn add(&mut self, bucket: &BucketName, entry: &Entry) {
        let work = OBJECT_COST.saturating_add(entry.size);
        self.work = self.work.saturating_add(work);
        self.objects += 1;
        if self.work - self.sampled < self.distance {
            return;
        }
        self.sampled = self.work;
        let place = Place {
            bucket: bucket.clone(),
            key: entry.key.clone(),
        };
        self.samples.push(Sample {
            work: self.work,
            objects: self.objects,
            place,
        });
        if self.samples.len() >= SAMPLES {
            let mut kept = 0;
            self.samples.retain(|_| {
                kept += 1;
                kept % 2 == 0
            });
            self.distance = (self.work / (SAMPLES as u64 / 2)).max(self.distance);
        }
    }

    /// Cuts what was listed into `count` ranges of about equal work.
    pub(crate) fn cuts(self, count: u32) -> Cuts {
        let Some(end) = self.samples.last() else {
            return Cuts {
                places: Vec::new(),
                objects: Vec::new(),
            };
        };
        let chosen: Vec<&Sample> = (1..count)
            .map(|index| {
                let wanted = u128::from(self.work) * u128::from(index) / u128::from(count);
                let at = self
                    .samples
                    .partition_point(|sample| u128::from(sample.work) < wanted);
                self.samples.get(at).unwrap_or(end)
            })
            .collect();
        let mut before = 0;
        let ends = chosen.iter().map(|sample| sample.objects);
        let objects = ends.chain([self.objects]).map(|end| {
            let mine = end - before;
            before = end;
            mine
        });
        Cuts {
            objects: objects.collect(),
            places: chosen.iter().map(|sample| sample.place.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use filestore_common::ObjectKey;
    use proptest::prelude::*;

    use super::*;

    fn entry(key: &str, size: u64) -> Entry {
        Entry {
            key: ObjectKey::new(key).unwrap(),
            size,
            etag: None,
            last_modified: SystemTime::UNIX_EPOCH,
            meta: None,
            hidden: false,
        }
    }

    fn cut(objects: &[(BucketName, Entry)], count: u32) -> Cuts {
        let mut sampler = Sampler::default();
        for (bucket, entry) in objects {
            sampler.add(bucket, entry);
        }
        sampler.cuts(count)
    }

    #[test]
    fn shards_are_counted_from_zero() {
        assert_eq!(
            "3/4".parse::<Shard>().unwrap(),
            Shard { index: 3, count: 4 }
        );
        assert_eq!(Shard { index: 0, count: 1 }.to_string(), "0/1");
        for bad in ["", "4/4", "0/0", "1", "-1/4", "a/b", "0/1001", "1/2/3"] {
            assert_eq!(bad.parse::<Shard>().unwrap_err().kind, Kind::Usage, "{bad}");
        }
    }

    #[test]
    fn many_objects_are_cut_evenly_in_bounded_memory() {
        let bucket = BucketName::new("abc").unwrap();
        let objects: Vec<_> = (0..100_000)
            .map(|number| {
                let large = if number % 1000 == 0 { 64 << 20 } else { 10 };
                (bucket.clone(), entry(&format!("{number:06}"), large))
            })
            .collect();
        let mut sampler = Sampler::default();
        for (bucket, entry) in &objects {
            sampler.add(bucket, entry);
            assert!(sampler.samples.len() <= SAMPLES);
        }
        let cuts = sampler.cuts(7);
        let cost = |entry: &Entry| OBJECT_COST + entry.size;
        let total: u64 = objects.iter().map(|(_, entry)| cost(entry)).sum();
        for index in 0..7 {
            let range = cuts.range(Shard { index, count: 7 });
            let mine: Vec<u64> = objects
                .iter()
                .filter(|(bucket, entry)| range.contains(bucket, entry.key.as_str()))
                .map(|(_, entry)| cost(entry))
                .collect();
            assert_eq!(cuts.objects[index as usize], mine.len() as u64);
            let mine: u64 = mine.iter().sum();
            let fair = total / 7;
            assert!(
                mine.abs_diff(fair) < fair / 50 + (64 << 20),
                "shard {index}: {mine} of {total}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_object_is_in_exactly_one_shard(
            keys in proptest::collection::btree_set(("[a-c]{3}", "[a-c/]{1,3}"), 0..40),
            sizes in proptest::collection::vec(0_u64..10_000_000, 40),
            count in 1_u32..9, later in ("[a-c]{3}", "[a-d/]{1,4}"),
        ) {
            let objects: Vec<_> = keys.iter().zip(sizes).map(|((bucket, key), size)| {
                (BucketName::new(bucket.as_str()).unwrap(), entry(key, size))
            }).collect();
            let cuts = cut(&objects, count);
            // What is added after the cut counts as well.
            let added = [(BucketName::new(later.0).unwrap(), entry(&later.1, 1))];
            for (bucket, entry) in objects.iter().chain(&added) {
                let holding = (0..count)
                    .filter(|index| {
                        let range = cuts.range(Shard { index: *index, count });
                        range.contains(bucket, entry.key.as_str())
                    })
                    .count();
                prop_assert_eq!(holding, 1, "{:?}", cuts);
            }
        }
    }
}
