//! What GET and HEAD share: conditions, the part of the object that is asked for, headers.

use filestore_common::ObjectInfo;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderName, HeaderValue, RANGE};
use http::{HeaderMap, StatusCode};
use s3s::{S3Error, S3ErrorCode, S3Response, S3Result};

use crate::s3::checksum::{ALGORITHMS, kind_name};
use crate::s3::conditions::{Conditions, Outcome};
use crate::s3::error::{self, reply};
use crate::s3::metadata;
use crate::s3::range::{self, Selection};

const PARTS_COUNT: HeaderName = HeaderName::from_static("x-amz-mp-parts-count");
const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");

/// Query parameters that replace headers of the answer, with the header.
const OVERRIDES: [(&str, HeaderName); 6] = [
    ("response-cache-control", http::header::CACHE_CONTROL),
    (
        "response-content-disposition",
        http::header::CONTENT_DISPOSITION,
    ),
    ("response-content-encoding", http::header::CONTENT_ENCODING),
    ("response-content-language", http::header::CONTENT_LANGUAGE),
    ("response-content-type", http::header::CONTENT_TYPE),
    ("response-expires", http::header::EXPIRES),
];

/// The part of an object that an answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// First byte.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) length: u64,
    /// Whether the answer is a 206.
    partial: bool,
    parts: Option<usize>,
}

/// Evaluates the conditions of a read.
///
/// # Errors
/// `PreconditionFailed`, or `NotModified` with the object's validators.
pub(super) fn check_conditions(headers: &HeaderMap, info: &ObjectInfo) -> S3Result<()> {
    let conditions = Conditions::of_read(headers);
    match conditions.evaluate(&info.meta.etag, info.last_modified) {
        Outcome::Pass => Ok(()),
        Outcome::Failed => Err(error::code(S3ErrorCode::PreconditionFailed)),
        Outcome::NotModified => {
            let mut error = error::code(S3ErrorCode::NotModified);
            for (name, value) in metadata::validators(info) {
                if let Some(name) = name {
                    reply::add_header(&mut error, name, value);
                }
            }
            Err(error)
        }
    }
}

/// Chooses what to send.
///
/// # Errors
/// `InvalidRange`, `InvalidPartNumber`, `InvalidRequest` for both at once.
pub(super) fn view(
    headers: &HeaderMap,
    part_number: Option<u32>,
    info: &ObjectInfo,
) -> S3Result<View> {
    let range = headers.get(RANGE).map(metadata::text);
    match (range, part_number) {
        (Some(_), Some(_)) => Err(error::invalid_request(
            "Cannot specify both Range header and partNumber query parameter",
        )),
        (None, None) => Ok(whole(info)),
        (Some(range), None) => match range::select(&range, info.size) {
            Selection::Whole => Ok(whole(info)),
            Selection::Span { offset, length } => Ok(View {
                offset,
                length,
                partial: true,
                parts: None,
            }),
            Selection::Unsatisfiable => Err(invalid_range(&range, info.size)),
        },
        (None, Some(number)) => part(number, info),
    }
}

fn whole(info: &ObjectInfo) -> View {
    View {
        offset: 0,
        length: info.size,
        partial: false,
        parts: None,
    }
}

fn part(number: u32, info: &ObjectInfo) -> S3Result<View> {
    let sizes = &info.meta.part_sizes;
    let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
    if sizes.is_empty() && index == 0 {
        return Ok(View {
            partial: info.size > 0,
            ..whole(info)
        });
    }
    let Some(length) = sizes.get(index).copied() else {
        return Err(invalid_part(number, sizes.len().max(1)));
    };
    let offset = sizes.iter().take(index).sum();
    Ok(View {
        offset,
        length,
        partial: length > 0,
        parts: Some(sizes.len()),
    })
}

fn invalid_range(range: &str, size: u64) -> S3Error {
    let mut error = error::code(S3ErrorCode::InvalidRange);
    reply::add_detail(&mut error, "RangeRequested", range);
    reply::add_detail(&mut error, "ActualObjectSize", &size.to_string());
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
        reply::add_header(&mut error, CONTENT_RANGE, value);
    }
    error
}

fn invalid_part(number: u32, count: usize) -> S3Error {
    let mut error = error::custom("InvalidPartNumber", StatusCode::RANGE_NOT_SATISFIABLE);
    reply::add_detail(&mut error, "ActualPartCount", &count.to_string());
    reply::add_detail(&mut error, "PartNumberRequested", &number.to_string());
    error
}

