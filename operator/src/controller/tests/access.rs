//! Keys: the Secrets of users and what the gateway is told.

mod refused;

use std::collections::BTreeMap;

use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::*;
use crate::access::CHANGED_ANNOTATION;

const RUNNER: &str = "/api/v1/namespaces/ns/secrets/files-runner";
const RENDERED: &str = "/api/v1/namespaces/ns/secrets/files-access";

pub(super) fn with_users() -> Value {
    let mut spec = fresh();
    spec["buckets"] = json!([{"name": "data", "quota": "1Gi"}]);
    spec["access"] = json!({"users": [{
        "name": "runner",
        "grants": [{"bucket": "data", "prefix": "runs/", "access": "readwrite"}],
        "keys": {"accessKey": "id", "secretKey": "key"},
    }]});
    spec
}

/// A text in a Secret.
fn text(cluster: &Cluster, path: &str, key: &str) -> String {
    let secret = cluster.server.get(path).unwrap();
    let bytes: ByteString = serde_json::from_value(secret["data"][key].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

/// The file that the gateway reads.
fn rendered(cluster: &Cluster) -> Value {
    serde_json::from_str(&text(cluster, RENDERED, "access.json")).unwrap()
}

fn access_keys(cluster: &Cluster) -> Vec<String> {
    let document = rendered(cluster);
    let keys = document["users"][0]["keys"].as_array().unwrap();
    keys.iter()
        .map(|pair| pair["accessKey"].as_str().unwrap().to_owned())
        .collect()
}

fn secret(name: &str, values: &[(&str, &str)]) -> Value {
    let values = values.iter().map(|(key, value)| {
        let bytes = ByteString(value.as_bytes().to_vec());
        ((*key).to_owned(), json!(bytes))
    });
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "data": values.collect::<serde_json::Map<_, _>>(),
    })
}

fn runner(access_key: &str) -> Value {
    secret("files-runner", &[("id", access_key), ("key", "secret")])
}

/// New keys for root and the user.
pub(super) fn rotate(cluster: &Cluster) {
    let keys = [("root-user", "ryax"), ("root-password", "another one")];
    cluster.server.put(SECRET, secret("keys", &keys));
    let mut object = cluster.server.get(RUNNER).unwrap();
    object["data"]["id"] = json!("dHdv");
    cluster.server.put(RUNNER, object);
}

