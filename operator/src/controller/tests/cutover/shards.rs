//! Rounds of copying that several workers share.

use std::net::IpAddr;

use super::super::indexed::LOST;
use super::*;
use crate::told::Told;

pub(super) fn shared() -> Value {
    let mut spec = take_over();
    spec["migration"]["shards"] = json!(3);
    spec
}

/// Rounds of everybody until the first Job of copying is there, and its workers.
async fn begun(spec: &Value) -> Cluster {
    let cluster = with_minio(spec);
    while cluster
        .server
        .get("/api/v1/namespaces/ns/pods/files-copy-1-2-0-x")
        .is_none()
    {
        cluster.round().await.unwrap();
        cluster.all_others_act();
    }
    cluster
}

#[tokio::test]
async fn each_round_is_an_indexed_job_and_the_rest_is_one_pod_each() {
    let mut spec = shared();
    spec["migration"]["bandwidth"] = json!("3Mi");
    let cluster = with_minio(&spec);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(
        cluster.jobs(),
        ["files-copy-1", "files-final-1", "files-gate-1"]
    );
    let copy = cluster.job("files-copy-1")["spec"].clone();
    assert_eq!(copy["completionMode"], "Indexed");
    assert_eq!(
        (&copy["completions"], &copy["parallelism"]),
        (&json!(3), &json!(3))
    );
    // By index: one that fails keeps no other from its work.
    assert_eq!(copy["backoffLimitPerIndex"], 3);
    assert!(copy["backoffLimit"].is_null() && copy["maxFailedIndexes"].is_null());
    let rules = &copy["podFailurePolicy"]["rules"];
    assert_eq!(
        rules[0]["onExitCodes"]["values"],
        json!([1, 2, 3, 5, 6, 7, 8])
    );
    let args = copy["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(
        args.contains(r#""--shard","$(JOB_COMPLETION_INDEX)/3""#),
        "{args}"
    );
    // Together they read what is allowed.
    assert!(args.contains(r#""--bandwidth","1048576""#), "{args}");
    // On the node of the volume, which is that of the legacy pod.
    let affinity = &copy["template"]["spec"]["affinity"];
    let term = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        [0];
    assert_eq!(term["matchFields"][0]["values"], json!(["node-a"]));
    for name in ["files-gate-1", "files-final-1"] {
        let spec = cluster.job(name)["spec"].clone();
        assert!(spec["completionMode"].is_null(), "{name}");
        assert!(!spec.to_string().contains("--shard"), "{name}");
    }
    let status = cluster.status();
    assert_eq!(
        status["migration"]["plan"]["leftBehind"],
        json!(["noncurrentVersions"])
    );

    // A deadline is an end like others: a worker that started again would have all of it once more.
    spec["migration"]["deadline"] = json!("6h");
    let cluster = begun(&spec).await;
    let rules = cluster.job("files-copy-1")["spec"]["podFailurePolicy"]["rules"].clone();
    assert_eq!(
        rules[0]["onExitCodes"]["values"],
        json!([1, 2, 3, 4, 5, 6, 7, 8])
    );
}

#[tokio::test]
async fn workers_spread_over_nodes_where_the_volume_can_be_mounted_there() {
    let mut spec = shared();
    spec["storage"]["accessModes"] = json!(["ReadWriteMany"]);
    let cluster = begun(&spec).await;
    let pod = cluster.job("files-copy-1")["spec"]["template"]["spec"].clone();
    assert!(pod["affinity"].is_null(), "{pod}");

    // A claim of one pod is known when it is seen.
    let mut spec = shared();
    spec["storage"] = json!({"existingClaim": "mine"});
    let cluster = with_minio(&spec);
    cluster.server.put(
        &CLAIM.replace("files", "mine"),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"},
            "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        }),
    );
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Refused");
    assert!(
        cluster
            .message("Migrated")
            .contains("remove migration.shards")
    );
    assert_eq!(cluster.jobs(), [""; 0]);
}

#[tokio::test]
async fn progress_is_that_of_all_workers() {
    let cluster = begun(&shared()).await;
    let at = |index: u8, objects: i64| {
        let address: IpAddr = format!("10.0.1.{index}").parse().unwrap();
        let told = Told {
            objects: Some(objects),
            objects_expected: Some(100),
            bytes: Some(objects),
            ..Told::default()
        };
        cluster.volume.script().told.insert(address, told);
    };
    at(0, 20);
    at(1, 40);
    at(2, 90);
    cluster.round().await.unwrap();
    let migration = cluster.status()["migration"].clone();
    assert_eq!(migration["copiedPercent"], 50);
    assert_eq!(
        (&migration["objects"], &migration["bytes"]),
        (&json!(150), &json!(150))
    );
    let message = cluster.message("Migrated");
    assert!(
        message.starts_with("round 1 of copying, 0 of 3 workers done"),
        "{message}"
    );
    // Until the cut-over it is what the last round did.
    cluster.volume.script().exits = vec![("gate", 4)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "AwaitingApproval");
    assert_eq!(cluster.status()["migration"]["copiedPercent"], 100);
}

#[tokio::test]
async fn little_is_left_when_all_of_them_together_copied_little() {
    // 40 each are more than 100 together.
    let cluster = with_minio(&shared());
    cluster.volume.script().shares = vec![40; 3];
    cluster.carry_on().await;
    assert_eq!(cluster.status()["migration"]["rounds"], 5);

    let cluster = with_minio(&shared());
    cluster.volume.script().shares = vec![98, 1, 1];
    cluster.carry_on().await;
    assert_eq!(cluster.status()["migration"]["rounds"], 1);
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn a_worker_that_was_killed_or_lost_is_started_again_alone() {
    let cluster = with_minio(&shared());
    cluster.volume.script().workers = vec![(1, 137), (2, LOST)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(cluster.status()["migration"]["rounds"], 1);
    let pods = |index: u8, start: u8| {
        let path = format!("/api/v1/namespaces/ns/pods/files-copy-1-{index}-{start}-x");
        cluster.server.get(&path).is_some()
    };
    assert!(!pods(0, 1) && pods(1, 1) && pods(2, 1));
    assert!(!pods(1, 2) && !pods(2, 2));
}

#[tokio::test]
async fn while_a_worker_is_started_again_the_round_is_not_over() {
    let cluster = begun(&shared()).await;
    cluster.volume.script().workers = vec![(1, 137)];
    // All ended, and nobody started the one again yet.
    cluster.all_others_act();
    cluster.round().await.unwrap();
    assert_eq!(cluster.condition("Migrated").1, "Precopying");
    let message = cluster.message("Migrated");
    assert!(
        message.contains("worker 1 of 3: it ended with exit code 137"),
        "{message}"
    );
    assert_eq!(cluster.jobs(), ["files-copy-1"]);
}

#[tokio::test]
async fn objects_that_changed_in_one_share_do_not_hold_the_rounds_up() {
    let cluster = with_minio(&shared());
    cluster.volume.script().workers = vec![(2, 7)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(cluster.status()["migration"]["rounds"], 1);
}

#[tokio::test]
async fn the_worst_worker_is_told_and_the_next_round_goes_on() {
    let cluster = with_minio(&shared());
    cluster.volume.script().workers = vec![(0, 1), (1, 7), (2, 6)];
    cluster.carry_on().await;
    assert_eq!(
        cluster.condition("Migrated"),
        ("False".into(), "CredentialsRefused".into())
    );
    let message = cluster.message("Migrated");
    assert!(
        message.starts_with("worker 2 of 3: as 6 says; 1 more failed"),
        "{message}"
    );
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(cluster.jobs(), ["files-copy-1"]);
    let_time_pass(&cluster);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(cluster.status()["migration"]["rounds"], 2);
}

#[tokio::test]
async fn a_worker_that_is_lost_again_and_again_ends_the_round() {
    let cluster = with_minio(&shared());
    cluster.volume.script().workers = vec![(1, LOST); 4];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Interrupted");
    let message = cluster.message("Migrated");
    assert!(message.contains("worker 1 of 3: NodeLost"), "{message}");
    assert_eq!(cluster.legacy_replicas(), 1);
    let_time_pass(&cluster);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn out_of_time_is_a_round_whose_workers_only_ran_out_of_time() {
    let mut spec = shared();
    spec["migration"]["deadline"] = json!("6h");
    let cluster = with_minio(&spec);
    cluster.volume.script().workers = vec![(0, 4), (2, 4)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "DeadlinePassed");
    let cluster = with_minio(&spec);
    cluster.volume.script().workers = vec![(0, 4), (2, 1)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "ObjectsFailed");
}
