//! What goes wrong before the hand-over gives the legacy store back.

use super::*;

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
