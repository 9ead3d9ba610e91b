//! What to do with a key, decided from two listings alone. Pure.
//!
//! | source | target | `copy` | `final` |
//! |---|---|---|---|
//! | object | – | copy | copy |
//! | object | the same | skip | skip |
//! | object | another one | copy | copy |
//! | – | object | leave | delete |
//!
//! "The same" is decided by size, then ETag, then, where the target keeps times, Last-Modified:
//! metadata that is replaced without the bytes (a copy onto itself) shows in nothing else. On
//! other targets times count only where an ETag is unknown or could not keep its form. Tags are
//! changed without a trace in any of these, and count where both listings tell them.

use std::time::{Duration, SystemTime};

use filestore_common::{ETag, Tags};

use crate::manifest::meta_digest;
use crate::merge::Pair;
use crate::source::{Entry, Tells};
use crate::target::Traits;

/// Which pass asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Writers may still be at work: nothing is deleted.
    Copy,
    /// Writers stopped: the target becomes equal to the source.
    Final,
}

impl Pass {
    /// What of an object this pass compares beside size, ETag and time. A listing with tags costs a
    /// server more, so only the pass that is the last one asks for it.
    pub fn compares(self, tells: Tells) -> Tells {
        match (self, tells) {
            (Self::Copy, Tells::Tags) => Tells::Nothing,
            _ => tells,
        }
    }
}

/// What to do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The target has no such key.
    Create,
    /// The target has another object there.
    Replace,
    /// The same.
    Skip,
    /// Equal as far as size and time can tell; the ETag is unknown.
    SkipUnproven,
    /// Only on the target, and the target shall equal the source.
    Delete,
    /// Only on the target; reported.
    Leave,
}

/// How two objects under one key compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sameness {
    /// Equal size and ETag, and time where the target keeps it.
    Same,
    /// Equal size; no ETag to compare, and the times do not speak against it.
    Unproven,
    /// Not equal.
    Different,
}

/// Compares what both sides hold under one key; `tells`: what of [`Entry::meta`] the source's is
/// whole.
pub fn compare(source: &Entry, target: &Entry, traits: &Traits, tells: Tells) -> Sameness {
    if source.size != target.size {
        return Sameness::Different;
    }
    let same_second = seconds(source.last_modified) == seconds(target.last_modified);
    let comparable = match (&source.etag, &target.etag) {
        (Some(ours), Some(theirs)) if ours == theirs => {
            return if (same_second || !traits.keeps_last_modified)
                && same_meta(source, target, tells)
            {
                Sameness::Same
            } else {
                Sameness::Different
            };
        }
        (Some(ours), Some(theirs)) => traits.keeps_etag || form(ours) == form(theirs),
        // A target that keeps ETags and has none was written by another program.
        (Some(_), None) => traits.keeps_etag,
        (None, _) => false,
    };
    let timely = same_second
        || !traits.keeps_last_modified
            && seconds(source.last_modified) < seconds(target.last_modified);
    if !comparable && timely {
        Sameness::Unproven
    } else {
        Sameness::Different
    }
}

/// Metadata and tags, where both listings tell them: tags are changed without a trace elsewhere.
fn same_meta(source: &Entry, target: &Entry, tells: Tells) -> bool {
    let (Some(ours), Some(theirs)) = (&source.meta, &target.meta) else {
        return true;
    };
    match tells {
        Tells::Nothing => true,
        Tells::Tags => sorted(&ours.tags) == sorted(&theirs.tags),
        Tells::Metadata => meta_digest(ours) == meta_digest(theirs),
    }
}

/// A tag set has no order.
fn sorted(tags: &Tags) -> Vec<&(String, String)> {
    let mut tags: Vec<_> = tags.iter().collect();
    tags.sort_unstable();
    tags
}

/// What to do with a key in `pass`; `tells` as for [`compare`].
pub fn decide(pair: &Pair, pass: Pass, traits: &Traits, tells: Tells) -> Action {
    match (pair, pass) {
        (Pair::Source(_), _) => Action::Create,
        (Pair::Target(_), Pass::Copy) => Action::Leave,
        (Pair::Target(_), Pass::Final) => Action::Delete,
        (Pair::Both(source, target), _) => match compare(source, target, traits, tells) {
            Sameness::Same => Action::Skip,
            Sameness::Unproven => Action::SkipUnproven,
            Sameness::Different => Action::Replace,
        },
    }
}

/// Shape of an ETag: MD5, number of parts, or neither. Two ETags of one form prove a difference;
/// of two forms they only say that the bodies were cut differently.
fn form(etag: &ETag) -> (bool, Option<u32>) {
    (etag.is_md5(), etag.part_count())
}

/// Whole seconds: HTTP dates, some listings and some file systems have no more.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

#[cfg(test)]
mod tests {
    use filestore_common::ObjectKey;

    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const OTHER: &str = "0cc175b9c0f1b6a831c399e269772661";
    const TWO: &str = "1da464b8da84c31047a65f5858e78820-2";
    const FOUR: &str = "1da464b8da84c31047a65f5858e78820-4";

