//! Who is let in.

use filestore_gateway::{CredentialDir, CredentialSources, KeyPair};
use jiff::{SignedDuration, Timestamp};

use crate::harness::{ACCESS, Payload, Request, SECRET, Server, form, signer, until};

fn error(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

#[test]
fn each_reason_has_its_code() {
    let server = Server::start();
    let request = || Request::new("GET", "/bucket");
    let ask = |request: Request| server.client().send(&request).error();

    let wrong = request().signed_by(|signer| signer.secret_key = "Ab3dEf6hIj9".to_owned());
    assert_eq!(ask(wrong), error(403, "SignatureDoesNotMatch"));
    let unknown = request().signed_by(|signer| signer.access_key = "nobody".to_owned());
    assert_eq!(ask(unknown), error(403, "InvalidAccessKeyId"));
    assert_eq!(ask(request().unsigned()), error(403, "AccessDenied"));
    for minutes in [-16, 16] {
        let skewed = request().signed_by(|signer| {
            signer.at = Timestamp::now() + SignedDuration::from_mins(minutes);
        });
        assert_eq!(ask(skewed), error(403, "RequestTimeTooSkewed"));
    }
    let near = request().signed_by(|signer| {
        signer.at = Timestamp::now() - SignedDuration::from_mins(14);
    });
    assert_eq!(ask(near).0, 200);
}

#[test]
fn requests_signed_for_another_region_are_taken() {
    let server = Server::start();
    let request = Request::new("GET", "/bucket").signed_by(|signer| {
        "auto".clone_into(&mut signer.region);
    });
    assert_eq!(server.client().send(&request).status, 200);
}

#[test]
fn presigned_urls_work_until_they_expire() {
    let server = Server::start();
    let put = Request::new("PUT", "/bucket/k")
        .payload(Payload::Presigned)
        .body(b"signed");
    assert_eq!(server.client().send(&put).status, 200);
    let get = Request::new("GET", "/bucket/k").payload(Payload::Presigned);
    assert_eq!(server.client().send(&get).body, b"signed");

    let expired = get.signed_by(|signer| {
        // Presigned for 300 seconds.
        signer.at = Timestamp::now() - SignedDuration::from_secs(310);
    });
    let response = server.client().send(&expired);

    assert_eq!(response.error(), error(403, "AccessDenied"));
    assert_eq!(
        response.element("Message").as_deref(),
        Some("Request has expired.")
    );
}

#[test]
fn signature_version_2_is_refused() {
    let server = Server::start();
    let header = Request::new("GET", "/bucket")
        .unsigned()
        .header("Authorization", &format!("AWS {ACCESS}:c2lnbmF0dXJl"))
        .header("Date", "Mon, 30 Nov 2026 12:00:00 GMT");
    let query = Request::new("GET", "/bucket")
        .unsigned()
        .query("AWSAccessKeyId", ACCESS)
        .query("Expires", "99999999999")
        .query("Signature", "c2ln");

    for request in [header, query] {
        let response = server.client().send(&request);
        assert_eq!(response.error(), error(400, "InvalidRequest"));
        assert!(response.text().contains("AWS4-HMAC-SHA256"));
    }
}

#[test]
fn signed_forms_are_taken_and_unsigned_ones_are_not() {
    use base64::Engine as _;
    let server = Server::start();
    let signer = signer();
    let (credential, date) = (signer.credential(), signer.timestamp());
    let policy = format!(
        r#"{{"expiration":"2099-01-01T00:00:00Z","conditions":[{{"bucket":"bucket"}},
            ["starts-with","$key",""],{{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},
            {{"x-amz-credential":"{credential}"}},{{"x-amz-date":"{date}"}}]}}"#
    );
    let policy = base64::engine::general_purpose::STANDARD.encode(policy);
    let signature = signer.sign(&policy);
    let fields = [
        ("key", "k"),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", &credential),
        ("x-amz-date", &date),
        ("policy", &policy),
        ("x-amz-signature", &signature),
        ("file", "content"),
    ];

    let unsigned = server.client().send(&form(&[fields[0], fields[6]]));
    assert_eq!(unsigned.error(), error(403, "AccessDenied"));
    assert_eq!(server.get("k").status, 404);
    let taken = server.client().send(&form(&fields));

    assert_eq!(taken.status, 204, "{taken:?}");
    assert_eq!(server.get("k").body, b"content");
}

