use super::*;
use filestore_common::{ETag, ObjectMeta};
use std::time::{Duration, UNIX_EPOCH};

fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn info(user: UserMetadata, headers: ContentHeaders) -> ObjectInfo {
    let mut meta = ObjectMeta::new(ETag::new("d41d8cd98f00b204e9800998ecf8427e"));
    meta.user = user;
    meta.headers = headers;
    ObjectInfo {
        size: 0,
        last_modified: UNIX_EPOCH + Duration::from_secs(784_111_777),
        meta,
    }
}

#[test]
fn aws_chunked_is_not_a_content_encoding() {
    for (sent, stored) in [
        ("aws-chunked", None),
        ("gzip, aws-chunked", Some("gzip")),
        ("AWS-Chunked,gzip", Some("gzip")),
        ("gzip", Some("gzip")),
        ("deflate, gzip", Some("deflate,gzip")),
    ] {
        let got = content_headers(&headers(&[("content-encoding", sent.as_bytes())])).unwrap();
        assert_eq!(got.content_encoding.as_deref(), stored, "{sent}");
    }
}

#[test]
fn content_type_defaults_to_octets() {
    let got = content_headers(&HeaderMap::new()).unwrap();
    assert_eq!(got.content_type.as_deref(), Some("binary/octet-stream"));
}

#[test]
fn expires_is_kept_as_text() {
    let got = content_headers(&headers(&[("expires", b"next week")])).unwrap();

    let out = of_object(&info(UserMetadata::new(), got));

    assert_eq!(out["expires"], "next week");
}

#[test]
fn redirects_are_absolute_or_urls() {
    for (location, valid) in [
        ("/a", true),
        ("https://x", true),
        ("ftp://x", false),
        ("a", false),
    ] {
        let sent = headers(&[("x-amz-website-redirect-location", location.as_bytes())]);
        assert_eq!(content_headers(&sent).is_ok(), valid, "{location}");
    }
}

#[test]
fn user_metadata_round_trips_byte_for_byte() {
    let encoded = "=?UTF-8?B?w6k=?=".as_bytes();
    let sent = headers(&[
        ("x-amz-meta-plain", b"a b"),
        ("x-amz-meta-utf8", "Hello World é ☃".as_bytes()),
        ("x-amz-meta-word", encoded),
        ("x-amz-meta-twice", b"1"),
        ("x-amz-meta-twice", b"2"),
        ("x-amz-meta-empty", b""),
        ("x-amz-meta-", b"no name"),
        ("x-other", b"ignored"),
    ]);

    let user = user_metadata(&sent).unwrap();
    let out = of_object(&info(user.clone(), ContentHeaders::default()));

    assert_eq!(user.len(), 5);
    assert_eq!(user["twice"], "1,2");
    assert_eq!(user["empty"], "");
    assert_eq!(
        out["x-amz-meta-utf8"].as_bytes(),
        "Hello World é ☃".as_bytes()
    );
    assert_eq!(out["x-amz-meta-word"].as_bytes(), encoded);
}

#[test]
fn bytes_that_are_not_utf8_are_latin1() {
    let user = user_metadata(&headers(&[("x-amz-meta-a", b"caf\xe9")])).unwrap();
    assert_eq!(user["a"], "café");
}

#[test]
fn two_kilobytes_of_user_metadata_are_the_limit() {
    let fits = vec![b'v'; MAX_USER_METADATA - 1];
    let over = vec![b'v'; MAX_USER_METADATA];
    assert!(user_metadata(&headers(&[("x-amz-meta-k", &fits)])).is_ok());
    let error = user_metadata(&headers(&[("x-amz-meta-k", &over)])).unwrap_err();
    assert_eq!(error.code().as_str(), "MetadataTooLarge");
}

#[test]
fn replies_carry_validators_and_what_no_header_can_hold_is_left_out() {
    let user = UserMetadata::from([
        ("good".to_owned(), "yes".to_owned()),
        ("bad".to_owned(), "a\nb".to_owned()),
        ("bad name".to_owned(), "x".to_owned()),
    ]);

    let out = of_object(&info(user, ContentHeaders::default()));

    assert_eq!(out["etag"], "\"d41d8cd98f00b204e9800998ecf8427e\"");
    assert_eq!(out["last-modified"], "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(out["accept-ranges"], "bytes");
    assert_eq!(out["x-amz-meta-good"], "yes");
    assert!(!out.contains_key("x-amz-meta-bad"));
}
