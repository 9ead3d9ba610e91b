//! Connections, ids, refused bodies, virtual hosts, drain.

use std::net::TcpStream;

use filestore_common::shutdown::CancellationToken;
use filestore_gateway::{Error, Gateway, Listen};

use crate::harness::{Payload, Request, Server, config};

#[test]
fn connections_are_kept_alive_also_after_errors() {
    let server = Server::start();
    let mut client = server.client();

    let put = client.send(&Request::new("PUT", "/bucket/a").body(b"one"));
    let missing = client.send(&Request::new("GET", "/bucket/none"));
    let head = client.send(&Request::new("HEAD", "/bucket/none"));
    let got = client.send(&Request::new("GET", "/bucket/a"));

    assert_eq!(put.status, 200);
    assert_eq!(missing.error(), (404, Some("NoSuchKey".to_owned())));
    assert_eq!((head.status, head.body.len()), (404, 0));
    assert_eq!((got.status, got.body.as_slice()), (200, &b"one"[..]));
    for response in [put, missing, head, got] {
        assert_eq!(response.header("connection"), None);
    }
}

#[test]
fn every_answer_carries_its_request_id() {
    let server = Server::start();
    let good = server.client().send(&Request::new("GET", "/"));
    let bad = server.get("a&b");
    let refused = server
        .client()
        .send(&Request::new("GET", "/x?AWSAccessKeyId=a&Signature=b&Expires=1").unsigned());

    for response in [&good, &bad, &refused] {
        let id = response.header("x-amz-request-id").unwrap();
        assert_eq!(id.len(), 16, "{id}");
        assert!(response.header("x-amz-id-2").is_some());
        assert_eq!(response.header("server"), Some("Filestore"));
        assert!(httpdate::parse_http_date(response.header("date").unwrap()).is_ok());
    }
    for response in [&bad, &refused] {
        assert_eq!(
            response.element("RequestId").as_deref(),
            response.header("x-amz-request-id")
        );
        assert_eq!(response.header("content-type"), Some("application/xml"));
        assert!(response.element("Message").is_some());
    }
    assert_eq!(bad.element("Resource").as_deref(), Some("/bucket/a&amp;b"));
    assert_ne!(
        good.header("x-amz-request-id"),
        bad.header("x-amz-request-id")
    );
}

#[test]
fn answer_to_a_refused_body_is_seen_and_the_connection_stays_usable() {
    let server = Server::start();
    let body = vec![7; 20 * 1024 * 1024];
    let mut client = server.client();

    // A client that sends everything before it reads.
    let refused = client.send(
        &Request::new("PUT", "/bucket/big")
            .body(&body)
            .signed_by(|signer| signer.secret_key = "wrong".to_owned()),
    );
    let missing = client.send(&Request::new("PUT", "/nobody/big").body(&body));
    let next = client.send(&Request::new("GET", "/bucket/big"));

    assert_eq!(
        refused.error(),
        (403, Some("SignatureDoesNotMatch".to_owned()))
    );
    assert_eq!(missing.error(), (404, Some("NoSuchBucket".to_owned())));
    assert_eq!(next.error(), (404, Some("NoSuchKey".to_owned())));
}

#[test]
fn expect_continue_is_answered_before_the_body_and_not_when_refused() {
    let server = Server::start();
    let request = Request::new("PUT", "/bucket/a")
        .body(b"body")
        .payload(Payload::Unsigned)
        .header("Expect", "100-continue");
    let (head, body) = request.bytes();
    let mut client = server.client();
    client.write(&head);
    assert_eq!(client.response(false).status, 100);
    client.write(&body);
    assert_eq!(client.response(false).status, 200);

    let request = request.signed_by(|signer| signer.secret_key = "wrong".to_owned());
    client.write(&request.bytes().0);
    let refused = client.response(false);

    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(client.at_end());
}

#[test]
fn an_encoded_slash_does_not_reach_into_a_bucket() {
    let server = Server::start();
    assert_eq!(server.put("key", b"x").status, 200);

    let response = server.client().send(&Request::new("GET", "/bucket%2Fkey"));

    assert_eq!(
        response.error(),
        (400, Some("InvalidBucketName".to_owned()))
    );
}

