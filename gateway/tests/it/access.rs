//! What users may do, through the front door.

use std::fmt::Write as _;
use std::path::Path;

use filestore_gateway::{AccessSources, Config};

use crate::client::Response;
use crate::harness::{Payload, Request, Server, form, signer, until};

/// Users by access key, each with one grant on `bucket` (but `everywhere` and `none`).
const USERS: &str = r#"
users:
- {name: in-reader, keys: [{accessKey: in-reader, secretKey: secret-of-in-reader}],
   grants: [{bucket: bucket, prefix: in/, access: read}]}
- {name: in-writer, keys: [{accessKey: in-writer, secretKey: secret-of-in-writer}],
   grants: [{bucket: bucket, prefix: in/, access: write}]}
- {name: reader, keys: [{accessKey: reader, secretKey: secret-of-reader}],
   grants: [{bucket: bucket, access: read}]}
- {name: writer, keys: [{accessKey: writer, secretKey: secret-of-writer}],
   grants: [{bucket: bucket, access: write}]}
- {name: both, keys: [{accessKey: both, secretKey: secret-of-both}],
   grants: [{bucket: bucket, access: readwrite}]}
- {name: everywhere, keys: [{accessKey: everywhere, secretKey: secret-of-everywhere}],
   grants: [{bucket: "*", access: readwrite}]}
- {name: none, keys: [{accessKey: none, secretKey: secret-of-none}], grants: []}
"#;

/// The users of [`USERS`], in the order of the columns of [`TABLE`].
const COLUMNS: [&str; 7] = [
    "in-reader",
    "in-writer",
    "reader",
    "writer",
    "both",
    "everywhere",
    "none",
];

/// (method, path, query, whom it is allowed: `+` or `-` per column). Whatever else the answer
/// says, it is not 403 where allowed.
const TABLE: &[(&str, &str, &str, &str)] = &[
    // Objects.
    ("GET", "/bucket/in/k", "", "+-+-++-"),
    ("GET", "/bucket/out/k", "", "--+-++-"),
    ("GET", "/other/in/k", "", "-----+-"),
    ("GET", "/bucket/in/missing", "", "+-+-++-"),
    ("GET", "/bucket/in/k", "tagging", "+-+-++-"),
    ("GET", "/bucket/in/k", "acl", "+-+-++-"),
    ("GET", "/bucket/in/k", "attributes", "+-+-++-"),
    ("GET", "/bucket/in/k", "retention", "+-+-++-"),
    ("GET", "/bucket/in/k", "legal-hold", "+-+-++-"),
    ("PUT", "/bucket/in/new", "", "-+-+++-"),
    ("PUT", "/bucket/out/new", "", "---+++-"),
    ("PUT", "/other/in/new", "", "-----+-"),
    ("PUT", "/bucket/in/k", "tagging", "-+-+++-"),
    ("PUT", "/bucket/in/k", "acl", "-+-+++-"),
    ("DELETE", "/bucket/in/k", "tagging", "-+-+++-"),
    ("DELETE", "/bucket/in/gone", "", "-+-+++-"),
    ("DELETE", "/bucket/out/gone", "", "---+++-"),
    // Names that look like others stay what they are.
    ("GET", "/bucket/in/../out/k", "", "+-+-++-"),
    ("GET", "/bucket//in/k", "", "--+-++-"),
    ("GET", "/bucket/inn/k", "", "--+-++-"),
    ("PUT", "/bucket/in", "", "---+++-"),
    // Uploads by parts.
    ("POST", "/bucket/in/m", "uploads", "-+-+++-"),
    ("POST", "/bucket/out/m", "uploads", "---+++-"),
    (
        "PUT",
        "/bucket/in/m",
        "partNumber=1&uploadId=none",
        "-+-+++-",
    ),
    (
        "PUT",
        "/bucket/out/m",
        "partNumber=1&uploadId=none",
        "---+++-",
    ),
    ("POST", "/bucket/out/m", "uploadId=none", "---+++-"),
    ("GET", "/bucket/in/m", "uploadId=none", "-+-+++-"),
    ("GET", "/bucket/out/m", "uploadId=none", "---+++-"),
    ("DELETE", "/bucket/out/m", "uploadId=none", "---+++-"),
    ("GET", "/bucket", "uploads=&prefix=in/", "-+-+++-"),
    ("GET", "/bucket", "uploads", "---+++-"),
    // Listings.
    ("GET", "/bucket", "list-type=2&prefix=in/", "+-+-++-"),
    ("GET", "/bucket", "list-type=2&prefix=in/deeper", "+-+-++-"),
    ("GET", "/bucket", "prefix=in/", "+-+-++-"),
    ("GET", "/bucket", "prefix=in/&delimiter=/", "+-+-++-"),
    ("GET", "/bucket", "versions=&prefix=in/", "+-+-++-"),
    ("GET", "/bucket", "list-type=2&prefix=in", "--+-++-"),
    ("GET", "/bucket", "list-type=2&prefix=", "--+-++-"),
    ("GET", "/bucket", "list-type=2&start-after=in/", "--+-++-"),
    ("GET", "/bucket", "list-type=2", "--+-++-"),
    ("GET", "/bucket", "list-type=2&prefix=out/", "--+-++-"),
    ("GET", "/bucket", "", "--+-++-"),
    ("GET", "/bucket", "prefix=out/", "--+-++-"),
    ("GET", "/bucket", "versions", "--+-++-"),
    ("GET", "/other", "list-type=2&prefix=in/", "-----+-"),
    // Buckets: any grant shows one, and what there is to know of it.
    ("GET", "/bucket", "location", "++++++-"),
    ("GET", "/bucket", "versioning", "++++++-"),
    ("GET", "/bucket", "policy", "++++++-"),
    ("GET", "/bucket", "tagging", "++++++-"),
    ("GET", "/other", "location", "-----+-"),
    ("GET", "/absent", "location", "-----+-"),
    ("PUT", "/bucket", "", "---+++-"),
    ("PUT", "/bucket-of-mine", "", "-----+-"),
    // What all users of a bucket share is root's.
    ("PUT", "/bucket", "tagging", "-------"),
    ("DELETE", "/bucket", "tagging", "-------"),
    ("PUT", "/bucket", "acl", "-------"),
    ("PUT", "/bucket", "policy", "-------"),
    ("DELETE", "/bucket", "policy", "-------"),
    ("PUT", "/bucket", "cors", "-------"),
    ("DELETE", "/bucket", "", "-------"),
    // Operations that are not here at all.
    ("GET", "/bucket", "inventory=&id=1", "-------"),
    ("PUT", "/bucket", "versioning", "-------"),
];

