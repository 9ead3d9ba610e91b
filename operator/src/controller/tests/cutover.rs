//! The take-over of a running MinIO, from its discovery to the way back.

mod aborted;
mod again;
mod killed;
mod limits;
mod refused;
mod shards;

use serde_json::json;

use super::legacy::{LEGACY, LEGACY_POD, LEGACY_SERVICE, minio, take_over, with_minio};
use super::*;

fn set(cluster: &Cluster, path: &str, edit: impl FnOnce(&mut Value)) {
    let mut object = cluster.server.get(path).unwrap();
    edit(&mut object);
    cluster.server.put(path, object);
}

/// The last try was long ago.
fn let_time_pass(cluster: &Cluster) {
    let paths: Vec<String> = cluster.server.state().objects.keys().cloned().collect();
    for path in paths.iter().filter(|path| path.ends_with("-x")) {
        set(cluster, path, |pod| {
            let at = "/status/containerStatuses/0/state/terminated/finishedAt";
            if let Some(at) = pod.pointer_mut(at) {
                *at = json!("2026-11-30T10:00:00Z");
            }
        });
    }
    for path in paths.iter().filter(|path| path.contains("/jobs/")) {
        set(cluster, path, |job| {
            let annotations = &mut job["metadata"]["annotations"];
            if let Some(at) = annotations.get_mut("filestore.ryax.tech/aborted-at") {
                *at = json!("2026-11-30T10:00:00Z");
            }
        });
    }
}

#[tokio::test]
async fn a_running_minio_is_taken_over() {
    let cluster = with_minio(&take_over());
    let service = cluster.server.get(LEGACY_SERVICE).unwrap();
    cluster.carry_on().await;

    assert_eq!(
        cluster.jobs(),
        ["files-copy-1", "files-final-1", "files-gate-1"]
    );
    assert_eq!(cluster.legacy_replicas(), 0);
    assert_eq!(cluster.record()["stage"], "handedOver");
    assert_eq!(cluster.record()["replicas"], 1);
    assert!(cluster.gateway_is_ready());
    assert_eq!(cluster.volume.script().asked, ["try", "hand over"]);
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "Completed".into())
    );
    let status = cluster.status();
    assert_eq!(status["phase"], "Ready");
    let migration = &status["migration"];
    assert_eq!(migration["handedOver"], "run-1");
    assert_eq!(
        (&migration["objects"], &migration["bytes"]),
        (&json!(1007), &json!(4096))
    );
    assert_eq!(migration["copiedPercent"], 100);
    assert_eq!(
        migration["plan"]["leftBehind"],
        json!(["noncurrentVersions"])
    );
    assert_eq!(migration["plan"]["wayBack"], true);
    let source = &migration["source"];
    assert_eq!(source["workload"]["uid"], format!("uid-{LEGACY}"));
    assert_eq!(
        source["services"][0]["uid"],
        format!("uid-{LEGACY_SERVICE}")
    );
    assert_eq!(source["claim"]["uid"], format!("uid-{LEGACY_CLAIM}"));
    assert_eq!(source["secret"], "ryax-minio-secret");
    for part in [
        "stopSeconds",
        "finalSeconds",
        "startSeconds",
        "totalSeconds",
    ] {
        assert!(migration["freeze"][part].is_number(), "{part}: {migration}");
    }

    // The pod is found by the Service of the chart, which is left alone.
    let pod = cluster.server.get(POD).unwrap();
    for (key, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(pod["metadata"]["labels"][key], *value, "{key}");
    }
    assert_eq!(cluster.server.get(LEGACY_SERVICE).unwrap(), service);
    // As the user whose files it took over.
    assert_eq!(pod["spec"]["securityContext"]["runAsUser"], 1001);
    // Our own selector never contains what may be worn by others.
    let deployment = cluster.server.get(DEPLOYMENT).unwrap();
    let selector = deployment["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    assert_eq!(selector.len(), 2, "{selector:?}");

    // At rest nothing is written.
    cluster.take_writes();
    cluster.round().await.unwrap();
    assert_eq!(cluster.take_writes(), [""; 0]);
    let told = cluster.server.state().events.clone();
    for event in [
        "ClaimProtected",
        "Precopying",
        "LegacyStopped",
        "HandOver",
        "Completed",
    ] {
        assert!(told.iter().any(|found| found == event), "{event}: {told:?}");
    }
}