/// Puts constants for what is random, and for times. The keys of the user that are in force must
/// be those in its Secret for that.
pub(super) fn without_chance(objects: &BTreeMap<String, Value>, path: &str, object: &mut Value) {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(CHANGED_ANNOTATION);
    }
    let plain = |object: &Value, key: &str| -> String {
        let bytes: Option<ByteString> = serde_json::from_value(object["data"][key].clone()).ok();
        String::from_utf8(bytes.map(|bytes| bytes.0).unwrap_or_default()).unwrap()
    };
    let own = objects.get(RUNNER);
    let hidden = |text: String| {
        let names = ["id", "key"].map(|name| own.map(|own| plain(own, name)));
        let found = names
            .into_iter()
            .flatten()
            .filter(|value| !value.is_empty());
        found.fold(text, |text, value| text.replace(&value, "…"))
    };
    let document = plain(object, "access.json");
    match path {
        RUNNER => {
            for key in ["id", "key"] {
                object["data"][key] = json!(hidden(plain(object, key)));
            }
        }
        RENDERED => {
            let mut document: Value = serde_json::from_str(&hidden(document)).unwrap();
            // A former access key is made up in each run.
            if let Some(former) = document.pointer_mut("/users/0/keys/1/accessKey") {
                *former = json!("former");
            }
            object["data"]["access.json"] = document;
            let ends: Value = serde_json::from_str(&plain(object, "former.json")).unwrap();
            let count = |ends: &Value| ends.as_array().map_or(0, Vec::len);
            object["data"]["former.json"] =
                json!([count(&ends["root"]), count(&ends["users"]["runner"])]);
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_user_gets_a_secret_and_the_gateway_hears_of_it_before_it_starts() {
    let cluster = Cluster::new(&with_users());
    cluster.round().await.unwrap();
    let writes = cluster.take_writes();
    let at = |write: &str| writes.iter().position(|found| found == write).unwrap();
    let (made, told) = (at("POST secrets"), at("PATCH secrets/files-access"));
    assert!(
        made < told && told < at("PATCH deployments/files"),
        "{writes:?}"
    );

    let made = cluster.server.get(RUNNER).unwrap();
    assert!(made["metadata"]["ownerReferences"].is_null());
    assert_eq!(text(&cluster, RUNNER, "endpoint"), "http://files.ns:9000");
    assert_eq!(text(&cluster, RUNNER, "bucket"), "data");
    assert_eq!(text(&cluster, RUNNER, "key").len(), 40);
    let document = rendered(&cluster);
    let keys = &document["users"][0]["keys"][0];
    assert_eq!(keys["accessKey"], text(&cluster, RUNNER, "id"));
    assert_eq!(keys["secretKey"], text(&cluster, RUNNER, "key"));
    assert_eq!(document["buckets"][0]["quota"], 1_073_741_824);
    let owner = &cluster.server.get(RENDERED).unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], "uid-files");

    let deployment = cluster.server.get(DEPLOYMENT).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(volumes.contains(&json!({"name": "access", "secret": {"secretName": "files-access"}})));
    let gateway = &pod["containers"][0];
    let mounts = gateway["volumeMounts"].as_array().unwrap();
    assert!(mounts.contains(
        &json!({"name": "access", "mountPath": "/run/filestore/access", "readOnly": true})
    ));
    let args = gateway["args"].as_array().unwrap();
    let value_of = |flag: &str| {
        let at = args.iter().position(|arg| arg == flag).unwrap();
        args[at + 1].clone()
    };
    assert_eq!(
        value_of("--access-file"),
        "/run/filestore/access/access.json"
    );
    assert_eq!(value_of("--credentials-dir"), "/run/filestore/access");
    // Keys from variables would be valid for ever.
    assert!(gateway["env"].is_null(), "{}", gateway["env"]);

    cluster.settle().await;
    cluster.take_writes();
    cluster.round().await.unwrap();
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test]
async fn another_key_in_the_secret_is_a_rotation_and_nobody_restarts() {
    let cluster = Cluster::new(&with_users());
    cluster.server.put(RUNNER, runner("one"));
    cluster.settle().await;
    assert_eq!(access_keys(&cluster), ["one"]);
    cluster.take_writes();

    cluster.server.put(RUNNER, runner("two"));
    cluster.settle().await;

    assert_eq!(access_keys(&cluster), ["two", "one"]);
    // The annotation of the pod has the kubelet look at once.
    assert_eq!(
        cluster.take_writes(),
        ["PATCH secrets/files-access", "PATCH pods/files-1"]
    );
    // The Secret that somebody made is its own affair.
    assert_eq!(text(&cluster, RUNNER, "id"), "two");
    assert!(cluster.server.get(RUNNER).unwrap()["data"]["endpoint"].is_null());

    // Without overlap there is none.
    let mut spec = with_users();
    spec["access"]["overlapSeconds"] = json!(0);
    cluster.set_spec(&spec, 2);
    cluster.server.put(RUNNER, runner("three"));
    cluster.settle().await;
    assert_eq!(access_keys(&cluster), ["three"]);

    // A Secret that is gone is made again, with other keys.
    cluster.server.state().objects.remove(RUNNER);
    cluster.settle().await;
    assert!(access_keys(&cluster)[0].starts_with("runner-"));
}

#[tokio::test]
async fn root_is_rotated_without_a_restart() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    let lines = |key: &str| text(&cluster, RENDERED, key);
    assert_eq!(lines("root-user"), "ryax");
    let before = lines("root-password");
    cluster.take_writes();

    let keys = [("root-user", "ryax"), ("root-password", "another one")];
    cluster.server.put(SECRET, secret("keys", &keys));
    cluster.settle().await;

    assert_eq!(lines("root-user"), "ryax\nryax");
    assert_eq!(lines("root-password"), format!("another one\n{before}"));
    assert_eq!(
        cluster.take_writes(),
        ["PATCH secrets/files-access", "PATCH pods/files-1"]
    );
    cluster.round().await.unwrap();
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test]
async fn a_user_that_is_removed_is_told_to_the_gateway_and_keeps_its_secret() {
    let cluster = Cluster::new(&with_users());
    cluster.settle().await;
    let before = cluster.server.get(RUNNER).unwrap();
    let deployment = cluster.server.get(DEPLOYMENT).unwrap();
    cluster.take_writes();
    cluster.set_spec(&fresh(), 2);
    cluster.settle().await;
    assert_eq!(rendered(&cluster), json!({"users": [], "buckets": []}));
    assert_eq!(cluster.server.get(RUNNER).unwrap(), before);
    // `buckets` went, too, and with it the container that makes them; no more.
    let args = |deployment: &Value| {
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone()
    };
    assert_eq!(
        args(&cluster.server.get(DEPLOYMENT).unwrap()),
        args(&deployment)
    );

    cluster.set_spec(&with_users(), 3);
    cluster.settle().await;
    assert_eq!(access_keys(&cluster), [text(&cluster, RUNNER, "id")]);
}