fn with_users(users: &str) -> (Server, tempfile::TempDir) {
    let mount = tempfile::tempdir().unwrap();
    std::fs::write(mount.path().join("access.yaml"), users).unwrap();
    let server = Server::start_with(|config| use_directory(config, mount.path()));
    for path in [
        "/bucket",
        "/other",
        "/bucket/in/k",
        "/bucket/out/k",
        "/other/in/k",
    ] {
        let put = Request::new("PUT", path);
        let put = if path.ends_with('k') {
            put.body(b"body")
        } else {
            put
        };
        assert_eq!(server.client().send(&put).status, 200, "{path}");
    }
    (server, mount)
}

fn use_directory(config: &mut Config, directory: &Path) {
    config.access = AccessSources {
        files: Vec::new(),
        directories: vec![directory.to_owned()],
    };
    config.credentials_period = std::time::Duration::from_millis(5);
}

fn by(user: &str, request: Request) -> Request {
    request.signed_by(|signer| {
        user.clone_into(&mut signer.access_key);
        signer.secret_key = format!("secret-of-{user}");
    })
}

fn ask(server: &Server, user: &str, request: Request) -> Response {
    server.client().send(&by(user, request))
}

fn request(method: &str, path: &str, query: &str) -> Request {
    let mut request = Request::new(method, path);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        request = request.query(name, value);
    }
    if query == "attributes" {
        request = request.header("x-amz-object-attributes", "ETag");
    }
    request
}

fn denied(response: &Response) -> bool {
    response.error() == (403, Some("AccessDenied".to_owned()))
}

