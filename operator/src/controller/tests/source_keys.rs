//! Keys of a running source that are corrected while the take-over in the pod fails.

use super::*;
use crate::told::Told;

const ADDRESS: &str = "10.0.0.9";
const LEGACY_KEYS: &str = "/api/v1/namespaces/ns/secrets/legacy";

fn online() -> Value {
    json!({
        "credentials": {"secretRef": {"name": "keys"}},
        "storage": {"size": "20Gi"},
        "migration": {"id": "run-1", "source": {
            "endpoint": "http://legacy:9000",
            "credentials": {"secretRef": {"name": "legacy"}},
        }},
    })
}

/// base64 of a secret key.
fn put_keys(cluster: &Cluster, secret_key: &str) {
    let mut secret = with_root_keys();
    secret["metadata"]["name"] = json!("legacy");
    secret["data"]["root-password"] = json!(secret_key);
    cluster.server.put(LEGACY_KEYS, secret);
}

/// The pod of the Deployment, with the take-over in this state.
fn put_pod(cluster: &Cluster, state: &Value) {
    let mut pod = ready_pod(&cluster.server.get(DEPLOYMENT).unwrap());
    let init = pod["status"]["initContainerStatuses"]
        .as_array_mut()
        .unwrap();
    let migrate = init.iter_mut().find(|one| one["name"] == "migrate");
    let migrate = migrate.unwrap().as_object_mut().unwrap();
    migrate.remove("state");
    migrate.extend(state.as_object().unwrap().clone());
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    pod["status"]["containerStatuses"] = json!([]);
    pod["status"]["podIP"] = json!(ADDRESS);
    cluster.server.put(POD, pod);
}

fn refused() -> Value {
    json!({
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "InvalidAccessKeyId"}},
    })
}

async fn deployment_is_applied(cluster: &Cluster) -> bool {
    cluster.take_writes();
    cluster.settle().await;
    let writes = cluster.take_writes();
    writes.contains(&"PATCH deployments/files".to_owned())
}

fn template(cluster: &Cluster) -> Value {
    cluster.server.get(DEPLOYMENT).unwrap()["spec"]["template"].clone()
}

#[tokio::test]
async fn keys_that_are_corrected_replace_a_pod_that_fails() {
    let cluster = Cluster::new(&online());
    put_keys(&cluster, "d3Jvbmc=");
    while cluster.server.get(DEPLOYMENT).is_none() {
        cluster.round().await.unwrap();
    }
    put_pod(&cluster, &refused());
    // It fails, and nobody corrected anything.
    assert!(!deployment_is_applied(&cluster).await);
    let before = template(&cluster);

    put_keys(&cluster, "cmlnaHQ=");
    assert!(deployment_is_applied(&cluster).await);
    assert_ne!(template(&cluster), before, "the pod is replaced");
    let events = cluster.server.state().events.clone();
    assert!(!events.contains(&"DriftCorrected".to_owned()), "{events:?}");
    // Once.
    assert!(!deployment_is_applied(&cluster).await);

    // One that waits for a source which refuses it is replaced as well.
    let running = json!({"restartCount": 0, "state": {"running": {}}});
    put_pod(&cluster, &running);
    cluster.volume.script().told.insert(
        ADDRESS.parse().unwrap(),
        Told {
            connecting_fails: true,
            ..Told::default()
        },
    );
    assert!(!deployment_is_applied(&cluster).await);
    put_keys(&cluster, "cmlnaHRlcg==");
    assert!(deployment_is_applied(&cluster).await);
    cluster.volume.script().told.clear();

    // A take-over at work is left alone, whatever becomes of the Secret; and so is a store.
    put_pod(&cluster, &running);
    put_keys(&cluster, "b3RoZXI=");
    assert!(!deployment_is_applied(&cluster).await);
    let deployment = cluster.server.get(DEPLOYMENT).unwrap();
    cluster.server.put(POD, ready_pod(&deployment));
    put_keys(&cluster, "bmV3ZXI=");
    assert!(!deployment_is_applied(&cluster).await);
    assert_eq!(cluster.condition("Migrated").0, "True");
}
