//! What is served.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use md5::{Digest, Md5};

use crate::answer::Asked;
use crate::trouble::Fired;
use crate::{Listing, Trouble};

/// Everything that the server holds, and how it misbehaves.
#[derive(Debug, Clone)]
pub struct World {
    /// Buckets by name.
    pub buckets: BTreeMap<String, Bucket>,
    /// Rules, asked in this order.
    pub troubles: Vec<Trouble>,
    /// Seconds that the server's clock is ahead of this machine's. Requests whose date is more
    /// than 15 minutes from that clock get `RequestTimeTooSkewed`.
    pub clock_ahead: i64,
    /// `Server` header.
    pub server: String,
}

impl Default for World {
    fn default() -> Self {
        Self {
            buckets: BTreeMap::new(),
            troubles: Vec::new(),
            clock_ahead: 0,
            server: "S3Stub".into(),
        }
    }
}

impl World {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bucket, made where there is none.
    pub fn bucket(&mut self, name: &str) -> &mut Bucket {
        self.buckets.entry(name.to_owned()).or_default()
    }

    /// Adds a rule behind the others.
    pub fn trouble(&mut self, trouble: Trouble) {
        self.troubles.push(trouble);
    }

    pub(crate) fn fires(&mut self, asked: &Asked, in_flight: usize) -> Option<Fired> {
        self.troubles
            .iter_mut()
            .find_map(|trouble| trouble.fires(asked, in_flight))
    }
}

/// Objects by key, in byte order: those of `synthetic`, over them those of `objects`.
#[derive(Debug, Clone, Default)]
pub struct Bucket {
    /// Objects that are held; `None` hides a synthetic one.
    pub objects: BTreeMap<String, Option<Object>>,
    /// Objects that are computed.
    pub synthetic: Option<Synthetic>,
    /// How the listing goes wrong.
    pub listing: Listing,
}

impl Bucket {
    /// Holds an object.
    pub fn put(&mut self, key: &str, object: Object) -> &mut Self {
        self.objects.insert(key.to_owned(), Some(object));
        self
    }

    /// Deletes an object.
    pub fn remove(&mut self, key: &str) {
        self.objects.insert(key.to_owned(), None);
    }

    /// The object of a key.
    pub fn get(&self, key: &str) -> Option<Object> {
        match self.objects.get(key) {
            Some(held) => held.clone(),
            None => self.synthetic.as_ref()?.get(key),
        }
    }

    /// At most `most` objects whose keys come after `after` and begin with `prefix`, and whether
    /// more follow.
    pub(crate) fn after(
        &self,
        after: &str,
        prefix: &str,
        most: usize,
    ) -> (Vec<(String, Object)>, bool) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let begin = if prefix > after {
            Included(prefix.to_owned())
        } else {
            Excluded(after.to_owned())
        };
        let mut held = self
            .objects
            .range((begin, Unbounded))
            .map(|(key, object)| (key.clone(), object.clone()))
            .peekable();
        let synthetic = self.synthetic.as_ref();
        let mut computed = synthetic
            .map(|all| all.first_after(after, prefix)..all.count)
            .unwrap_or_default()
            .filter_map(|index| synthetic.map(|all| ((all.key)(index), Some(all.object(index)))))
            .peekable();
        let mut page = Vec::new();
        loop {
            let (held_first, both) = match (held.peek(), computed.peek()) {
                (None, None) => return (page, false),
                (Some(_), None) => (true, false),
                (None, Some(_)) => (false, false),
                (Some((ours, _)), Some((theirs, _))) => (ours <= theirs, ours == theirs),
            };
            if both {
                computed.next();
            }
            let next = if held_first {
                held.next()
            } else {
                computed.next()
            };
            let Some((key, object)) = next.filter(|(key, _)| key.starts_with(prefix)) else {
                return (page, false);
            };
            let Some(object) = object else { continue };
            if page.len() == most {
                return (page, true);
            }
            page.push((key, object));
        }
    }
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Bytes.
    pub body: Bytes,
    /// ETag without quotes; `None` where the server shows none.
    pub etag: Option<String>,
    /// Last-Modified.
    pub modified: SystemTime,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// User metadata, names without their prefix.
    pub user: BTreeMap<String, String>,
    /// Tags.
    pub tags: Vec<(String, String)>,
    /// Sizes of the parts; empty for an object that was written at once.
    pub parts: Vec<u64>,
}

