//! Against the API server in memory: a namespace with Bitnami's MinIO, and what can be wrong with it.

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::controller::tests::server::Server;

const NS: &str = "/api/v1/namespaces/ns";
const APPS: &str = "/apis/apps/v1/namespaces/ns";
const SELECTOR: [(&str, &str); 2] = [
    ("app.kubernetes.io/name", "minio"),
    ("app.kubernetes.io/instance", "ryax"),
];

fn labels() -> Value {
    SELECTOR
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// As the chart makes it, by Helm.
fn metadata(name: &str) -> Value {
    let mut labels = labels();
    labels["app.kubernetes.io/managed-by"] = json!("Helm");
    json!({
        "name": name, "labels": labels, "annotations": {"meta.helm.sh/release-name": "ryax"},
    })
}

fn template() -> Value {
    json!({
        "metadata": {"labels": metadata("")["labels"]},
        "spec": {
            "containers": [{
                "name": "minio", "image": "docker.io/bitnamilegacy/minio:2025.7.23",
                "env": [
                    {"name": "MINIO_ROOT_USER_FILE", "value": "/secrets/root-user"},
                    {"name": "MINIO_ROOT_PASSWORD_FILE", "value": "/secrets/root-password"},
                ],
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "keys", "mountPath": "/secrets/"},
                    {"name": "data", "mountPath": "/bitnami/minio/data"},
                ],
            }],
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "keys", "secret": {"secretName": "ryax-minio-secret"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "ryax-minio"}},
            ],
        },
    })
}

/// Bitnami's MinIO, its claim protected, all as it should be.
fn legacy() -> Server {
    let server = Server::default();
    let put = |path: String, object: Value| server.put(&path, object);
    put(
        "/version".into(),
        json!({
            "metadata": {},
            "major": "1", "minor": "37", "gitVersion": "v1.37.2", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        }),
    );
    put(
        format!("{APPS}/deployments/ryax-minio"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("ryax-minio"),
            "spec": {
                "selector": {"matchLabels": labels()},
                "template": template(),
            },
            "status": {"readyReplicas": 1},
        }),
    );
    put(
        format!("{NS}/services/ryax-minio"),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata("ryax-minio"),
            "spec": {
                "selector": labels(),
                "ports": [{"name": "tcp-api", "port": 9000, "targetPort": "api"}],
            },
        }),
    );
    let mut kept = metadata("ryax-minio");
    kept["annotations"]["helm.sh/resource-policy"] = json!("keep");
    kept["annotations"]["argocd.argoproj.io/sync-options"] = json!("Prune=false,Delete=false");
    put(
        format!("{NS}/persistentvolumeclaims/ryax-minio"),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": kept,
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1"},
            "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}},
        }),
    );
    put(
        "/api/v1/persistentvolumes/pv-1".into(),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
            "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        }),
    );
    put(
        "/apis/storage.k8s.io/v1/storageclasses/fast".into(),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "allowVolumeExpansion": true,
            "metadata": {"name": "fast", "annotations": {
                "storageclass.kubernetes.io/is-default-class": "true",
            }},
            "provisioner": "block.csi.example",
        }),
    );
    put(
        format!("{NS}/secrets/ryax-minio-secret"),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ryax-minio-secret"},
            "data": {"root-user": "cnlheA==", "root-password": "QWIzZEVmNmhJajlr"},
        }),
    );
    server
}

async fn look(server: &Server) -> Report {
    report(&read::facts(&server.client(), "ns").await.unwrap())
}

/// Findings of a check that are not as they should be, with their cures.
fn wrong(report: &Report, check: &str) -> Vec<(Weight, String)> {
    let findings = report.findings.iter();
    findings
        .filter(|finding| finding.check == check && finding.weight > Weight::Note)
        .map(|finding| {
            let cure = finding.cure.clone().unwrap_or_default();
            (finding.weight, format!("{} -> {cure}", finding.found))
        })
        .collect()
}

fn change(server: &Server, path: &str, change: impl FnOnce(&mut Value)) {
    let mut object = server.get(path).unwrap();
    change(&mut object);
    server.put(path, object);
}

