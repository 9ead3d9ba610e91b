//! What the cluster shows, as `kubectl get pod -o yaml` prints it, and what the status says.

use serde_json::{Value, json};

use super::*;
use crate::{Manifest, validate};

const HEAD: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {root-user: ryax, root-password: Ab3dEf6hIj9k}
---
apiVersion: filestore.ryax.tech/v1alpha1
kind: Filestore
metadata: {name: files, namespace: ns}
spec:
  credentials: {secretRef: {name: keys}}
  storage: {size: 20Gi}
";

fn filestore(more: &str) -> ValidatedFilestore {
    let manifest = Manifest::parse("m.yaml", &format!("{HEAD}{more}")).unwrap();
    validate(&manifest.filestore, &manifest.secrets).unwrap()
}

const TAKE_OVER: &str = "  migration: {id: run-1, source: {endpoint: 'http://minio:9000'}}\n";

/// Everything is there, and a pod with this status.
fn cluster(pod_status: &Value) -> Observed {
    let object = |value: Value| serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(value);
    Observed {
        claim: serde_json::from_value(json!({
            "metadata": {"name": "files"},
            "spec": {"volumeName": "pv-1"},
            "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}},
        }))
        .unwrap(),
        pods: vec![
            object(json!({
                "metadata": {"name": "files-1", "creationTimestamp": "2026-11-30T10:00:00Z"},
                "status": pod_status,
            }))
            .unwrap(),
        ],
        ..Observed::default()
    }
}

fn judge(
    filestore: &ValidatedFilestore,
    observed: &Observed,
    previous: &FilestoreStatus,
) -> FilestoreStatus {
    status(&Input {
        generation: Some(1),
        previous,
        filestore: Some(filestore),
        observed,
        problems: &[],
        now: Timestamp::from_second(1_000_000).unwrap(),
    })
}

/// `Ready`, `Stalled` and `Migrated` as `True/reason`, and the phase.
fn words(status: &FilestoreStatus) -> String {
    let word = |kind| {
        let found = find(status, kind).unwrap();
        format!("{}/{}", found.status, found.reason)
    };
    format!(
        "{} {} {} {}",
        status.phase.unwrap(),
        word(reason::READY),
        word(reason::STALLED),
        word(reason::MIGRATED)
    )
}

fn migrate(state: &Value) -> Value {
    json!({"initContainerStatuses": [{
        "name": "migrate", "image": "", "imageID": "", "ready": false, "restartCount": 2,
        "state": state,
        "lastState": {"terminated": {"exitCode": 4, "message": "connect http://minio:9000: refused\n"}},
    }]})
}

fn ended(code: i32) -> Value {
    migrate(&json!({"terminated": {"exitCode": code, "reason": "Error", "message": "why\n"}}))
}

#[test]
fn a_limit_that_was_reached_is_told_with_its_field() {
    let filestore = filestore(TAKE_OVER);
    let summary = |code: i32, more: Value| {
        let mut told = json!({"exit": code, "meaning": "as it says"});
        told.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let ended = json!({"exitCode": code, "reason": "Error", "message": told.to_string()});
        let observed = cluster(&migrate(&json!({"terminated": ended})));
        let status = judge(&filestore, &observed, &FilestoreStatus::default());
        let message = find(&status, reason::MIGRATED).unwrap().message.clone();
        (words(&status), message)
    };
    let (told, message) = summary(
        4,
        json!({"ending": "deadline", "error": "the deadline of 5 s is over"}),
    );
    // The kubelet starts it again: no person is needed.
    assert_eq!(
        told,
        "Migrating False/DeadlinePassed False/NoProblem False/DeadlinePassed"
    );
    assert!(
        message.starts_with("the deadline of 5 s is over; it goes on where it was"),
        "{message}"
    );
    let (told, message) = summary(
        5,
        json!({"error": "3 objects would go, more than --max-delete 2 allows"}),
    );
    assert_eq!(told, "Failed False/Refused True/Refused False/Refused");
    assert!(
        message.ends_with("allows; that is migration.maxDelete"),
        "{message}"
    );
}

