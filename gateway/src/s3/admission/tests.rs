use super::*;
use http::HeaderValue;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn refused(method: &Method, uri: &str, pairs: &[(&'static str, &str)]) -> Option<(String, String)> {
    let uri: Uri = uri.parse().unwrap();
    let names_object = uri.path().matches('/').count() > 1;
    let error = check(method, names_object, &uri, &headers(pairs)).err()?;
    let message = error.message().unwrap_or_default().to_owned();
    Some((error.code().as_str().to_owned(), message))
}

fn authorized(authorization: &str) -> Option<(String, String)> {
    let pairs = [
        ("authorization", authorization),
        ("x-amz-date", "20261130T142500Z"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ];
    refused(&Method::GET, "/b/k", &pairs)
}

#[test]
fn authorization_headers_are_refused_in_the_words_of_s3() {
    let good = "AWS4-HMAC-SHA256 Credential=a/20261130/eu-1/s3/aws4_request, SignedHeaders=host;x-amz-date;x-amz-content-sha256, Signature=00";
    assert_eq!(authorized(good), None);
    for (from, to, code, message) in [
        (
            "AWS4-HMAC-SHA256 ",
            "x",
            "InvalidArgument",
            "one and only one",
        ),
        ("HMAC-SHA256", "HMAC-SHA1", "InvalidArgument", "Unsupported"),
        (
            ", Signature=00",
            "",
            "AuthorizationHeaderMalformed",
            "three components",
        ),
        (
            "Signature=",
            "Other=",
            "AuthorizationHeaderMalformed",
            "missing Signature.",
        ),
        (
            "Credential=",
            "Other=",
            "AuthorizationHeaderMalformed",
            "missing Credential.",
        ),
        (
            "Credential=",
            "Credential-",
            "AuthorizationHeaderMalformed",
            "component",
        ),
        ("/eu-1", "", "AuthorizationHeaderMalformed", "mal-formed"),
        (
            "aws4_request",
            "aws_request",
            "AuthorizationHeaderMalformed",
            "terminal \"aws_request\"",
        ),
        (
            "/s3/",
            "/ec2/",
            "AuthorizationHeaderMalformed",
            "service \"ec2\"",
        ),
        (
            "20261130",
            "2026",
            "AuthorizationHeaderMalformed",
            "date format \"2026\"",
        ),
        (
            "20261130",
            "20250101",
            "AuthorizationHeaderMalformed",
            "not the same as X-Amz-Date",
        ),
        ("x-amz-date;", "", "AccessDenied", "which were not signed"),
    ] {
        let header = good.replace(from, to);
        let header = if to == "x" {
            "invalid_header".to_owned()
        } else {
            header
        };
        let (got, text) = authorized(&header).unwrap();
        assert_eq!(got, code, "{header}");
        assert!(text.contains(message), "{header}: {text}");
    }
}

#[test]
fn a_header_that_changes_the_request_must_be_signed() {
    let authorization = "AWS4-HMAC-SHA256 Credential=a/20261130/eu-1/s3/aws4_request,SignedHeaders=host;x-amz-date;x-amz-content-sha256,Signature=00";
    for (name, refused_expected) in [
        ("x-amz-copy-source", true),
        ("x-amz-meta-a", true),
        ("x-filestore-import-etag", true),
        ("content-type", false),
        ("x-custom", false),
    ] {
        let pairs = [
            ("authorization", authorization),
            ("x-amz-date", "20261130T142500Z"),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
            (name, "b/k"),
        ];
        let got = refused(&Method::PUT, "/b/k", &pairs);
        assert_eq!(got.is_some(), refused_expected, "{name}: {got:?}");
    }
}

const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2F20261130%2Feu-1%2Fs3%2Faws4_request&X-Amz-Signature=00&X-Amz-Date=20261130T142500Z&X-Amz-SignedHeaders=host&X-Amz-Expires=60";

#[test]
fn presigned_urls_are_refused_in_the_words_of_s3() {
    for (from, to, message) in [
        ("&X-Amz-Signature=00", "", "requires the X-Amz-Algorithm"),
        (
            "AWS4-HMAC-SHA256",
            "AWS4-SHA256",
            "only supports \"AWS4-HMAC-SHA256 and",
        ),
        (
            "AWS4-HMAC",
            "AWS4-ECDSA-P256",
            "only supports \"AWS4-HMAC-SHA256\"",
        ),
        ("%2Feu-1", "", "mal-formed"),
        ("s3%2F", "sns%2F", "incorrect service \"sns\""),
        (
            "a%2F20261130",
            "a%2F20060102",
            "Invalid credential date \"20060102\". This date is not the same as X-Amz-Date: \"20261130\".",
        ),
        ("Expires=60", "Expires=x", "should be a number"),
        ("Expires=60", "Expires=-3", "non-negative"),
        ("Expires=60", "Expires=604801", "less than a week"),
    ] {
        let uri = format!("/b/k?{}", PRESIGNED.replace(from, to));
        let (code, text) = refused(&Method::GET, &uri, &[]).unwrap();
        assert_eq!(code, "AuthorizationQueryParametersError", "{uri}");
        assert!(text.contains(message), "{uri}: {text}");
    }
}

#[test]
fn an_expired_url_and_an_unsigned_header_are_denied() {
    let old = PRESIGNED.replace("20261130", "20060102");
    let (code, text) = refused(&Method::GET, &format!("/b/k?{old}"), &[]).unwrap();
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("AccessDenied", "Request has expired.")
    );

    let far = PRESIGNED.replace("20261130", "29990101");
    let uri = format!("/b/k?{far}");
    assert_eq!(refused(&Method::PUT, &uri, &[("content-type", "a")]), None);
    let (code, _) = refused(&Method::PUT, &uri, &[("x-amz-copy-source", "b/k")]).unwrap();
    assert_eq!(code, "AccessDenied");
}

#[test]
fn requests_that_are_no_operation() {
    for (method, uri, pairs, code) in [
        (Method::POST, "/", &[][..], "MethodNotAllowed"),
        (Method::POST, "/b/k", &[], "MethodNotAllowed"),
        (Method::PUT, "/b/k?partNumber=1", &[], "InvalidArgument"),
        (Method::PUT, "/b/k?uploadId=1", &[], "MethodNotAllowed"),
        (Method::GET, "/b/k?uploads", &[], "InvalidRequest"),
        (Method::GET, "/b/k?versions", &[], "InvalidRequest"),
        (
            Method::GET,
            "/b/k",
            &[("x-amz-copy-source", "b/o")],
            "InvalidArgument",
        ),
        (
            Method::PUT,
            "/b/k",
            &[("x-amz-content-sha256", "abc")],
            "InvalidArgument",
        ),
        (
            Method::PUT,
            "/b?cors",
            &[("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")],
            "InvalidRequest",
        ),
        (
            Method::PUT,
            "/b/k",
            &[("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")],
            "MissingContentLength",
        ),
    ] {
        let (got, _) = refused(&method, uri, pairs).unwrap();
        assert_eq!(got, code, "{method} {uri}");
    }
    let form = [("content-type", "multipart/form-data; boundary=x")];
    assert_eq!(refused(&Method::POST, "/b", &form), None);
    assert_eq!(refused(&Method::POST, "/b?delete", &[]), None);
    let long = "d".repeat(8192);
    let (code, _) = refused(&Method::GET, "/b/k", &[("x-long", &long)]).unwrap();
    assert_eq!(code, "RequestHeaderSectionTooLarge");
}

#[test]
fn unsigned_chunks_need_no_trailer() {
    let mut chunked = headers(&[("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")]);
    announce_no_trailer(&mut chunked);
    assert_eq!(chunked["x-amz-trailer"], "");
    let mut plain = headers(&[("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]);
    announce_no_trailer(&mut plain);
    assert!(!plain.contains_key("x-amz-trailer"));
}
