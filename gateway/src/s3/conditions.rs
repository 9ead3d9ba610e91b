//! Preconditions (RFC 9110, section 13) as pure functions: no request type, no clock, no store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use filestore_common::ETag;
use filestore_store::Precondition;
use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use s3s::S3Result;
use s3s::dto::{Timestamp, TimestampFormat};

use super::error;

/// One entity tag of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Opaque text without quotes.
    pub(crate) value: String,
    /// `W/"…"`.
    pub(crate) weak: bool,
}

/// Value of `If-Match` or `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagSet {
    /// `*`.
    Any,
    /// Entity tags; S3 clients also send them without quotes.
    Tags(Vec<Tag>),
}

impl TagSet {
    /// Reads the header; lenient about quotes, as S3 is.
    pub(crate) fn parse(text: &str) -> Self {
        if text.trim() == "*" {
            return Self::Any;
        }
        let mut tags = Vec::new();
        let mut quoted = false;
        let parts = text.split(|c: char| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        for part in parts {
            let part = part.trim();
            let (weak, part) = match part.strip_prefix("W/") {
                Some(rest) => (true, rest),
                None => (false, part),
            };
            let value = part.trim_matches('"');
            if !value.is_empty() {
                tags.push(Tag {
                    value: value.to_owned(),
                    weak,
                });
            }
        }
        Self::Tags(tags)
    }

    /// Strong comparison (`If-Match`).
    pub(crate) fn matches_strongly(&self, etag: &ETag) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|t| !t.weak && t.value == etag.as_str()),
        }
    }

    /// Weak comparison (`If-None-Match`).
    pub(crate) fn matches_weakly(&self, etag: &ETag) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|t| t.value == etag.as_str()),
        }
    }

    /// The only tag, when there is exactly one.
    pub(crate) fn single(&self) -> Option<&Tag> {
        match self {
            Self::Tags(tags) if tags.len() == 1 => tags.first(),
            Self::Any | Self::Tags(_) => None,
        }
    }
}

/// Result of evaluating the conditions of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Go on.
    Pass,
    /// 304 for GET and HEAD, 412 for a copy source.
    NotModified,
    /// 412.
    Failed,
}

/// The four conditions on an existing object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    matches: Option<TagSet>,
    none_match: Option<TagSet>,
    modified_since: Option<SystemTime>,
    unmodified_since: Option<SystemTime>,
}

const COPY_SOURCE_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("x-amz-copy-source-if-match"),
    HeaderName::from_static("x-amz-copy-source-if-none-match"),
    HeaderName::from_static("x-amz-copy-source-if-modified-since"),
    HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
];

impl Conditions {
    /// Conditions of GET and HEAD.
    pub(crate) fn of_read(headers: &HeaderMap) -> Self {
        Self::read(
            headers,
            &[
                IF_MATCH,
                IF_NONE_MATCH,
                IF_MODIFIED_SINCE,
                IF_UNMODIFIED_SINCE,
            ],
        )
    }

    /// Conditions on the source of CopyObject and UploadPartCopy.
    pub(crate) fn of_copy_source(headers: &HeaderMap) -> Self {
        Self::read(headers, &COPY_SOURCE_HEADERS)
    }

    fn read(headers: &HeaderMap, names: &[HeaderName; 4]) -> Self {
        let [if_match, if_none_match, modified, unmodified] =
            names.each_ref().map(|name| joined(headers, name));
        Self {
            matches: if_match.as_deref().map(TagSet::parse),
            none_match: if_none_match.as_deref().map(TagSet::parse),
            // An invalid date must be ignored (RFC 9110, 13.1.3 and 13.1.4).
            modified_since: modified.and_then(|date| httpdate::parse_http_date(&date).ok()),
            unmodified_since: unmodified.and_then(|date| httpdate::parse_http_date(&date).ok()),
        }
    }

    /// Evaluates in the order of RFC 9110, section 13.2.2. HTTP dates have whole seconds, so
    /// `last_modified` is compared without its fraction.
    pub(crate) fn evaluate(&self, etag: &ETag, last_modified: SystemTime) -> Outcome {
        let last_modified = whole_seconds(last_modified);
        let failed = match (&self.matches, self.unmodified_since) {
            (Some(tags), _) => !tags.matches_strongly(etag),
            (None, Some(since)) => last_modified > since,
            (None, None) => false,
        };
        if failed {
            return Outcome::Failed;
        }
        let not_modified = match (&self.none_match, self.modified_since) {
            (Some(tags), _) => tags.matches_weakly(etag),
            (None, Some(since)) => last_modified <= since,
            (None, None) => false,
        };
        if not_modified {
            Outcome::NotModified
        } else {
            Outcome::Pass
        }
    }
}

/// Condition of a write on the object that it replaces (S3 user guide, "Conditional writes").
///
/// # Errors
/// `NotImplemented` for what S3 does not support here: both headers, `If-None-Match` with
/// anything but `*`, several entity tags.
pub(crate) fn write_precondition(headers: &HeaderMap) -> S3Result<Precondition> {
    let if_match = joined(headers, &IF_MATCH);
    let if_none_match = joined(headers, &IF_NONE_MATCH);
    match (if_match, if_none_match) {
        (None, None) => Ok(Precondition::None),
        (None, Some(tags)) => match TagSet::parse(&tags) {
            TagSet::Any => Ok(Precondition::Absent),
            TagSet::Tags(_) => Err(error::header_not_implemented("If-None-Match")),
        },
        (Some(tags), None) => present(&TagSet::parse(&tags)),
        (Some(_), Some(_)) => Err(error::header_not_implemented("If-None-Match")),
    }
}

/// `If-Match` of a write or delete.
///
/// # Errors
/// `NotImplemented` for several entity tags.
pub(crate) fn present(tags: &TagSet) -> S3Result<Precondition> {
    if *tags == TagSet::Any {
        return Ok(Precondition::Present);
    }
    let tag = tags
        .single()
        .ok_or_else(|| error::header_not_implemented("If-Match"))?;
    Ok(Precondition::Matches(ETag::new(&tag.value)))
}

/// The header as text; repeated lines are one list (RFC 9110, section 5.3).
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).iter();
    let mut text = String::from_utf8_lossy(lines.next()?.as_bytes()).into_owned();
    for line in lines {
        text.push(',');
        text.push_str(&String::from_utf8_lossy(line.as_bytes()));
    }
    (!text.trim().is_empty()).then_some(text)
}

/// A timestamp as HTTP writes it (whole seconds); `None` for years that it cannot write.
pub(crate) fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::with_capacity(29);
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// Cuts the fraction of a second off.
pub(crate) fn whole_seconds(time: SystemTime) -> SystemTime {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => UNIX_EPOCH + Duration::from_secs(since.as_secs()),
        Err(before) => {
            let before = before.duration();
            let up = u64::from(before.subsec_nanos() > 0);
            UNIX_EPOCH - Duration::from_secs(before.as_secs() + up)
        }
    }
}

#[cfg(test)]
mod tests;
