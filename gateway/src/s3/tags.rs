//! Object and bucket tags: the `x-amz-tagging` header, tag sets in XML, S3's limits
//! (S3 user guide, "Categorizing your storage using tags").

use filestore_common::Tags;
use percent_encoding::percent_decode_str;
use s3s::dto::{Tag, TagSet};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::error::{self, reply};

/// Most tags of an object.
pub(crate) const MAX_OBJECT_TAGS: usize = 10;

/// Most tags of a bucket.
pub(crate) const MAX_BUCKET_TAGS: usize = 50;

const MAX_KEY_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 256;

/// Reads `x-amz-tagging`: URL query parameters.
///
/// # Errors
/// `InvalidArgument` for a broken encoding or a repeated key, `InvalidTag`, `BadRequest` for too
/// many.
pub(crate) fn parse_header(header: &str) -> S3Result<Tags> {
    let malformed = || {
        error::invalid_argument(
            "x-amz-tagging",
            header,
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.",
        )
    };
    let mut tags = Tags::new();
    for pair in header.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode(key).ok_or_else(malformed)?;
        let value = decode(value).ok_or_else(malformed)?;
        if key.is_empty() || tags.iter().any(|(had, _)| *had == key) {
            return Err(malformed());
        }
        check_tag(&key, &value)?;
        tags.push((key, value));
    }
    check_object_count(tags.len())?;
    Ok(tags)
}

/// Query parameter decoding; `None` for broken escapes or bytes that are not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let digits = after.as_bytes().get(..2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        rest = after;
    }
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Reads the tag set of PutObjectTagging.
///
/// # Errors
/// `InvalidTag`, `BadRequest` for too many.
pub(crate) fn of_object(set: TagSet) -> S3Result<Tags> {
    check_object_count(set.len())?;
    from_set(set)
}

/// Reads the tag set of PutBucketTagging.
///
/// # Errors
/// `InvalidTag`, `BadRequest` for too many.
pub(crate) fn of_bucket(set: TagSet) -> S3Result<Tags> {
    if set.len() > MAX_BUCKET_TAGS {
        return Err(too_many("Bucket tag count cannot be greater than 50"));
    }
    from_set(set)
}

fn check_object_count(count: usize) -> S3Result<()> {
    if count > MAX_OBJECT_TAGS {
        return Err(too_many("Object tags cannot be greater than 10"));
    }
    Ok(())
}

fn too_many(message: &'static str) -> S3Error {
    let mut error = error::custom("BadRequest", http::StatusCode::BAD_REQUEST);
    error.set_message(message);
    error
}

fn from_set(set: TagSet) -> S3Result<Tags> {
    let mut tags = Tags::with_capacity(set.len());
    for tag in set {
        let key = tag.key.unwrap_or_default();
        let value = tag.value.unwrap_or_default();
        check_tag(&key, &value)?;
        if tags.iter().any(|(had, _)| *had == key) {
            let message = "Cannot provide multiple Tags with the same key";
            return Err(invalid_tag(message, &key, ""));
        }
        tags.push((key, value));
    }
    Ok(tags)
}

fn check_tag(key: &str, value: &str) -> S3Result<()> {
    if key.is_empty() || key.chars().count() > MAX_KEY_CHARS || !key.chars().all(allowed) {
        return Err(invalid_tag(
            "The TagKey you have provided is invalid",
            key,
            "",
        ));
    }
    if value.chars().count() > MAX_VALUE_CHARS || !value.chars().all(allowed) {
        return Err(invalid_tag(
            "The TagValue you have provided is invalid",
            key,
            value,
        ));
    }
    Ok(())
}

fn allowed(c: char) -> bool {
    c.is_alphanumeric() || c == ' ' || "_.:/=+-@".contains(c)
}

fn invalid_tag(message: &'static str, key: &str, value: &str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::InvalidTag, message);
    reply::add_detail(&mut error, "TagKey", key);
    if !value.is_empty() {
        reply::add_detail(&mut error, "TagValue", value);
    }
    error
}

/// Tags as the XML shows them, in the order they were given.
pub(crate) fn to_set(tags: Tags) -> TagSet {
    tags.into_iter()
        .map(|(key, value)| Tag {
            key: Some(key),
            value: Some(value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(result: S3Result<Tags>) -> String {
        result.unwrap_err().code().as_str().to_owned()
    }

    fn set(pairs: &[(&str, &str)]) -> TagSet {
        to_set(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn the_header_is_a_query_string() {
        for (header, expected) in [
            ("", &[][..]),
            ("&&", &[]),
            ("key", &[("key", "")]),
            ("key=&", &[("key", "")]),
            ("b=1&a=2", &[("b", "1"), ("a", "2")]),
            ("key%2E=value%2B", &[("key.", "value+")]),
            ("a++b=c%20d", &[("a  b", "c d")]),
            ("k=a=b", &[("k", "a=b")]),
            ("%C3%A9=%E2%82%AC1", &[]),
        ] {
            let parsed = parse_header(header);
            if header.starts_with("%C3") {
                // The euro sign is a symbol, neither letter nor digit.
                assert_eq!(code(parsed), "InvalidTag");
                continue;
            }
            assert_eq!(to_set(parsed.unwrap()), set(expected), "{header}");
        }
    }

    #[test]
    fn broken_headers_are_refused() {
        for header in ["=", "key%", "key%2", "key%zz=1", "a=1&a=2", "%ff=1", "=v"] {
            assert_eq!(code(parse_header(header)), "InvalidArgument", "{header}");
        }
        for header in ["key?=v", "key=v!", "k*=v", "k=v$", "k#=v"] {
            assert_eq!(code(parse_header(header)), "InvalidTag", "{header}");
        }
    }

    #[test]
    fn limits_are_those_of_s3() {
        let many: Vec<(String, String)> =
            (0..51).map(|i| (format!("k{i}"), String::new())).collect();
        let first = |n: usize| to_set(many[..n].to_vec());
        assert!(of_object(first(10)).is_ok());
        assert_eq!(code(of_object(first(11))), "BadRequest");
        assert!(of_bucket(first(50)).is_ok());
        assert_eq!(code(of_bucket(first(51))), "BadRequest");

        let long = |n: usize| "é".repeat(n);
        assert!(of_object(set(&[(&long(128), &long(256))])).is_ok());
        assert_eq!(code(of_object(set(&[(&long(129), "")]))), "InvalidTag");
        assert_eq!(code(of_object(set(&[("k", &long(257))]))), "InvalidTag");
        assert_eq!(code(of_object(set(&[("", "v")]))), "InvalidTag");
        assert_eq!(
            code(of_object(set(&[("k", "1"), ("k", "2")]))),
            "InvalidTag"
        );
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(header in "\\PC{0,60}") {
            if let Ok(tags) = parse_header(&header) {
                prop_assert!(tags.len() <= MAX_OBJECT_TAGS);
                prop_assert_eq!(of_object(to_set(tags.clone())).unwrap(), tags);
            }
        }
    }
}