#[test]
fn each_operation_is_allowed_to_whom_it_is_granted() {
    let (server, _mount) = with_users(USERS);
    let mut wrong = String::new();
    for (method, path, query, expected) in TABLE {
        let mut found = String::new();
        for user in COLUMNS {
            let response = ask(&server, user, request(method, path, query));
            let allowed = response.status != 403;
            assert!(allowed || denied(&response), "{response:?}");
            found.push(if allowed { '+' } else { '-' });
        }
        if found != *expected {
            writeln!(
                wrong,
                "{method} {path}?{query}: {found} but should be {expected}"
            )
            .unwrap();
        }
        let root = server.client().send(&request(method, path, query));
        assert_ne!(root.status, 403, "{method} {path}?{query}: {root:?}");
        // Root may have removed what the next line asks for.
        for path in ["/bucket", "/bucket/in/k"] {
            server.client().send(&Request::new("PUT", path));
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn a_head_is_allowed_as_a_get() {
    let (server, _mount) = with_users(USERS);
    for (user, path, status) in [
        ("in-reader", "/bucket/in/k", 200),
        ("in-reader", "/bucket/out/k", 403),
        ("in-writer", "/bucket/in/k", 403),
        ("in-writer", "/bucket", 200),
        ("none", "/bucket", 403),
        ("none", "/absent", 403),
    ] {
        let response = ask(&server, user, Request::new("HEAD", path));
        assert_eq!(response.status, status, "{user} {path}");
    }
}

#[test]
fn unknown_keys_and_wrong_secrets_are_told_as_for_root() {
    let (server, _mount) = with_users(USERS);
    let wrong = Request::new("GET", "/bucket/in/k").signed_by(|signer| {
        "reader".clone_into(&mut signer.access_key);
        "secret-of-both".clone_into(&mut signer.secret_key);
    });
    let response = server.client().send(&wrong);
    assert_eq!(response.error().1.as_deref(), Some("SignatureDoesNotMatch"));

    let unknown = ask(&server, "nobody", Request::new("GET", "/bucket/in/k"));
    assert_eq!(unknown.error().1.as_deref(), Some("InvalidAccessKeyId"));
    assert_eq!(unknown.status, 403);
}

#[test]
fn users_see_their_buckets_only() {
    let (server, _mount) = with_users(USERS);
    for (user, expected) in [
        ("in-writer", vec!["bucket"]),
        ("reader", vec!["bucket"]),
        ("everywhere", vec!["bucket", "other"]),
        ("none", vec![]),
    ] {
        let response = ask(&server, user, Request::new("GET", "/"));
        assert_eq!(response.status, 200, "{user}");
        let text = response.text();
        let names: Vec<_> = text
            .split("<Name>")
            .skip(1)
            .filter_map(|rest| rest.split("</Name>").next())
            .collect();
        assert_eq!(names, expected, "{user}");
    }
}

#[test]
fn a_copy_needs_both_ends() {
    let users = r"
users:
- {name: mover, keys: [{accessKey: mover, secretKey: secret-of-mover}],
   grants: [{bucket: bucket, prefix: in/, access: read}, {bucket: bucket, prefix: done/, access: write}]}
";
    let (server, _mount) = with_users(users);
    let upload = Request::new("POST", "/bucket/done/m").query("uploads", "");
    let upload = ask(&server, "mover", upload).element("UploadId").unwrap();
    for (source, target, allowed) in [
        ("/bucket/in/k", "/bucket/done/k", true),
        ("bucket/in%2Fk", "/bucket/done/k", true),
        ("/bucket/out/k", "/bucket/done/k", false),
        ("/bucket/in/k", "/bucket/out/k", false),
        ("/other/in/k", "/bucket/done/k", false),
        ("/bucket/done/k", "/bucket/done/k2", false),
        ("/absent/k", "/bucket/done/k", false),
    ] {
        let copy = Request::new("PUT", target).header("x-amz-copy-source", source);
        let response = ask(&server, "mover", copy);
        assert_eq!(
            !denied(&response),
            allowed,
            "{source} {target} {response:?}"
        );
        let part = Request::new("PUT", &target.replace("/k", "/m"))
            .query("partNumber", "1")
            .query("uploadId", &upload)
            .header("x-amz-copy-source", source);
        let response = ask(&server, "mover", part);
        if !target.ends_with("k2") {
            assert_eq!(
                !denied(&response),
                allowed,
                "part: {source} {target} {response:?}"
            );
        }
    }
    assert_eq!(server.get("done/k").body, b"body");
}

#[test]
fn deleting_many_answers_for_each_key() {
    let (server, _mount) = with_users(USERS);
    let body =
        b"<Delete><Object><Key>in/k</Key></Object><Object><Key>out/k</Key></Object></Delete>";
    let delete = || {
        use base64::Engine as _;
        let md5 = filestore_common::digest::md5(body);
        Request::new("POST", "/bucket")
            .query("delete", "")
            .header(
                "Content-MD5",
                &base64::engine::general_purpose::STANDARD.encode(md5),
            )
            .body(body)
    };
    let of_reader = ask(&server, "reader", delete());
    assert_eq!(of_reader.status, 200);
    assert_eq!(
        of_reader
            .text()
            .matches("<Code>AccessDenied</Code>")
            .count(),
        2
    );
    assert_eq!(server.get("in/k").status, 200);

    let of_writer = ask(&server, "in-writer", delete());
    assert_eq!(of_writer.status, 200);
    let text = of_writer.text();
    assert!(text.contains("<Deleted><Key>in/k</Key>"), "{text}");
    assert_eq!(text.matches("<Code>AccessDenied</Code>").count(), 1);
    assert_eq!(server.get("in/k").status, 404);
    assert_eq!(server.get("out/k").status, 200);

    assert!(denied(&ask(&server, "none", delete())));
}

#[test]
fn a_presigned_url_may_what_its_signer_may() {
    let (server, _mount) = with_users(USERS);
    for (method, path, allowed) in [
        ("GET", "/bucket/in/k", true),
        ("GET", "/bucket/out/k", false),
        ("PUT", "/bucket/in/k", false),
    ] {
        let url = Request::new(method, path).payload(Payload::Presigned);
        let response = ask(&server, "in-reader", url);
        assert_eq!(response.status == 200, allowed, "{method} {path}");
        assert_eq!(denied(&response), !allowed, "{method} {path}");
    }
}

#[test]
fn a_form_may_what_its_signer_may() {
    use base64::Engine as _;
    let (server, _mount) = with_users(USERS);
    let post = |user: &str, key: &str| {
        let mut signer = signer();
        user.clone_into(&mut signer.access_key);
        signer.secret_key = format!("secret-of-{user}");
        let (credential, date) = (signer.credential(), signer.timestamp());
        let policy = format!(
            r#"{{"expiration":"2099-01-01T00:00:00Z","conditions":[{{"bucket":"bucket"}},
                ["starts-with","$key",""],{{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},
                {{"x-amz-credential":"{credential}"}},{{"x-amz-date":"{date}"}}]}}"#
        );
        let policy = base64::engine::general_purpose::STANDARD.encode(policy);
        let signature = signer.sign(&policy);
        server.client().send(&form(&[
            ("key", key),
            ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
            ("x-amz-credential", &credential),
            ("x-amz-date", &date),
            ("policy", &policy),
            ("x-amz-signature", &signature),
            ("file", "content"),
        ]))
    };
    assert_eq!(post("in-writer", "in/form").status, 204);
    assert_eq!(server.get("in/form").body, b"content");
    assert!(denied(&post("in-writer", "out/form")));
    assert!(denied(&post("in-reader", "in/form2")));
    assert!(denied(&post("none", "in/form2")));
    assert_eq!(server.get("out/form").status, 404);
    assert_eq!(server.get("in/form2").status, 404);
}

#[test]
fn import_headers_are_roots() {
    let (server, _mount) = with_users(USERS);
    // MD5 of "body".
    let etag = "841a2d689ad86bd1611447453c22c6fc";
    let import = || {
        Request::new("PUT", "/bucket/in/imported")
            .header("x-filestore-import-etag", etag)
            .body(b"body")
    };
    assert!(denied(&ask(&server, "everywhere", import())));
    assert_eq!(server.get("in/imported").status, 404);
    assert_eq!(server.client().send(&import()).status, 200);
}

#[test]
fn users_follow_their_file_and_a_broken_one_changes_nothing() {
    let (server, mount) = with_users(USERS);
    let file = mount.path().join("access.yaml");
    let get = |key: &str, secret: &str| {
        let get = Request::new("GET", "/bucket/in/k").signed_by(|signer| {
            key.clone_into(&mut signer.access_key);
            secret.clone_into(&mut signer.secret_key);
        });
        server.client().send(&get).status
    };
    assert_eq!(get("reader", "secret-of-reader"), 200);
    assert!((server.metric("filestore_access_users ") - 7.0).abs() < 0.1);

    std::fs::write(&file, "users: [{name: ").unwrap();
    server.await_metric("filestore_access_last_reload_successful ", 0.0);
    assert!(server.metric("filestore_access_reload_failures_total ") >= 1.0);
    assert_eq!(get("reader", "secret-of-reader"), 200);

    // A new key beside the old one: both work.
    let rotating = USERS.replace(
        "[{accessKey: reader,",
        "[{accessKey: reader-2, secretKey: new}, {accessKey: reader, secretKey: newer}, {accessKey: reader,",
    );
    std::fs::write(&file, &rotating).unwrap();
    until("the new key", || get("reader-2", "new") == 200);
    assert_eq!(get("reader", "newer"), 200);
    assert_eq!(get("reader", "secret-of-reader"), 200);
    server.await_metric("filestore_access_last_reload_successful ", 1.0);

    // The old one removed, and one user less.
    let rotated = rotating.replace(
        ", {accessKey: reader, secretKey: newer}, {accessKey: reader, secretKey: secret-of-reader}",
        "",
    );
    assert_ne!(rotated, rotating);
    std::fs::write(&file, rotated.replace("access: read}", "access: write}")).unwrap();
    until("the old key's end", || {
        get("reader", "secret-of-reader") == 403
    });
    // And its grant is another one now.
    assert_eq!(get("reader-2", "new"), 403);
}
