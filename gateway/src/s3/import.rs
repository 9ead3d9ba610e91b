//! Trusted import headers: a migrator hands over what another store said of an object, so that
//! ETag and Last-Modified survive (`docs/reference/import-headers.md`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use filestore_common::digest::{Md5Digest, multipart_etag};
use filestore_common::{ETag, ObjectMeta};
use http::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::error::{self, invalid_argument};
use crate::access::Action;
use crate::auth;

const ETAG: &str = "x-filestore-import-etag";
const LAST_MODIFIED: &str = "x-filestore-import-last-modified";
const PART_SIZES: &str = "x-filestore-import-part-sizes";

/// What another store said of the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Import {
    /// ETag, `<md5>` or `<md5>-N` or any other.
    pub(crate) etag: Option<ETag>,
    /// Last-Modified.
    pub(crate) last_modified: Option<SystemTime>,
    /// Sizes in bytes of its parts.
    pub(crate) part_sizes: Vec<u64>,
}

impl Import {
    /// Reads the headers; `None` when there are none.
    ///
    /// # Errors
    /// `AccessDenied` unless root sent them, and as part of a signed `Authorization` header: a
    /// presigned URL lets its holder add headers. `InvalidArgument` for malformed values.
    pub(crate) fn of_request(headers: &HeaderMap) -> S3Result<Option<Self>> {
        let import = Self::of(headers)?;
        if import.is_some() {
            auth::check(Action::Administer, "", "")?;
        }
        Ok(import)
    }

    fn of(headers: &HeaderMap) -> S3Result<Option<Self>> {
        let names = [ETAG, LAST_MODIFIED, PART_SIZES];
        if !names.iter().any(|name| headers.contains_key(*name)) {
            return Ok(None);
        }
        let mut import = Self::default();
        for name in names {
            let Some(value) = headers.get(name) else {
                continue;
            };
            if !signed(headers, name) {
                return Err(error::code(S3ErrorCode::AccessDenied));
            }
            let value = value.to_str().unwrap_or_default().trim();
            let invalid = || invalid_argument(name, value, format!("Invalid {name}"));
            match name {
                ETAG => {
                    let etag = ETag::new(value);
                    if etag.as_str().is_empty() {
                        return Err(invalid());
                    }
                    import.etag = Some(etag);
                }
                LAST_MODIFIED => {
                    import.last_modified = Some(parse_time(value).ok_or_else(invalid)?);
                }
                _ => {
                    let sizes: Result<_, _> =
                        value.split(',').map(|size| size.trim().parse()).collect();
                    import.part_sizes = sizes.map_err(|_| invalid())?;
                }
            }
        }
        Ok(Some(import))
    }

    /// Checks the ETag against the bytes where it can be computed, and puts it into `meta`.
    ///
    /// `md5` is that of the whole body of `length` bytes; `part_md5` computes the MD5 of a slice
    /// (offset, length) of it.
    ///
    /// # Errors
    /// `BadDigest`; `InvalidArgument` when the part sizes do not add up.
    pub(crate) fn apply(
        &self,
        meta: &mut ObjectMeta,
        length: u64,
        part_md5: impl FnMut(u64, u64) -> S3Result<Md5Digest>,
    ) -> S3Result<()> {
        let Some(etag) = &self.etag else {
            return Ok(());
        };
        if etag.is_md5() {
            if *etag != meta.etag {
                return Err(different());
            }
            return Ok(());
        }
        if let (Some(count), false) = (etag.part_count(), self.part_sizes.is_empty()) {
            if *etag != self.multipart(count, length, part_md5)? {
                return Err(different());
            }
            meta.part_sizes.clone_from(&self.part_sizes);
        }
        meta.etag = etag.clone();
        Ok(())
    }

    fn multipart(
        &self,
        count: u32,
        length: u64,
        mut part_md5: impl FnMut(u64, u64) -> S3Result<Md5Digest>,
    ) -> S3Result<ETag> {
        let total = self
            .part_sizes
            .iter()
            .try_fold(0_u64, |sum, size| sum.checked_add(*size));
        if total != Some(length) || u32::try_from(self.part_sizes.len()) != Ok(count) {
            return Err(invalid_argument(
                PART_SIZES,
                "",
                "The part sizes do not add up to the object.",
            ));
        }
        let mut digests = Vec::with_capacity(self.part_sizes.len());
        let mut offset = 0;
        for size in &self.part_sizes {
            digests.push(part_md5(offset, *size)?);
            offset += size;
        }
        Ok(multipart_etag(&digests))
    }
}

