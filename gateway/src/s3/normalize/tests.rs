use super::*;

fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn plain(method: &Method, uri: &str, pairs: &[(&'static str, &[u8])]) -> bool {
    let (uri, headers) = (uri.parse().unwrap(), headers(pairs));
    let names_object = names_object(&Hosts::default(), &uri, &headers);
    is_plain(method, names_object, &uri, &headers)
}

#[test]
fn ordinary_requests_pass_by() {
    let usual: [(&'static str, &[u8]); 4] = [
        ("host", b"localhost:9000"),
        ("content-type", b"application/octet-stream"),
        ("x-amz-content-sha256", b"UNSIGNED-PAYLOAD"),
        ("x-amz-checksum-crc32", b"AAAAAA=="),
    ];
    for (method, uri) in [
        (Method::GET, "/b/k"),
        (Method::HEAD, "/b/a/b"),
        (Method::PUT, "/b/k"),
        (Method::PUT, "/b/k?x-id=PutObject"),
        (Method::PUT, "/b/k?partNumber=1&uploadId=a"),
        (Method::DELETE, "/b/k"),
        (Method::GET, "/b?list-type=2&max-keys=10"),
        (Method::GET, "/"),
    ] {
        assert!(plain(&method, uri, &usual), "{method} {uri}");
    }
}

#[test]
fn what_s3s_reads_differently_does_not() {
    for (method, uri, name, value) in [
        (Method::GET, "/b/k", "range", &b"bytes=5-2"[..]),
        (Method::GET, "/b/k", "if-none-match", b"\"a\", \"b\""),
        (Method::PUT, "/b/k", "expires", b"0"),
        (Method::PUT, "/b/k", "x-amz-meta-a", b"\xe9"),
        (Method::PUT, "/b/k", "content-disposition", b"\xc3\xa9"),
        (Method::PUT, "/b/k", "content-md5", b""),
        (Method::PUT, "/b/k", "x-amz-copy-source", b"b/k"),
        (Method::PUT, "/b/k", "x-filestore-import-etag", b"a"),
        (Method::POST, "/b?delete", "host", b"h"),
        (Method::PUT, "/b", "host", b"h"),
        (Method::PUT, "/b/k?tagging", "host", b"h"),
        (Method::GET, "/b?list-type=2&max-keys=x", "host", b"h"),
    ] {
        assert!(
            !plain(&method, uri, &[(name, value)]),
            "{method} {uri} {name}"
        );
    }
}

#[test]
fn the_service_behind_sees_nothing_that_it_would_refuse() {
    let sent = headers(&[
        ("authorization", b"AWS4-HMAC-SHA256 x"),
        ("range", b"bytes=,"),
        ("expires", b"0"),
        ("x-amz-meta-a", b"1"),
        ("x-amz-meta-a", b"2"),
        ("content-language", b"\xe9"),
        ("content-type", b"text/plain"),
        ("x-amz-copy-source", b"bucket/%C3%A9"),
    ]);

    let stripped = strip(&sent, false);

    let mut names: Vec<&str> = stripped.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "x-amz-copy-source"]);
}

#[test]
fn bodies_that_are_xml() {
    for (method, uri, xml) in [
        (Method::POST, "/b?delete", true),
        (Method::POST, "/b/k?uploadId=1", true),
        (Method::POST, "/b/k?uploads", false),
        (Method::PUT, "/b", true),
        (Method::PUT, "/b/", true),
        (Method::PUT, "/b?versioning", true),
        (Method::PUT, "/b/k?tagging", true),
        (Method::PUT, "/b/k?partNumber=1&uploadId=acl", false),
        (Method::PUT, "/b/k", false),
        (Method::GET, "/b?acl", false),
    ] {
        let parsed = uri.parse().unwrap();
        let names_object = names_object(&Hosts::default(), &parsed, &HeaderMap::new());
        let got = has_xml_body(&method, names_object, &parsed);
        assert_eq!(got, xml, "{method} {uri}");
    }
}

#[tokio::test]
async fn xml_bodies_are_checked_against_their_digests() {
    let read = async |name: &'static str, value: &[u8]| {
        let body = Body::from("hello".to_owned());
        read_xml(body, &headers(&[(name, value)]), false, None)
            .await
            .map_err(|error| error.code().as_str().to_owned())
    };
    assert_eq!(read("host", b"h").await.unwrap(), "hello");
    let right = read("content-md5", b"XUFAKrxLKna5cZ2REBfFkg==").await;
    assert!(right.is_ok());
    for (name, value, code) in [
        ("content-md5", &b"XrY7u+Ae7tCTyyK7j1rNww=="[..], "BadDigest"),
        ("content-md5", b"", "InvalidDigest"),
        ("x-amz-checksum-crc32", b"AAAAAA==", "BadDigest"),
    ] {
        assert_eq!(read(name, value).await.unwrap_err(), code);
    }
}

#[test]
fn virtual_hosts_name_the_bucket() {
    let hosts = Hosts::new(&["s3.test".to_owned()]);
    for (host, uri, object) in [
        ("b.s3.test:9000", "/k", true),
        ("b.s3.test", "/", false),
        ("s3.test", "/b", false),
        ("s3.test", "/b/k", true),
        ("127.0.0.1:9000", "/b/", false),
    ] {
        let headers = headers(&[("host", host.as_bytes())]);
        let got = names_object(&hosts, &uri.parse().unwrap(), &headers);
        assert_eq!(got, object, "{host} {uri}");
    }
}