#[tokio::test]
async fn a_store_that_can_be_taken_over() {
    let server = legacy();
    let report = look(&server).await;
    assert!(report.ready, "{report:#?}");
    assert_eq!(report.legacy.as_deref(), Some("Deployment ryax-minio"));
    let worn: BTreeMap<_, _> = SELECTOR
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    assert_eq!(report.pod_labels, worn);
    for check in [
        "cluster", "operator", "legacy", "keys", "name", "claim", "network",
    ] {
        assert_eq!(wrong(&report, check), [], "{check}");
    }
    let text = format!("{report:?}");
    for told in [
        "runs docker.io/bitnamilegacy/minio:2025.7.23, 1 of 1 pods ready",
        "Service ryax-minio:9000 (kept by Helm release ryax) leads to the new pod",
        "PersistentVolumeClaim ryax-minio: 20Gi, ReadWriteOnce",
        "Secret ryax-minio-secret has root-user and root-password",
        "default StorageClass fast (block.csi.example), its volumes can grow",
        "storage.size: 20Gi is enough",
    ] {
        assert!(text.contains(told), "{told} in {text}");
    }
    assert!(!text.contains("Ab3dEf6hIj9k") && !text.contains("QWIzZEVmNmhJajlr"));
    // It writes nothing.
    assert_eq!(server.state().writes, [""; 0]);
}

#[tokio::test]
async fn a_claim_that_would_be_deleted() {
    let server = legacy();
    let claim = format!("{NS}/persistentvolumeclaims/ryax-minio");
    change(&server, &claim, |claim| {
        claim["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "ryax"});
    });
    change(&server, "/api/v1/persistentvolumes/pv-1", |volume| {
        volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    });
    let report = look(&server).await;
    assert!(!report.ready);
    let found = wrong(&report, "claim");
    assert_eq!(found[0].0, Weight::Must);
    assert_eq!(
        found[0].1,
        "Helm release ryax deletes it when an upgrade leaves it out -> kubectl annotate pvc ryax-minio --namespace ns --overwrite helm.sh/resource-policy=keep argocd.argoproj.io/sync-options=Prune=false,Delete=false"
    );
    assert_eq!(found[1].0, Weight::Warning);
    assert!(
        found[1].1.contains("kubectl patch pv pv-1"),
        "{}",
        found[1].1
    );

    // Helm's word alone is not enough for Argo CD.
    change(&server, &claim, |claim| {
        claim["metadata"]["annotations"]["helm.sh/resource-policy"] = json!("keep");
    });
    assert!(!look(&server).await.ready);
}

#[tokio::test]
async fn names_keys_and_scaling_that_do_not_fit() {
    let server = legacy();
    change(&server, &format!("{NS}/services/ryax-minio"), |service| {
        service["spec"]["ports"][0]["targetPort"] = json!("s3");
    });
    change(
        &server,
        &format!("{NS}/secrets/ryax-minio-secret"),
        |secret| {
            secret["data"] = json!({"root-user": "cnlheA=="});
        },
    );
    server.put(
        "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/minio",
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "minio"},
            "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "ryax-minio"}},
        }),
    );
    let report = look(&server).await;
    for (check, told) in [
        ("name", "set the targetPort of its S3 port to api"),
        ("keys", "has no key root-password (it has root-user)"),
        ("legacy", "kubectl delete hpa minio --namespace ns"),
    ] {
        let found = wrong(&report, check);
        assert_eq!(found[0].0, Weight::Must, "{check}");
        assert!(found[0].1.contains(told), "{}", found[0].1);
    }
    assert!(report.pod_labels.is_empty());
}

#[tokio::test]
async fn several_stores_none_and_an_old_cluster() {
    let server = legacy();
    change(
        &server,
        &format!("{APPS}/deployments/ryax-minio"),
        |deployment| {
            deployment["metadata"]["name"] = json!("other");
            let other = deployment.clone();
            server.put(&format!("{APPS}/deployments/other"), other);
            deployment["metadata"]["name"] = json!("ryax-minio");
        },
    );
    let report = look(&server).await;
    assert_eq!(report.legacy, None);
    let found = wrong(&report, "legacy");
    assert!(
        found[0]
            .1
            .contains("Deployment other, Deployment ryax-minio look like"),
        "{found:?}"
    );

    let empty = Server::default();
    let mut version = server.get("/version").unwrap();
    version["minor"] = json!("29+");
    empty.put("/version", version);
    let report = look(&empty).await;
    assert_eq!(wrong(&report, "cluster")[0].0, Weight::Must);
    assert!(format!("{report:?}").contains("nothing in the namespace looks like a MinIO"));
    let target = wrong(&report, "target");
    assert!(
        target[0]
            .1
            .contains("name one under storage.storageClassName"),
        "{target:?}"
    );
}