/// `BadDigest` for an ETag that the bytes do not have.
pub(crate) fn different() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::BadDigest,
        "The bytes received do not have the ETag that x-filestore-import-etag announced.",
    )
}

/// Whether the request's `Authorization` header signs `name`.
fn signed(headers: &HeaderMap, name: &str) -> bool {
    let Some(authorization) = headers
        .get(http::header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    authorization
        .split([',', ' '])
        .filter_map(|field| field.trim().strip_prefix("SignedHeaders="))
        .flat_map(|list| list.split(';'))
        .any(|signed| signed.eq_ignore_ascii_case(name))
}

/// RFC 3339 or nanoseconds since 1970.
fn parse_time(text: &str) -> Option<SystemTime> {
    if let Ok(nanos) = text.parse::<i64>() {
        let distance = Duration::from_nanos(nanos.unsigned_abs());
        return if nanos < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
    }
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use filestore_common::digest::md5;
    use http::HeaderValue;

    fn headers(pairs: &[(&'static str, &str)], signed: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders={signed}, Signature=0"
        );
        headers.insert(
            "authorization",
            HeaderValue::from_str(&authorization).unwrap(),
        );
        headers
    }

    const ALL: &str = "host;x-filestore-import-etag;x-filestore-import-last-modified;x-filestore-import-part-sizes";

    fn applied(pairs: &[(&'static str, &str)], body: &[u8]) -> S3Result<ObjectMeta> {
        let import = Import::of(&headers(pairs, ALL))?.unwrap();
        let mut meta = ObjectMeta::new(ETag::new(hex::encode(md5(body))));
        let slice = |offset: u64, length: u64| {
            let start = usize::try_from(offset).unwrap();
            Ok(md5(&body[start..start + usize::try_from(length).unwrap()]))
        };
        import.apply(&mut meta, body.len() as u64, slice)?;
        Ok(meta)
    }

    #[test]
    fn no_headers_no_import() {
        assert_eq!(Import::of(&headers(&[], "host")).unwrap(), None);
    }

    #[test]
    fn unsigned_import_headers_are_refused() {
        let error = Import::of(&headers(&[(ETAG, "a")], "host;x-amz-date")).unwrap_err();
        assert_eq!(error.code(), &S3ErrorCode::AccessDenied);
        let mut presigned = headers(&[(ETAG, "a")], ALL);
        presigned.remove("authorization");
        assert!(Import::of(&presigned).is_err());
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let expected = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        for text in ["2023-11-14T22:13:20.123456789Z", "1700000000123456789"] {
            let import = Import::of(&headers(&[(LAST_MODIFIED, text)], ALL)).unwrap();
            assert_eq!(import.unwrap().last_modified, Some(expected), "{text}");
        }
        assert!(Import::of(&headers(&[(LAST_MODIFIED, "yesterday")], ALL)).is_err());
    }

    #[test]
    fn a_plain_etag_is_checked() {
        // md5 of "hello"
        let good = [(ETAG, "\"5d41402abc4b2a76b9719d911017c592\"")];
        assert!(applied(&good, b"hello").is_ok());
        let error = applied(&good, b"hullo").unwrap_err();
        assert_eq!(error.code(), &S3ErrorCode::BadDigest);
    }

    #[test]
    fn a_multipart_etag_is_checked_with_the_part_sizes() {
        let etag = (ETAG, "00000000000000000000000000000000-2");
        let parts: Vec<_> = [&b"hel"[..], b"lo"].iter().map(|part| md5(part)).collect();
        let right = multipart_etag(&parts);
        let meta = applied(&[(ETAG, right.as_str()), (PART_SIZES, "3, 2")], b"hello").unwrap();
        assert_eq!((meta.etag, meta.part_sizes), (right.clone(), vec![3, 2]));

        let error = applied(&[etag, (PART_SIZES, "3,2")], b"hello").unwrap_err();
        assert_eq!(error.code(), &S3ErrorCode::BadDigest);
        for sizes in ["2,2", "3,1,1", "x", "18446744073709551615,1"] {
            let error = applied(&[(ETAG, right.as_str()), (PART_SIZES, sizes)], b"hello");
            assert_eq!(
                error.unwrap_err().code(),
                &S3ErrorCode::InvalidArgument,
                "{sizes}"
            );
        }
    }

    #[test]
    fn an_etag_that_cannot_be_computed_is_taken() {
        let meta = applied(&[(ETAG, "CRC64NVME-AAAAAAAAAAA=")], b"hello").unwrap();
        assert_eq!(meta.etag.as_str(), "CRC64NVME-AAAAAAAAAAA=");
    }
}
