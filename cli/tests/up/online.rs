//! A source that is an endpoint: down, refusing, or no longer there. The take-over itself from a
//! real MinIO is in `e2e/`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::harness::{Workplace, example};

fn with_source(endpoint: &str) -> Workplace {
    let work = Workplace::new();
    let manifest = example("online.yaml");
    assert!(manifest.contains("http://127.0.0.1:9100"));
    work.write(
        "m.yaml",
        &manifest.replace("http://127.0.0.1:9100", endpoint),
    );
    work
}

/// Never an empty store beside one that is merely down.
#[test]
fn waits_for_a_source_that_is_down_until_it_is_stopped() {
    // Bound and not accepting would hang; a closed port refuses.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let work = with_source(&format!("http://{closed}"));
    let before = work.files("");

    let mut child = work.start(&[]);
    let mut errors = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();

    assert!(
        line.starts_with("waiting: ") && line.contains(&closed.to_string()),
        "{line}"
    );
    assert_eq!(child.interrupt(), Some(130));
    let mut output = String::new();
    child
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    assert!(!output.contains("Serving"), "{output}");
    assert_eq!(work.files(""), before, "something was written");
}

/// The keys are in the manifest: they will not change by waiting.
#[test]
fn wrong_secret_ends_at_once() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", server.local_addr().unwrap());
    // A store that refuses every signature, as S3 does it.
    thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let body = "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>";
            let answer = format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let work = with_source(&endpoint);
    let before = work.files("");

    let output = work.up(&[]);

    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(6), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("SignatureDoesNotMatch"), "{error}");
    assert!(!error.contains("Ab3dEf6hIj9k"), "{error}");
    assert_eq!(work.files(""), before, "something was written");
}

/// A name that does not exist (RFC 6761: `.invalid` never does) and an empty target: nothing to
/// take over, and the marker says so for every later run.
#[test]
fn a_source_that_does_not_exist_is_nothing_to_migrate() {
    let work = with_source("http://store.invalid:9000");

    let output = work.up_once();

    assert!(output.contains("nothing to migrate"), "{output}");
    let marker =
        std::fs::read_to_string(work.path("data/ryax-online/.filestore/migration.json")).unwrap();
    let marker: serde_json::Value = serde_json::from_str(&marker).unwrap();
    assert_eq!(
        (&marker["state"], &marker["source"]["kind"]),
        (&"cutover".into(), &"none".into())
    );
}
