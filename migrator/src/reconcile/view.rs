//! How each side looks beside what the manifest recorded. Pure.

use filestore_common::ObjectMeta;

use super::decide::{Change, Side};
use crate::manifest::{Line, meta_digest, unix};
use crate::source::Entry;

/// What happened on `side`, which holds `now`, since `line` was recorded. `keeps_times` says
/// whether the served store keeps the legacy store's Last-Modified.
pub(super) fn change(
    side: Side,
    line: Option<&Line>,
    now: Option<&Entry>,
    keeps_times: bool,
) -> Change {
    match (line, now) {
        (None, None) => Change::Same,
        (None, Some(_)) => Change::Written,
        (Some(_), None) => Change::Gone,
        (Some(line), Some(now)) => {
            let same = match line.settled {
                // Only the other side's version was recorded; this one was decided for.
                Some(settled) if settled == side => false,
                Some(_) => as_recorded(line, now),
                None if side == Side::Legacy => as_recorded(line, now),
                None => as_carried(line, now, keeps_times),
            };
            if same { Change::Same } else { Change::Written }
        }
    }
}

/// Whether the side still shows what the line says of it.
fn as_recorded(line: &Line, now: &Entry) -> bool {
    let same_etag = match (&line.etag, &now.etag) {
        (Some(recorded), Some(shown)) => recorded == shown,
        _ => true,
    };
    line.size == now.size
        // 0: the store was not asked any more after the write.
        && (line.modified == 0 || line.modified == unix(now.last_modified))
        && same_etag
        && same_meta(line.meta.as_ref(), now.meta.as_deref())
}

/// Whether the served store still shows what was carried.
fn as_carried(line: &Line, now: &Entry, keeps_times: bool) -> bool {
    let timely = match line.target_modified {
        Some(modified) => modified == unix(now.last_modified),
        None => !keeps_times || line.modified == unix(now.last_modified),
    };
    let etag = line.on_target();
    line.size == now.size
        && etag.is_some()
        && etag == now.etag.as_ref()
        && timely
        && same_meta(
            line.target_meta.as_ref().or(line.meta.as_ref()),
            now.meta.as_deref(),
        )
}

fn same_meta(recorded: Option<&String>, now: Option<&ObjectMeta>) -> bool {
    match (recorded, now) {
        (Some(recorded), Some(now)) => *recorded == meta_digest(now),
        _ => true,
    }
}

/// Whether two objects that were both written since are the same one: bytes by ETag and size, and
/// metadata where both sides tell it. Times differ when the same was written twice.
pub(super) fn equal(legacy: Option<&Entry>, served: Option<&Entry>) -> bool {
    match (legacy, served) {
        (None, None) => true,
        (Some(legacy), Some(served)) => {
            let same_meta = match (legacy.meta.as_deref(), served.meta.as_deref()) {
                (Some(one), Some(other)) => meta_digest(one) == meta_digest(other),
                _ => true,
            };
            legacy.size == served.size
                && legacy.etag.is_some()
                && legacy.etag == served.etag
                && same_meta
        }
        _ => false,
    }
}

