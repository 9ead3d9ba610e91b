//! The walk over a bucket as a listing.

use std::collections::VecDeque;

use filestore_common::{BucketName, ObjectKey};
use futures::{StreamExt, stream};

use super::error::{explain, reason};
use crate::Result;
use crate::drive::{Content, Drive, DriveObject, Walk, WalkItem, WalkedKey};
use crate::scope::Keys;
use crate::source::{Entry, Left, Listed, Listing, Reason};
use crate::volume::blocking;

/// Finds of the walk read at a time.
const PAGE: usize = 256;

struct Pages {
    drive: Drive,
    bucket: BucketName,
    keys: Keys,
    walk: Option<Walk>,
    ready: VecDeque<Listed>,
    ended: bool,
}

/// The current objects of a bucket that `keys` takes, and what of them stays behind.
pub(super) fn list(drive: Drive, bucket: BucketName, keys: Keys) -> Listing {
    let pages = Pages {
        drive,
        bucket,
        keys,
        walk: None,
        ready: VecDeque::new(),
        ended: false,
    };
    stream::try_unfold(pages, |mut pages| async move {
        loop {
            if let Some(item) = pages.ready.pop_front() {
                return Ok(Some((item, pages)));
            }
            if pages.ended {
                return Ok(None);
            }
            let bucket = pages.bucket.to_string();
            pages = blocking("list", &bucket, move || pages.fill()).await?;
        }
    })
    .boxed()
}

impl Pages {
    fn fill(mut self) -> Result<Self> {
        let fail = |error| explain("list", self.bucket.as_str(), error);
        let walk = match &mut self.walk {
            Some(walk) => walk,
            empty => {
                let after = self.keys.start_after();
                let walk = self
                    .drive
                    .walk(&self.bucket, after.as_ref())
                    .map_err(fail)?;
                empty.insert(walk)
            }
        };
        for _ in 0..PAGE {
            let Some(item) = walk.next().transpose().map_err(fail)? else {
                self.ended = true;
                break;
            };
            match item {
                WalkItem::Key(found) if self.keys.span.ends_before(found.key.as_str()) => {
                    self.ended = true;
                    break;
                }
                WalkItem::Key(found) if !self.keys.takes(found.key.as_str()) => {}
                WalkItem::Key(found) => take(&self.bucket, *found, &mut self.ready),
                WalkItem::Stray(stray) => {
                    let left = Left::new(Reason::Strays, stray.to_string(), 1);
                    self.ready.push_back(Listed::Left(left));
                }
            }
        }
        Ok(self)
    }
}

fn take(bucket: &BucketName, found: WalkedKey, ready: &mut VecDeque<Listed>) {
    let name = format!("{bucket}/{}", found.key);
    let versions = found.left_identity;
    let mut left = |reason, name, count, bytes, identity: Vec<u8>| {
        let left = Left::new(reason, name, count).with_bytes(bytes);
        ready.push_back(Listed::Left(left.with_identity(identity)));
    };
    if found.noncurrent > 0 {
        let count = found.noncurrent;
        let bytes = found.noncurrent_bytes;
        let plural = if count == 1 { "" } else { "s" };
        let text = format!("{name} ({count} version{plural}, {bytes} bytes)");
        let identity = versions.clone();
        left(Reason::NoncurrentVersions, text, count, bytes, identity);
    }
    match found.content {
        Content::Object(object) => {
            let (locked, dropped) = (object.locked, object.dropped.join(", "));
            let hidden = found.hidden_by.is_some();
            let entry = entry(found.key, *object, hidden);
            if locked {
                let identity = entry.identity();
                left(Reason::ObjectLock, name.clone(), 1, 0, identity);
            }
            if !dropped.is_empty() {
                let text = format!("{name}: {dropped}");
                left(Reason::Metadata, text, 1, 0, entry.identity());
            }
            ready.push_back(Listed::Object(entry));
        }
        Content::DeleteMarker => left(Reason::DeleteMarkers, name, 1, 0, versions),
        Content::Unreadable(why) => {
            left(reason(&why), format!("{name}: {why}"), 1, 0, versions);
        }
        Content::Gone | Content::Nothing => {}
    }
}

/// An object as a listing shows it.
pub(super) fn entry(key: ObjectKey, object: DriveObject, hidden: bool) -> Entry {
    Entry {
        key,
        size: object.size,
        etag: Some(object.meta.etag.clone()),
        last_modified: object.last_modified,
        meta: Some(Box::new(object.meta)),
        hidden,
    }
}
