//! A stretch of the order of (bucket, key): what one of several workers does.

use std::ops::Bound;

use filestore_common::{BucketName, ObjectKey};
use serde::{Deserialize, Serialize};

/// A place in the order of all objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Bucket, by its name on the target.
    pub bucket: BucketName,
    /// Key.
    pub key: ObjectKey,
}

/// Objects after one place, up to and with another. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// Objects come after this one; `None` = from the first on.
    pub after: Option<Place>,
    /// The last object; `None` = to the end.
    pub last: Option<Place>,
}

impl Range {
    /// No object: what a worker does that came too many.
    pub fn nothing() -> Self {
        let place = BucketName::new("000")
            .ok()
            .zip(ObjectKey::new("0").ok())
            .map(|(bucket, key)| Place { bucket, key });
        Self {
            after: place.clone(),
            last: place,
        }
    }

    /// Whether all objects lie in it.
    pub fn is_everything(&self) -> bool {
        self.after.is_none() && self.last.is_none()
    }

    /// Whether it is the first of all ranges.
    pub fn is_first(&self) -> bool {
        self.after.is_none()
    }

    /// Which keys of a bucket lie in it; `None` = surely none.
    pub fn within(&self, bucket: &BucketName) -> Option<(Option<&str>, Bound<&str>)> {
        let mut begin = None;
        if let Some(after) = &self.after {
            match bucket.cmp(&after.bucket) {
                std::cmp::Ordering::Less => return None,
                std::cmp::Ordering::Equal => begin = Some(after.key.as_str()),
                std::cmp::Ordering::Greater => {}
            }
        }
        let mut end = Bound::Unbounded;
        if let Some(last) = &self.last {
            match bucket.cmp(&last.bucket) {
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal => end = Bound::Included(last.key.as_str()),
                std::cmp::Ordering::Less => {}
            }
        }
        Some((begin, end))
    }

    /// Whether an object lies in it.
    pub fn contains(&self, bucket: &BucketName, key: &str) -> bool {
        self.within(bucket).is_some_and(|(after, end)| {
            after.is_none_or(|after| key > after)
                && match end {
                    Bound::Included(last) => key <= last,
                    _ => true,
                }
        })
    }
}