#[test]
fn a_take_over_is_told_from_its_container() {
    let filestore = filestore(TAKE_OVER);
    for (pod, expected) in [
        (
            json!({}),
            "Migrating False/Pending False/NoProblem False/Pending",
        ),
        (
            migrate(&json!({"running": {}})),
            "Migrating False/SourceUnreachable False/NoProblem False/SourceUnreachable",
        ),
        (
            ended(0),
            "Provisioning False/PodNotReady False/NoProblem True/Completed",
        ),
        (
            ended(1),
            "Failed False/ObjectsFailed True/ObjectsFailed False/ObjectsFailed",
        ),
        (
            ended(3),
            "Migrating False/VerifyFailed False/NoProblem False/VerifyFailed",
        ),
        (
            ended(4),
            "Migrating False/SourceUnreachable False/NoProblem False/SourceUnreachable",
        ),
        (ended(5), "Failed False/Refused True/Refused False/Refused"),
        (
            ended(6),
            "Failed False/CredentialsRefused True/CredentialsRefused False/CredentialsRefused",
        ),
        (
            ended(7),
            "Migrating False/SourceChanging False/NoProblem False/SourceChanging",
        ),
        (
            ended(8),
            "Failed False/Diverged True/Diverged False/Diverged",
        ),
        (
            ended(130),
            "Migrating False/Interrupted False/NoProblem False/Interrupted",
        ),
        (
            ended(137),
            "Failed False/ObjectsFailed True/ObjectsFailed False/ObjectsFailed",
        ),
        // Waiting for its next try, it is judged by the last one.
        (
            migrate(&json!({"waiting": {"reason": "CrashLoopBackOff"}})),
            "Migrating False/SourceUnreachable False/NoProblem False/SourceUnreachable",
        ),
        (
            migrate(
                &json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            ),
            "Failed False/ImagePullFailed True/ImagePullFailed False/Pending",
        ),
    ] {
        let status = judge(&filestore, &cluster(&pod), &FilestoreStatus::default());
        assert_eq!(words(&status), expected, "{pod}");
    }
}

#[test]
fn why_it_failed_is_told_until_the_container_gets_further() {
    let filestore = filestore(TAKE_OVER);
    let running = |code: i32, message: &str| {
        let mut pod = migrate(&json!({"running": {}}));
        pod["initContainerStatuses"][0]["lastState"]["terminated"] =
            json!({"exitCode": code, "message": message});
        cluster(&pod)
    };
    let reason = |observed: &Observed| {
        let status = judge(&filestore, observed, &FilestoreStatus::default());
        find(&status, reason::MIGRATED).unwrap().reason.clone()
    };
    let full = r#"{"exit":1,"meaning":"some objects failed","outcomes":{"copied":4,"skipped":2,"deleted":0,"failed":1}}"#;
    let mut observed = running(1, full);
    assert_eq!(reason(&observed), "ObjectsFailed");
    observed.told.objects = Some(7);
    assert_eq!(reason(&observed), "ObjectsFailed");
    observed.told.objects = Some(8);
    assert_eq!(reason(&observed), "Copying");
    observed.told.objects = None;
    observed.told.past_copy = true;
    assert_eq!(reason(&observed), "Copying");
    // What differed at the end is seen at the end.
    let mut observed = running(3, "both sides differ");
    observed.told.past_copy = true;
    assert_eq!(reason(&observed), "VerifyFailed");
    // One that was killed goes on, and so does one that ended in order.
    assert_eq!(reason(&running(137, "")), "Copying");
    assert_eq!(reason(&running(130, "stopped")), "Copying");
}

#[test]
fn a_take_over_at_work_tells_how_far_it_is() {
    let filestore = filestore(TAKE_OVER);
    let mut observed = cluster(&migrate(&json!({"running": {}})));
    observed.told.copied_percent = Some(42);
    let status = judge(&filestore, &observed, &FilestoreStatus::default());
    assert_eq!(status.migration.as_ref().unwrap().copied_percent, Some(42));
    // Verifying, it has no number of its own and keeps the last.
    observed.told.copied_percent = None;
    let status = judge(&filestore, &observed, &status);
    assert_eq!(status.migration.unwrap().copied_percent, Some(42));

    observed.told.connecting_fails = true;
    let status = judge(&filestore, &observed, &FilestoreStatus::default());
    assert_eq!(
        find(&status, reason::MIGRATED).unwrap().reason,
        reason::SOURCE_UNREACHABLE
    );
    observed.told.keys_refused = true;
    let status = judge(&filestore, &observed, &FilestoreStatus::default());
    assert_eq!(
        find(&status, reason::MIGRATED).unwrap().reason,
        reason::CREDENTIALS_REFUSED
    );
}