impl Object {
    /// An object of these bytes, its ETag their MD5, written some day in 2024.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self {
            etag: Some(hex::encode(Md5::digest(&body))),
            body,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_717_171_717),
            content_type: None,
            user: BTreeMap::new(),
            tags: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// The same with another ETag, or none.
    #[must_use]
    pub fn with_etag(mut self, etag: Option<&str>) -> Self {
        self.etag = etag.map(str::to_owned);
        self
    }
}

/// Objects that are computed from their number, so that a million takes no memory.
#[derive(Clone)]
pub struct Synthetic {
    count: u64,
    size: usize,
    key: Arc<dyn Fn(u64) -> String + Send + Sync>,
}

impl Synthetic {
    /// `count` objects of 16 bytes, keys of twelve digits in one flat prefix.
    pub fn new(count: u64) -> Self {
        Self {
            count,
            size: 16,
            key: Arc::new(|index| format!("{index:012}")),
        }
    }

    /// Of this size.
    #[must_use]
    pub fn size(mut self, bytes: usize) -> Self {
        self.size = bytes;
        self
    }

    /// With these keys, which must ascend strictly in byte order.
    #[must_use]
    pub fn keys(mut self, key: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        self.key = Arc::new(key);
        self
    }

    /// The object of a number: the number in decimal over and over.
    pub fn object(&self, index: u64) -> Object {
        let pattern = format!("{index};");
        let bytes: Vec<u8> = pattern.bytes().cycle().take(self.size).collect();
        Object::new(bytes)
    }

    fn get(&self, key: &str) -> Option<Object> {
        let index = self.first(|candidate| candidate >= key);
        (index < self.count && (self.key)(index) == key).then(|| self.object(index))
    }

    fn first_after(&self, after: &str, prefix: &str) -> u64 {
        self.first(|key| key > after && key >= prefix)
    }

    /// The first number whose key is far enough.
    fn first(&self, far_enough: impl Fn(&str) -> bool) -> u64 {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if far_enough(&(self.key)(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

impl fmt::Debug for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synthetic")
            .field("count", &self.count)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(page: &[(String, Object)]) -> Vec<&str> {
        page.iter().map(|(key, _)| key.as_str()).collect()
    }

    #[test]
    fn held_objects_lie_over_computed_ones() {
        let mut bucket = Bucket {
            synthetic: Some(Synthetic::new(4).keys(|index| format!("k{index}"))),
            ..Bucket::default()
        };
        bucket.put("k1", Object::new("mine"));
        bucket.put("k1a", Object::new("new"));
        bucket.remove("k2");

        let (page, more) = bucket.after("", "", 3);
        assert_eq!((keys(&page), more), (vec!["k0", "k1", "k1a"], true));
        assert_eq!(page[1].1.body, "mine");
        let (page, more) = bucket.after("k1a", "", 3);
        assert_eq!((keys(&page), more), (vec!["k3"], false));
        assert_eq!(bucket.get("k2"), None);
        assert_eq!(bucket.get("k3").unwrap().body, "3;3;3;3;3;3;3;3;");
    }

    #[test]
    fn a_page_can_be_of_a_prefix() {
        let mut bucket = Bucket {
            synthetic: Some(Synthetic::new(1_000_000)),
            ..Bucket::default()
        };
        bucket.put("a", Object::new(""));
        let (page, more) = bucket.after("", "0000009", 2);
        assert_eq!(
            (keys(&page), more),
            (vec!["000000900000", "000000900001"], true)
        );
        let (page, more) = bucket.after("000000999998", "0000009", 5);
        assert_eq!((keys(&page), more), (vec!["000000999999"], false));
    }
}
