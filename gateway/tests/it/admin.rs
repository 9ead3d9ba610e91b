//! The admin port.

use crate::harness::{Request, Server};

#[test]
fn metrics_count_what_happened() {
    let server = Server::start();
    server.put("k", b"12345");
    server.put("k", b"12345");
    server.get("k");
    server.get("none");
    server
        .client()
        .send(&Request::new("GET", "/bucket").unsigned());
    let wrong = Request::new("GET", "/bucket").signed_by(|signer| signer.secret_key.push('x'));
    server.client().send(&wrong);
    server.await_metric("filestore_s3_requests_in_flight", 0.0);

    let text = server.admin("/metrics").text();

    for line in [
        r#"filestore_s3_requests_total{operation="CreateBucket",code="200"} 1"#,
        r#"filestore_s3_requests_total{operation="PutObject",code="200"} 2"#,
        r#"filestore_s3_requests_total{operation="GetObject",code="200"} 1"#,
        r#"filestore_s3_requests_total{operation="GetObject",code="404"} 1"#,
        r#"filestore_s3_requests_total{operation="ListObjects",code="403"} 1"#,
        r#"filestore_s3_requests_total{operation="Unknown",code="403"} 1"#,
        r#"filestore_s3_request_duration_seconds_count{operation="PutObject"} 2"#,
        r#"filestore_s3_time_to_first_byte_seconds_count{operation="PutObject"} 2"#,
        "filestore_s3_received_bytes_total 10",
    ] {
        assert!(text.lines().any(|had| had == line), "{line}\n{text}");
    }
    assert!(server.metric("filestore_s3_sent_bytes_total") > 5.0);
    assert!(server.metric("filestore_store_size_bytes") > 0.0);
    assert!(server.metric("filestore_store_available_bytes") > 0.0);
    let build = format!(
        r#"filestore_build_info{{version="{}""#,
        env!("CARGO_PKG_VERSION")
    );
    assert!(text.contains(&build));
    // A label never holds what a client chose, but for what is counted of buckets that exist.
    assert!(!text.contains("none"), "{text}");
    for line in text.lines().filter(|line| line.contains("bucket\"")) {
        assert!(line.starts_with("filestore_bucket_"), "{line}");
    }
}

#[test]
fn health_readiness_and_status_page() {
    let server = Server::start();

    assert_eq!(server.admin("/healthz").status, 200);
    assert_eq!(server.admin("/readyz").status, 200);
    let page = server.admin("/");
    assert!(page.text().contains("<h1>Filestore"));
    assert_eq!(server.admin("/bucket/k").status, 404);
}

#[test]
fn not_ready_before_the_migration_handed_the_volume_over() {
    let server = Server::start_with(|config| config.require_marker = Some("run-7".to_owned()));
    let before = server.admin("/readyz");
    assert_eq!(before.status, 503);
    assert!(before.text().contains("migration"), "{}", before.text());
    // The S3 port serves all the same: the canary goes straight to it.
    assert_eq!(server.client().send(&Request::new("GET", "/")).status, 200);

    let marker = r#"{"version":1,"runId":"run-7","state":"cutover","holder":"h",
        "startedAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z",
        "source":{"kind":"s3","location":"http://minio","buckets":[]},
        "carried":{"buckets":0,"objects":0,"bytes":0}}"#;
    std::fs::write(
        server.volume.path().join(".filestore/migration.json"),
        marker,
    )
    .unwrap();

    crate::harness::until("readiness", || server.admin("/readyz").status == 200);
}

#[test]
fn not_ready_when_the_volume_cannot_be_written() {
    let server = Server::start();
    assert_eq!(server.admin("/readyz").status, 200);

    std::fs::remove_dir_all(server.volume.path()).unwrap();

    crate::harness::until("unreadiness", || server.admin("/readyz").status == 503);
    assert_eq!(server.admin("/healthz").status, 200);
}
