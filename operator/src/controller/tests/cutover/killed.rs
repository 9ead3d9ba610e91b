//! Killed after any write, a take-over and the way back come to the same end.

use super::*;

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

async fn play(
    spec: &Value,
    prepare: &dyn Fn(&Cluster),
    back: bool,
    kill: Option<usize>,
) -> (Value, usize) {
    let mut cluster = with_minio(spec);
    prepare(&cluster);
    if back {
        cluster.carry_on().await;
        let mut spec = spec.clone();
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

async fn the_same_end_after_each_kill(
    spec: &Value,
    prepare: &dyn Fn(&Cluster),
    back: bool,
    least: usize,
) {
    let (wanted, writes) = play(spec, prepare, back, None).await;
    assert!(writes >= least, "only {writes} writes to kill after");
    for kill in 1..=writes {
        let (found, _) = play(spec, prepare, back, Some(kill)).await;
        assert_eq!(found, wanted, "killed after write {kill} of {writes}");
    }
}

#[tokio::test]
async fn killed_after_each_write_of_a_take_over() {
    the_same_end_after_each_kill(&take_over(), &|_| {}, false, 25).await;
}

#[tokio::test]
async fn killed_after_each_write_of_a_take_over_by_several_workers() {
    // One of them is killed as well.
    let prepare = |cluster: &Cluster| cluster.volume.script().workers = vec![(1, 137)];
    the_same_end_after_each_kill(&shards::shared(), &prepare, false, 25).await;
}

#[tokio::test]
async fn killed_after_each_write_of_a_failing_cut_over() {
    let fails = |cluster: &Cluster| cluster.volume.script().exits = vec![("final", 3)];
    the_same_end_after_each_kill(&take_over(), &fails, false, 25).await;
}

#[tokio::test]
async fn killed_after_each_write_of_the_way_back() {
    the_same_end_after_each_kill(&take_over(), &|_| {}, true, 5).await;
}
