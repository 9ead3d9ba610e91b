//! Bodies on their way out, byte for byte: small and large, sent by the kernel and copied.

use crate::harness::{Request, Server};

fn bytes(length: usize) -> Vec<u8> {
    // 251 is prime: no page or slice starts with the same byte as another.
    (0..=250).cycle().take(length).collect()
}

/// Below the inline limit, around a slice's size, and several slices.
const SIZES: [usize; 7] = [
    0,
    1,
    65_535,
    65_536,
    1_000_000,
    4 * 1024 * 1024,
    9 * 1024 * 1024 + 17,
];

#[test]
fn bodies_and_ranges_are_exact() {
    for sendfile in [true, false] {
        let server = Server::start_with(|config| config.sendfile = sendfile);
        let mut client = server.client();
        assert_eq!(client.send(&Request::new("PUT", "/bucket")).status, 200);
        for size in SIZES {
            let body = bytes(size);
            assert_eq!(server.put("k", &body).status, 200);
            assert!(client.send(&Request::new("GET", "/bucket/k")).body == body);
            let head = client.send(&Request::new("HEAD", "/bucket/k"));
            assert_eq!(
                head.header("content-length"),
                Some(size.to_string().as_str())
            );
            for (first, last) in [(0, 0), (1, 70_000), (size / 2, size.saturating_sub(2))] {
                if first > last || last >= size {
                    continue;
                }
                let range = format!("bytes={first}-{last}");
                let part = client.send(&Request::new("GET", "/bucket/k").header("Range", &range));
                assert_eq!(part.status, 206, "{size} {range}");
                assert!(part.body == body[first..=last], "{size} {range}");
            }
        }
    }
}

#[test]
fn pipelined_answers_do_not_mix() {
    let server = Server::start();
    let (first, second) = (bytes(3_000_000), bytes(3_000_000)[7..].to_vec());
    server.put("first", &first);
    server.put("second", &second);
    let mut client = server.client();
    let order = ["first", "second", "none", "second", "first"];
    for key in order {
        let (head, _) = Request::new("GET", &format!("/bucket/{key}")).bytes();
        client.write(&head);
    }

    for key in order {
        let response = client.response(false);
        match key {
            "first" => assert!(response.body == first),
            "second" => assert!(response.body == second),
            _ => assert_eq!(response.status, 404),
        }
    }
}

#[test]
fn a_reader_sees_one_version_while_it_is_replaced() {
    let server = Server::start();
    let (old, new) = (vec![b'o'; 8_000_000], vec![b'n'; 100]);
    server.put("k", &old);
    let mut client = server.client();
    let (head, _) = Request::new("GET", "/bucket/k").bytes();
    client.write(&head);
    server.await_metric(
        r#"filestore_s3_time_to_first_byte_seconds_count{operation="GetObject"}"#,
        1.0,
    );

    server.put("k", &new);

    assert!(client.response(false).body == old);
    assert!(server.get("k").body == new);
}

#[test]
fn a_client_that_leaves_half_way_harms_nobody() {
    let server = Server::start();
    let body = bytes(8_000_000);
    server.put("k", &body);
    for _ in 0..20 {
        let mut client = server.client();
        let (head, _) = Request::new("GET", "/bucket/k").bytes();
        client.write(&head);
        client.reset();
    }

    assert!(server.get("k").body == body);
    server.await_metric("filestore_s3_requests_in_flight", 0.0);
}

#[test]
fn a_file_that_becomes_shorter_ends_the_connection_instead_of_the_body() {
    let server = Server::start();
    let body = bytes(32_000_000);
    server.put("k", &body);
    let mut client = server.client();
    let (head, _) = Request::new("GET", "/bucket/k").bytes();
    client.write(&head);
    server.await_metric(
        r#"filestore_s3_time_to_first_byte_seconds_count{operation="GetObject"}"#,
        1.0,
    );

    // Not through the gateway, which never changes a file: some process on the volume.
    let file = server.volume.path().join("s3/bucket/k");
    let shorter = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    let cut = 4_096_000;
    shorter.set_len(cut).unwrap();

    let received = client.until_end();
    let start = received
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    let received = &received[start..];
    assert!(received.len() < body.len());
    let cut = usize::try_from(cut).unwrap().min(received.len());
    assert!(received[..cut] == body[..cut]);
    // What lay in the socket's queue when the file was cut are the pages themselves. Those behind
    // the cut have left the file with their bytes, but the folio that is cut in two is zeroed to
    // its end (mm/truncate.c, `truncate_inode_partial_folio`). Seen without this program too:
    // sendfile into a socket that nobody reads, ftruncate, read (Linux 6.18, ext4, this cut): a
    // file written in pages of 4 KiB keeps all bytes, one written in 64 KiB is zero from page
    // 1000 up to 1008, one written in 1 MiB or read ahead up to 1024; on tmpfs no byte changes.
    let zeroed = (cut..received.len())
        .rev()
        .find(|at| received[*at] != body[*at])
        .map_or(cut, |last| last + 1);
    assert!(received[cut..zeroed].iter().all(|byte| *byte == 0));
    assert!(zeroed.is_multiple_of(4096) || zeroed == received.len());
}
