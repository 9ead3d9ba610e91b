//! One key that both sides have, or one of them.

use filestore_common::BucketName;
use futures::TryStreamExt as _;

use super::{Checked, Depth, Evidence, Mode, Status};
use crate::copy::Ends;
use crate::manifest::Line;
use crate::merge::{Merged, Pair};
use crate::policy::{Sameness, compare};
use crate::source::{Body, Entry, Left, Tells};
use crate::state::rfc3339;
use crate::{Event, Result};

/// What a merged pair turned out to be.
pub(super) enum Found {
    /// Something that stays behind.
    Left(Left),
    /// Not to be looked at ([`Depth::agreed`]).
    Decided,
    /// A key.
    Checked(Box<Checked>),
}

fn result(bucket: &BucketName, status: Status, entry: &Entry) -> Checked {
    Checked {
        status,
        bucket: bucket.clone(),
        key: entry.key.as_str().to_owned(),
        size: entry.size,
        etag: entry.etag.as_ref().map(|etag| etag.as_str().to_owned()),
        by: None,
        reason: None,
        line: None,
    }
}

/// Compares what both sides have of a key.
pub(super) async fn check(
    ends: &Ends,
    bucket: &BucketName,
    item: Merged,
    depth: Depth,
) -> Result<Found> {
    let pair = match item {
        Merged::Left(left) => return Ok(Found::Left(left)),
        Merged::Pair(pair) => pair,
    };
    if depth.agreed && !agree(&pair) {
        return Ok(Found::Decided);
    }
    let checked = match pair {
        Pair::Source(ours) => result(bucket, Status::MissingOnTarget, &ours),
        Pair::Target(theirs) => result(bucket, Status::MissingOnSource, &theirs),
        Pair::Both(ours, theirs) => both(ends, bucket, &ours, &theirs, depth).await?,
    };
    Ok(Found::Checked(Box::new(checked)))
}

fn agree(pair: &Pair) -> bool {
    match pair {
        Pair::Both(ours, theirs) => ours.size == theirs.size && ours.etag == theirs.etag,
        Pair::Source(_) | Pair::Target(_) => false,
    }
}

async fn both(
    ends: &Ends,
    bucket: &BucketName,
    ours: &Entry,
    theirs: &Entry,
    depth: Depth,
) -> Result<Checked> {
    let tells = depth.tells(ends.source.tells());
    let sameness = match compare(ours, theirs, &ends.target.traits(), tells) {
        Sameness::Different if depth.agreed => Sameness::Same,
        found => found,
    };
    let mut checked = result(bucket, Status::Same, ours);
    if sameness == Sameness::Different {
        checked.status = Status::Different;
        checked.by = Some(Evidence::Listing);
        checked.reason = Some(difference(ours, theirs));
        return Ok(checked);
    }
    let by = evidence(bucket, ours, sameness, depth);
    checked.by = Some(by);
    let closer = match by {
        Evidence::Listing | Evidence::SizeAndTime => Ok(true),
        Evidence::Bytes => bytes_equal(ends, bucket, ours).await,
        Evidence::ETag => match ends.proves_itself(bucket, &ours.key).await {
            Ok(None) => {
                checked.by = Some(Evidence::Bytes);
                bytes_equal(ends, bucket, ours).await
            }
            Ok(Some(proved)) => Ok(proved),
            Err(error) => Err(error),
        },
    };
    match closer {
        Ok(true) => checked.line = Some(Line::new(bucket, &recorded(ours, tells), theirs)),
        Ok(false) => {
            checked.status = Status::Different;
            checked.reason = Some("the bytes differ".into());
        }
        Err(error) if error.is_fatal() => return Err(error),
        Err(error) => {
            ends.progress.event(&Event::Failed(&error));
            checked.status = Status::Failed;
            checked.reason = Some(error.to_string());
        }
    }
    Ok(checked)
}

