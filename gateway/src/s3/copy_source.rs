//! `x-amz-copy-source`: bucket, key and version, percent-encoded (CopyObject API reference).

use filestore_common::{BucketName, ObjectKey};
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3Result};

use super::error::{self, invalid_argument};

const HEADER: &str = "x-amz-copy-source";

/// Where to copy from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopySource {
    /// Bucket.
    pub(crate) bucket: BucketName,
    /// Key.
    pub(crate) key: ObjectKey,
    /// `versionId`, as sent.
    pub(crate) version_id: Option<String>,
}

impl CopySource {
    /// Reads the header of a request.
    ///
    /// # Errors
    /// `InvalidArgument` saying what is wrong.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Self> {
        let value = headers.get(HEADER).map(http::HeaderValue::as_bytes);
        let text = std::str::from_utf8(value.unwrap_or_default())
            .map_err(|_| invalid("", "Invalid copy source encoding"))?;
        Self::parse(text)
    }

    /// Reads the header's text: `[/]bucket/key[?versionId=id]`. A `+` is a plus, as in paths.
    ///
    /// # Errors
    /// `InvalidArgument` saying what is wrong.
    pub(crate) fn parse(text: &str) -> S3Result<Self> {
        // Outside of escapes a question mark can only begin the version: keys have it as %3F.
        let (path, version_id) = match text.rsplit_once("?versionId=") {
            Some((path, id)) => (path, Some(decode(id, text)?)),
            None => (text, None),
        };
        let path = decode(path, text)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let bucket = BucketName::new(bucket)
            .map_err(|_| invalid(text, "Invalid copy source bucket name"))?;
        if key.is_empty() {
            return Err(invalid(text, "Invalid copy source object key"));
        }
        let key = ObjectKey::new(key).map_err(|error| error::from_name(&error))?;
        Ok(Self {
            bucket,
            key,
            version_id,
        })
    }
}

fn decode(text: &str, whole: &str) -> S3Result<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let valid = after
            .as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if !valid {
            return Err(invalid(whole, "Invalid copy source encoding"));
        }
        rest = after;
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(invalid(whole, "Invalid copy source encoding")),
    }
}

fn invalid(value: &str, message: &'static str) -> S3Error {
    invalid_argument(HEADER, value, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;
    use s3s::S3ErrorCode;

    #[test]
    fn sources_are_decoded_like_paths() {
        for (text, key, version) in [
            ("bucket/key", "key", None),
            ("/bucket/a/b", "a/b", None),
            ("bucket/a%2Bb%20%25c", "a+b %c", None),
            ("bucket/a+b", "a+b", None),
            ("bucket/a b", "a b", None),
            ("bucket%2Fkey", "key", None),
            ("bucket/%C3%A9", "é", None),
            ("bucket//key", "/key", None),
            ("bucket/a?b", "a?b", None),
            (
                "bucket/a%3FversionId=x?versionId=null",
                "a?versionId=x",
                Some("null"),
            ),
        ] {
            let source = CopySource::parse(text).unwrap();
            assert_eq!(source.bucket.as_str(), "bucket", "{text}");
            assert_eq!(source.key.as_str(), key, "{text}");
            assert_eq!(source.version_id.as_deref(), version, "{text}");
        }
    }

    #[test]
    fn broken_sources_say_what_is_wrong() {
        for (text, what) in [
            ("", "bucket name"),
            ("B/key", "bucket name"),
            ("bucket", "object key"),
            ("bucket/", "object key"),
            ("bucket/%", "encoding"),
            ("bucket/%zz", "encoding"),
            ("bucket/%ff", "encoding"),
        ] {
            let error = CopySource::parse(text).unwrap_err();
            assert_eq!(error.code(), &S3ErrorCode::InvalidArgument);
            assert!(error.message().unwrap().contains(what), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn encoded_keys_round_trip(key in "[^\\x00]{1,60}") {
            let text = format!("bucket/{}", utf8_percent_encode(&key, NON_ALPHANUMERIC));
            let source = CopySource::parse(&text).unwrap();
            prop_assert_eq!(source.key.as_str(), key);
        }
    }
}
