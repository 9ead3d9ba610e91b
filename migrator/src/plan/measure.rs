//! How long a copy may take: a few of the objects to copy are read, nothing is written.

use std::time::{Duration, Instant};

use filestore_common::BucketName;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use super::{Named, Plan};
use crate::copy::Ends;
use crate::source::Entry;
use crate::{Kind, Result};

/// Objects in a sample.
const SAMPLE: usize = 64;
/// Bytes read of one object.
const MOST_BYTES: u64 = 4 << 20;

/// How long the copy may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Seconds, as if the target were no slower than the source.
    pub seconds: u64,
    /// Objects that were read for it.
    pub sampled_objects: u64,
    /// Bytes that were read for it.
    pub sampled_bytes: u64,
    /// Milliseconds that took.
    pub sampled_milliseconds: u64,
}

/// Objects chosen evenly from all that are offered (reservoir sampling, Vitter's algorithm R).
#[derive(Debug, Default)]
pub(super) struct Sample {
    chosen: Vec<(BucketName, Entry)>,
    offered: u64,
    random: u64,
}

impl Sample {
    pub(super) fn offer(&mut self, bucket: &BucketName, entry: &Entry) {
        self.offered += 1;
        if self.chosen.len() < SAMPLE {
            self.chosen.push((bucket.clone(), entry.clone()));
            return;
        }
        // The same objects in the same store: a plan made twice says the same.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = usize::try_from((self.random >> 33) % self.offered).unwrap_or(usize::MAX);
        if let Some(slot) = self.chosen.get_mut(place) {
            *slot = (bucket.clone(), entry.clone());
        }
    }
}

/// What reading the sample showed.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// `None` when there is nothing to copy or nothing came in time.
    pub(super) estimate: Option<Estimate>,
    /// Objects that the store lists and does not give: encrypted with a key of their owner, or
    /// damaged.
    pub(super) unreadable: Named,
}

/// Reads the sample for at most `budget`, as many objects at a time as a copy would.
pub(super) async fn estimate(
    ends: &Ends,
    sample: Sample,
    plan: &Plan,
    budget: Duration,
) -> Result<Measured> {
    let mut measured = Measured::default();
    let begin = Instant::now();
    let deadline = tokio::time::Instant::now() + budget;
    let (mut objects, mut bytes, mut taken) = (0, 0, Duration::ZERO);
    let mut reads = stream::iter(sample.chosen)
        .map(|(bucket, entry)| async move { read(ends, &bucket, &entry).await })
        .buffer_unordered(ends.parallel.max(1));
    while let Ok(Some(read)) = tokio::time::timeout_at(deadline, reads.next()).await {
        ends.go_on()?;
        match read {
            Ok(read) => {
                objects += 1;
                bytes += read;
                taken = begin.elapsed();
            }
            Err(error) if matches!(error.kind, Kind::Unsupported | Kind::Damaged) => {
                measured.unreadable.add(|| error.to_string());
            }
            // What may pass is for the copy to meet.
            Err(_) => {}
        }
    }
    measured.estimate = (objects > 0).then(|| Estimate {
        seconds: scale(
            plan.create + plan.replace,
            plan.copy_bytes,
            objects,
            bytes,
            taken,
        ),
        sampled_objects: objects,
        sampled_bytes: bytes,
        sampled_milliseconds: u64::try_from(taken.as_millis()).unwrap_or(u64::MAX),
    });
    Ok(measured)
}

async fn read(ends: &Ends, bucket: &BucketName, entry: &Entry) -> Result<u64> {
    let mut object = ends.source.open(bucket, entry).await?;
    let mut bytes = 0;
    while bytes < MOST_BYTES
        && let Some(chunk) = object.body.try_next().await?
    {
        bytes += chunk.len() as u64;
    }
    Ok(bytes)
}

/// Seconds for all objects, by their number or by their bytes, whichever says more: small objects
/// cost their number, large ones were read in part.
fn scale(all_objects: u64, all_bytes: u64, objects: u64, bytes: u64, taken: Duration) -> u64 {
    let nanos = taken.as_nanos();
    let by = |all: u64, some: u64| match some {
        0 => 0,
        some => nanos * u128::from(all) / u128::from(some),
    };
    let nanos = by(all_objects, objects).max(by(all_bytes, bytes));
    u64::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use filestore_common::ObjectKey;

    use super::*;

    #[test]
    fn small_objects_are_scaled_by_number_and_large_ones_by_bytes() {
        let second = Duration::from_secs(1);
        assert_eq!(scale(6400, 6400 * 10, 64, 640, second), 100);
        assert_eq!(scale(64, 64 << 30, 64, 64 << 20, second), 1024);
        // Nothing but empty objects.
        assert_eq!(scale(10, 0, 5, 0, second), 2);
    }

    #[test]
    fn a_sample_takes_from_everywhere() {
        let mut sample = Sample::default();
        let bucket = BucketName::new("data").unwrap();
        for number in 0..100_000u64 {
            sample.offer(
                &bucket,
                &Entry {
                    key: ObjectKey::new(number.to_string()).unwrap(),
                    size: number,
                    etag: None,
                    last_modified: std::time::SystemTime::UNIX_EPOCH,
                    meta: None,
                    hidden: false,
                },
            );
        }
        assert_eq!(sample.chosen.len(), SAMPLE);
        let mean = sample
            .chosen
            .iter()
            .map(|(_, entry)| entry.size)
            .sum::<u64>()
            / SAMPLE as u64;
        assert!((30_000..70_000).contains(&mean), "{mean}");
    }
}
