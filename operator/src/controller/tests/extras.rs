//! Optional objects: made, kept, taken away; kinds that the cluster does not know.

use http::Method;
use serde_json::json;

use super::*;

const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies/files";
const MONITOR: &str = "/apis/monitoring.coreos.com/v1/namespaces/ns/servicemonitors/files";
const RULE: &str = "/apis/monitoring.coreos.com/v1/namespaces/ns/prometheusrules/files";
const DASHBOARD: &str = "/api/v1/namespaces/ns/configmaps/files-dashboard";
const SITE: &str = "/api/v1/namespaces/ns/configmaps/files-site";
const COMPATIBILITY: &str = "/api/v1/namespaces/ns/services/ryax-minio";
const ALL: [&str; 6] = [POLICY, MONITOR, RULE, DASHBOARD, SITE, COMPATIBILITY];

/// A spec that asks for all of them.
pub(super) fn everything() -> Value {
    let mut spec = fresh();
    spec["buckets"] = json!([{"name": "uploads"}, {"name": "results"}]);
    spec["service"] = json!({"compatibility": [{"name": "ryax-minio"}]});
    spec["networkPolicy"] = json!({"enabled": true});
    spec["monitoring"] = json!({
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": true, "capacityWarnPercent": 70},
        "dashboard": {"enabled": true},
    });
    spec["site"] = json!({"name": "lyon"});
    spec
}

#[tokio::test]
async fn are_made_kept_and_taken_away() {
    let cluster = Cluster::new(&everything());
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
    for path in ALL {
        let object = cluster.server.get(path).expect(path);
        let metadata = &object["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], "uid-files", "{path}");
        assert_eq!(metadata["labels"]["filestore.ryax.tech/name"], "files");
    }
    let site = cluster.server.get(SITE).unwrap();
    assert_eq!(
        site["data"],
        json!({
            "site": "lyon", "endpoint": "http://files.ns:9000", "region": "us-east-1",
            "buckets": "uploads\nresults",
        })
    );
    let rule = cluster.server.get(RULE).unwrap().to_string();
    assert!(rule.contains("> 70") && rule.contains(r#"service=\"files\""#));
    assert!(!rule.contains("$("), "{rule}");
    assert_eq!(
        cluster.condition("NamesReady"),
        ("True".into(), "NamesLeadHere".into())
    );
    assert_eq!(
        cluster.condition("MonitoringReady"),
        ("True".into(), "Applied".into())
    );
    // Nothing to do: no write.
    cluster.take_writes();
    cluster.round().await.unwrap();
    assert_eq!(cluster.take_writes(), [""; 0]);

    // Somebody opens the policy, takes our labels off a ConfigMap, and deletes the other Service.
    let mut policy = cluster.server.get(POLICY).unwrap();
    policy["spec"]["ingress"] = json!([{}]);
    cluster.server.put(POLICY, policy);
    let mut changed = cluster.server.get(SITE).unwrap();
    changed["metadata"]["labels"] = json!({});
    changed["data"]["endpoint"] = json!("http://elsewhere");
    cluster.server.put(SITE, changed);
    cluster.server.state().objects.remove(COMPATIBILITY);
    cluster.settle().await;
    assert_eq!(
        cluster.take_writes(),
        [
            "PATCH services/ryax-minio",
            "PATCH networkpolicies/files",
            "PATCH configmaps/files-site",
        ]
    );
    let policy = cluster.server.get(POLICY).unwrap();
    assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], "api");
    let put_back = cluster.server.get(SITE).unwrap();
    assert_eq!(put_back["data"], site["data"]);
    assert_eq!(put_back["metadata"]["labels"], site["metadata"]["labels"]);

    // Not asked for any more: all of them go, and nothing else does.
    let others = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "mine", "labels": {
            "filestore.ryax.tech/name": "files", "filestore.ryax.tech/purpose": "site",
        }},
    });
    let mine = "/api/v1/namespaces/ns/configmaps/mine";
    cluster.server.put(mine, others);
    cluster.set_spec(&fresh(), 2);
    cluster.settle().await;
    for path in ALL {
        assert!(cluster.server.get(path).is_none(), "{path}");
    }
    for path in [DEPLOYMENT, SERVICE, ACCOUNT, CLAIM, mine] {
        assert!(cluster.server.get(path).is_some(), "{path}");
    }
    let deletions = cluster.take_writes();
    let deletions = deletions.iter().filter(|write| write.starts_with("DELETE"));
    assert_eq!(deletions.count(), ALL.len());
    let status = cluster.status().to_string();
    assert!(
        !status.contains("NamesReady") && !status.contains("MonitoringReady"),
        "{status}"
    );
}