#[test]
fn signature_version_2_is_refused_in_forms() {
    use base64::Engine as _;
    let server = Server::start();
    let policy = r#"{"expiration":"2099-01-01T00:00:00Z","conditions":[{"bucket":"bucket"},["starts-with","$key",""]]}"#;
    let policy = base64::engine::general_purpose::STANDARD.encode(policy);
    // HMAC-SHA1 of the policy with the right secret: only the version is wrong.
    let signature = crate::sigv4::version_2(SECRET, policy.as_bytes());
    let post = form(&[
        ("key", "k"),
        ("AWSAccessKeyId", ACCESS),
        ("policy", &policy),
        ("signature", &signature),
        ("file", "content"),
    ]);

    let response = server.client().send(&post);

    assert_eq!(response.error(), error(400, "InvalidRequest"));
    assert!(
        response.text().contains("AWS4-HMAC-SHA256"),
        "{}",
        response.text()
    );
    assert_eq!(server.get("k").status, 404);
}

#[test]
fn secrets_overlap_while_they_are_rotated() {
    let server = Server::start_with(|config| {
        config.credentials = CredentialSources {
            fixed: vec![
                KeyPair::new(ACCESS, "new-secret"),
                KeyPair::new(ACCESS, SECRET),
                KeyPair::new("other", "x"),
            ],
            directories: Vec::new(),
        };
    });
    let with = |secret: &str, request: Request| {
        let request = request.signed_by(|signer| secret.clone_into(&mut signer.secret_key));
        server.client().send(&request)
    };
    assert_eq!(
        with("new-secret", Request::new("PUT", "/bucket")).status,
        200
    );
    let large = vec![3; 700_000];
    for secret in ["new-secret", SECRET] {
        for payload in [
            Payload::Sha256,
            Payload::Chunked,
            Payload::Trailer,
            Payload::Presigned,
        ] {
            let put = Request::new("PUT", "/bucket/k")
                .payload(payload)
                .body(&large);
            assert_eq!(with(secret, put).status, 200, "{secret} {payload:?}");
            let get = Request::new("GET", "/bucket/k");
            assert!(with(secret, get).body == large);
        }
    }

    let wrong = with("third", Request::new("PUT", "/bucket/k").body(b"no"));

    assert_eq!(wrong.error(), error(403, "SignatureDoesNotMatch"));
    assert!(with(SECRET, Request::new("GET", "/bucket/k")).body == large);
}

#[test]
fn mounted_secrets_are_followed_without_a_restart() {
    let mount = tempfile::tempdir().unwrap();
    let write = |secret: &str| {
        std::fs::write(mount.path().join("user"), ACCESS).unwrap();
        std::fs::write(mount.path().join("pass"), secret).unwrap();
    };
    write(SECRET);
    let server = Server::start_with(|config| {
        config.credentials = CredentialSources {
            fixed: Vec::new(),
            directories: vec![CredentialDir {
                path: mount.path().to_owned(),
                names: Some(("user".to_owned(), "pass".to_owned())),
            }],
        };
        config.credentials_period = std::time::Duration::from_millis(5);
    });
    let mut client = server.client();
    assert_eq!(client.send(&Request::new("GET", "/")).status, 200);

    write("another");

    let request = || {
        Request::new("GET", "/").signed_by(|signer| "another".clone_into(&mut signer.secret_key))
    };
    until("the new secret", || client.send(&request()).status == 200);
    assert_eq!(
        client.send(&Request::new("GET", "/")).error(),
        error(403, "SignatureDoesNotMatch")
    );
    assert_eq!(signer().secret_key, SECRET);
}