/// The side with the later object, in whole seconds.
pub(super) fn newer(legacy: Option<&Entry>, served: Option<&Entry>) -> Option<Side> {
    let (legacy, served) = (unix(legacy?.last_modified), unix(served?.last_modified));
    match legacy.cmp(&served) {
        std::cmp::Ordering::Less => Some(Side::Served),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(Side::Legacy),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use filestore_common::{BucketName, ETag, ObjectKey};

    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const OTHER: &str = "0cc175b9c0f1b6a831c399e269772661";

    fn entry(etag: &str, seconds: u64, tag: Option<&str>) -> Entry {
        let meta = tag.map(|tag| {
            let mut meta = ObjectMeta::new(ETag::new(etag));
            meta.tags = vec![("t".into(), tag.into())];
            Box::new(meta)
        });
        Entry {
            key: ObjectKey::new("k").unwrap(),
            size: 1,
            etag: (!etag.is_empty()).then(|| ETag::new(etag)),
            last_modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            meta,
            hidden: false,
        }
    }

    fn line(legacy: &Entry, served: &Entry) -> Line {
        Line::new(&BucketName::new("bkt").unwrap(), legacy, served)
    }

    #[test]
    fn each_side_is_compared_with_its_own_view() {
        // A foreign store: other ETag, other time.
        let foreign = line(&entry(MD5, 5, None), &entry(OTHER, 9, None));
        for (side, now, expected) in [
            (Side::Legacy, entry(MD5, 5, None), Change::Same),
            (Side::Legacy, entry(MD5, 6, None), Change::Written),
            (Side::Legacy, entry(OTHER, 5, None), Change::Written),
            // The store stopped showing ETags.
            (Side::Legacy, entry("", 5, None), Change::Same),
            (Side::Served, entry(OTHER, 9, None), Change::Same),
            (Side::Served, entry(MD5, 9, None), Change::Written),
            (Side::Served, entry(OTHER, 5, None), Change::Written),
            (Side::Served, entry("", 9, None), Change::Written),
        ] {
            let found = change(side, Some(&foreign), Some(&now), false);
            assert_eq!(found, expected, "{side:?} {now:?}");
        }
        assert_eq!(change(Side::Served, None, None, true), Change::Same);
        assert_eq!(
            change(Side::Served, Some(&foreign), None, true),
            Change::Gone
        );
        assert_eq!(
            change(Side::Legacy, None, Some(&entry(MD5, 5, None)), true),
            Change::Written
        );
    }

    #[test]
    fn a_manifest_that_knows_no_times_of_the_target_asks_only_stores_that_keep_them() {
        let line = line(&entry(MD5, 5, None), &entry(MD5, 5, None));
        let later = entry(MD5, 9, None);
        assert_eq!(
            change(Side::Served, Some(&line), Some(&later), true),
            Change::Written
        );
        assert_eq!(
            change(Side::Served, Some(&line), Some(&later), false),
            Change::Same
        );
    }

    #[test]
    fn changed_tags_are_a_change_where_both_are_known() {
        let tagged = line(&entry(MD5, 5, Some("a")), &entry(MD5, 5, None));
        for (now, expected) in [
            (entry(MD5, 5, Some("a")), Change::Same),
            (entry(MD5, 5, Some("b")), Change::Written),
            (entry(MD5, 5, None), Change::Same),
        ] {
            for side in [Side::Legacy, Side::Served] {
                assert_eq!(change(side, Some(&tagged), Some(&now), true), expected);
            }
        }
        let unknown = line(&entry(MD5, 5, None), &entry(MD5, 5, None));
        let now = entry(MD5, 5, Some("b"));
        assert_eq!(
            change(Side::Legacy, Some(&unknown), Some(&now), true),
            Change::Same
        );
        let (a, b) = (entry(MD5, 5, Some("a")), entry(MD5, 7, Some("b")));
        assert!(equal(Some(&a), Some(&entry(MD5, 7, None))));
        assert!(!equal(Some(&a), Some(&b)));
    }

    /// MinIO keeps no `x-amz-website-redirect-location`.
    #[test]
    fn each_side_has_metadata_of_its_own() {
        let lost = line(&entry(MD5, 5, Some("a")), &entry(MD5, 5, Some("b")));
        for (side, tag, expected) in [
            (Side::Legacy, "a", Change::Same),
            (Side::Legacy, "b", Change::Written),
            (Side::Served, "b", Change::Same),
            (Side::Served, "a", Change::Written),
        ] {
            let now = entry(MD5, 5, Some(tag));
            assert_eq!(
                change(side, Some(&lost), Some(&now), true),
                expected,
                "{side:?} {tag}"
            );
        }
    }

    #[test]
    fn the_side_that_was_decided_for_always_counts_as_written() {
        let mut settled = line(&entry(MD5, 5, None), &entry(MD5, 5, None));
        settled.settled = Some(Side::Served);
        let same = entry(MD5, 5, None);
        assert_eq!(
            change(Side::Legacy, Some(&settled), Some(&same), true),
            Change::Same
        );
        assert_eq!(
            change(Side::Served, Some(&settled), Some(&same), true),
            Change::Written
        );
        assert_eq!(
            change(Side::Served, Some(&settled), None, true),
            Change::Gone
        );
    }

    #[test]
    fn newest_counts_whole_seconds() {
        let at = |millis| Entry {
            last_modified: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
            ..entry(MD5, 0, None)
        };
        assert_eq!(newer(Some(&at(5900)), Some(&at(5100))), None);
        assert_eq!(newer(Some(&at(6000)), Some(&at(5900))), Some(Side::Legacy));
        assert_eq!(newer(Some(&at(1)), None), None);
    }
}
