//! Limits of a take-over and the choice of buckets: which Jobs are told, and what comes of it.

use super::*;

fn limited() -> Value {
    let mut spec = take_over();
    spec["migration"]["buckets"] = json!([{"name": "one"}, {"name": "two", "target": "new-two"}]);
    spec["migration"]["bandwidth"] = json!("20Mi");
    spec["migration"]["deadline"] = json!("6h");
    spec["migration"]["maxDelete"] = json!(0);
    spec
}

/// Values of the flags `wanted` among the arguments of a Job, in order.
fn told(cluster: &Cluster, job: &str, wanted: &[&str]) -> Vec<String> {
    let job = cluster.job(job);
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let args: Vec<&str> = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    args.windows(2)
        .filter(|pair| wanted.contains(&pair[0]))
        .map(|pair| pair.join(" "))
        .collect()
}

#[tokio::test]
async fn each_job_is_told_the_limits_that_are_about_it() {
    let cluster = with_minio(&limited());
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    let mut spec = limited();
    spec["migration"]["rollback"] = json!({"requestID": "run-1"});
    cluster.set_spec(&spec, 2);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "RolledBack");

    let flags = ["--bucket", "--bandwidth", "--deadline", "--max-delete"];
    let of = |job: &str| told(&cluster, job, &flags);
    assert_eq!(
        of("files-copy-1"),
        [
            "--bucket one",
            "--bucket two=new-two",
            "--bandwidth 20Mi",
            "--deadline 6h"
        ]
    );
    // What stops the store in the middle of the freeze is not for the final pass to decide.
    assert_eq!(
        of("files-final-1"),
        [
            "--bucket one",
            "--bucket two=new-two",
            "--bandwidth 20Mi",
            "--max-delete 0"
        ]
    );
    // One reads an empty store, the other keeps to what the marker says.
    assert_eq!(of("files-gate-1"), [""; 0]);
    assert_eq!(of("files-back-1"), [""; 0]);
}

#[tokio::test]
async fn another_choice_of_buckets_is_another_plan() {
    let hash = async |buckets: Value| {
        let mut spec = take_over();
        spec["migration"]["cutover"] = json!("manual");
        if buckets.is_array() {
            spec["migration"]["buckets"] = buckets;
        }
        let cluster = with_minio(&spec);
        cluster.carry_on().await;
        assert_eq!(cluster.condition("Migrated").1, "AwaitingApproval");
        cluster.status()["migration"]["plan"]["hash"].clone()
    };
    let all = hash(Value::Null).await;
    let one = hash(json!([{"name": "one"}])).await;
    let renamed = hash(json!([{"name": "one", "target": "two"}])).await;
    assert!(all != one && one != renamed && all != renamed);
}

#[tokio::test]
async fn a_round_that_runs_out_of_time_is_said_and_goes_on() {
    let cluster = with_minio(&limited());
    cluster.volume.script().late = 2;
    cluster.volume.script().changed = vec![5000, 5000, 5000, 7];
    for number in 1..=2 {
        cluster.carry_on().await;
        assert_eq!(
            cluster.condition("Migrated"),
            ("False".into(), "DeadlinePassed".into())
        );
        let message = cluster.message("Migrated");
        assert!(message.contains("migration.deadline"), "{message}");
        assert!(message.contains("the legacy store serves"), "{message}");
        // Nobody has to do anything.
        assert_eq!(cluster.condition("Stalled").0, "False");
        assert_eq!(cluster.legacy_replicas(), 1);
        assert_eq!(
            cluster.jobs(),
            (1..=number)
                .map(|n| format!("files-copy-{n}"))
                .collect::<Vec<_>>()
        );
        let_time_pass(&cluster);
    }
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    // It was one round, and no failure that makes the pauses longer; then there was much to copy.
    for (job, round) in [
        ("files-copy-2", "1"),
        ("files-copy-3", "1"),
        ("files-copy-4", "2"),
    ] {
        let annotations = cluster.job(job)["metadata"]["annotations"].clone();
        assert_eq!(annotations["filestore.ryax.tech/round"], round, "{job}");
        assert_eq!(annotations["filestore.ryax.tech/failures"], "0", "{job}");
    }
    let events = cluster.server.state().events.clone();
    assert!(events.contains(&"DeadlinePassed".to_owned()), "{events:?}");
}

#[tokio::test]
async fn a_final_pass_that_would_delete_too_much_says_which_field_allows_it() {
    let cluster = with_minio(&limited());
    cluster.volume.script().exits = vec![("final", 5)];
    cluster.volume.script().error = Some("3 objects would go, more than --max-delete 0 allows");
    cluster.carry_on().await;
    assert_eq!(
        cluster.condition("Migrated"),
        ("False".into(), "CutoverFailed".into())
    );
    let message = cluster.message("Migrated");
    assert!(
        message.contains("--max-delete 0 allows; that is migration.maxDelete"),
        "{message}"
    );
    assert_eq!(cluster.legacy_replicas(), 1);
    assert!(cluster.server.get(LEGACY_POD).is_some());
    assert!(cluster.server.get(POD).is_none());

    // The next pass is told what the spec says now.
    let mut spec = limited();
    spec["migration"]["maxDelete"] = json!(3);
    cluster.set_spec(&spec, 2);
    let_time_pass(&cluster);
    cluster.carry_on().await;
    assert_eq!(cluster.condition("Migrated").1, "Completed");
    assert_eq!(
        told(&cluster, "files-final-2", &["--max-delete"]),
        ["--max-delete 3"]
    );
}