#[tokio::test]
async fn its_claim_is_protected_before_anything_else() {
    let cluster = with_minio(&take_over());
    cluster.take_writes();
    cluster.round().await.unwrap();
    assert_eq!(
        cluster.take_writes()[0],
        "PATCH persistentvolumeclaims/ryax-minio"
    );
    // The legacy drive is never written: read-only as a volume, so that no owner changes either.
    cluster.carry_on().await;
    let job = cluster.job("files-final-1");
    let volumes = job["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap();
    let source = volumes
        .iter()
        .find(|volume| volume["name"] == "source")
        .unwrap();
    assert_eq!(
        source["persistentVolumeClaim"],
        json!({"claimName": "ryax-minio", "readOnly": true})
    );
}

#[tokio::test]
async fn jobs_are_made_once_and_restricted() {
    let cluster = with_minio(&take_over());
    cluster.carry_on().await;
    for name in cluster.jobs() {
        let job = cluster.job(&name);
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(job["spec"]["backoffLimit"], 0, "{name}");
        assert_eq!(pod["restartPolicy"], "Never", "{name}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
        assert_eq!(
            job["metadata"]["ownerReferences"][0]["uid"], "uid-files",
            "{name}"
        );
        let node =
            &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let at = &node["nodeSelectorTerms"][0]["matchFields"][0]["values"];
        assert_eq!(*at, json!(["node-a"]), "{name}");
        let containers = pod["containers"].as_array().unwrap();
        let all = containers
            .iter()
            .chain(pod["initContainers"].as_array().into_iter().flatten());
        for container in all {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{name}");
        }
    }
    let copy = cluster.job("files-copy-1");
    let container = &copy["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().unwrap();
    assert_eq!(
        args[..6],
        [
            "migrate",
            "copy",
            "--from",
            "http://ryax-minio.ns.svc:9000",
            "--to",
            "volume:/data"
        ]
    );
    let key = container["env"].as_array().unwrap();
    let key = key
        .iter()
        .find(|one| one["name"] == "FILESTORE_FROM_SECRET_KEY")
        .unwrap();
    assert_eq!(
        key["valueFrom"]["secretKeyRef"],
        json!({"name": "ryax-minio-secret", "key": "root-password"})
    );
}

#[tokio::test]
async fn rounds_of_copying_go_on_until_little_is_left() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().changed = vec![5000, 800, 101, 100];
    cluster.carry_on().await;
    assert_eq!(cluster.status()["migration"]["rounds"], 4);
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    // The cluster may remove all but the last three.
    assert_eq!(
        cluster.job("files-copy-1")["spec"]["ttlSecondsAfterFinished"],
        0
    );
    assert!(cluster.job("files-copy-2")["spec"]["ttlSecondsAfterFinished"].is_null());

    // Clients that never pause do not keep it from going on.
    let cluster = with_minio(&take_over());
    cluster.volume.script().changed = vec![5000; 9];
    cluster.carry_on().await;
    assert_eq!(cluster.status()["migration"]["rounds"], 5);
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn objects_that_clients_keep_changing_do_not_hold_the_rounds_up() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().exits = vec![("copy", 7), ("copy", 7)];
    cluster.volume.script().changed = vec![5000, 800];
    cluster.carry_on().await;
    assert_eq!(cluster.status()["migration"]["rounds"], 3);
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn a_manual_cut_over_waits_for_the_approval_of_its_plan() {
    let mut spec = take_over();
    spec["migration"]["cutover"] = json!("manual");
    let cluster = with_minio(&spec);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "AwaitingApproval");
    assert_eq!(cluster.condition("Stalled").0, "False");
    assert_eq!(cluster.legacy_replicas(), 1);
    let hash = cluster.status()["migration"]["plan"]["hash"].clone();
    assert!(cluster.message("Migrated").contains(hash.as_str().unwrap()));
    assert!(cluster.message("Migrated").contains("noncurrentVersions"));

    spec["migration"]["approve"] = json!("0123456789abcdef");
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "AwaitingApproval");

    spec["migration"]["approve"] = hash;
    cluster.set_spec(&spec, 3);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn without_a_way_back_even_auto_waits() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().exits = vec![("gate", 4)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "AwaitingApproval");
    assert!(
        cluster
            .message("Migrated")
            .starts_with("there is NO WAY BACK")
    );
    assert_eq!(cluster.status()["migration"]["plan"]["wayBack"], false);
    let mut spec = take_over();
    spec["migration"]["approve"] = cluster.status()["migration"]["plan"]["hash"].clone();
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn a_legacy_store_that_comes_back_afterwards_is_stopped_and_told() {
    let cluster = with_minio(&take_over());
    cluster.carry_on().await;
    set(&cluster, LEGACY, |legacy| {
        legacy["spec"]["replicas"] = json!(1);
    });
    cluster.round().await.unwrap();
    assert_eq!(cluster.legacy_replicas(), 0, "before its pod was there");
    cluster.carry_on().await;
    assert!(
        cluster
            .server
            .state()
            .events
            .contains(&"WritersSeen".to_owned())
    );
    assert_eq!(
        cluster.condition("Migrated"),
        ("False".into(), "Diverged".into())
    );
    assert!(cluster.message("Migrated").contains("kubectl"));
    assert_eq!(cluster.status()["phase"], "Degraded");
    assert!(cluster.gateway_is_ready());

    // A chart that makes the workload anew does not get the store back either.
    for (path, object) in minio() {
        cluster.server.put(path, object);
    }
    cluster.round().await.unwrap();
    assert_eq!(cluster.legacy_replicas(), 0);
    assert_eq!(cluster.record()["stage"], "handedOver");
}

#[tokio::test]
async fn a_lost_status_changes_nothing() {
    let cluster = with_minio(&take_over());
    cluster.carry_on().await;
    let before = cluster.server.get(DEPLOYMENT).unwrap();
    set(&cluster, FILESTORE, |filestore| {
        filestore["status"] = json!({});
    });
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(cluster.legacy_replicas(), 0);
    let after = cluster.server.get(DEPLOYMENT).unwrap();
    assert_eq!(before["spec"], after["spec"]);
    // Nor does it when the legacy workload is deleted.
    cluster.server.state().objects.remove(LEGACY);
    cluster.carry_on().await;
    assert_eq!(
        cluster.server.get(DEPLOYMENT).unwrap()["spec"],
        before["spec"]
    );
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn all_goes_back_and_is_taken_over_again() {
    let cluster = with_minio(&take_over());
    cluster.carry_on().await;
    let mut spec = take_over();
    spec["migration"]["rollback"] = json!({"requestID": "run-1"});
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(cluster.record()["stage"], "rolledBack");
    assert!(cluster.server.get(POD).is_none());
    assert_eq!(cluster.condition("Migrated").1, "RolledBack");
    let back = cluster.job("files-back-1");
    let pod = &back["spec"]["template"]["spec"];
    let minio = &pod["initContainers"][0];
    assert_eq!(minio["restartPolicy"], "Always", "a native sidecar");
    assert_eq!(minio["image"], "docker.io/bitnamilegacy/minio:2025.7.23");
    assert!(
        minio["command"][2]
            .as_str()
            .unwrap()
            .contains("127.0.0.1:$1")
    );
    let args = pod["containers"][0]["args"].as_array().unwrap();
    assert_eq!(
        args[..6],
        [
            "migrate",
            "roll-back",
            "--from",
            "volume:/data",
            "--to",
            "http://127.0.0.1:9000"
        ]
    );
}

#[tokio::test]
async fn the_way_back_can_be_given_up() {
    let cluster = with_minio(&take_over());
    cluster.carry_on().await;
    cluster.volume.script().exits = vec![("back", 8)];
    let mut spec = take_over();
    spec["migration"]["rollback"] = json!({"requestID": "run-1"});
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Diverged");
    assert_eq!(cluster.legacy_replicas(), 0);
    assert!(cluster.server.get(POD).is_none());
    cluster.volume.script().marker = Some(MarkerState::RollingBack);

    cluster.set_spec(&take_over(), 3);
    cluster.carry_on().await;
    assert!(cluster.jobs().contains(&"files-abandon-1".to_owned()));
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert!(cluster.gateway_is_ready());
    assert_eq!(cluster.legacy_replicas(), 0);
}
