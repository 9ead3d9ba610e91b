//! What buckets may hold.

use filestore_gateway::AccessSources;

use crate::client::Response;
use crate::harness::{Request, Server, form, signer, until};

const COUNTED: &str = "filestore_bucket_counted{bucket=\"bucket\"} ";
const SIZE: &str = "filestore_bucket_size_bytes{bucket=\"bucket\"} ";
const OBJECTS: &str = "filestore_bucket_objects{bucket=\"bucket\"} ";

fn refused(response: &Response) -> bool {
    let code = "XMinioAdminBucketQuotaExceeded".to_owned();
    let is = response.error() == (400, Some(code));
    assert!(is || response.status < 300, "{response:?}");
    is
}

/// A form that root signed, with a file of this size.
fn form_of(size: usize) -> Request {
    use base64::Engine as _;
    let signer = signer();
    let (credential, date) = (signer.credential(), signer.timestamp());
    let policy = format!(
        r#"{{"expiration":"2099-01-01T00:00:00Z","conditions":[{{"bucket":"bucket"}},
            ["starts-with","$key",""],{{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},
            {{"x-amz-credential":"{credential}"}},{{"x-amz-date":"{date}"}}]}}"#
    );
    let policy = base64::engine::general_purpose::STANDARD.encode(policy);
    let signature = signer.sign(&policy);
    let content = "x".repeat(size);
    form(&[
        ("key", "form"),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", &credential),
        ("x-amz-date", &date),
        ("policy", &policy),
        ("x-amz-signature", &signature),
        ("file", &content),
    ])
}

#[test]
fn every_way_to_write_holds_to_the_quota() {
    let mount = tempfile::tempdir().unwrap();
    let file = mount.path().join("access.json");
    std::fs::write(
        &file,
        r#"{"buckets": [{"name": "bucket", "quota": "1Ki"}]}"#,
    )
    .unwrap();
    let server = Server::start_with(|config| {
        config.access = AccessSources {
            files: vec![file.clone()],
            directories: Vec::new(),
        };
        config.credentials_period = std::time::Duration::from_millis(5);
    });
    let send = |request: Request| server.client().send(&request);
    assert_eq!(send(Request::new("PUT", "/bucket")).status, 200);
    assert_eq!(send(Request::new("PUT", "/other")).status, 200);
    let big = vec![1; 2000];
    assert_eq!(
        send(Request::new("PUT", "/other/big").body(&big)).status,
        200
    );

    // Before a byte of the body was read.
    assert!(refused(&server.put("a", &big)));
    assert!(!refused(&server.put("a", &[1; 1000])));
    assert!(refused(&server.put("b", &[1; 25])));
    assert!(!refused(&server.put("b", &[1; 24])));
    // Full. Replacing by as much is possible, and so is deleting.
    assert!(!refused(&server.put("a", &[2; 1000])));
    assert!(refused(&server.put("a", &[2; 1001])));
    let copy =
        |from: &str, to: &str| send(Request::new("PUT", to).header("x-amz-copy-source", from));
    assert!(refused(&copy("/bucket/b", "/bucket/c")));
    assert!(refused(&copy("/other/big", "/bucket/a")));
    let upload = send(Request::new("POST", "/bucket/m").query("uploads", ""));
    let id = upload.element("UploadId").unwrap();
    let part = |number: &str| {
        Request::new("PUT", "/bucket/m")
            .query("partNumber", number)
            .query("uploadId", &id)
    };
    assert!(refused(&send(part("1").body(&[3; 100]))));
    assert!(refused(&send(
        part("1").header("x-amz-copy-source", "/other/big")
    )));
    assert_eq!(send(Request::new("DELETE", "/bucket/a")).status, 204);
    // Parts are no object yet; their sum is.
    let first = send(part("1").body(&[3; 700]));
    assert!(!refused(&first));
    assert!(!refused(&server.put("a", &[1; 900])));
    let etag = first.header("etag").unwrap().to_owned();
    let complete = || {
        let parts = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let complete = Request::new("POST", "/bucket/m").query("uploadId", &id);
        send(complete.body(parts.as_bytes()))
    };
    assert!(refused(&complete()));
    assert_eq!(send(Request::new("DELETE", "/bucket/a")).status, 204);
    assert!(!refused(&complete()));

    assert!(refused(&send(form_of(400))));
    assert!((server.metric(SIZE) - 724.0).abs() < 0.1);
    assert!((server.metric(OBJECTS) - 2.0).abs() < 0.1);
    assert!((server.metric(COUNTED) - 1.0).abs() < 0.1);
    let quota = "filestore_bucket_quota_bytes{bucket=\"bucket\"} ";
    assert!((server.metric(quota) - 1024.0).abs() < 0.1);
    // A larger quota is taken over without a restart.
    std::fs::write(
        &file,
        r#"{"buckets": [{"name": "bucket", "quota": 10000, "maxObjects": 3}]}"#,
    )
    .unwrap();
    until("the new quota", || !refused(&server.put("c", &[1; 2000])));
    assert!(refused(&server.put("d", b"")));
    assert!(!refused(&server.put("c", b"")));
}

#[test]
fn usage_is_counted_at_start() {
    let server = Server::start();
    for number in 0..20 {
        server.put(&format!("k/{number}"), &[1; 10]);
    }
    assert!((server.metric(SIZE) - 200.0).abs() < 0.1);
    let volume = server.stop();
    let counters = volume.path().join(".filestore/counters");
    assert!(counters.is_file());
    // Written by somebody else while no gateway ran.
    std::fs::write(volume.path().join("s3/bucket/by-hand"), [1; 7]).unwrap();

    let server = Server::start_on(volume, |_| {});

    assert!(!counters.exists());
    server.await_metric(SIZE, 207.0);
    server.await_metric(OBJECTS, 21.0);
    server
        .client()
        .send(&Request::new("DELETE", "/bucket/by-hand"));
    assert!((server.metric(SIZE) - 200.0).abs() < 0.1);
}
