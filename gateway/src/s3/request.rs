//! What all operations ask of a request beside its parsed input: the headers as they were sent,
//! names, versions, and what is refused.

use std::sync::Arc;

use filestore_common::{BucketName, ObjectKey};
use http::{HeaderMap, HeaderValue, Uri};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, TrailingHeaders};

use super::error::{self, invalid_argument, invalid_request};

/// The request as the client sent it, when [`super::normalize`] changed it.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    /// Headers.
    pub(crate) headers: Arc<HeaderMap>,
    /// Path and query.
    pub(crate) uri: Uri,
}

/// The trailers handle of a request that [`super::normalize`] passed on.
#[derive(Debug, Clone)]
pub(crate) struct Trailers(pub(crate) TrailingHeaders);

/// The XML body of a request that [`super::normalize`] read and passed on.
#[derive(Debug, Clone)]
pub(crate) struct XmlBody(pub(crate) bytes::Bytes);

/// The headers as the client sent them.
pub(crate) fn headers<T>(request: &S3Request<T>) -> &HeaderMap {
    request
        .extensions
        .get::<Original>()
        .map_or(&request.headers, |original| &original.headers)
}

/// The query as the client sent it.
pub(crate) fn query<T>(request: &S3Request<T>) -> Option<&str> {
    request
        .extensions
        .get::<Original>()
        .map_or(&request.uri, |original| &original.uri)
        .query()
}

/// Headers that follow the body.
pub(crate) fn trailers<T>(request: &S3Request<T>) -> Option<TrailingHeaders> {
    request.trailing_headers.clone().or_else(|| {
        let passed_on = request.extensions.get::<Trailers>()?;
        Some(passed_on.0.clone())
    })
}

/// Checks a bucket name.
///
/// # Errors
/// `NoSuchBucket`: a bucket of such a name cannot exist. (CreateBucket says `InvalidBucketName`.)
pub(crate) fn bucket(name: &str) -> S3Result<BucketName> {
    BucketName::new(name).map_err(|_| error::code(S3ErrorCode::NoSuchBucket))
}

/// Checks a key.
///
/// # Errors
/// `KeyTooLongError`, `InvalidURI`.
pub(crate) fn key(key: String) -> S3Result<ObjectKey> {
    ObjectKey::new(key).map_err(|error| error::from_name(&error))
}

/// What a `versionId` means on a bucket that was never versioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// None given.
    Current,
    /// `null`: the object itself.
    Null,
    /// Some version that cannot exist.
    Other,
}

/// Reads a `versionId`.
///
/// # Errors
/// `InvalidArgument` for what no S3 server hands out as a version id.
pub(crate) fn version(id: Option<&str>) -> S3Result<Version> {
    match id {
        None => Ok(Version::Current),
        Some("null") => Ok(Version::Null),
        Some(id) => {
            let plausible = (20..=64).contains(&id.len())
                && id
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
            if plausible {
                Ok(Version::Other)
            } else {
                Err(invalid_argument(
                    "versionId",
                    id,
                    "Invalid version id specified",
                ))
            }
        }
    }
}

/// Version of an object that is read or changed in place.
///
/// # Errors
/// `NoSuchVersion`, `InvalidArgument`.
pub(crate) fn existing_version(id: Option<&str>) -> S3Result<Version> {
    match version(id)? {
        Version::Other => Err(error::code(S3ErrorCode::NoSuchVersion)),
        version => Ok(version),
    }
}

impl Version {
    /// `x-amz-version-id` of the answer: only when the request named one.
    pub(crate) fn echo(self) -> Option<String> {
        (self == Self::Null).then(|| "null".to_owned())
    }
}

/// Checks a part number of a query.
///
/// # Errors
/// `InvalidArgument` outside 1 to 10000.
pub(crate) fn part_number(number: i32) -> S3Result<u32> {
    match u32::try_from(number) {
        Ok(valid @ 1..=10_000) => Ok(valid),
        _ => Err(bad_part_number(&number.to_string())),
    }
}

/// `InvalidArgument` for a part number.
pub(crate) fn bad_part_number(text: &str) -> S3Error {
    invalid_argument(
        "partNumber",
        text,
        "Part number must be an integer between 1 and 10000, inclusive.",
    )
}

const ENCRYPTION: [&str; 9] = [
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
];

/// Refuses encryption by the server: the volume is where that is done.
///
/// # Errors
/// `NotImplemented`, naming the header.
pub(crate) fn refuse_encryption(headers: &HeaderMap) -> S3Result<()> {
    for name in ENCRYPTION {
        if headers.contains_key(name) {
            return Err(error::header_not_implemented(name));
        }
    }
    Ok(())
}

const STORAGE_CLASSES: [&str; 11] = [
    "STANDARD",
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "DEEP_ARCHIVE",
    "OUTPOSTS",
    "GLACIER_IR",
    "SNOW",
    "EXPRESS_ONEZONE",
];

/// Checks headers of requests that make an object: encryption, storage class, ACL, object lock.
/// Known storage classes are accepted and stored as STANDARD; there is only one kind of storage.
///
/// # Errors
/// `NotImplemented`, `InvalidStorageClass`, `AccessControlListNotSupported`, `InvalidRequest`.
pub(crate) fn check_new_object(headers: &HeaderMap) -> S3Result<()> {
    refuse_encryption(headers)?;
    if headers.contains_key("x-amz-write-offset-bytes") {
        return Err(error::header_not_implemented("x-amz-write-offset-bytes"));
    }
    if let Some(class) = headers.get("x-amz-storage-class")
        && !STORAGE_CLASSES
            .iter()
            .any(|known| class.as_bytes() == known.as_bytes())
    {
        return Err(error::code(S3ErrorCode::InvalidStorageClass));
    }
    check_acl(headers)?;
    check_object_lock(headers)
}