#[tokio::test]
async fn kinds_that_the_cluster_does_not_know_are_said_and_harm_nothing() {
    let cluster = Cluster::new(&everything());
    let unknown = |end| {
        (
            Method::GET,
            end,
            404,
            "the server could not find the resource",
        )
    };
    cluster.server.state().refused = vec![unknown("servicemonitors"), unknown("prometheusrules")];
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
    assert_eq!(
        cluster.condition("MonitoringReady"),
        ("False".into(), "KindUnknown".into())
    );
    let message = cluster.message("MonitoringReady");
    assert!(
        message.contains("PrometheusRule and ServiceMonitor"),
        "{message}"
    );
    let writes = cluster.writes();
    assert!(!writes.iter().any(|write| write.contains("monitoring")));
    assert!(cluster.server.get(DASHBOARD).is_some());
    let told = |cluster: &Cluster| {
        let state = cluster.server.state();
        let events = state.events.iter();
        events.filter(|event| *event == "KindUnknown").count()
    };
    assert_eq!(told(&cluster), 1);
    cluster.take_writes();
    cluster.round().await.unwrap();
    assert_eq!((cluster.take_writes().len(), told(&cluster)), (0, 1));

    // The definitions are installed.
    cluster.server.state().refused.clear();
    cluster.settle().await;
    assert_eq!(cluster.condition("MonitoringReady").0, "True");
    let monitor = cluster.server.get(MONITOR).unwrap();
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    assert_eq!(monitor["spec"]["endpoints"][0]["interval"], "30s");
}

#[tokio::test]
async fn a_right_that_is_missing_is_said_and_the_store_runs() {
    let cluster = Cluster::new(&everything());
    let refused = (
        Method::GET,
        "networkpolicies",
        403,
        "networkpolicies is forbidden",
    );
    cluster.server.state().refused = vec![refused];
    for _ in 0..3 {
        cluster.round().await.unwrap();
        cluster.others_act();
    }
    assert_eq!(cluster.status()["phase"], "Degraded");
    assert_eq!(cluster.condition("Ready").0, "True");
    assert_eq!(cluster.condition("Stalled").1, "RequestRefused");
    let message = cluster.message("Stalled");
    assert!(
        message.contains("networkpolicies is forbidden"),
        "{message}"
    );
    assert!(cluster.server.get(SITE).is_some());
    // Who does not ask for a policy does not need the right.
    cluster.set_spec(&fresh(), 2);
    cluster.settle().await;
    assert_eq!(cluster.status()["phase"], "Ready");
}

#[tokio::test]
async fn a_name_that_somebody_else_has_is_left_alone() {
    let mut spec = fresh();
    spec["service"] = json!({"compatibility": [{"name": "ryax-minio"}]});
    let cluster = Cluster::new(&spec);
    let charts = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "ryax-minio", "labels": {"app.kubernetes.io/managed-by": "Helm"},
        },
        "spec": {
            "selector": {"app.kubernetes.io/name": "minio", "app.kubernetes.io/part-of": "minio"},
            "ports": [{"name": "tcp-api", "port": 9000, "targetPort": "api"}],
        },
    });
    cluster.server.put(COMPATIBILITY, charts);
    let before = cluster.server.get(COMPATIBILITY);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("NamesReady"),
        ("False".into(), "CompatServiceConflict".into())
    );
    let message = cluster.message("Stalled");
    for told in [
        "managed by Helm",
        "app.kubernetes.io/name: minio, app.kubernetes.io/part-of: minio",
    ] {
        assert!(message.contains(told), "{message}");
    }
    // The pod wears what that Service selects: the name leads here.
    spec["pod"] = json!({"labels": {
        "app.kubernetes.io/name": "minio", "app.kubernetes.io/part-of": "minio",
    }});
    cluster.set_spec(&spec, 2);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("NamesReady"),
        ("True".into(), "NamesLeadHere".into())
    );
    assert_eq!(cluster.status()["phase"], "Ready");
    assert_eq!(cluster.server.get(COMPATIBILITY), before);
}

#[tokio::test]
async fn versitygw_has_nothing_to_read() {
    let mut spec = everything();
    spec["engine"] = json!("versitygw");
    spec["versitygw"] = json!({"image": "docker.io/versity/versitygw:v1.8.0"});
    let cluster = Cluster::new(&spec);
    cluster.settle().await;
    assert_eq!(
        cluster.condition("MonitoringReady"),
        ("False".into(), "EngineLacks".into())
    );
    assert!(cluster.server.get(MONITOR).is_none());
    assert!(cluster.server.get(POLICY).is_some());
}
