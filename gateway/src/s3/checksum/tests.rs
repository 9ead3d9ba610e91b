use super::*;
use filestore_common::digest::BodyHasher;
use http::HeaderValue;

/// Of `b"hello"`, computed with Python's zlib and hashlib.
const CRC32: &str = "NhCmhg==";
const SHA1: &str = "qvTGHdzF6KLavt4PO0gs2a6pQ00=";
const MD5: &str = "XUFAKrxLKna5cZ2REBfFkg==";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn digests(algorithm: ChecksumAlgorithm) -> BodyDigests {
    let mut hasher = BodyHasher::new(&[algorithm]);
    hasher.update(b"hello");
    hasher.finish()
}

fn message(pairs: &[(&'static str, &str)]) -> String {
    let error = announced(&headers(pairs)).unwrap_err();
    assert_eq!(error.code(), &S3ErrorCode::InvalidRequest);
    error.message().unwrap_or_default().to_owned()
}

#[test]
fn a_matching_checksum_is_returned_for_storing() {
    for (header, value, algorithm) in [
        ("x-amz-checksum-crc32", CRC32, ChecksumAlgorithm::Crc32),
        ("x-amz-checksum-sha1", SHA1, ChecksumAlgorithm::Sha1),
    ] {
        let found = announced(&headers(&[(header, value)])).unwrap().unwrap();

        let checksum = found.verify(&digests(algorithm), None).unwrap();

        assert_eq!(
            checksum,
            Checksum {
                algorithm,
                kind: ChecksumKind::FullObject,
                value: value.into()
            }
        );
    }
}

#[test]
fn a_different_checksum_is_a_bad_digest() {
    let found = announced(&headers(&[("x-amz-checksum-crc32", "AAAAAA==")]))
        .unwrap()
        .unwrap();

    let error = found
        .verify(&digests(ChecksumAlgorithm::Crc32), None)
        .unwrap_err();

    assert_eq!(error.code(), &S3ErrorCode::BadDigest);
    assert_eq!(
        error.message(),
        Some("The CRC32 you specified did not match the calculated checksum.")
    );
}

#[test]
fn malformed_announcements_are_refused() {
    let crc32 = ("x-amz-checksum-crc32", CRC32);
    assert!(message(&[crc32, ("x-amz-checksum-sha1", SHA1)]).starts_with("Expecting a single"));
    assert!(message(&[crc32, ("x-amz-trailer", "x-amz-checksum-sha1")]).starts_with("Expecting"));
    for value in ["", "no base64!", "c2RhZnNhZGZzZGFm"] {
        assert_eq!(
            message(&[("x-amz-checksum-crc32", value)]),
            "Value for x-amz-checksum-crc32 header is invalid."
        );
    }
    assert!(message(&[("x-amz-checksum-crc16", "AAA=")]).starts_with("The algorithm type"));
    assert!(message(&[("x-amz-trailer", "x-amz-meta-a")]).contains("x-amz-trailer"));
    assert!(message(&[("x-amz-sdk-checksum-algorithm", "CRC32")]).contains("no corresponding"));
    assert!(message(&[("x-amz-sdk-checksum-algorithm", "CRC99")]).contains("unsupported"));
    assert_eq!(
        message(&[crc32, ("x-amz-sdk-checksum-algorithm", "SHA1")]),
        "Value for x-amz-sdk-checksum-algorithm header is invalid."
    );
}

#[test]
fn other_checksum_headers_announce_nothing() {
    let others = headers(&[
        ("x-amz-checksum-mode", "ENABLED"),
        ("x-amz-checksum-algorithm", "CRC32"),
        ("x-amz-checksum-type", "FULL_OBJECT"),
    ]);
    assert_eq!(announced(&others).unwrap(), None);
}

#[test]
fn a_trailer_that_does_not_come_is_an_error() {
    let found = announced(&headers(&[("x-amz-trailer", "x-amz-checksum-crc32")]))
        .unwrap()
        .unwrap();

    let error = found
        .verify(&digests(ChecksumAlgorithm::Crc32), None)
        .unwrap_err();

    assert_eq!(error.code().as_str(), "MalformedTrailerError");
}

#[test]
fn content_md5_is_checked_in_form_and_value() {
    let of = |value| ContentMd5::of(&headers(&[("content-md5", value)]));
    for value in ["", "invalid", "aGVsbCBzLGRham5mamFuc2Y="] {
        assert_eq!(of(value).unwrap_err().code(), &S3ErrorCode::InvalidDigest);
    }
    let computed = digests(ChecksumAlgorithm::Crc32).content_md5();
    assert!(of(MD5).unwrap().unwrap().verify(&computed).is_ok());
    let other = of("XrY7u+Ae7tCTyyK7j1rNww==").unwrap().unwrap();
    assert_eq!(
        other.verify(&computed).unwrap_err().code(),
        &S3ErrorCode::BadDigest
    );
    assert_eq!(ContentMd5::of(&HeaderMap::new()).unwrap(), None);
}
