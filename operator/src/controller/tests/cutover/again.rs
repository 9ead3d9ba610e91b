//! A failed Job is tried again: at once when somebody corrected what it used, and until it gets
//! further people are told why it failed.

use super::*;

const LEGACY_SECRET: &str = "/api/v1/namespaces/ns/secrets/ryax-minio-secret";

fn failed(code: i32) -> Cluster {
    let cluster = with_minio(&take_over());
    cluster.server.put(LEGACY_SECRET, with_root_keys());
    cluster.volume.script().exits = vec![("copy", code)];
    cluster
}

/// Everything that stands still, as it is: the last attempt failed just now.
async fn pause(cluster: &Cluster) {
    cluster.carry_on().await;
    cluster.round().await.unwrap();
    assert_eq!(cluster.jobs(), ["files-copy-1"], "it waits");
    assert!(
        cluster.message("Migrated").contains("tried again at "),
        "{}",
        cluster.message("Migrated")
    );
}

fn edit_spec(cluster: &Cluster, edit: impl FnOnce(&mut Value)) {
    let mut spec = take_over();
    edit(&mut spec);
    cluster.set_spec(&spec, 2);
}

#[tokio::test]
async fn a_correction_is_tried_at_once() {
    type Correction = (&'static str, i32, fn(&Cluster));
    let corrections: [Correction; 5] = [
        ("the Secret that the legacy store has", 6, |cluster| {
            set(cluster, LEGACY_SECRET, |secret| {
                secret["data"]["root-password"] = json!("b3RoZXI=");
            });
        }),
        ("another Secret", 6, |cluster| {
            edit_spec(cluster, |spec| {
                spec["migration"]["source"] =
                    json!({"credentials": {"secretRef": {"name": "keys"}}});
            });
        }),
        ("the spec", 5, |cluster| {
            edit_spec(cluster, |spec| spec["migration"]["parallelism"] = json!(4));
        }),
        ("a larger volume", 1, |cluster| {
            edit_spec(cluster, |spec| spec["storage"]["size"] = json!("30Gi"));
        }),
        ("a claim that is another", 1, |cluster| {
            set(cluster, LEGACY_CLAIM, |claim| {
                claim["metadata"]["uid"] = json!("restored");
            });
        }),
    ];
    for (what, code, correct) in corrections {
        let cluster = failed(code);
        pause(&cluster).await;
        correct(&cluster);
        // The volume grows first.
        for _ in 0..3 {
            cluster.round().await.unwrap();
            cluster.others_act();
        }
        let jobs = cluster.jobs();
        assert!(
            jobs.contains(&"files-copy-2".to_owned()),
            "{what}: {jobs:?}"
        );
        let next = cluster.job("files-copy-2")["metadata"]["annotations"].clone();
        assert_eq!(
            next["filestore.ryax.tech/after"], "files-copy-1",
            "{what}: {next}"
        );
        assert_eq!(
            next["filestore.ryax.tech/failures"], "0",
            "{what}: counted anew"
        );
        cluster.carry_on().await;
        assert_eq!(cluster.condition("Migrated").1, "Completed", "{what}");
    }
}

#[tokio::test]
async fn a_correction_that_is_wrong_too_waits_again() {
    let cluster = failed(6);
    cluster.volume.script().exits.push(("copy", 6));
    pause(&cluster).await;
    set(&cluster, LEGACY_SECRET, |secret| {
        secret["data"]["root-password"] = json!("b3RoZXI=");
    });
    cluster.carry_on().await;
    cluster.round().await.unwrap();
    assert_eq!(cluster.jobs(), ["files-copy-1", "files-copy-2"]);
    assert_eq!(cluster.condition("Migrated").1, "CredentialsRefused");

    // What is tried again because its time has come says no such thing.
    let_time_pass(&cluster);
    cluster.carry_on().await;
    let annotations = cluster.job("files-copy-3")["metadata"]["annotations"].clone();
    assert!(annotations["filestore.ryax.tech/after"].is_null());
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

#[tokio::test]
async fn what_nobody_corrected_waits() {
    let cluster = failed(6);
    cluster.server.put(CLAIM, json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "files", "labels": {"filestore.ryax.tech/name": "files"}},
        "spec": {"resources": {"requests": {"storage": "20Gi"}}},
    }));
    // The claim gets its volume with the first pod.
    pause(&cluster).await;
    set(&cluster, LEGACY_POD, |pod| {
        pod["spec"]["nodeName"] = json!("node-b");
    });
    set(&cluster, LEGACY, |legacy| {
        legacy["metadata"]["annotations"] = json!({"note": "looked at"});
    });
    cluster.server.put(
        "/api/v1/namespaces/ns/secrets/other",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other"}, "data": {}}),
    );
    cluster.round().await.unwrap();
    assert_eq!(cluster.jobs(), ["files-copy-1"]);
}