/// Headers and status of the answer.
pub(super) fn answer<T>(
    output: T,
    info: &ObjectInfo,
    view: View,
    request: &HeaderMap,
    query: Option<&str>,
) -> S3Response<T> {
    let mut headers = metadata::of_object(info);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(view.length));
    // S3 leaves it out of answers about STANDARD objects; versitygw's clients find it there.
    headers.insert(STORAGE_CLASS, HeaderValue::from_static("STANDARD"));
    if view.partial {
        let range = range::content_range(view.offset, view.length, info.size);
        if let Ok(range) = HeaderValue::from_str(&range) {
            headers.insert(CONTENT_RANGE, range);
        }
    }
    if let Some(parts) = view.parts {
        headers.insert(PARTS_COUNT, HeaderValue::from(parts));
    }
    // The checksum is that of the whole object; S3 leaves it out of an answer with less.
    if !view.partial || view.length == info.size {
        put_checksum(&mut headers, info, request);
    }
    if let Some(query) = query.filter(|query| query.contains("response-")) {
        put_overrides(&mut headers, query);
    }
    let mut reply = S3Response::with_headers(output, headers);
    if view.partial {
        reply = reply::with_status(reply, StatusCode::PARTIAL_CONTENT);
    }
    reply
}

fn put_checksum(headers: &mut HeaderMap, info: &ObjectInfo, request: &HeaderMap) {
    let asked = request
        .get("x-amz-checksum-mode")
        .is_some_and(|mode| mode.as_bytes().eq_ignore_ascii_case(b"ENABLED"));
    let Some(checksum) = info.meta.checksum.as_ref().filter(|_| asked) else {
        return;
    };
    for (algorithm, header, _) in ALGORITHMS {
        if algorithm == checksum.algorithm
            && let Some(value) = metadata::value(&checksum.value)
        {
            headers.insert(header, value);
        }
    }
    headers.insert(
        CHECKSUM_TYPE,
        HeaderValue::from_static(kind_name(checksum.kind)),
    );
}

fn put_overrides(headers: &mut HeaderMap, query: &str) {
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((_, header)) = OVERRIDES.iter().find(|(parameter, _)| *parameter == name) else {
            continue;
        };
        let value = value.replace('+', " ");
        let value: Vec<u8> = percent_encoding::percent_decode_str(&value).collect();
        if value.is_empty() {
            continue;
        }
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.insert(header.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filestore_common::{ETag, ObjectMeta};
    use std::time::UNIX_EPOCH;

    fn info(size: u64, part_sizes: &[u64]) -> ObjectInfo {
        let mut meta = ObjectMeta::new(ETag::new("d41d8cd98f00b204e9800998ecf8427e"));
        meta.part_sizes = part_sizes.to_vec();
        ObjectInfo {
            size,
            last_modified: UNIX_EPOCH,
            meta,
        }
    }

    fn status(part_number: u32, info: &ObjectInfo) -> Option<(u64, u64, Option<usize>)> {
        let view = view(&HeaderMap::new(), Some(part_number), info).ok()?;
        Some((view.offset, view.length, view.parts))
    }

    #[test]
    fn parts_of_a_multipart_object() {
        let info = info(12, &[5, 5, 2]);
        assert_eq!(status(1, &info), Some((0, 5, Some(3))));
        assert_eq!(status(3, &info), Some((10, 2, Some(3))));
        assert_eq!(status(4, &info), None);
    }

    #[test]
    fn a_simple_object_is_its_own_only_part() {
        let reply = |size, number| {
            let info = info(size, &[]);
            let view = view(&HeaderMap::new(), Some(number), &info).ok()?;
            let reply = answer((), &info, view, &HeaderMap::new(), None);
            Some(reply.headers.get(CONTENT_RANGE).cloned())
        };
        assert_eq!(
            reply(10, 1).unwrap().unwrap(),
            HeaderValue::from_static("bytes 0-9/10")
        );
        assert_eq!(reply(0, 1).unwrap(), None);
        assert_eq!(reply(10, 2), None);
    }

    #[test]
    fn range_and_part_number_exclude_each_other() {
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-1"))]);
        assert!(view(&headers, Some(1), &info(10, &[])).is_err());
    }

    #[test]
    fn the_query_overrides_headers() {
        let info = info(0, &[]);
        let query = "x=1&response-content-type=text%2Fhtml&response-expires=never+more&response-cache-control=";
        let reply = answer((), &info, whole(&info), &HeaderMap::new(), Some(query));

        assert_eq!(reply.headers["content-type"], "text/html");
        assert_eq!(reply.headers["expires"], "never more");
        assert!(!reply.headers.contains_key("cache-control"));
    }
}
