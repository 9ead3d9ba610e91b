//! YAML in, objects out. The expected objects are the files under `tests/golden/`;
//! `UPDATE_GOLDEN=1 cargo test -p filestore-operator` rewrites them for review.

use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::{Manifest, validate};

fn golden(name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
    let manifest = Manifest::parse(name, &text).unwrap();
    let valid = validate(&manifest.filestore, &manifest.secrets).unwrap();
    let mut objects = serde_json::json!({
        "claim": claim(&valid),
        "deployment": deployment(&valid),
        "service": service(&valid),
        "serviceAccount": service_account(&valid),
    });
    let extras: Vec<_> = extras(&valid).into_iter().map(|one| one.object).collect();
    if !extras.is_empty() {
        objects["extras"] = serde_json::json!(extras);
    }
    // Secrets are referred to: a value in a pod would be readable by everyone who can read pods.
    let text = objects.to_string();
    assert!(
        !text.contains("Ab3dEf6hIj9k") && !text.contains("s3cret") && !text.contains("-----BEGIN"),
        "{text}"
    );

    let file = folder.join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&objects).unwrap() + "\n";
        std::fs::write(&file, text).unwrap();
    }
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        objects, expected,
        "{name}: see the doc comment of this module"
    );
}

#[test]
fn in_a_cluster_the_gateway_follows_its_keys_instead_of_reading_them_once() {
    let of = |name: &str| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        let manifest = Manifest::parse(name, &text).unwrap();
        let valid = validate(&manifest.filestore, &manifest.secrets).unwrap();
        let plain = deployment(&valid);
        let followed = followed(&valid, plain.clone());
        (serde_json::json!(plain), serde_json::json!(followed))
    };
    let (mut plain, followed) = of("offline");
    let pod = &mut plain["spec"]["template"]["spec"];
    let gateway = pod["containers"][0].as_object_mut().unwrap();
    assert_eq!(gateway["env"].as_array().unwrap().len(), 2);
    gateway.remove("env");
    gateway["args"].as_array_mut().unwrap().extend(
        [
            "--credentials-dir",
            "/run/filestore/access",
            "--access-key-file",
            "root-user",
            "--secret-key-file",
            "root-password",
            "--access-file",
            "/run/filestore/access/access.json",
        ]
        .map(Value::from),
    );
    let mounts = gateway["volumeMounts"].as_array_mut().unwrap();
    let mount = serde_json::json!({
        "name": "access", "mountPath": "/run/filestore/access", "readOnly": true,
    });
    mounts.push(mount);
    let name = followed["metadata"]["name"].as_str().unwrap();
    let volume = serde_json::json!({
        "name": "access", "secret": {"secretName": format!("{name}-access")},
    });
    pod["volumes"].as_array_mut().unwrap().push(volume);
    assert_eq!(followed, plain);

    let (plain, followed) = of("versitygw");
    assert_eq!(followed, plain);
    // It reads its certificate once: another one is another pod.
    let (mut plain, followed) = of("tls-versitygw");
    let annotations = &followed["spec"]["template"]["metadata"]["annotations"];
    let hash = annotations[CERTIFICATE_ANNOTATION].as_str().unwrap();
    assert_eq!(hash.len(), 16);
    plain["spec"]["template"]["metadata"]["annotations"] = annotations.clone();
    assert_eq!(followed, plain);
    // Ours follows it, and a pod that is another with each certificate would be a restart.
    let (_, followed) = of("tls");
    let annotations = &followed["spec"]["template"]["metadata"]["annotations"];
    assert!(annotations.is_null(), "{annotations}");
}

#[test]
fn fresh_store() {
    golden("fresh");
}

#[test]
fn take_over_from_a_drive() {
    golden("offline");
}

#[test]
fn take_over_from_an_endpoint() {
    golden("online");
}

#[test]
fn over_https() {
    golden("tls");
}

#[test]
fn versitygw_over_https() {
    golden("tls-versitygw");
}

#[test]
fn versitygw_on_openshift() {
    golden("versitygw");
}
