//! Rounds against an API server in memory ([`server`]); what other controllers of a cluster do is
//! played by [`Cluster::others_act`].

mod access;
mod claims;
mod cutover;
mod extras;
mod indexed;
mod jobs;
mod killed;
mod legacy;
mod rounds;
pub(crate) mod server;
mod source_keys;
mod tls;

use std::sync::Arc;

use filestore_common::marker::MarkerState;
use kube::core::DeserializeGuard;
use serde_json::{Value, json};

use super::context::Context;
use super::deletion;
use super::metrics::Metrics;
use super::reconcile;
use legacy::Volume;
use server::Server;

const FILESTORE: &str = "/apis/filestore.ryax.tech/v1alpha1/namespaces/ns/filestores/files";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/files";
const SERVICE: &str = "/api/v1/namespaces/ns/services/files";
const ACCOUNT: &str = "/api/v1/namespaces/ns/serviceaccounts/files";
const CLAIM: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/files";
const LEGACY_CLAIM: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/ryax-minio";
const POD: &str = "/api/v1/namespaces/ns/pods/files-1";
const SECRET: &str = "/api/v1/namespaces/ns/secrets/keys";

/// A cluster with one Filestore.
struct Cluster {
    server: Server,
    context: Arc<Context>,
    /// The volume of the Filestore.
    volume: Volume,
}

fn fresh() -> Value {
    json!({
        "credentials": {"secretRef": {"name": "keys"}},
        "storage": {"size": "20Gi"},
    })
}

fn offline() -> Value {
    json!({
        "credentials": {"secretRef": {"name": "keys"}},
        "storage": {"size": "20Gi"},
        "migration": {"id": "run-1", "source": {"existingClaim": "ryax-minio"}},
    })
}

fn with_root_keys() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "data": {"root-user": "cnlheA==", "root-password": "QWIzZEVmNmhJajlr"},
    })
}

fn context(server: &Server, volume: &Volume) -> Arc<Context> {
    let metrics = Arc::new(Metrics::default());
    let stores = Arc::new(volume.clone());
    let client = server.client();
    Arc::new(Context::new(client, "test".into(), None, metrics, stores))
}

impl Cluster {
    /// With root keys and, for [`offline`], the claim of a stopped MinIO.
    fn new(spec: &Value) -> Self {
        let server = Server::default();
        server.put(SECRET, with_root_keys());
        server.put(
            LEGACY_CLAIM,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": "ryax-minio", "annotations": {"a": "b"}},
                "spec": {"resources": {"requests": {"storage": "8Gi"}}},
                "status": {"phase": "Bound"},
            }),
        );
        let volume = Volume::default();
        let cluster = Self {
            context: context(&server, &volume),
            server,
            volume,
        };
        cluster.set_spec(spec, 1);
        cluster
    }

    fn set_spec(&self, spec: &Value, generation: i64) {
        let mut object = self.server.get(FILESTORE).unwrap_or_else(|| {
            json!({
                "apiVersion": "filestore.ryax.tech/v1alpha1", "kind": "Filestore",
                "metadata": {"name": "files", "namespace": "ns", "uid": "uid-files"},
            })
        });
        object["metadata"]["generation"] = json!(generation);
        object["spec"] = spec.clone();
        self.server.put(FILESTORE, object);
    }

    /// One round; the text of its error.
    async fn round(&self) -> Result<(), String> {
        let object = self.server.get(FILESTORE).unwrap();
        let watched: DeserializeGuard<_> = serde_json::from_value(object).unwrap();
        let round = reconcile::reconcile(Arc::new(watched), Arc::clone(&self.context));
        round.await.map(drop).map_err(|error| error.to_string())
    }

    /// Rounds and other controllers in turn, until nothing is written any more.
    async fn settle(&self) {
        for _ in 0..20 {
            let before = self.server.state().writes.len();
            self.round().await.unwrap();
            let quiet = self.server.state().writes.len() == before;
            if !self.others_act() && quiet {
                return;
            }
        }
        panic!("no end: {:#?}", self.server.state().writes);
    }

    /// Binds claims, starts and ends the pod; whether there was anything to do.
    fn others_act(&self) -> bool {
        let mut acted = false;
        if let Some(mut claim) = self.server.get(CLAIM) {
            let wants = claim["spec"]["resources"]["requests"]["storage"].clone();
            if claim["status"]["capacity"]["storage"] != wants {
                claim["status"] = json!({"phase": "Bound", "capacity": {"storage": wants}});
                claim["spec"]["volumeName"] = json!("pv-1");
                self.server.put(CLAIM, claim);
                acted = true;
            }
        }
        let wanted = self
            .server
            .get(DEPLOYMENT)
            .filter(|deployment| deployment["spec"]["replicas"] == 1);
        match (wanted, self.server.get(POD)) {
            (Some(deployment), None) => {
                self.server.put(POD, ready_pod(&deployment));
                acted = true;
            }
            (None, Some(_)) => {
                self.server.state().objects.remove(POD);
                acted = true;
            }
            _ => {}
        }
        acted
    }

    fn status(&self) -> Value {
        self.server.get(FILESTORE).unwrap()["status"].clone()
    }

    /// Status and reason of a condition.
    fn condition(&self, kind: &str) -> (String, String) {
        let status = self.status();
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|found| found["type"] == kind)
            .unwrap();
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    fn message(&self, kind: &str) -> String {
        let status = self.status();
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .find(|found| found["type"] == kind)
            .unwrap();
        found["message"].as_str().unwrap().to_owned()
    }

    fn writes(&self) -> Vec<String> {
        self.server.state().writes.clone()
    }

    /// Writes since the last call of this function, by kind.
    fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.server.state().writes)
            .into_iter()
            .map(|write| {
                let parts: Vec<&str> = write.split('/').collect();
                let method = parts[0].trim();
                let at = parts.iter().position(|part| *part == "ns").unwrap() + 1;
                format!("{method} {}", parts[at..].join("/"))
            })
            .collect()
    }
}

fn ready_pod(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    let init: Vec<Value> = template["spec"]["initContainers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| {
            json!({
                "name": container["name"], "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "files-1", "labels": template["metadata"]["labels"],
            "creationTimestamp": "2026-11-30T10:00:00Z",
        },
        "spec": template["spec"],
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": init,
            "containerStatuses": [{
                "name": "gateway", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {"startedAt": "2026-11-30T10:00:00Z"}},
            }],
        },
    })
}
