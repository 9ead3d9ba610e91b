use http::Method;
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_fresh_store_is_made_in_order_and_then_left_alone() {
    let cluster = Cluster::new(&fresh());
    cluster.round().await.unwrap();
    assert_eq!(
        cluster.take_writes(),
        [
            "PATCH secrets/files-access",
            "POST persistentvolumeclaims",
            "PATCH serviceaccounts/files",
            "PATCH services/files",
            "PATCH deployments/files",
            "PATCH filestores/files/status",
        ]
    );
    assert_eq!(cluster.status()["phase"], "Provisioning");

    cluster.settle().await;
    assert_eq!(
        cluster.take_writes(),
        ["PATCH pods/files-1", "PATCH filestores/files/status"]
    );
    let status = cluster.status();
    assert_eq!(status["phase"], "Ready");
    assert_eq!(status["endpoint"], "http://files.ns:9000");
    assert_eq!(
        status["storage"],
        json!({"claimName": "files", "volumeName": "pv-1", "capacity": "20Gi"})
    );
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(
        cluster.condition("Ready"),
        ("True".into(), "Serving".into())
    );
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "NotRequested".into())
    );
    assert_eq!(cluster.server.state().events, ["ClaimCreated", "Serving"]);

    // Nothing to do: no write, no event.
    cluster.round().await.unwrap();
    assert_eq!(cluster.take_writes(), [""; 0]);
    assert_eq!(cluster.server.state().events.len(), 2);
}

#[tokio::test]
async fn drift_is_put_back_and_told() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    cluster.take_writes();
    let mut deployment = cluster.server.get(DEPLOYMENT).unwrap();
    deployment["spec"]["replicas"] = json!(2);
    deployment["metadata"]["managedFields"] = json!([{
        "manager": "kubectl", "operation": "Update", "subresource": "scale",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }]);
    // Labels of others are none of our business.
    deployment["metadata"]["labels"]["team"] = json!("storage");
    cluster.server.put(DEPLOYMENT, deployment);

    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["PATCH deployments/files"]);
    let deployment = cluster.server.get(DEPLOYMENT).unwrap();
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["metadata"]["labels"]["team"], "storage");
    assert_eq!(
        cluster.server.state().events.last().unwrap(),
        "DriftCorrected"
    );
}

#[tokio::test]
async fn a_missing_secret_is_said_and_nothing_is_made() {
    let cluster = Cluster::new(&fresh());
    cluster.server.state().objects.remove(SECRET);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["PATCH filestores/files/status"]);
    assert_eq!(cluster.status()["phase"], "Failed");
    assert_eq!(
        cluster.condition("Ready"),
        ("False".into(), "SecretMissing".into())
    );
    assert_eq!(cluster.condition("CredentialsReady").0, "False");
    assert!(
        cluster
            .message("Stalled")
            .contains("\"keys\" does not exist; create it")
    );
    assert_eq!(cluster.server.state().events, ["SecretMissing"]);

    let mut without = with_root_keys();
    without["data"]
        .as_object_mut()
        .unwrap()
        .remove("root-password");
    cluster.server.put(SECRET, without);
    cluster.settle().await;
    assert_eq!(cluster.condition("Stalled").1, "SecretKeyMissing");

    cluster.server.put(SECRET, with_root_keys());
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
    assert_eq!(
        cluster.condition("Stalled"),
        ("False".into(), "NoProblem".into())
    );
}

#[tokio::test]
async fn a_store_that_serves_goes_on_when_its_secret_goes_away() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    cluster.server.state().objects.remove(SECRET);
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Degraded");
    assert_eq!(cluster.condition("Ready").0, "True");
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "SecretMissing".into())
    );
    // What was known stays known.
    assert_eq!(cluster.status()["storage"]["capacity"], "20Gi");
}

#[tokio::test]
async fn a_right_that_is_missing_is_said() {
    let cluster = Cluster::new(&fresh());
    let words = "secrets \"keys\" is forbidden";
    let refused = (Method::GET, "secrets/keys", 403, words);
    cluster.server.state().refused.push(refused);
    assert_eq!(
        cluster.round().await.unwrap_err(),
        format!("get Secret \"keys\": {words}")
    );
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "RequestRefused".into())
    );
    assert!(cluster.message("Stalled").contains(words));
    cluster.server.state().refused.clear();
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn what_others_made_is_left_alone() {
    let cluster = Cluster::new(&fresh());
    let foreign = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "files", "labels": {"app.kubernetes.io/managed-by": "Helm"}},
        "spec": {"selector": {}, "template": {}},
    });
    cluster.server.put(DEPLOYMENT, foreign);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Ready"),
        ("False".into(), "NameTaken".into())
    );
    assert!(cluster.message("Ready").contains("managed by Helm"));
    assert!(
        !cluster
            .writes()
            .iter()
            .any(|write| write.contains("deployments"))
    );

    let cluster = Cluster::new(&fresh());
    let foreign = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "files"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    });
    cluster.server.put(CLAIM, foreign);
    cluster.round().await.unwrap();
    assert_eq!(
        cluster.condition("StorageReady"),
        ("False".into(), "ClaimConflict".into())
    );
    let writes = cluster.take_writes();
    assert!(
        !writes
            .iter()
            .any(|write| write.contains("claims") || write.contains("deployments")),
        "{writes:?}"
    );
}

#[tokio::test]
async fn a_spec_of_another_version_is_said_and_harms_nobody() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    let mut spec = fresh();
    spec["shiny"] = json!(true);
    cluster.set_spec(&spec, 2);
    cluster.round().await.unwrap();
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "InvalidSpec".into())
    );
    assert!(
        cluster.message("Stalled").contains("spec.shiny"),
        "{}",
        cluster.message("Stalled")
    );
    assert!(cluster.server.get(DEPLOYMENT).is_some());
}

#[tokio::test]
async fn a_status_of_another_version_is_replaced() {
    let cluster = Cluster::new(&fresh());
    let mut object = cluster.server.get(FILESTORE).unwrap();
    object["status"] = json!({"conditions": "what?"});
    cluster.server.put(FILESTORE, object);
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
}