#[tokio::test]
async fn a_drive_that_the_operator_cannot_read() {
    let server = legacy();
    let claim = format!("{NS}/persistentvolumeclaims/ryax-minio");
    change(&server, &claim, |claim| {
        claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    });
    let found = wrong(&look(&server).await, "claim");
    assert_eq!(found[0].0, Weight::Warning);
    assert!(
        found[0]
            .1
            .contains("no pod reads it beside the legacy store -> scale the legacy store to 0"),
        "{found:?}"
    );

    let deployment = format!("{APPS}/deployments/ryax-minio");
    change(&server, &deployment, |deployment| {
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["containers"][0]["args"] = json!(["server", "/bitnami/minio/data"]);
        pod["volumes"][2] = json!({"name": "data", "hostPath": {"path": "/srv/minio"}});
    });
    let found = wrong(&look(&server).await, "claim");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].1.contains("its data in /bitnami/minio/data is on no claim (it is the folder /srv/minio of a node) -> take it over by its endpoint"),
        "{found:?}"
    );
}

/// What the operator sees, preflight sees: a claim that the workload makes itself, keys under other
/// names, and a store that was taken over.
#[tokio::test]
async fn it_looks_as_the_operator_does() {
    let server = legacy();
    let path = format!("{APPS}/deployments/ryax-minio");
    let mut set = server.get(&path).unwrap();
    server.state().objects.remove(&path);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("ryax-minio");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let pod = &mut set["spec"]["template"]["spec"];
    pod["volumes"].as_array_mut().unwrap().remove(2);
    pod["containers"][0]["env"][0]["name"] = json!("MINIO_ACCESS_KEY_FILE");
    let path = format!("{APPS}/statefulsets/ryax-minio");
    server.put(&path, set);
    let claim = format!("{NS}/persistentvolumeclaims/ryax-minio");
    let mut made = server.get(&claim).unwrap();
    server.state().objects.remove(&claim);
    made["metadata"]["name"] = json!("data-ryax-minio-0");
    server.put(
        &format!("{NS}/persistentvolumeclaims/data-ryax-minio-0"),
        made,
    );
    let report = look(&server).await;
    assert_eq!(report.legacy.as_deref(), Some("StatefulSet ryax-minio"));
    assert!(report.ready, "{report:#?}");
    let text = format!("{report:?}");
    assert!(text.contains("PersistentVolumeClaim data-ryax-minio-0: 20Gi"));
    assert!(text.contains("Secret ryax-minio-secret has root-user and root-password"));

    change(&server, &path, |set| {
        set["metadata"]["labels"]["filestore.ryax.tech/name"] = json!("files");
    });
    assert_eq!(look(&server).await.legacy, None);
}

#[tokio::test]
async fn few_rights_are_said_and_no_failure() {
    let server = legacy();
    let forbidden = |end| (Method::GET, end, 403, "is forbidden");
    server.state().refused = vec![
        forbidden("storageclasses"),
        forbidden("persistentvolumes/pv-1"),
        forbidden("secrets/ryax-minio-secret"),
        forbidden("networkpolicies"),
    ];
    let report = look(&server).await;
    assert!(report.ready);
    for (check, told) in [
        ("target", "StorageClasses: is forbidden"),
        (
            "claim",
            "reclaim policy of PersistentVolume pv-1: is forbidden",
        ),
        ("keys", "Secret ryax-minio-secret: is forbidden"),
        ("network", "NetworkPolicies: is forbidden"),
    ] {
        let found = wrong(&report, check);
        assert_eq!(found[0].0, Weight::Unknown, "{check}");
        assert!(found[0].1.starts_with(told), "{}", found[0].1);
    }
    // A server that does not answer is a failure.
    server.state().left = Some(0);
    assert!(read::facts(&server.client(), "ns").await.is_err());
}
