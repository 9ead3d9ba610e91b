//! HTTPS: the certificate in its Secret, and all that tells of the endpoint.

use super::legacy::{take_over, with_minio};
use super::*;
use crate::Manifest;

const CERTIFICATE: &str = "/api/v1/namespaces/ns/secrets/files-tls";
const RUNNER: &str = "/api/v1/namespaces/ns/secrets/files-runner";
const SITE: &str = "/api/v1/namespaces/ns/configmaps/files-site";

const ONE: (&str, &str) = (include_str!("../../../tests/golden/tls.yaml"), "files-tls");
const TWO: (&str, &str) = (
    include_str!("../../../tests/golden/tls-versitygw.yaml"),
    "old-tls",
);

/// The Secret of the Filestore, with certificate and key of these.
fn secret(certificate: (&str, &str), key: (&str, &str)) -> Value {
    let value = |(manifest, secret): (&str, &str), key: &str| {
        let secrets = Manifest::parse("m", manifest).unwrap().secrets;
        let bytes = secrets.bytes(secret, key).unwrap();
        json!(k8s_openapi::ByteString(bytes.to_vec()))
    };
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "files-tls"},
        "data": {"tls.crt": value(certificate, "tls.crt"), "tls.key": value(key, "tls.key")},
    })
}

fn over_https(mut spec: Value) -> Value {
    spec["tls"] = json!({"secretRef": {"name": "files-tls"}});
    spec
}

fn with_site(mut spec: Value) -> Value {
    spec["site"] = json!({"name": "lyon"});
    spec
}

fn endpoint_of_user(cluster: &Cluster) -> Vec<u8> {
    let value = cluster.server.get(RUNNER).unwrap()["data"]["endpoint"].clone();
    let bytes: k8s_openapi::ByteString = serde_json::from_value(value).unwrap();
    bytes.0
}

#[tokio::test]
async fn https_is_switched_on_and_off_in_all_that_tells_of_the_endpoint() {
    let plain = with_site(access::with_users());
    let cluster = Cluster::new(&plain);
    cluster.server.put(CERTIFICATE, secret(ONE, ONE));
    cluster.settle().await;
    let told = |cluster: &Cluster| {
        let service = cluster.server.get(SERVICE).unwrap();
        [
            cluster.status()["endpoint"].clone(),
            cluster.server.get(SITE).unwrap()["data"]["endpoint"].clone(),
            json!(String::from_utf8(endpoint_of_user(cluster)).unwrap()),
            service["spec"]["ports"][0]["name"].clone(),
        ]
    };
    let http = ["http://files.ns:9000"; 3].map(Value::from);
    assert_eq!(told(&cluster)[..3], http);
    assert_eq!(told(&cluster)[3], "http");

    cluster.set_spec(&over_https(plain.clone()), 2);
    cluster.settle().await;
    let https = ["https://files.ns:9000"; 3].map(Value::from);
    assert_eq!(told(&cluster)[..3], https);
    assert_eq!(told(&cluster)[3], "https");
    cluster.take_writes();
    cluster.round().await.unwrap();
    assert_eq!(cluster.take_writes(), [""; 0]);

    cluster.set_spec(&plain, 3);
    cluster.settle().await;
    assert_eq!(told(&cluster)[..3], http);
}

#[tokio::test]
async fn a_missing_certificate_is_said_and_taken_up_when_it_comes() {
    let cluster = Cluster::new(&over_https(fresh()));
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Ready"),
        ("False".into(), "SecretMissing".into())
    );
    assert_eq!(cluster.condition("CredentialsReady").0, "False");
    assert!(
        cluster
            .message("Stalled")
            .starts_with("spec.tls.secretRef: Secret \"files-tls\" does not exist")
    );
    assert!(cluster.server.get(DEPLOYMENT).is_none());

    let mut empty = secret(ONE, ONE);
    empty["data"] = json!({});
    cluster.server.put(CERTIFICATE, empty);
    cluster.settle().await;
    assert_eq!(cluster.condition("Stalled").1, "SecretKeyMissing");

    cluster.server.put(CERTIFICATE, secret(ONE, ONE));
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn a_renewed_certificate_is_told_to_the_kubelet_and_restarts_nobody() {
    let cluster = Cluster::new(&over_https(fresh()));
    cluster.server.put(CERTIFICATE, secret(ONE, ONE));
    cluster.settle().await;
    cluster.take_writes();

    cluster.server.put(CERTIFICATE, secret(TWO, TWO));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["PATCH pods/files-1"]);

    // Half of a renewal: the store serves on with what it has.
    cluster.server.put(CERTIFICATE, secret(ONE, TWO));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["PATCH filestores/files/status"]);
    assert_eq!(cluster.status()["phase"], "Degraded");
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "SecretUnusable".into())
    );
    assert_eq!(cluster.condition("Ready").0, "True");
}

#[tokio::test]
async fn versitygw_is_started_again_for_a_renewed_certificate() {
    let mut spec = over_https(fresh());
    spec["engine"] = json!("versitygw");
    spec["versitygw"] = json!({"image": "v:1"});
    let cluster = Cluster::new(&spec);
    cluster.server.put(CERTIFICATE, secret(ONE, ONE));
    cluster.settle().await;
    cluster.take_writes();

    cluster.server.put(CERTIFICATE, secret(TWO, TWO));
    cluster.settle().await;
    let writes = cluster.take_writes();
    assert_eq!(writes, ["PATCH deployments/files"]);
    // A change of what is wanted, nobody's drift.
    let events = cluster.server.state().events.clone();
    assert!(!events.contains(&"DriftCorrected".to_owned()), "{events:?}");
}

#[tokio::test]
async fn a_legacy_store_is_taken_over_before_https_is_switched_on() {
    let cluster = with_minio(&over_https(take_over()));
    cluster.server.put(CERTIFICATE, secret(ONE, ONE));
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Migrated"),
        ("False".into(), "Refused".into())
    );
    let told = cluster.message("Stalled");
    assert!(
        told.contains("plain HTTP") && told.contains("remove tls until"),
        "{told}"
    );
    assert_eq!(cluster.jobs(), [""; 0]);
    assert_eq!(cluster.legacy_replicas(), 1);

    cluster.set_spec(&take_over(), 2);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");

    cluster.set_spec(&over_https(take_over()), 3);
    cluster.carry_on().await;
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "Completed".into())
    );
    assert_eq!(cluster.status()["endpoint"], "https://files.ns:9000");
    assert_eq!(cluster.legacy_replicas(), 0);
}

#[tokio::test]
async fn https_in_the_middle_of_a_cut_over_starts_the_legacy_store_again() {
    let cluster = with_minio(&take_over());
    cluster.server.put(CERTIFICATE, secret(ONE, ONE));
    while cluster.record()["stage"] != "frozen" {
        cluster.round().await.unwrap();
        cluster.all_others_act();
    }
    assert_eq!(cluster.legacy_replicas(), 0);
    cluster.set_spec(&over_https(take_over()), 2);
    cluster.round().await.unwrap();
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(
        cluster.condition("Migrated"),
        ("False".into(), "Refused".into())
    );
    let events = cluster.server.state().events.clone();
    assert!(events.contains(&"LegacyStarted".to_owned()), "{events:?}");
}
