use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::*;

/// A self-signed certificate made by openssl, ending at `not_after` (ASN.1 time), and its key.
fn pair(directory: &Path, name: &str, not_after: &str) -> TlsFiles {
    let files = TlsFiles {
        certificate: directory.join(format!("{name}.crt")),
        key: directory.join(format!("{name}.key")),
    };
    let openssl = |arguments: &[&str]| {
        let done = Command::new("openssl")
            .args(arguments)
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
    let curve = "ec_paramgen_curve:prime256v1";
    openssl(&[
        "genpkey",
        "-algorithm",
        "EC",
        "-pkeyopt",
        curve,
        "-out",
        &key,
    ]);
    openssl(&[
        "req",
        "-new",
        "-key",
        &key,
        "-subj",
        "/CN=store",
        "-out",
        "request",
    ]);
    // `openssl ca` alone takes an end; it wants a database.
    std::fs::write(directory.join("index"), "").unwrap();
    std::fs::write(
        directory.join("config"),
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nunique_subject=no\nx509_extensions=v3\n[p]\nCN=supplied\n[v3]\nbasicConstraints=CA:FALSE\n",
    )
    .unwrap();
    openssl(&[
        "ca",
        "-batch",
        "-config",
        "config",
        "-selfsign",
        "-keyfile",
        &key,
        "-in",
        "request",
        "-notext",
        "-startdate",
        "20200101000000Z",
        "-enddate",
        not_after,
        "-out",
        &certificate,
    ]);
    files
}

fn unix(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn refusal(files: &TlsFiles) -> String {
    Tls::open(files.clone()).unwrap_err().to_string()
}

/// RFC 5280: UTCTime until 2049, GeneralizedTime from 2050.
#[test]
fn the_end_of_a_certificate_is_known_in_both_forms_of_time() {
    let directory = tempfile::tempdir().unwrap();
    for (end, seconds) in [
        ("20491231235959Z", 2_524_607_999),
        ("20500101000000Z", 2_524_608_000),
        ("20210203040506Z", 1_612_325_106),
    ] {
        let tls = Tls::open(pair(directory.path(), end, end)).unwrap();
        assert_eq!(tls.not_after(), unix(seconds), "{end}");
    }
}

#[test]
fn a_changed_pair_is_taken_over_and_a_broken_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = pair(directory.path(), "served", "20400101000000Z");
    let new = pair(directory.path(), "new", "20410101000000Z");
    let tls = Tls::open(files.clone()).unwrap();
    let first = tls.not_after();
    assert!(!tls.reload().unwrap());

    // Only one of both has come yet.
    std::fs::copy(&new.certificate, &files.certificate).unwrap();
    assert!(matches!(tls.reload(), Err(TlsError::Mismatch(_))));
    assert_eq!(tls.not_after(), first);

    std::fs::copy(&new.key, &files.key).unwrap();
    assert!(tls.reload().unwrap());
    assert!(tls.not_after() > first);

    std::fs::write(&files.certificate, "").unwrap();
    assert!(tls.reload().is_err());
    assert!(tls.not_after() > first);
}

#[test]
fn what_cannot_be_served_is_named_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let good = pair(directory.path(), "good", "20400101000000Z");
    let other = pair(directory.path(), "other", "20400101000000Z");
    let at = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let with_certificate = |certificate: PathBuf| TlsFiles {
        certificate,
        ..good.clone()
    };
    let with_key = |key: PathBuf| TlsFiles {
        key,
        ..good.clone()
    };
    let certificate = std::fs::read_to_string(&good.certificate).unwrap();

    let text = refusal(&with_certificate(directory.path().join("absent")));
    assert!(text.contains("read") && text.contains("absent"), "{text}");
    let text = refusal(&with_certificate(at("empty.crt", b"")));
    assert!(text.contains("empty.crt: no certificate"), "{text}");
    let text = refusal(&with_certificate(good.key.clone()));
    assert!(text.contains("good.key: no certificate"), "{text}");
    let text = refusal(&with_certificate(at("der.crt", &[0x30, 0x82, 1, 0])));
    assert!(text.contains("der.crt: no certificate"), "{text}");
    let half = &certificate[..certificate.len() / 2];
    let text = refusal(&with_certificate(at("half.crt", half.as_bytes())));
    assert!(text.contains("half.crt"), "{text}");
    let nonsense = "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n";
    let text = refusal(&with_certificate(at("odd.crt", nonsense.as_bytes())));
    assert!(
        text.contains("odd.crt") && text.contains("cannot be read"),
        "{text}"
    );

    let text = refusal(&with_key(at("empty.key", b"")));
    assert!(text.contains("empty.key: no private key"), "{text}");
    let text = refusal(&with_key(good.certificate.clone()));
    assert!(text.contains("good.crt: no private key"), "{text}");
    let text = refusal(&with_key(other.key));
    assert!(
        text.contains("other.key is not that of the first certificate in")
            && text.contains("good.crt"),
        "{text}"
    );
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAMCAQA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let text = refusal(&with_key(at("locked.key", locked.as_bytes())));
    assert!(
        text.contains("locked.key") && text.contains("without a passphrase"),
        "{text}"
    );
}

#[test]
fn keys_stay_out_of_debug_output() {
    let directory = tempfile::tempdir().unwrap();
    let files = pair(directory.path(), "served", "20400101000000Z");
    let shown = format!("{:?}", Tls::open(files).unwrap());
    assert!(
        shown.starts_with("Tls { files: ") && shown.ends_with(", .. }"),
        "{shown}"
    );
}