#[test]
fn virtual_hosts_name_buckets_and_other_hosts_do_not() {
    let server = Server::start_with(|config| config.virtual_domains = vec!["s3.test".to_owned()]);
    let mut client = server.client();
    assert_eq!(client.send(&Request::new("PUT", "/bucket")).status, 200);

    let put = Request::new("PUT", "/key")
        .host("bucket.s3.test:9000")
        .body(b"virtual");
    assert_eq!(client.send(&put).status, 200);

    let path_style = Request::new("GET", "/bucket/key").host("ryax-minio.ryax.svc:9000");
    assert_eq!(client.send(&path_style).body, b"virtual");
    let of_domain = Request::new("GET", "/bucket/key").host("s3.test");
    assert_eq!(client.send(&of_domain).body, b"virtual");
}

#[test]
fn health_path_needs_no_signature() {
    let server = Server::start_with(|config| config.health_path = Some("/_/health".to_owned()));

    let healthy = server
        .client()
        .send(&Request::new("GET", "/_/health").unsigned());
    let other = server
        .client()
        .send(&Request::new("GET", "/_/other").unsigned());

    assert_eq!((healthy.status, healthy.text().as_str()), (200, "OK"));
    assert_eq!(other.status, 403);
}

#[test]
fn shutdown_lets_requests_in_flight_finish() {
    let server = Server::start();
    let request = Request::new("PUT", "/bucket/slow").body(b"slow body");
    let (head, body) = request.bytes();
    let mut slow = server.client();
    slow.write(&head);
    slow.write(&body[..4]);
    let mut idle = server.client();
    assert_eq!(idle.send(&Request::new("GET", "/")).status, 200);
    server.await_metric("filestore_s3_requests_in_flight", 1.0);

    server.gateway.shutdown();

    assert!(idle.at_end(), "idle connections are closed at once");
    assert_eq!(server.admin("/readyz").status, 503);
    assert_eq!(server.admin("/healthz").status, 200);
    slow.write(&body[4..]);
    let answer = slow.response(false);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    let address = server.address();
    let volume = server.stop();
    assert!(TcpStream::connect(address).is_err());
    let again = Server::start_on(volume, |_| {});
    assert_eq!(again.get("slow").body, b"slow body");
}

#[test]
fn shutdown_does_not_wait_longer_than_the_grace_period() {
    let server = Server::start_with(|config| config.grace = std::time::Duration::ZERO);
    let mut client = server.client();
    assert_eq!(client.send(&Request::new("PUT", "/bucket")).status, 200);
    let (head, body) = Request::new("PUT", "/bucket/slow")
        .body(b"slow body")
        .bytes();
    client.write(&head);
    client.write(&body[..4]);
    server.await_metric("filestore_s3_requests_in_flight", 1.0);

    let volume = server.stop();

    let again = Server::start_on(volume, |_| {});
    assert_eq!(again.get("slow").status, 404);
}

#[test]
fn oversized_heads_are_refused_and_malformed_ones_too() {
    let server = Server::start();
    let mut client = server.client();
    let long = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nx: {}\r\n\r\n",
        "y".repeat(100_000)
    );
    client.write(long.as_bytes());
    assert_eq!(client.response(false).status, 431);

    let mut client = server.client();
    client.write(b"nonsense\r\n\r\n");
    assert_eq!(client.response(false).status, 400);
    assert_eq!(server.get("still-there").status, 404);
}

#[test]
fn a_port_in_use_is_said_in_one_line() {
    let server = Server::start();
    let volume = tempfile::tempdir().unwrap();
    let mut second = config(volume.path());
    second.listen = vec![Listen::At(server.address())];

    let error = Gateway::start(&second, &CancellationToken::new()).unwrap_err();

    assert!(matches!(error, Error::Bind { .. }));
    let text = error.to_string();
    assert!(text.contains(&server.address().to_string()), "{text}");
    assert!(
        text.contains("another process") && !text.contains('\n'),
        "{text}"
    );
}

#[test]
fn all_file_work_may_go_to_the_pool() {
    let server = Server::start_with(|config| config.blocking_io = true);
    let mut client = server.client();
    assert_eq!(client.send(&Request::new("PUT", "/bucket")).status, 200);
    let body: Vec<u8> = (0..=250).cycle().take(300_000).collect();

    for key in ["small", "large"] {
        let body = if key == "small" { &body[..10] } else { &body };
        assert_eq!(server.put(key, body).status, 200);
        assert!(server.get(key).body == body);
    }
}
