//! Bad input: one clear line, an exit code that says what kind, and nothing written.

use std::fs;
use std::net::TcpListener;

use crate::harness::{Workplace, example};

/// Runs `up` and checks that it leaves all as it was.
fn refused(work: &Workplace, args: &[&str], code: i32, words: &[&str]) {
    let before = work.files("");

    let output = work.up(args);

    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("filestore: "), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
    assert_eq!(work.files(""), before, "something was written");
}

/// A place whose manifest is the example with one change.
fn changed(from: &str, to: &str) -> Workplace {
    let work = Workplace::new();
    let manifest = example("takeover.yaml");
    assert!(manifest.contains(from), "{from}");
    work.write("m.yaml", &manifest.replacen(from, to, 1));
    work
}

/// Number of the line of `manifest` that holds `text`, from 1.
fn line_of(work: &Workplace, text: &str) -> String {
    let manifest = fs::read_to_string(work.path("m.yaml")).unwrap();
    let line = manifest
        .lines()
        .position(|line| line.contains(text))
        .unwrap()
        + 1;
    format!("m.yaml:{line}: ")
}

#[test]
fn missing_file() {
    refused(&Workplace::new(), &[], 2, &["read m.yaml", "No such file"]);
}

#[test]
fn unknown_field() {
    let work = changed("  storage:\n", "  sotrage: {}\n  storage:\n");
    let line = line_of(&work, "sotrage");
    refused(&work, &[], 2, &[&line, "spec.sotrage", "unknown field"]);
}

#[test]
fn wrong_type() {
    let work = changed("  storage:\n    size: 20Gi\n", "  storage: 20Gi\n");
    let line = line_of(&work, "storage: 20Gi");
    refused(&work, &[], 2, &[&line, "spec.storage: "]);
}

#[test]
fn broken_yaml() {
    let work = changed("  storage:\n", "  storage: [\n");
    refused(&work, &[], 2, &["m.yaml:"]);
}

#[test]
fn missing_secret() {
    let work = changed("      name: ryax-minio-secret\n", "      name: other\n");
    refused(
        &work,
        &[],
        2,
        &["m.yaml: spec.credentials", "Secret \"other\" is missing"],
    );
}

#[test]
fn missing_key() {
    let work = changed("  root-password:", "  password:");
    refused(
        &work,
        &[],
        2,
        &["has no key \"root-password\"", "it has password, root-user"],
    );
}

#[test]
fn neither_size_nor_claim() {
    let work = changed("    size: 20Gi\n", "    metadata: auto\n");
    refused(&work, &[], 2, &["spec.storage: set exactly one of size"]);
}

#[test]
fn what_needs_a_cluster() {
    let work = changed("  storage:\n", "  suspend: true\n  storage:\n");
    refused(&work, &[], 2, &["m.yaml: spec.suspend"]);
    let work = changed(
        "  storage:\n",
        "  tls: {secretRef: {name: t}}\n  storage:\n",
    );
    refused(&work, &[], 2, &["m.yaml: spec.tls: ", "--tls-cert FILE"]);
}

#[test]
fn claim_that_the_manifest_does_not_have() {
    let work = changed("x", "x");
    refused(
        &work,
        &["--claim", "ryax-mino=/mnt"],
        2,
        &["--claim ryax-mino", "it has ryax-filestore and ryax-minio"],
    );
}

/// The ports are tried before anything is copied.
#[test]
fn port_in_use() {
    let work = changed("x", "x");
    fs::create_dir_all(work.path("data/ryax-minio")).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    for flag in ["--listen", "--admin-listen"] {
        refused(
            &work,
            &[flag, &address],
            4,
            &[&address, "another process uses this port", flag],
        );
    }
}

#[test]
fn no_legacy_drive() {
    let work = changed("x", "x");
    refused(
        &work,
        &[],
        5,
        &[
            "claim ryax-minio",
            "data/ryax-minio is no directory",
            "--claim ryax-minio=DIR",
        ],
    );
}

#[test]
fn directory_without_format_json() {
    let work = changed("x", "x");
    work.write("data/ryax-minio/bucket/object", "not MinIO's");
    refused(&work, &[], 5, &["format.json"]);
}

#[test]
fn drive_of_an_erasure_set() {
    let work = changed("x", "x");
    work.write(
        "data/ryax-minio/.minio.sys/format.json",
        r#"{"version":"1","format":"xl","id":"9e5ab2c8-1fd6-4d3f-a4d5-61c8c0a3c1f8","xl":{"version":"3","this":"a","sets":[["a","b","c","d"]],"distributionAlgo":"SIPMOD+PARITY"}}"#,
    );
    refused(&work, &[], 5, &["data/ryax-minio"]);
}

/// A volume that is no directory; an unreadable one cannot be made where tests run as root.
#[test]
fn volume_that_cannot_be_used() {
    let work = Workplace::new();
    work.write("m.yaml", &example("fresh.yaml"));
    work.write("data/fresh", "a file is in the way");
    refused(&work, &[], 5, &["data/fresh"]);
}
