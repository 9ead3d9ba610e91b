//! What becomes of claims.

use http::Method;
use serde_json::json;

use super::*;

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