/// What sameness is to rest on for a key whose listings do not differ. Without an ETag only the
/// bytes can tell (minio/minio#6198).
fn evidence(bucket: &BucketName, ours: &Entry, sameness: Sameness, depth: Depth) -> Evidence {
    let unproven = sameness == Sameness::Unproven;
    let wanted = match depth.mode {
        Mode::Bytes => Evidence::Bytes,
        Mode::ETag if unproven => Evidence::Bytes,
        Mode::ETag => Evidence::ETag,
        Mode::Listing if unproven && depth.prove => Evidence::Bytes,
        Mode::Listing => Evidence::Listing,
    };
    match wanted {
        Evidence::ETag | Evidence::Bytes if depth.sample.takes(bucket, &ours.key) => wanted,
        _ if unproven => Evidence::SizeAndTime,
        _ => Evidence::Listing,
    }
}

fn difference(ours: &Entry, theirs: &Entry) -> String {
    let told = |entry: &Entry| {
        let etag = entry.etag.as_ref();
        let etag = etag.map_or_else(|| "none".into(), ToString::to_string);
        format!("{} bytes, ETag {etag}", entry.size)
    };
    let date = |entry: &Entry| rfc3339(entry.last_modified);
    if told(ours) != told(theirs) {
        format!("source {}; target {}", told(ours), told(theirs))
    } else if date(ours) != date(theirs) {
        format!("source of {}; target of {}", date(ours), date(theirs))
    } else {
        "tags or metadata differ".into()
    }
}

/// What the manifest is to know of the source's object: no metadata that lacks something.
fn recorded(ours: &Entry, tells: Tells) -> Entry {
    let whole = tells == Tells::Metadata;
    Entry {
        meta: ours.meta.clone().filter(|_| whole),
        ..ours.clone()
    }
}

/// Reads both sides in step.
async fn bytes_equal(ends: &Ends, bucket: &BucketName, ours: &Entry) -> Result<bool> {
    let source = ends.source.open(bucket, ours).await?;
    let target = ends.target.open(bucket, &ours.key).await?;
    if source.info.size != target.info.size {
        return Ok(false);
    }
    same_bytes(ends.paced(source.body), ends.shown(target.body)).await
}

async fn same_bytes(mut one: Body, mut other: Body) -> Result<bool> {
    let mut ahead = bytes::Bytes::new();
    loop {
        let Some(mut chunk) = one.try_next().await? else {
            return Ok(
                ahead.is_empty() && other.try_next().await?.is_none_or(|rest| rest.is_empty())
            );
        };
        while !chunk.is_empty() {
            if ahead.is_empty() {
                match other.try_next().await? {
                    Some(next) => ahead = next,
                    None => return Ok(false),
                }
                continue;
            }
            let common = chunk.len().min(ahead.len());
            if chunk.split_to(common) != ahead.split_to(common) {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};

    use super::*;

    fn body(chunks: &'static [&'static [u8]]) -> Body {
        stream::iter(chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk)))).boxed()
    }

    #[tokio::test]
    async fn bodies_are_compared_whatever_their_chunks() {
        const WHOLE: &[&[u8]] = &[b"abcd"];
        const PIECES: &[&[u8]] = &[b"", b"a", b"bcd", b""];
        const SHORTER: &[&[u8]] = &[b"ab", b"c"];
        const OTHER: &[&[u8]] = &[b"abc", b"e"];
        assert!(same_bytes(body(WHOLE), body(PIECES)).await.unwrap());
        assert!(same_bytes(body(PIECES), body(WHOLE)).await.unwrap());
        for (one, two) in [
            (WHOLE, SHORTER),
            (SHORTER, WHOLE),
            (WHOLE, OTHER),
            (OTHER, PIECES),
        ] {
            assert!(
                !same_bytes(body(one), body(two)).await.unwrap(),
                "{one:?} {two:?}"
            );
        }
    }
}
