//! What cannot be taken over.

use super::*;

#[tokio::test]
async fn a_volume_that_cannot_be_prepared_is_said_in_its_words() {
    let mut spec = take_over();
    spec["storage"]["metadata"] = json!("xattr");
    let cluster = with_minio(&spec);
    while cluster.jobs().is_empty() {
        cluster.round().await.unwrap();
        cluster.others_act();
    }
    set(
        &cluster,
        "/apis/batch/v1/namespaces/ns/jobs/files-copy-1",
        |job| {
            job["status"] = json!({"conditions": [
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"},
            ]});
        },
    );
    let job = cluster.job("files-copy-1");
    let mut labels = job["spec"]["template"]["metadata"]["labels"].clone();
    labels["batch.kubernetes.io/job-name"] = json!("files-copy-1");
    let ended = json!({"terminated": {
        "exitCode": 5, "reason": "Error", "message": "no extended attributes",
        "finishedAt": format!("{:.0}", jiff::Timestamp::now()),
    }});
    let state = |name: &str, state: Value| json!([{"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
    cluster.server.put("/api/v1/namespaces/ns/pods/files-copy-1-x", json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "files-copy-1-x", "labels": labels},
        "spec": job["spec"]["template"]["spec"],
        "status": {
            "phase": "Failed",
            "initContainerStatuses": state("layout", ended),
            "containerStatuses": state("migrate", json!({"waiting": {"reason": "PodInitializing"}})),
        },
    }));
    cluster.round().await.unwrap();
    assert_eq!(cluster.condition("Migrated").1, "Refused");
    let told = cluster.message("Migrated");
    assert!(told.contains("no extended attributes"), "{told}");
    assert_eq!(cluster.legacy_replicas(), 1);
}

#[tokio::test]
async fn several_are_ambiguous_and_none_is_a_fresh_store() {
    let cluster = with_minio(&take_over());
    let mut other = cluster.server.get(LEGACY).unwrap();
    other["metadata"]["name"] = json!("other");
    let path = LEGACY.replace("ryax-minio", "other");
    cluster.server.put(&path, other);
    cluster.take_writes();
    cluster.settle().await;
    assert_eq!(cluster.condition("Migrated").1, "AmbiguousSource");
    assert!(
        cluster
            .message("Migrated")
            .contains("Deployment other, Deployment ryax-minio")
    );
    assert!(cluster.server.get(DEPLOYMENT).is_none());
    assert_eq!(cluster.legacy_replicas(), 1);

    let mut spec = take_over();
    spec["migration"]["source"] = json!({"workload": {"kind": "Deployment", "name": "missing"}});
    cluster.set_spec(&spec, 2);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Migrated"),
        ("True".into(), "NothingToMigrate".into())
    );
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn what_cannot_be_taken_over_is_said() {
    type Edit = fn(&mut Value);
    let cases: [(&str, Edit, &str, &str); 7] = [
        (
            LEGACY,
            |found| found["spec"]["replicas"] = json!(4),
            "SourceUnsupported",
            "4 replicas",
        ),
        (
            LEGACY,
            |found| {
                found["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] =
                    json!("/elsewhere");
            },
            "SourceUnsupported",
            "its data in /elsewhere is on no claim",
        ),
        (
            LEGACY,
            |found| volume_is(found, json!({"name": "data", "emptyDir": {}})),
            "SourceUnsupported",
            "its data in /bitnami/minio/data is on no claim (it is an emptyDir, which goes with the pod); name migration.source.endpoint",
        ),
        (
            LEGACY,
            |found| {
                volume_is(
                    found,
                    json!({"name": "data", "hostPath": {"path": "/srv/minio"}}),
                );
            },
            "SourceUnsupported",
            "is on no claim (it is the folder /srv/minio of a node)",
        ),
        (
            LEGACY_CLAIM,
            |found| found["spec"]["accessModes"] = json!(["ReadWriteOncePod"]),
            "SourceUnsupported",
            "PersistentVolumeClaim ryax-minio is ReadWriteOncePod: no pod reads it beside the legacy store; scale it to 0",
        ),
        (
            LEGACY_SERVICE,
            |found| found["spec"]["selector"] = json!({"a": "b"}),
            "SourceUnsupported",
            "no Service",
        ),
        (
            LEGACY_SERVICE,
            |found| found["spec"]["ports"][0]["targetPort"] = json!("s3"),
            "CompatServiceConflict",
            "leads to \"s3\"",
        ),
    ];
    for (path, edit, reason, words) in cases {
        let cluster = with_minio(&take_over());
        set(&cluster, path, edit);
        if reason == "CompatServiceConflict" {
            set(&cluster, LEGACY, |found| {
                found["spec"]["template"]["spec"]["containers"][0]["ports"] =
                    json!([{"name": "s3", "containerPort": 9000}]);
            });
        }
        cluster.settle().await;
        assert_eq!(
            cluster.condition("Stalled"),
            ("True".into(), reason.into()),
            "{words}"
        );
        assert!(
            cluster.message("Migrated").contains(words),
            "{}",
            cluster.message("Migrated")
        );
        assert!(cluster.server.get(DEPLOYMENT).is_none());
        assert_eq!(cluster.jobs(), [""; 0], "{words}: nothing is begun");
        assert!(
            cluster.server.get(LEGACY_POD).is_some(),
            "{words}: nothing is stopped"
        );
    }
}

fn volume_is(legacy: &mut Value, volume: Value) {
    legacy["spec"]["template"]["spec"]["volumes"][1] = volume;
}

#[tokio::test]
async fn a_drive_that_one_pod_alone_may_have_is_taken_over_once_that_is_gone() {
    let cluster = with_minio(&take_over());
    set(&cluster, LEGACY_CLAIM, |claim| {
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    });
    cluster.settle().await;
    assert_eq!(cluster.condition("Migrated").1, "SourceUnsupported");
    // What the condition says.
    set(&cluster, LEGACY, |legacy| {
        legacy["spec"]["replicas"] = json!(0);
    });
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(cluster.jobs(), ["files-final-1", "files-gate-1"]);
}
