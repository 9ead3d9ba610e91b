//! A body that does not arrive whole leaves nothing behind, however its connection ends.

use crate::client::Client;
use crate::harness::{BUCKET, Payload, Request, Server};

#[derive(Debug, Clone, Copy)]
enum End {
    Close,
    HalfClose,
    Reset,
}

const PAYLOADS: [Payload; 5] = [
    Payload::Sha256,
    Payload::Unsigned,
    Payload::Chunked,
    Payload::Trailer,
    Payload::Presigned,
];

/// Inline and through the pool.
const SIZES: [usize; 2] = [1000, 1_500_000];

fn end(client: Client, how: End) {
    match how {
        End::Close => drop(client),
        End::Reset => client.reset(),
        End::HalfClose => {
            client.half_close();
            let answer = String::from_utf8_lossy(&client.until_end()).into_owned();
            assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}

/// Sends all but the last `missing` bytes of what is announced.
fn cut(server: &Server, request: &Request, missing: usize, how: End) {
    let (head, body) = request.bytes();
    let mut client = server.client();
    client.write(&head);
    client.write(&body[..body.len() - missing]);
    end(client, how);
}

#[test]
fn nothing_new_appears_and_the_old_object_stays() {
    let server = Server::start();
    let mut cases = 0;
    let mut keys = Vec::new();
    for payload in PAYLOADS {
        for size in SIZES {
            for how in [End::Close, End::HalfClose, End::Reset] {
                // The last byte, half of it, everything but the first byte.
                for missing in [1, size / 2, size - 1] {
                    let key = format!("{payload:?}-{size}-{how:?}-{missing}").to_lowercase();
                    assert_eq!(server.put(&format!("old-{key}"), b"old").status, 200);
                    for name in ["old", "new"] {
                        let path = format!("/{BUCKET}/{name}-{key}");
                        let request = Request::new("PUT", &path)
                            .payload(payload)
                            .body(&vec![b'n'; size]);
                        cut(&server, &request, missing, how);
                        cases += 1;
                    }
                    keys.push(key);
                }
            }
        }
    }
    server.await_metric("filestore_s3_requests_in_flight", 0.0);
    let volume = server.stop();

    let server = Server::start_on(volume, |_| {});
    for key in &keys {
        let old = server.get(&format!("old-{key}"));
        assert_eq!(
            (old.status, old.body.as_slice()),
            (200, &b"old"[..]),
            "{key}"
        );
        assert_eq!(server.get(&format!("new-{key}")).status, 404, "{key}");
    }
    let listing = Request::new("GET", "/bucket").query("list-type", "2");
    let listing = server.client().send(&listing).text();
    assert_eq!(listing.matches("<Key>old-").count(), keys.len());
    assert_eq!(listing.matches("<Key>").count(), keys.len());
    assert_eq!(cases, keys.len() * 2);
}

#[test]
fn chunked_bodies_shorter_than_announced_are_refused() {
    // Complete for HTTP, but not what x-amz-decoded-content-length says.
    let server = Server::start();
    for payload in [Payload::Chunked, Payload::Trailer] {
        let request = Request::new("PUT", "/bucket/short")
            .payload(payload)
            .body(b"12345");
        let (head, body) = request.bytes();
        let head = String::from_utf8(head).unwrap();
        // Not among the signed parts' lengths: re-sign with another announcement.
        let announced = Request::new("PUT", "/bucket/short")
            .payload(payload)
            .body(b"1234567");
        let (longer, _) = announced.bytes();
        let length = format!("Content-Length: {}\r\n", body.len());
        let longer = String::from_utf8(longer).unwrap();
        let start = longer.find("Content-Length").unwrap();
        let rest = longer[start..].split_once("\r\n").unwrap().1;
        let longer = format!("{}{length}{rest}", &longer[..start]);
        assert_ne!(longer, head);
        let mut client = server.client();
        client.write(longer.as_bytes());
        client.write(&body);

        let response = client.response(false);

        assert!(matches!(response.status, 400 | 403), "{response:?}");
        assert_eq!(server.get("short").status, 404);
    }
}

#[test]
fn parts_that_do_not_arrive_whole_are_not_listed() {
    let server = Server::start();
    let mut client = server.client();
    let created = client.send(&Request::new("POST", "/bucket/m").query("uploads", ""));
    let id = created.element("UploadId").unwrap();
    for how in [End::Close, End::HalfClose, End::Reset] {
        for size in SIZES {
            let request = Request::new("PUT", "/bucket/m")
                .query("partNumber", "1")
                .query("uploadId", &id)
                .body(&vec![b'p'; size]);
            cut(&server, &request, 1, how);
        }
    }
    server.await_metric("filestore_s3_requests_in_flight", 0.0);

    let parts = client.send(&Request::new("GET", "/bucket/m").query("uploadId", &id));

    assert_eq!(parts.status, 200);
    assert!(!parts.text().contains("<Part>"), "{}", parts.text());
}

#[test]
fn a_body_with_another_hash_is_refused() {
    let server = Server::start();
    for size in SIZES {
        let request = Request::new("PUT", "/bucket/hash").body(&vec![b'a'; size]);
        let (head, mut body) = request.bytes();
        body[size / 2] = b'b';
        let mut client = server.client();
        client.write(&head);
        client.write(&body);

        let response = client.response(false);

        assert_eq!(
            response.error(),
            (400, Some("XAmzContentSHA256Mismatch".to_owned()))
        );
        assert_eq!(server.get("hash").status, 404);
    }
}
