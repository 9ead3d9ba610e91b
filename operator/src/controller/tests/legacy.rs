//! What else runs in a cluster with a legacy MinIO: its controllers and kubelet, and the new store
//! with the marker on its volume.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::super::store::{Root, Stores};
use super::*;
use crate::told::Told;

pub(super) const LEGACY: &str = "/apis/apps/v1/namespaces/ns/deployments/ryax-minio";
pub(super) const LEGACY_POD: &str = "/api/v1/namespaces/ns/pods/ryax-minio-1";
pub(super) const LEGACY_SERVICE: &str = "/api/v1/namespaces/ns/services/ryax-minio";
const JOBS: &str = "/apis/batch/v1/namespaces/ns/jobs/";

/// The volume of the Filestore, and how the programs on it behave.
#[derive(Clone, Debug, Default)]
pub(super) struct Volume(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
pub(super) struct Script {
    /// State of the marker.
    pub(super) marker: Option<MarkerState>,
    /// Exit codes of Jobs to come, by kind; 0 when there is none.
    pub(super) exits: Vec<(&'static str, i32)>,
    /// Rounds of copying to come that run out of time.
    pub(super) late: u32,
    /// What Jobs that fail say.
    pub(super) error: Option<&'static str>,
    /// Exit codes of workers to come, by their index; 0 when there is none.
    pub(super) workers: Vec<(u64, i32)>,
    /// Objects that each worker finds changed; few when there is none.
    pub(super) shares: Vec<u64>,
    /// What pods at these addresses tell.
    pub(super) told: BTreeMap<IpAddr, Told>,
    /// Objects that the copy rounds to come find changed; few when there is none.
    pub(super) changed: Vec<u64>,
    /// What a Job at work tells that it is through with.
    pub(super) objects: Option<i64>,
    /// The new store answers nothing.
    pub(super) mute: bool,
    /// Times the new store was tried and handed over.
    pub(super) asked: Vec<&'static str>,
}

impl Volume {
    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }
}

#[async_trait]
impl Stores for Volume {
    async fn told(&self, address: IpAddr) -> Told {
        let script = self.script();
        let told = script.told.get(&address).copied();
        told.unwrap_or_else(|| Told {
            objects: script.objects,
            ..Told::default()
        })
    }

    async fn try_out(&self, _address: IpAddr, root: &Root, buckets: u64) -> Result<(), String> {
        assert_eq!((root.access_key.as_str(), buckets), ("ryax", 3));
        let mut script = self.script();
        if script.mute {
            return Err("no answer".into());
        }
        script.asked.push("try");
        Ok(())
    }

    async fn hand_over(&self, _address: IpAddr, _root: &Root, run: &str) -> Result<(), String> {
        assert_eq!(run, "run-1");
        let mut script = self.script();
        script.asked.push("hand over");
        match script.marker {
            Some(MarkerState::Verified | MarkerState::Cutover) => {
                script.marker = Some(MarkerState::Cutover);
                Ok(())
            }
            other => Err(format!("409: the migration is {other:?}")),
        }
    }
}

/// Laid out as Bitnami's chart 17.0.21 does.
pub(super) fn minio() -> Vec<(&'static str, Value)> {
    let selected = json!({
        "app.kubernetes.io/name": "minio", "app.kubernetes.io/instance": "ryax",
        "app.kubernetes.io/component": "minio", "app.kubernetes.io/part-of": "minio",
    });
    let mut labels = selected.clone();
    labels["helm.sh/chart"] = json!("minio-17.0.21");
    let file = |name: &str, key: &str| json!({"name": name, "value": format!("/opt/bitnami/minio/secrets/{key}")});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "ryax-minio", "labels": labels, "managedFields": [{
            "manager": "kubectl", "operation": "Update", "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "securityContext": {"fsGroup": 1001},
                    "containers": [{
                        "name": "minio", "image": "docker.io/bitnamilegacy/minio:2025.7.23",
                        "securityContext": {"runAsUser": 1001},
                        "env": [
                            {"name": "MINIO_DATA_DIR", "value": "/bitnami/minio/data"},
                            file("MINIO_ROOT_USER_FILE", "root-user"),
                            file("MINIO_ROOT_PASSWORD_FILE", "root-password"),
                        ],
                        "ports": [{"name": "api", "containerPort": 9000}],
                        "volumeMounts": [
                            {"name": "minio-credentials", "mountPath": "/opt/bitnami/minio/secrets/"},
                            {"name": "data", "mountPath": "/bitnami/minio/data"},
                        ],
                    }],
                    "volumes": [
                        {"name": "minio-credentials", "secret": {"secretName": "ryax-minio-secret"}},
                        {"name": "data", "persistentVolumeClaim": {"claimName": "ryax-minio"}},
                    ],
                },
            },
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "ryax-minio", "labels": labels},
        "spec": {"selector": selected, "clusterIP": "10.43.0.7",
                 "ports": [{"name": "tcp-api", "port": 9000, "targetPort": "api"}]},
    });
    vec![(LEGACY, deployment), (LEGACY_SERVICE, service)]
}

