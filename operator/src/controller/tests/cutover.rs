//! The take-over of a running MinIO, from its discovery to the way back.

use filestore_common::marker::MarkerState;
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
            let state = &mut pod["status"]["containerStatuses"][0]["state"]["terminated"];
            if state.is_object() {
                state["finishedAt"] = json!("2026-11-30T10:00:00Z");
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
async fn a_final_pass_that_fails_gives_the_legacy_store_back() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().exits = vec![("final", 3)];
    cluster.carry_on().await;
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(cluster.record(), Value::Null);
    assert!(cluster.server.get(LEGACY_POD).is_some());
    assert!(cluster.server.get(POD).is_none());
    assert_eq!(
        cluster.condition("Migrated"),
        ("False".into(), "CutoverFailed".into())
    );
    assert!(cluster.message("Migrated").contains("exit code 3"));
    assert_eq!(cluster.jobs().len(), 3, "it is tried again later only");

    let_time_pass(&cluster);
    cluster.carry_on().await;
    assert!(cluster.jobs().contains(&"files-final-2".to_owned()));
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(cluster.legacy_replicas(), 0);
}

#[tokio::test]
async fn a_new_store_that_does_not_answer_gives_the_legacy_store_back() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().mute = true;
    cluster.carry_on().await;
    // It is tried for a while.
    assert_eq!(cluster.condition("Migrated").1, "CuttingOver");
    assert!(cluster.message("Migrated").contains("no answer"));
    assert_eq!(cluster.record()["stage"], "frozen");
    let_time_pass(&cluster);
    cluster.round().await.unwrap();
    cluster.all_others_act();
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(
        cluster.server.get(DEPLOYMENT).unwrap()["spec"]["replicas"],
        0
    );
    assert_eq!(cluster.volume.script().asked, [""; 0]);

    cluster.volume.script().mute = false;
    cluster.carry_on().await;
    let_time_pass(&cluster);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn a_legacy_store_started_in_the_middle_ends_the_cut_over() {
    let cluster = with_minio(&take_over());
    while cluster.record()["stage"] != "frozen" {
        cluster.round().await.unwrap();
        cluster.all_others_act();
    }
    set(&cluster, LEGACY, |legacy| {
        legacy["spec"]["replicas"] = json!(1);
    });
    cluster.carry_on().await;
    // What came in between is in the next pass.
    assert!(cluster.volume.script().asked.is_empty());
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(cluster.job("files-final-1")["spec"]["suspend"], true);
    assert_eq!(cluster.condition("Migrated").1, "CutoverFailed");
}

#[tokio::test]
async fn suspended_in_the_middle_it_gives_the_legacy_store_back() {
    let cluster = with_minio(&take_over());
    while cluster.record()["stage"] != "frozen" {
        cluster.round().await.unwrap();
        cluster.all_others_act();
    }
    let mut spec = take_over();
    spec["suspend"] = json!(true);
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.legacy_replicas(), 1);
    assert_eq!(cluster.status()["phase"], "Suspended");
}

#[tokio::test]
async fn a_filestore_that_went_mid_freeze_gives_the_legacy_store_back() {
    let cluster = with_minio(&take_over());
    // Before the freeze and after the hand-over there is nothing to give back.
    let gone = |cluster: &Cluster| cluster.server.state().objects.remove(FILESTORE).unwrap();
    cluster.round().await.unwrap();
    let filestore = gone(&cluster);
    cluster.take_writes();
    thaw(&cluster).await;
    assert_eq!(cluster.take_writes(), [""; 0]);

    cluster.server.put(FILESTORE, filestore);
    while cluster.record()["stage"] != "frozen" {
        cluster.round().await.unwrap();
        cluster.all_others_act();
    }
    // One that is there brings it to an end itself.
    thaw(&cluster).await;
    assert_eq!(cluster.legacy_replicas(), 0);
    let filestore = gone(&cluster);
    // Nobody saw it go: no status is left that names the workload.
    thaw(&cluster).await;
    assert_eq!(cluster.legacy_replicas(), 1);
    assert!(cluster.record().is_null());
    let told = cluster.server.state().events.clone();
    assert_eq!(told.last().map(String::as_str), Some("LegacyStarted"));
    cluster.take_writes();
    thaw(&cluster).await;
    assert_eq!(cluster.take_writes(), [""; 0]);

    cluster.server.put(FILESTORE, filestore);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    gone(&cluster);
    thaw(&cluster).await;
    assert_eq!(cluster.legacy_replicas(), 0);
}

async fn thaw(cluster: &Cluster) {
    let thawed = deletion::thaw(&cluster.context, "ns", "files");
    thawed.await.unwrap();
}

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
    let cases: [(&str, Edit, &str, &str); 4] = [
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
    }
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

/// How it ended, without what differs from run to run.
fn end(cluster: &Cluster) -> Value {
    json!({
        "legacy": cluster.legacy_replicas(),
        "record": cluster.record()["stage"],
        "marker": cluster.volume.script().marker,
        "serves": cluster.gateway_is_ready(),
        "phase": cluster.status()["phase"],
        "migrated": cluster.condition("Migrated").1,
    })
}

async fn play(prepare: &dyn Fn(&Cluster), back: bool, kill: Option<usize>) -> (Value, usize) {
    let mut cluster = with_minio(&take_over());
    prepare(&cluster);
    if back {
        cluster.carry_on().await;
        let mut spec = take_over();
        spec["migration"]["rollback"] = json!({"requestID": "run-1"});
        cluster.set_spec(&spec, 2);
    }
    let count = |cluster: &Cluster| {
        let state = cluster.server.state();
        state.writes.len() + state.events.len()
    };
    let before = count(&cluster);
    if let Some(kill) = kill {
        cluster.server.state().left = Some(kill);
        for _ in 0..80 {
            let died = cluster.round().await.is_err();
            cluster.check();
            if died {
                break;
            }
            cluster.all_others_act();
            cluster.check();
        }
        assert_eq!(
            cluster.server.state().left,
            Some(0),
            "the {kill}th write never came"
        );
        // Everybody else goes on while the operator is down.
        cluster.server.state().left = None;
        while cluster.all_others_act() {
            cluster.check();
        }
        cluster.context = context(&cluster.server, &cluster.volume);
    }
    cluster.carry_on().await;
    let writes = count(&cluster) - before;
    (end(&cluster), writes)
}

async fn the_same_end_after_each_kill(prepare: &dyn Fn(&Cluster), back: bool, least: usize) {
    let (wanted, writes) = play(prepare, back, None).await;
    assert!(writes >= least, "only {writes} writes to kill after");
    for kill in 1..=writes {
        let (found, _) = play(prepare, back, Some(kill)).await;
        assert_eq!(found, wanted, "killed after write {kill} of {writes}");
    }
}

#[tokio::test]
async fn killed_after_each_write_of_a_take_over() {
    the_same_end_after_each_kill(&|_| {}, false, 25).await;
}

#[tokio::test]
async fn killed_after_each_write_of_a_failing_cut_over() {
    let fails = |cluster: &Cluster| cluster.volume.script().exits = vec![("final", 3)];
    the_same_end_after_each_kill(&fails, false, 25).await;
}

#[tokio::test]
async fn killed_after_each_write_of_the_way_back() {
    the_same_end_after_each_kill(&|_| {}, true, 5).await;
}
