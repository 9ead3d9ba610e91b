//! The operator is killed after each of its writes, one after the other: the same end.

use serde_json::{Value, json};

use super::*;

/// Everything in the cluster without what differs from run to run.
fn snapshot(cluster: &Cluster) -> Vec<(String, Value)> {
    let state = cluster.server.state();
    let objects = state.objects.iter();
    objects
        .map(|(path, object)| {
            let mut object = object.clone();
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.remove("resourceVersion");
            for condition in object["status"]["conditions"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                condition
                    .as_object_mut()
                    .unwrap()
                    .remove("lastTransitionTime");
            }
            access::without_chance(&state.objects, path, &mut object);
            (path.clone(), object)
        })
        .collect()
}

/// Plays `change` on a settled cluster, killing the operator after its `kill`-th write from then
/// on; returns the settled end and how many writes there were.
async fn play(
    spec: &Value,
    change: Option<&dyn Fn(&Cluster)>,
    kill: Option<usize>,
) -> (Vec<(String, Value)>, usize) {
    let mut cluster = Cluster::new(spec);
    // A scenario without a change is about the beginning itself.
    if let Some(change) = change {
        cluster.settle().await;
        change(&cluster);
    }
    let events = |cluster: &Cluster| {
        let state = cluster.server.state();
        state.writes.len() + state.events.len()
    };
    let before = events(&cluster);
    if let Some(kill) = kill {
        cluster.server.state().left = Some(kill);
        for _ in 0..20 {
            if cluster.round().await.is_err() {
                break;
            }
            cluster.others_act();
        }
        assert_eq!(
            cluster.server.state().left,
            Some(0),
            "the {kill}th write never came"
        );
        cluster.server.state().left = None;
        // What was in memory is gone.
        cluster.context = context(&cluster.server, &cluster.volume);
    }
    cluster.settle().await;
    let writes = events(&cluster) - before;
    (snapshot(&cluster), writes)
}

async fn the_same_end_after_each_kill(
    spec: Value,
    change: Option<&dyn Fn(&Cluster)>,
    least: usize,
) {
    let (wanted, writes) = play(&spec, change, None).await;
    assert!(writes >= least, "only {writes} writes to kill after");
    for kill in 1..=writes {
        let (end, _) = play(&spec, change, Some(kill)).await;
        assert_eq!(end, wanted, "killed after write {kill} of {writes}");
    }
}

#[tokio::test]
async fn a_fresh_store() {
    // Keys, claim, account, Service, Deployment, the pod's annotation, status twice, events.
    the_same_end_after_each_kill(fresh(), None, 10).await;
}

#[tokio::test]
async fn a_take_over() {
    the_same_end_after_each_kill(offline(), None, 9).await;
}

#[tokio::test]
async fn all_that_is_optional() {
    // Six objects more.
    the_same_end_after_each_kill(extras::everything(), None, 14).await;
    let change = |cluster: &Cluster| cluster.set_spec(&fresh(), 2);
    the_same_end_after_each_kill(extras::everything(), Some(&change), 7).await;
}

#[tokio::test]
async fn users_and_what_becomes_of_them() {
    let spec = access::with_users();
    the_same_end_after_each_kill(spec.clone(), None, 11).await;
    // Rotated, root as well as the user, and asked for under another name.
    let change = |cluster: &Cluster| {
        access::rotate(cluster);
        let mut spec = access::with_users();
        spec["access"]["users"][0]["keys"]["endpoint"] = json!("url");
        cluster.set_spec(&spec, 2);
    };
    the_same_end_after_each_kill(spec.clone(), Some(&change), 4).await;
    // Removed, with the quota.
    let change = |cluster: &Cluster| cluster.set_spec(&fresh(), 2);
    the_same_end_after_each_kill(spec, Some(&change), 4).await;
}

#[tokio::test]
async fn growth_and_a_new_image() {
    let change = |cluster: &Cluster| {
        let mut spec = fresh();
        spec["storage"]["size"] = json!("30Gi");
        spec["image"] = json!("registry.example/filestore:2");
        cluster.set_spec(&spec, 2);
    };
    the_same_end_after_each_kill(fresh(), Some(&change), 4).await;
}

#[tokio::test]
async fn suspension() {
    let change = |cluster: &Cluster| {
        let mut spec = fresh();
        spec["suspend"] = json!(true);
        cluster.set_spec(&spec, 2);
    };
    the_same_end_after_each_kill(fresh(), Some(&change), 2).await;
}

#[tokio::test]
async fn drift_of_all_that_is_owned() {
    let change = |cluster: &Cluster| {
        let edit = |path: &str, edit: &dyn Fn(&mut Value)| {
            let mut object = cluster.server.get(path).unwrap();
            edit(&mut object);
            cluster.server.put(path, object);
        };
        edit(DEPLOYMENT, &|object| object["spec"]["replicas"] = json!(3));
        edit(SERVICE, &|object| {
            object["spec"]["selector"] = json!({"app": "other"});
        });
        cluster.server.state().objects.remove(ACCOUNT);
    };
    the_same_end_after_each_kill(fresh(), Some(&change), 4).await;
}