#[test]
fn the_message_is_the_last_words_of_the_container() {
    let filestore = filestore(TAKE_OVER);
    let pod = migrate(&json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    let status = judge(&filestore, &cluster(&pod), &FilestoreStatus::default());
    let migrated = find(&status, reason::MIGRATED).unwrap();
    assert_eq!(migrated.message, "connect http://minio:9000: refused");
    assert_eq!(status.migration.unwrap().restarts, Some(2));
}

fn gateway(state: &Value) -> Value {
    json!({"containerStatuses": [{
        "name": "gateway", "image": "", "imageID": "", "ready": false, "restartCount": 1,
        "state": state,
    }]})
}

#[test]
fn the_server_is_told_from_its_pod() {
    let filestore = filestore("");
    for (pod, expected) in [
        (
            gateway(&json!({"running": {}})),
            "Provisioning False/PodNotReady False/NoProblem",
        ),
        (
            gateway(&json!({"waiting": {"reason": "ContainerCreating"}})),
            "Provisioning False/PodNotReady False/NoProblem",
        ),
        (
            gateway(&json!({"waiting": {"reason": "ErrImagePull", "message": "denied"}})),
            "Failed False/ImagePullFailed True/ImagePullFailed",
        ),
        (
            gateway(&json!({"waiting": {"reason": "CreateContainerConfigError", "message": "m"}})),
            "Failed False/PodFailing True/PodFailing",
        ),
        (
            gateway(&json!({"terminated": {"exitCode": 5, "reason": "Error"}})),
            "Failed False/PodFailing True/PodFailing",
        ),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]}),
            "Failed False/Unschedulable True/Unschedulable",
        ),
        (
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            "Ready True/Serving False/NoProblem",
        ),
    ] {
        let status = judge(&filestore, &cluster(&pod), &FilestoreStatus::default());
        assert_eq!(
            words(&status),
            format!("{expected} True/NotRequested"),
            "{pod}"
        );
    }
}

#[test]
fn of_several_pods_the_newest_that_stays_counts() {
    let filestore = filestore("");
    let mut observed = cluster(&json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    let mut leaving = observed.pods[0].clone();
    leaving.metadata.creation_timestamp =
        Some(Time(Timestamp::from_second(3_000_000_000).unwrap()));
    leaving.metadata.deletion_timestamp = leaving.metadata.creation_timestamp.clone();
    leaving.status = None;
    observed.pods.push(leaving);
    let status = judge(&filestore, &observed, &FilestoreStatus::default());
    assert_eq!(status.phase, Some(Phase::Ready));
}

#[test]
fn a_lost_or_pending_claim_is_said() {
    let filestore = filestore("");
    let mut observed = cluster(&json!({}));
    for (phase, reason, stalled) in [
        ("Pending", reason::CLAIM_PENDING, "False"),
        ("Lost", reason::CLAIM_LOST, "True"),
    ] {
        observed.claim = serde_json::from_value(json!({"status": {"phase": phase}})).unwrap();
        let status = judge(&filestore, &observed, &FilestoreStatus::default());
        assert_eq!(find(&status, reason::STORAGE_READY).unwrap().reason, reason);
        assert_eq!(
            find(&status, reason::STALLED).unwrap().status,
            stalled,
            "{phase}"
        );
    }
}

#[test]
fn time_moves_only_with_the_status_of_a_condition() {
    let filestore = filestore("");
    let observed = cluster(&gateway(&json!({"running": {}})));
    let first = judge(&filestore, &observed, &FilestoreStatus::default());
    let later = |observed: &Observed, previous: &FilestoreStatus| {
        status(&Input {
            generation: Some(1),
            previous,
            filestore: Some(&filestore),
            observed,
            problems: &[],
            now: Timestamp::from_second(2_000_000).unwrap(),
        })
    };
    assert_eq!(later(&observed, &first), first);

    let ready = cluster(&json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    let second = later(&ready, &first);
    let since = |status: &FilestoreStatus, kind| {
        find(status, kind)
            .unwrap()
            .last_transition_time
            .0
            .as_second()
    };
    assert_eq!(since(&second, reason::READY), 2_000_000);
    assert_eq!(since(&second, reason::STALLED), 1_000_000);
}

/// A node's disk is never still; what is said of it is, until that would be wrong.
#[test]
fn a_volume_that_wavers_about_a_point_says_one_thing() {
    for (permille, before, said) in [
        (Some(749), None, Some(74)),
        (Some(751), Some(74), Some(74)),
        (Some(754), Some(74), Some(74)),
        (Some(755), Some(74), Some(75)),
        (Some(749), Some(75), Some(75)),
        (Some(745), Some(75), Some(75)),
        (Some(744), Some(75), Some(74)),
        (Some(120), Some(75), Some(12)),
        // Empty and full are said at once.
        (Some(0), Some(1), Some(0)),
        (Some(1000), Some(99), Some(100)),
        (None, Some(74), Some(74)),
        (None, None, None),
    ] {
        assert_eq!(
            used_percent(permille, before),
            said,
            "{permille:?} {before:?}"
        );
    }
}