#[tokio::test]
async fn a_secret_that_we_made_follows_the_spec() {
    let cluster = Cluster::new(&with_users());
    cluster.settle().await;
    let (id, key) = (text(&cluster, RUNNER, "id"), text(&cluster, RUNNER, "key"));
    let mut spec = with_users();
    spec["service"] = json!({"port": 80});
    spec["access"]["users"][0]["keys"] =
        json!({"accessKey": "AWS_ACCESS_KEY_ID", "secretKey": "AWS_SECRET_ACCESS_KEY"});
    spec["access"]["users"][0]["grants"][0]["bucket"] = json!("other");
    cluster.set_spec(&spec, 2);
    cluster.settle().await;
    assert_eq!(text(&cluster, RUNNER, "AWS_ACCESS_KEY_ID"), id);
    assert_eq!(text(&cluster, RUNNER, "AWS_SECRET_ACCESS_KEY"), key);
    assert_eq!(text(&cluster, RUNNER, "endpoint"), "http://files.ns:80");
    assert_eq!(text(&cluster, RUNNER, "bucket"), "other");
    assert_eq!(access_keys(&cluster), [id]);
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn a_broken_secret_is_said_and_takes_nothing_away() {
    let cluster = Cluster::new(&with_users());
    cluster.server.put(RUNNER, runner("one"));
    cluster.settle().await;
    let broken = secret("files-runner", &[("id", "one")]);
    cluster.server.put(RUNNER, broken);
    cluster.settle().await;

    assert_eq!(access_keys(&cluster), ["one"]);
    assert_eq!(
        cluster.condition("CredentialsReady"),
        ("False".into(), "SecretKeyMissing".into())
    );
    assert_eq!(cluster.status()["phase"], "Degraded");
    assert!(
        cluster
            .message("Stalled")
            .contains("spec.access.users[0].secretRef")
    );

    // So is one with root's access key: with it the gateway would refuse all of the file.
    cluster.server.put(RUNNER, runner("ryax"));
    cluster.settle().await;
    assert_eq!(access_keys(&cluster), ["one"]);
    assert_eq!(cluster.condition("CredentialsReady").1, "AccessKeyTaken");

    cluster.server.put(RUNNER, runner("two"));
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn what_somebody_writes_into_the_rendered_secret_is_put_back() {
    let cluster = Cluster::new(&with_users());
    cluster.settle().await;
    let wanted = cluster.server.get(RENDERED).unwrap()["data"].clone();
    let mut object = cluster.server.get(RENDERED).unwrap();
    // {}
    object["data"]["access.json"] = json!("e30=");
    object["data"]["root-user"] = json!("aW50cnVkZXI=");
    object["metadata"]["managedFields"] = json!([{
        "manager": "kubectl-edit", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:access.json": {}, "f:root-user": {}}},
    }]);
    cluster.server.put(RENDERED, object);
    cluster.settle().await;
    assert_eq!(cluster.server.get(RENDERED).unwrap()["data"], wanted);
    let events = cluster.server.state().events.clone();
    let drift = events.iter().filter(|event| *event == "DriftCorrected");
    assert_eq!(drift.count(), 1, "{events:?}");
}

#[tokio::test]
async fn a_filestore_that_is_made_again_finds_its_users_keys() {
    let cluster = Cluster::new(&with_users());
    cluster.settle().await;
    let keys = (text(&cluster, RUNNER, "id"), text(&cluster, RUNNER, "key"));
    // The garbage collector has not come yet for what the former one owned.
    let mut again = cluster.server.get(FILESTORE).unwrap();
    again["metadata"]["uid"] = json!("uid-again");
    again.as_object_mut().unwrap().remove("status");
    cluster.server.put(FILESTORE, again);
    cluster.settle().await;
    let owner = || cluster.server.get(RENDERED).unwrap()["metadata"]["ownerReferences"].clone();
    assert_eq!(owner()[0]["uid"], "uid-again");
    // It came in between.
    cluster.server.state().objects.remove(RENDERED);
    cluster.settle().await;
    assert_eq!(owner()[0]["uid"], "uid-again");
    assert_eq!(access_keys(&cluster)[0], keys.0);
    assert_eq!(
        (text(&cluster, RUNNER, "id"), text(&cluster, RUNNER, "key")),
        keys
    );
}

#[tokio::test]
async fn a_change_of_engine_takes_the_keys_along() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    let variables = || {
        let deployment = cluster.server.get(DEPLOYMENT).unwrap();
        let gateway = &deployment["spec"]["template"]["spec"]["containers"][0];
        gateway["env"]
            .to_string()
            .contains("ROOT_SECRET_ACCESS_KEY")
    };
    assert!(!variables());
    let mut spec = fresh();
    spec["engine"] = json!("versitygw");
    spec["versitygw"] = json!({"image": "versitygw:1.8.0"});
    cluster.set_spec(&spec, 2);
    cluster.settle().await;
    assert!(variables());
    assert_eq!(cluster.status()["phase"], "Ready");
    cluster.set_spec(&fresh(), 3);
    cluster.settle().await;
    assert!(!variables());
    assert_eq!(cluster.status()["phase"], "Ready");
}