#[tokio::test]
async fn keys_are_no_reason_to_stop_clients_once_more() {
    let cluster = with_minio(&take_over());
    cluster.server.put(LEGACY_SECRET, with_root_keys());
    cluster.volume.script().exits = vec![("final", 3)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "CutoverFailed");
    set(&cluster, LEGACY_SECRET, |secret| {
        secret["data"]["root-password"] = json!("b3RoZXI=");
    });
    cluster.round().await.unwrap();
    assert!(!cluster.jobs().contains(&"files-final-2".to_owned()));
    // Another way of comparing is.
    edit_spec(&cluster, |spec| spec["migration"]["verify"] = json!("etag"));
    cluster.round().await.unwrap();
    assert!(cluster.jobs().contains(&"files-final-2".to_owned()));
}

#[tokio::test]
async fn a_gate_that_failed_is_tried_again_when_its_image_is_another() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().exits = vec![("gate", 4)];
    cluster.carry_on().await;
    assert_eq!(cluster.status()["migration"]["plan"]["wayBack"], false);
    set(&cluster, LEGACY, |legacy| {
        legacy["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!("registry.example/minio:2025.7.23");
    });
    cluster.carry_on().await;
    assert!(cluster.jobs().contains(&"files-gate-2".to_owned()));
    assert_eq!(cluster.status()["migration"]["plan"]["wayBack"], true);
    assert_eq!(cluster.condition("Migrated").1, "Completed");
}

/// Lets everybody act until a Job runs, with a look at `Migrated` after each round.
async fn until_it_runs(cluster: &Cluster, job: &str) -> Vec<String> {
    let pod = format!("/api/v1/namespaces/ns/pods/{job}-x");
    let mut seen = Vec::new();
    for _ in 0..20 {
        cluster.round().await.unwrap();
        seen.push(cluster.condition("Migrated").1);
        if cluster.server.get(&pod).is_some() {
            return seen;
        }
        cluster.all_others_act();
    }
    panic!("{job} does not run: {:?}", cluster.jobs());
}

#[tokio::test]
async fn why_it_failed_is_said_until_the_next_attempt_gets_further() {
    // An attempt that got nowhere, and one that was through with seven objects.
    for (code, reason, no_further) in [(6, "CredentialsRefused", 0), (1, "ObjectsFailed", 7)] {
        let cluster = failed(code);
        pause(&cluster).await;
        if code == 6 {
            // It failed before it had looked at anything.
            set(
                &cluster,
                "/api/v1/namespaces/ns/pods/files-copy-1-x",
                |pod| {
                    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] =
                        json!("the access key is not known");
                },
            );
        }
        let_time_pass(&cluster);
        let seen = until_it_runs(&cluster, "files-copy-2").await;
        assert!(seen.iter().all(|found| found == reason), "{seen:?}");
        assert_eq!(
            cluster.condition("Stalled"),
            ("True".into(), reason.into()),
            "the phase does not flicker either"
        );
        cluster.volume.script().objects = Some(no_further);
        cluster.round().await.unwrap();
        assert_eq!(cluster.condition("Migrated").1, reason);
        assert!(
            cluster.message("Migrated").ends_with("; it is tried again"),
            "{}",
            cluster.message("Migrated")
        );
        cluster.volume.script().objects = Some(no_further + 1);
        cluster.round().await.unwrap();
        assert_eq!(cluster.condition("Migrated").1, "Precopying");
        cluster.volume.script().objects = None;
        cluster.carry_on().await;
        assert_eq!(cluster.condition("Migrated").1, "Completed");
    }
}

#[tokio::test]
async fn why_a_cut_over_failed_is_said_until_the_next_one_begins() {
    let cluster = with_minio(&take_over());
    cluster.volume.script().exits = vec![("final", 3)];
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "CutoverFailed");
    let_time_pass(&cluster);
    let seen = until_it_runs(&cluster, "files-final-2").await;
    assert!(
        seen.iter().all(|found| found == "CutoverFailed"),
        "{seen:?}"
    );
    assert!(cluster.message("Migrated").contains("exit code 3"));
    cluster.all_others_act();
    cluster.round().await.unwrap();
    assert_eq!(cluster.condition("Migrated").1, "CuttingOver");
}

#[tokio::test]
async fn why_the_way_back_failed_is_said_until_the_next_attempt_gets_further() {
    let cluster = with_minio(&take_over());
    cluster.carry_on().await;
    cluster.volume.script().exits = vec![("back", 8)];
    let mut spec = take_over();
    spec["migration"]["rollback"] = json!({"requestID": "run-1"});
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Diverged");
    // Who wins is what was missing.
    spec["migration"]["rollback"]["prefer"] = json!("newest");
    cluster.set_spec(&spec, 3);
    let seen = until_it_runs(&cluster, "files-back-2").await;
    assert!(seen.iter().all(|found| found == "Diverged"), "{seen:?}");
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "RolledBack");
}
