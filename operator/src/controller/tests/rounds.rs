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
            "POST persistentvolumeclaims",
            "PATCH serviceaccounts/files",
            "PATCH services/files",
            "PATCH deployments/files",
            "PATCH filestores/files/status",
        ]
    );
    assert_eq!(cluster.status()["phase"], "Provisioning");

    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["PATCH filestores/files/status"]);
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
async fn the_claim_has_no_owner_and_the_rest_has() {
    let cluster = Cluster::new(&fresh());
    // Argo CD's marks on the Filestore must not get onto what it does not render.
    let mut object = cluster.server.get(FILESTORE).unwrap();
    object["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "app"});
    object["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": "app:x"});
    cluster.server.put(FILESTORE, object);
    cluster.settle().await;
    let claim = cluster.server.get(CLAIM).unwrap();
    assert!(claim["metadata"]["ownerReferences"].is_null(), "{claim}");
    let annotations = &claim["metadata"]["annotations"];
    assert_eq!(annotations["helm.sh/resource-policy"], "keep");
    assert_eq!(
        annotations["argocd.argoproj.io/sync-options"],
        "Prune=false,Delete=false"
    );
    for path in [CLAIM, DEPLOYMENT, SERVICE, ACCOUNT] {
        let metadata = &cluster.server.get(path).unwrap()["metadata"];
        assert!(
            metadata["labels"]["app.kubernetes.io/instance"].is_null(),
            "{path}"
        );
        assert!(
            metadata["annotations"]["argocd.argoproj.io/tracking-id"].is_null(),
            "{path}"
        );
    }
    for path in [DEPLOYMENT, SERVICE, ACCOUNT] {
        let object = cluster.server.get(path).unwrap();
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], "uid-files", "{path}");
        assert_eq!(owner["controller"], true, "{path}");
        // An owner that cannot be deleted before its children would need more rights.
        assert!(owner["blockOwnerDeletion"].is_null(), "{path}");
    }
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
async fn growth_is_patched_and_shrinking_refused() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    cluster.take_writes();
    let mut spec = fresh();
    spec["storage"]["size"] = json!("30Gi");
    cluster.set_spec(&spec, 2);
    cluster.settle().await;
    let claim = cluster.server.get(CLAIM).unwrap();
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "30Gi");
    // The pod does not start again for it.
    assert!(
        !cluster
            .writes()
            .iter()
            .any(|write| write.contains("deployments"))
    );
    assert!(
        cluster
            .server
            .state()
            .events
            .contains(&"ClaimGrows".to_owned())
    );

    cluster.take_writes();
    spec["storage"]["size"] = json!("30000Mi");
    cluster.set_spec(&spec, 3);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["PATCH filestores/files/status"]);
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "ShrinkRefused".into())
    );
    assert_eq!(cluster.condition("Ready").0, "True");
    assert_eq!(cluster.condition("StorageReady").0, "True");
}

#[tokio::test]
async fn a_volume_that_cannot_grow_is_said_and_tried_again() {
    let cluster = Cluster::new(&fresh());
    cluster.settle().await;
    let words = "only dynamically provisioned pvc can be resized";
    cluster.server.state().refused.push((
        Method::PATCH,
        "persistentvolumeclaims/files",
        403,
        words,
    ));
    let mut spec = fresh();
    spec["storage"]["size"] = json!("30Gi");
    cluster.set_spec(&spec, 2);
    assert!(cluster.round().await.unwrap_err().contains(words));
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "RequestRefused".into())
    );
    assert!(cluster.message("Stalled").contains(words));
    assert_eq!(cluster.status()["phase"], "Degraded");
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
async fn an_existing_claim_is_used_and_not_touched() {
    let cluster = Cluster::new(&json!({
        "credentials": {"secretRef": {"name": "keys"}},
        "storage": {"existingClaim": "ryax-minio"},
    }));
    let before = cluster.server.get(LEGACY_CLAIM);
    cluster.settle().await;
    assert_eq!(cluster.server.get(LEGACY_CLAIM), before);
    assert!(cluster.server.get(CLAIM).is_none());
    assert_eq!(cluster.status()["phase"], "Ready");

    cluster.server.state().objects.remove(LEGACY_CLAIM);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("StorageReady"),
        ("False".into(), "ClaimMissing".into())
    );
}

#[tokio::test]
async fn the_legacy_claim_is_protected_first() {
    let cluster = Cluster::new(&offline());
    let before = cluster.server.get(LEGACY_CLAIM).unwrap();
    cluster.settle().await;
    assert_eq!(
        cluster.take_writes()[0],
        "PATCH persistentvolumeclaims/ryax-minio"
    );
    let after = cluster.server.get(LEGACY_CLAIM).unwrap();
    assert_eq!(after["metadata"]["annotations"]["a"], "b");
    assert_eq!(
        after["metadata"]["annotations"]["helm.sh/resource-policy"],
        "keep"
    );
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "Completed".into())
    );
    assert_eq!(
        cluster.status()["migration"],
        json!({"id": "run-1", "copiedPercent": 100})
    );
}

#[tokio::test]
async fn no_store_is_started_beside_an_unnamed_legacy_store() {
    let mut spec = fresh();
    spec["migration"] = json!({});
    let cluster = Cluster::new(&spec);
    let legacy = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "ryax-minio", "labels": {"app.kubernetes.io/name": "minio"}},
        "spec": {"selector": {}, "template": {}},
    });
    let path = "/apis/apps/v1/namespaces/ns/deployments/ryax-minio";
    cluster.server.put(path, legacy);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Ready"),
        ("False".into(), "SourceNotNamed".into())
    );
    assert!(
        cluster
            .message("Migrated")
            .contains("Deployment ryax-minio")
    );
    assert!(cluster.server.get(DEPLOYMENT).is_none());

    cluster.server.state().objects.remove(path);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "NothingToMigrate".into())
    );
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn suspension_keeps_the_claim_and_what_is_known() {
    let cluster = Cluster::new(&offline());
    cluster.settle().await;
    let mut spec = offline();
    spec["suspend"] = json!(true);
    cluster.set_spec(&spec, 2);
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Suspended");
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "Completed".into())
    );
    assert!(cluster.server.get(CLAIM).is_some());
    assert!(cluster.server.get(POD).is_none());

    cluster.set_spec(&offline(), 3);
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
    assert_eq!(cluster.status()["observedGeneration"], 3);
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