pub(super) fn take_over() -> Value {
    json!({
        "credentials": {"secretRef": {"name": "keys"}},
        "storage": {"size": "20Gi"},
        "migration": {"id": "run-1"},
    })
}

/// A cluster with a MinIO that serves.
pub(super) fn with_minio(spec: &Value) -> Cluster {
    let cluster = Cluster::new(spec);
    for (path, object) in minio() {
        cluster.server.put(path, object);
    }
    cluster.all_others_act();
    cluster
}

impl Cluster {
    fn paths(&self, prefix: &str) -> Vec<String> {
        let state = self.server.state();
        let paths = state.objects.keys();
        paths
            .filter(|path| path.starts_with(prefix))
            .cloned()
            .collect()
    }

    pub(super) fn legacy_replicas(&self) -> Value {
        self.server.get(LEGACY).unwrap()["spec"]["replicas"].clone()
    }

    pub(super) fn record(&self) -> Value {
        let legacy = self.server.get(LEGACY).unwrap();
        let text = legacy["metadata"]["annotations"]["filestore.ryax.tech/take-over"].as_str();
        text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    pub(super) fn jobs(&self) -> Vec<String> {
        let paths = self.paths(JOBS);
        paths
            .into_iter()
            .map(|path| path.trim_start_matches(JOBS).to_owned())
            .collect()
    }

    pub(super) fn job(&self, name: &str) -> Value {
        self.server.get(&format!("{JOBS}{name}")).unwrap()
    }

    pub(super) fn gateway_is_ready(&self) -> bool {
        self.server
            .get(POD)
            .is_some_and(|pod| pod["status"]["conditions"][0]["status"] == "True")
    }

    /// What must hold at any moment: never two stores for the clients.
    pub(super) fn check(&self) {
        let legacy = self.server.get(LEGACY_POD).is_some();
        assert!(
            !(legacy && self.gateway_is_ready()),
            "both stores serve: {:#?}",
            self.server.state().writes
        );
    }

    /// Rounds and all others in turn, until nothing moves any more.
    pub(super) async fn carry_on(&self) {
        for _ in 0..80 {
            let before = self.server.state().writes.len();
            self.round().await.unwrap();
            self.check();
            let quiet = self.server.state().writes.len() == before;
            let moved = self.all_others_act();
            self.check();
            if quiet && !moved {
                return;
            }
        }
        panic!("no end: {:#?}", self.server.state().writes);
    }

    /// One step of everybody else.
    pub(super) fn all_others_act(&self) -> bool {
        let mut acted = self.others_act();
        acted |= self.legacy_acts();
        for path in self.paths(JOBS) {
            acted |= self.job_acts(&path);
        }
        acted |= self.gateway_acts();
        acted
    }

    fn legacy_acts(&self) -> bool {
        let Some(legacy) = self.server.get(LEGACY) else {
            return false;
        };
        let wanted = legacy["spec"]["replicas"] == 1;
        match (wanted, self.server.get(LEGACY_POD)) {
            (true, None) => {
                let template = &legacy["spec"]["template"];
                self.server.put(LEGACY_POD, json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": "ryax-minio-1", "labels": template["metadata"]["labels"]},
                    "spec": {"nodeName": "node-a", "containers": []},
                    "status": {"phase": "Running"},
                }));
                true
            }
            (false, Some(_)) => {
                self.server.state().objects.remove(LEGACY_POD);
                true
            }
            _ => false,
        }
    }

    /// The gateway is ready when the marker says so.
    fn gateway_acts(&self) -> bool {
        let Some(mut pod) = self.server.get(POD) else {
            return false;
        };
        let waits = pod["spec"]["containers"][0]["args"]
            .as_array()
            .is_some_and(|args| args.iter().any(|arg| arg == "--require-marker"));
        if !waits {
            return false;
        }
        let ready = self.volume.script().marker == Some(MarkerState::Cutover);
        let before = pod.clone();
        pod["status"]["podIP"] = json!("10.0.0.9");
        pod["status"]["conditions"] = json!([{
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "lastTransitionTime": "2099-01-01T00:00:00Z",
        }]);
        let changed = pod["status"] != before["status"];
        if changed {
            self.server.put(POD, pod);
        }
        changed
    }
}
