//! `POST /.filestore/hand-over`, and what a gateway does on a volume that went back.

use crate::client::Response;
use crate::harness::{Payload, Request, Server, form, until};

fn mark(server: &Server, state: &str) {
    let marker = format!(
        r#"{{"version":1,"runId":"run-7","state":"{state}","holder":"h",
            "startedAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z",
            "source":{{"kind":"s3","location":"http://minio","buckets":[]}},
            "carried":{{"buckets":0,"objects":0,"bytes":0}}}}"#
    );
    std::fs::write(path(server), marker).unwrap();
}

fn path(server: &Server) -> std::path::PathBuf {
    server.volume.path().join(".filestore/migration.json")
}

fn state(server: &Server) -> String {
    json(&std::fs::read(path(server)).unwrap())["state"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

fn hand_over() -> Request {
    Request::new("POST", "/.filestore/hand-over").query("id", "run-7")
}

fn ask(server: &Server, request: &Request) -> Response {
    server.client().send(request)
}

#[test]
fn the_root_key_hands_a_verified_volume_over() {
    let server = Server::start_with(|config| config.require_marker = Some("run-7".to_owned()));
    mark(&server, "verified");
    until("unreadiness", || server.admin("/readyz").status == 503);

    let request = hand_over().signed_by(|signer| "elsewhere-1".clone_into(&mut signer.region));
    let answer = ask(&server, &request);

    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let told = json(&answer.body);
    assert_eq!(
        (&told["runId"], &told["state"]),
        (&"run-7".into(), &"cutover".into())
    );
    assert_eq!(told, json(&std::fs::read(path(&server)).unwrap()));
    // At once, although the answer before is less than a second old.
    assert_eq!(server.admin("/readyz").status, 200);
    // Again, also presigned: the same.
    assert_eq!(json(&ask(&server, &hand_over()).body), told);
}

#[test]
fn nobody_else_does_and_nothing_else() {
    let mount = tempfile::tempdir().unwrap();
    let users = mount.path().join("users.yaml");
    let everything = r#"{bucket: "*", access: readwrite}"#;
    let keys = "{accessKey: other, secretKey: secret}";
    let user = format!("users:\n- {{name: other, keys: [{keys}], grants: [{everything}]}}\n");
    std::fs::write(&users, user).unwrap();
    let server = Server::start_with(|config| config.access.files.push(users));
    let missing = ask(&server, &hand_over());
    assert_eq!(missing.status, 404, "{missing:?}");
    assert!(
        json(&missing.body)["error"]
            .as_str()
            .unwrap()
            .contains("no migration")
    );
    mark(&server, "verified");

    let other = hand_over().signed_by(|signer| {
        "other".clone_into(&mut signer.access_key);
        "secret".clone_into(&mut signer.secret_key);
    });
    for request in [other, hand_over().unsigned()] {
        let refused = ask(&server, &request);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(
            json(&refused.body)["error"]
                .as_str()
                .unwrap()
                .contains("root")
        );
    }
    let forged = hand_over().signed_by(|signer| "guess".clone_into(&mut signer.secret_key));
    assert_eq!(ask(&server, &forged).status, 403);
    let wrong = Request::new("POST", "/.filestore/hand-over").query("id", "run-8");
    let wrong = ask(&server, &wrong);
    assert_eq!(wrong.status, 404);
    assert!(
        json(&wrong.body)["error"]
            .as_str()
            .unwrap()
            .contains("run-7")
    );
    let unnamed = Request::new("POST", "/.filestore/hand-over");
    assert_eq!(ask(&server, &unnamed).status, 400);
    // Only this method, only this path.
    for (method, path) in [
        ("GET", "/.filestore/hand-over"),
        ("PUT", "/.filestore/hand-over"),
        ("POST", "/.filestore/hand-over/"),
        ("POST", "/.filestore"),
    ] {
        let refused = ask(&server, &Request::new(method, path).query("id", "run-7"));
        assert!(
            (400..500).contains(&refused.status),
            "{method} {path}: {refused:?}"
        );
    }
    assert_eq!(state(&server), "verified");

    for state in ["copying", "rollingBack", "rolledBack"] {
        mark(&server, state);
        let refused = ask(&server, &hand_over());
        assert_eq!(refused.status, 409, "{state}: {refused:?}");
        let told = json(&refused.body)["error"].as_str().unwrap().to_owned();
        assert!(told.contains(state), "{told}");
        assert_eq!(self::state(&server), state);
    }
}

#[test]
fn a_bucket_of_a_virtual_host_has_no_such_door() {
    let server = Server::start_with(|config| config.virtual_domains = vec!["s3.test".to_owned()]);
    mark(&server, "verified");
    let refused = ask(&server, &hand_over().host("bucket.s3.test"));
    assert_eq!(refused.status, 405, "{refused:?}");
    assert_eq!(state(&server), "verified");
    assert_eq!(ask(&server, &hand_over().host("s3.test")).status, 200);
}

#[test]
fn a_volume_that_went_back_takes_no_writes() {
    let server = Server::start();
    assert_eq!(server.put("k", b"kept").status, 200);
    for (state, cure) in [
        ("rollingBack", "roll-back --abandon"),
        ("rolledBack", "new migration id"),
    ] {
        mark(&server, state);
        until("unreadiness", || server.admin("/readyz").status == 503);
        assert!(server.admin("/readyz").text().contains("roll"));

        let writes = [
            Request::new("PUT", "/bucket/k").body(b"lost"),
            Request::new("PUT", "/bucket/k")
                .body(&vec![7; 700_000])
                .payload(Payload::Chunked),
            Request::new("PUT", "/bucket/k")
                .query("tagging", "")
                .body(b"<Tagging/>"),
            Request::new("DELETE", "/bucket/k"),
            Request::new("POST", "/bucket/k").query("uploads", ""),
            Request::new("POST", "/bucket")
                .query("delete", "")
                .body(b"<Delete/>"),
            Request::new("PUT", "/other"),
            Request::new("DELETE", "/bucket"),
            form(&[("key", "k"), ("file", "lost")]),
        ];
        for write in &writes {
            let refused = ask(&server, write);
            let told = (503, Some("ServiceUnavailable".to_owned()));
            assert_eq!(refused.error(), told, "{state}");
            assert!(refused.element("Message").unwrap().contains(cure));
        }
        // What is there can be read: `reverse` does.
        assert_eq!(server.get("k").body, b"kept");
        let listing = ask(
            &server,
            &Request::new("GET", "/bucket").query("list-type", "2"),
        );
        assert_eq!(listing.status, 200);
    }
    mark(&server, "cutover");
    assert_eq!(server.put("k", b"new").status, 200);
    until("readiness", || server.admin("/readyz").status == 200);
}

#[test]
fn a_marker_that_nobody_can_read_keeps_writers_out() {
    let server = Server::start();
    std::fs::write(path(&server), "{").unwrap();
    assert_eq!(server.put("k", b"x").status, 500);
    until("unreadiness", || server.admin("/readyz").status == 503);
    std::fs::remove_file(path(&server)).unwrap();
    assert_eq!(server.put("k", b"x").status, 200);
}