    fn entry(size: u64, etag: &str, seconds: u64) -> Entry {
        Entry {
            key: ObjectKey::new("k").unwrap(),
            size,
            etag: (!etag.is_empty()).then(|| ETag::new(etag)),
            last_modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            meta: None,
            hidden: false,
        }
    }

    fn traits(keeps: bool) -> Traits {
        Traits {
            kind: "test",
            location: String::new(),
            keeps_etag: keeps,
            keeps_last_modified: keeps,
        }
    }

    #[test]
    fn sameness_truth_table() {
        use Sameness::*;
        // source (size, ETag, time), target, the target keeps ETag and time, expected
        for (source, target, keeps, expected) in [
            ((1, MD5, 5), (1, MD5, 5), true, Same),
            // Metadata replaced by a copy onto itself: bytes and ETag stay.
            ((1, MD5, 9), (1, MD5, 5), true, Different),
            ((1, MD5, 5), (1, MD5, 9), false, Same),
            ((1, MD5, 5), (2, MD5, 5), true, Different),
            // A restore brought an older object of equal size (aws/aws-cli#3273).
            ((1, MD5, 3), (1, OTHER, 5), true, Different),
            ((1, MD5, 3), (1, OTHER, 5), false, Different),
            ((1, TWO, 5), (1, FOUR, 5), true, Different),
            // Foreign target, parts cut differently: judged by time.
            ((1, TWO, 5), (1, FOUR, 6), false, Unproven),
            ((1, TWO, 5), (1, FOUR, 4), false, Different),
            ((1, TWO, 5), (1, MD5, 6), false, Unproven),
            // Old MinIO without ETags (minio/minio#6198).
            ((1, "", 5), (1, MD5, 5), true, Unproven),
            ((1, "", 6), (1, MD5, 5), true, Different),
            ((1, "", 5), (1, "", 6), false, Unproven),
            ((1, "", 6), (1, "", 5), false, Different),
            ((1, MD5, 5), (1, "", 5), true, Different),
            ((1, MD5, 5), (1, "", 5), false, Unproven),
        ] {
            let (source_entry, target_entry) = (
                entry(source.0, source.1, source.2),
                entry(target.0, target.1, target.2),
            );
            assert_eq!(
                compare(&source_entry, &target_entry, &traits(keeps), Tells::Nothing),
                expected,
                "{source:?} {target:?} keeps={keeps}"
            );
        }
    }

    #[test]
    fn tags_decide_where_both_listings_tell_them() {
        let tagged = |tag: &str| {
            let mut meta = filestore_common::ObjectMeta::new(ETag::new(MD5));
            meta.tags = vec![("t".into(), tag.into())];
            let meta = Some(Box::new(meta));
            Entry {
                meta,
                ..entry(1, MD5, 5)
            }
        };
        for tells in [Tells::Tags, Tells::Metadata] {
            let found = |one: &Entry, other: &Entry| compare(one, other, &traits(true), tells);
            assert_eq!(found(&tagged("a"), &tagged("a")), Sameness::Same);
            assert_eq!(found(&tagged("a"), &tagged("b")), Sameness::Different);
            assert_eq!(found(&tagged("a"), &entry(1, MD5, 5)), Sameness::Same);
        }
    }

    #[test]
    fn of_incomplete_metadata_only_the_tags_count() {
        let with = |expires: Option<&str>, tags: [&str; 2]| {
            let mut meta = filestore_common::ObjectMeta::new(ETag::new(MD5));
            meta.headers.expires = expires.map(Into::into);
            meta.tags = tags.map(|tag| (tag.into(), "v".into())).into();
            Entry {
                meta: Some(Box::new(meta)),
                ..entry(1, MD5, 5)
            }
        };
        let (told, kept) = (with(None, ["a", "b"]), with(Some("soon"), ["b", "a"]));
        let found = |tells| compare(&told, &kept, &traits(true), tells);
        assert_eq!(found(Tells::Tags), Sameness::Same);
        assert_eq!(found(Tells::Metadata), Sameness::Different);
    }

    #[test]
    fn a_copy_pass_asks_a_server_for_no_tags() {
        assert_eq!(Pass::Copy.compares(Tells::Tags), Tells::Nothing);
        assert_eq!(Pass::Final.compares(Tells::Tags), Tells::Tags);
        assert_eq!(Pass::Copy.compares(Tells::Metadata), Tells::Metadata);
    }

    #[test]
    fn nothing_is_deleted_outside_the_final_pass() {
        let only_target = Pair::Target(entry(1, MD5, 5));
        assert_eq!(
            decide(&only_target, Pass::Copy, &traits(true), Tells::Nothing),
            Action::Leave
        );
        assert_eq!(
            decide(&only_target, Pass::Final, &traits(true), Tells::Nothing),
            Action::Delete
        );
        let only_source = Pair::Source(entry(1, MD5, 5));
        assert_eq!(
            decide(&only_source, Pass::Copy, &traits(true), Tells::Nothing),
            Action::Create
        );
    }
}