/// ACLs do not exist here (S3's `BucketOwnerEnforced`): only those that say so are accepted.
///
/// # Errors
/// `AccessControlListNotSupported`; `InvalidArgument` for a canned ACL that S3 does not know.
pub(crate) fn check_acl(headers: &HeaderMap) -> S3Result<()> {
    if harmless_acl(headers)? {
        Ok(())
    } else {
        Err(acl_not_supported())
    }
}

/// Whether an ACL says no more than that the owner may do everything.
///
/// # Errors
/// `InvalidArgument` for a canned ACL that S3 does not know.
pub(crate) fn harmless_acl(headers: &HeaderMap) -> S3Result<bool> {
    let granted = headers
        .keys()
        .any(|name| name.as_str().starts_with("x-amz-grant-"));
    let canned = headers.get("x-amz-acl").map(HeaderValue::as_bytes);
    let canned = match canned.unwrap_or_default() {
        b"" | b"private" | b"bucket-owner-full-control" => true,
        b"public-read"
        | b"public-read-write"
        | b"authenticated-read"
        | b"aws-exec-read"
        | b"bucket-owner-read"
        | b"log-delivery-write" => false,
        other => {
            let other = String::from_utf8_lossy(other);
            return Err(invalid_argument("x-amz-acl", &other, ""));
        }
    };
    Ok(canned && !granted)
}

/// `AccessControlListNotSupported`.
pub(crate) fn acl_not_supported() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::AccessControlListNotSupported,
        "The bucket does not allow ACLs.",
    )
}

fn check_object_lock(headers: &HeaderMap) -> S3Result<()> {
    let mode = headers.get("x-amz-object-lock-mode");
    let until = headers.get("x-amz-object-lock-retain-until-date");
    let missing =
        "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied.";
    match (mode, until) {
        (Some(_), None) => {
            return Err(invalid_argument(
                "x-amz-object-lock-retain-until-date",
                "",
                missing,
            ));
        }
        (None, Some(_)) => return Err(invalid_argument("x-amz-object-lock-mode", "", missing)),
        (None, None) if !headers.contains_key("x-amz-object-lock-legal-hold") => return Ok(()),
        _ => {}
    }
    if let Some(mode) = mode
        && ![&b"GOVERNANCE"[..], b"COMPLIANCE"].contains(&mode.as_bytes())
    {
        return Err(invalid_argument(
            "x-amz-object-lock-mode",
            mode.to_str().unwrap_or_default(),
            "Unknown wormMode directive.",
        ));
    }
    if let Some(until) = until {
        check_retain_until(until.to_str().unwrap_or_default())?;
    }
    Err(invalid_request("Bucket is missing ObjectLockConfiguration"))
}

fn check_retain_until(text: &str) -> S3Result<()> {
    let name = "x-amz-object-lock-retain-until-date";
    match text.parse::<jiff::Timestamp>() {
        Err(_) => Err(invalid_argument(
            name,
            text,
            "The retain until date must be provided in ISO 8601 format",
        )),
        Ok(until) if until < jiff::Timestamp::now() => Err(invalid_argument(
            name,
            text,
            "The retain until date must be in the future!",
        )),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn only_the_null_version_exists() {
        assert_eq!(existing_version(None).unwrap(), Version::Current);
        assert_eq!(existing_version(Some("null")).unwrap(), Version::Null);
        assert_eq!(Version::Null.echo().as_deref(), Some("null"));
        let ulid = existing_version(Some("01M8P19VM45YQ9HYTBYHT1MXXP")).unwrap_err();
        assert_eq!(ulid.code(), &S3ErrorCode::NoSuchVersion);
        for id in ["", "x", "01M8P19VM45YQ9HYTBYHT1MXX/"] {
            let error = existing_version(Some(id)).unwrap_err();
            assert_eq!(error.code(), &S3ErrorCode::InvalidArgument, "{id}");
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (name, value, code) in [
            ("x-amz-server-side-encryption", "aws:kms", "NotImplemented"),
            (
                "x-amz-server-side-encryption-customer-key",
                "a",
                "NotImplemented",
            ),
            ("x-amz-storage-class", "COLD", "InvalidStorageClass"),
            ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "mine", "InvalidArgument"),
            ("x-amz-grant-read", "id=1", "AccessControlListNotSupported"),
            ("x-amz-object-lock-mode", "GOVERNANCE", "InvalidArgument"),
            ("x-amz-object-lock-legal-hold", "ON", "InvalidRequest"),
        ] {
            let error = check_new_object(&with(name, value)).unwrap_err();
            assert_eq!(error.code().as_str(), code, "{name}");
        }
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-acl", "bucket-owner-full-control"),
            ("x-amz-storage-class", "STANDARD_IA"),
        ] {
            assert!(check_new_object(&with(name, value)).is_ok(), "{name}");
        }
    }

    #[test]
    fn part_numbers_are_1_to_10000() {
        assert_eq!(part_number(1).unwrap(), 1);
        assert_eq!(part_number(10_000).unwrap(), 10_000);
        assert!(
            part_number(0).is_err() && part_number(10_001).is_err() && part_number(-1).is_err()
        );
    }
}
