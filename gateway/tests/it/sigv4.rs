//! A signer after AWS's description of Signature Version 4, independent of the server's.

use std::fmt::Write as _;

use filestore_common::ChecksumAlgorithm;
use filestore_common::digest::ChecksumHasher;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

/// RFC 3986, unreserved characters.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(crate) const EMPTY_SHA256: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Who signs, when and for which region.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) region: String,
    pub(crate) at: jiff::Timestamp,
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Signature version 2 of a form's policy.
pub(crate) fn version_2(secret: &str, policy: &[u8]) -> String {
    use base64::Engine as _;
    let sha1 = |bytes: &[u8]| {
        let mut hasher = ChecksumHasher::new(ChecksumAlgorithm::Sha1);
        hasher.update(bytes);
        hasher.finish()
    };
    let mut block = [0_u8; 64];
    block[..secret.len()].copy_from_slice(secret.as_bytes());
    let inner = sha1(&[&block.map(|byte| byte ^ 0x36)[..], policy].concat());
    let outer = sha1(&[&block.map(|byte| byte ^ 0x5c)[..], &inner[..]].concat());
    base64::engine::general_purpose::STANDARD.encode(outer)
}

/// RFC 2104.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    assert!(key.len() <= 64, "longer keys are not needed here");
    block[..key.len()].copy_from_slice(key);
    let inner = block.map(|byte| byte ^ 0x36);
    let outer = block.map(|byte| byte ^ 0x5c);
    let inner = Sha256::digest([&inner[..], message].concat());
    Sha256::digest([&outer[..], &inner[..]].concat()).to_vec()
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Sorted, encoded query string.
fn canonical_query(query: &[(String, String)]) -> String {
    let mut pairs: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    pairs.sort();
    pairs.join("&")
}

impl Signer {
    fn date(&self) -> String {
        self.at.strftime("%Y%m%d").to_string()
    }

    pub(crate) fn timestamp(&self) -> String {
        self.at.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    fn scope(&self) -> String {
        format!("{}/{}/s3/aws4_request", self.date(), self.region)
    }

    pub(crate) fn credential(&self) -> String {
        format!("{}/{}", self.access_key, self.scope())
    }

    pub(crate) fn sign(&self, string_to_sign: &str) -> String {
        let key = format!("AWS4{}", self.secret_key);
        let key = hmac(key.as_bytes(), self.date().as_bytes());
        let key = hmac(&key, self.region.as_bytes());
        let key = hmac(&key, b"s3");
        let key = hmac(&key, b"aws4_request");
        hex::encode(hmac(&key, string_to_sign.as_bytes()))
    }

    fn signature(
        &self,
        method: &str,
        path: &str,
        query: &[(String, String)],
        headers: &[(String, String)],
        payload: &str,
    ) -> (String, String) {
        let mut headers: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let mut request = format!("{method}\n{path}\n{}\n", canonical_query(query));
        for (name, value) in &headers {
            writeln!(request, "{name}:{value}").unwrap();
        }
        write!(request, "\n{names}\n{payload}").unwrap();
        let string_to_sign = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            self.timestamp(),
            self.scope(),
            sha256(request.as_bytes())
        );
        (names, self.sign(&string_to_sign))
    }

    /// The `Authorization` header and its signature. `path` is as on the request line.
    pub(crate) fn header(
        &self,
        method: &str,
        path: &str,
        query: &[(String, String)],
        headers: &[(String, String)],
        payload: &str,
    ) -> (String, String) {
        let (names, signature) = self.signature(method, path, query, headers, payload);
        let header = format!(
            "AWS4-HMAC-SHA256 Credential={}, SignedHeaders={names}, Signature={signature}",
            self.credential()
        );
        (header, signature)
    }

    /// The query of a presigned URL.
    pub(crate) fn presign(&self, method: &str, path: &str, host: &str, seconds: u64) -> String {
        let mut query: Vec<(String, String)> = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()),
            ("X-Amz-Credential", self.credential()),
            ("X-Amz-Date", self.timestamp()),
            ("X-Amz-Expires", seconds.to_string()),
            ("X-Amz-SignedHeaders", "host".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        let host = [("host".to_owned(), host.to_owned())];
        let (_, signature) = self.signature(method, path, &query, &host, "UNSIGNED-PAYLOAD");
        query.push(("X-Amz-Signature".to_owned(), signature));
        canonical_query(&query)
    }

    /// `aws-chunked` with a signature on each chunk (`STREAMING-AWS4-HMAC-SHA256-PAYLOAD`).
    pub(crate) fn chunks(&self, seed: &str, body: &[u8], chunk: usize) -> Vec<u8> {
        let mut previous = seed.to_owned();
        let mut framed = Vec::new();
        for piece in body.chunks(chunk).chain([&[][..]]) {
            let string_to_sign = format!(
                "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{previous}\n{EMPTY_SHA256}\n{}",
                self.timestamp(),
                self.scope(),
                sha256(piece)
            );
            previous = self.sign(&string_to_sign);
            framed.extend(format!("{:x};chunk-signature={previous}\r\n", piece.len()).bytes());
            framed.extend_from_slice(piece);
            framed.extend_from_slice(b"\r\n");
        }
        framed
    }
}

// Example of AWS's documentation ("GET Object", signature calculations for the header).
#[test]
fn signer_agrees_with_the_documented_example() {
    let signer = Signer {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        region: "us-east-1".to_owned(),
        at: "2013-05-24T00:00:00Z".parse().unwrap(),
    };
    let headers = [
        ("host", "examplebucket.s3.amazonaws.com"),
        ("range", "bytes=0-9"),
        ("x-amz-content-sha256", EMPTY_SHA256),
        ("x-amz-date", "20130524T000000Z"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));

    let (_, signature) = signer.header("GET", "/test.txt", &[], &headers, EMPTY_SHA256);

    assert_eq!(
        signature,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
}
