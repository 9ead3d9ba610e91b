//! Where keys cannot be kept.

use super::*;

#[tokio::test]
async fn a_secret_of_somebody_else_is_left_alone_and_no_pod_is_made_or_replaced() {
    let foreign = secret("files-access", &[("password", "theirs")]);
    let cluster = Cluster::new(&fresh());
    cluster.server.put(RENDERED, foreign.clone());
    cluster.settle().await;
    assert_eq!(
        cluster.condition("Stalled"),
        ("True".into(), "NameTaken".into())
    );
    assert_eq!(
        cluster.server.get(RENDERED).unwrap()["data"],
        foreign["data"]
    );
    assert!(cluster.server.get(DEPLOYMENT).is_none());

    cluster.server.state().objects.remove(RENDERED);
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn without_the_right_to_write_secrets_the_pod_that_serves_stays() {
    let cluster = Cluster::new(&with_users());
    cluster.settle().await;
    let before = cluster.server.get(DEPLOYMENT).unwrap();
    cluster.server.state().objects.remove(RENDERED);
    let refused = (Method::PATCH, "secrets/files-access", 403, "you may not");
    cluster.server.state().refused.push(refused);
    let mut spec = with_users();
    spec["region"] = json!("eu-west-3");
    cluster.set_spec(&spec, 2);
    cluster.round().await.unwrap();
    assert_eq!(cluster.condition("Stalled").1, "RequestRefused");
    assert_eq!(cluster.server.get(DEPLOYMENT).unwrap(), before);

    cluster.server.state().refused.clear();
    cluster.settle().await;
    assert_ne!(cluster.server.get(DEPLOYMENT).unwrap(), before);
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn versitygw_has_neither_users_nor_rotation() {
    for (access, field) in [
        (with_users()["access"].clone(), "spec.access.users"),
        (json!({"overlapSeconds": 60}), "spec.access.overlapSeconds"),
    ] {
        let mut spec = fresh();
        spec["access"] = access;
        spec["engine"] = json!("versitygw");
        spec["versitygw"] = json!({"image": "versitygw:1.8.0"});
        let cluster = Cluster::new(&spec);
        cluster.settle().await;
        assert_eq!(
            cluster.condition("Stalled"),
            ("True".into(), "EngineLacks".into())
        );
        let message = cluster.message("Stalled");
        assert!(
            message.starts_with(field) && message.contains("use engine bundled"),
            "{message}"
        );
        assert!(cluster.server.get(RENDERED).is_none());
    }
}
