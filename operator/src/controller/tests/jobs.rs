//! What the Job controller, a kubelet and the program in the pod make of a Job of one pod.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::legacy::LEGACY_POD;
use super::*;

impl Cluster {
    /// One step of a Job: its pod starts; then it ends as the script says, and the Job with it.
    pub(super) fn job_acts(&self, path: &str) -> bool {
        let mut job = self.server.get(path).unwrap();
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = job["metadata"]["labels"]["filestore.ryax.tech/job"]
            .as_str()
            .unwrap()
            .to_owned();
        let at = format!("/api/v1/namespaces/ns/pods/{name}-x");
        if job["status"]["conditions"].is_array() {
            return false;
        }
        if job["spec"]["suspend"] == true {
            return self.server.state().objects.remove(&at).is_some();
        }
        if job["spec"]["completionMode"] == "Indexed" {
            return self.indexed_acts(path);
        }
        let Some(mut pod) = self.server.get(&at) else {
            let mut labels = job["spec"]["template"]["metadata"]["labels"].clone();
            labels["batch.kubernetes.io/job-name"] = json!(name);
            self.server.put(
                &at,
                json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": format!("{name}-x"), "labels": labels},
                    "spec": job["spec"]["template"]["spec"],
                    "status": container(&json!({"running": {}})),
                }),
            );
            return true;
        };
        let ready = pod["status"]["conditions"][0]["status"] == "True";
        let went = pod["metadata"]["annotations"]["filestore.ryax.tech/go"] == "go";
        if kind == "final" && !ready {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            self.server.put(&at, pod);
            return true;
        }
        if kind == "final" && !went {
            return false;
        }
        let code = self.ends(&kind);
        let summary = self.summary(&kind, code);
        pod["status"] = container(&json!({"terminated": {
            "exitCode": code, "reason": "Completed", "message": summary,
            "finishedAt": format!("{:.0}", Timestamp::now()),
        }}));
        pod["status"]["phase"] = json!("Succeeded");
        self.server.put(&at, pod);
        let outcome = if code == 0 { "Complete" } else { "Failed" };
        job["status"] = json!({"conditions": [{"type": outcome, "status": "True"}]});
        self.server.put(path, job);
        true
    }

    /// Exit code, and what becomes of the marker.
    fn ends(&self, kind: &str) -> i32 {
        let mut script = self.volume.script();
        if kind == "copy" && script.late > 0 {
            return 4;
        }
        let at = script.exits.iter().position(|(found, _)| *found == kind);
        let code = at.map_or(0, |at| script.exits.remove(at).1);
        if code != 0 {
            return code;
        }
        script.marker = match kind {
            "copy" => Some(MarkerState::Copying),
            "final" => {
                let legacy = self.server.get(LEGACY_POD);
                assert!(
                    legacy.is_none(),
                    "the final pass ended beside the legacy store"
                );
                Some(MarkerState::Verified)
            }
            "back" => {
                assert!(self.server.get(POD).is_none(), "back beside the gateway");
                Some(MarkerState::RolledBack)
            }
            "abandon" => Some(MarkerState::Cutover),
            _ => script.marker,
        };
        0
    }

    fn summary(&self, kind: &str, code: i32) -> String {
        let mut script = self.volume.script();
        let late = kind == "copy" && script.late > 0;
        if late {
            script.late -= 1;
        }
        let error = script.error.filter(|_| code != 0 && !late);
        let changed = if kind == "copy" && !script.changed.is_empty() {
            script.changed.remove(0)
        } else {
            7
        };
        let mut summary = json!({
            "version": 1, "command": kind, "exit": code, "meaning": "as the exit code says",
            "ending": if late { "deadline" } else { "incomplete" }, "error": error,
            "outcomes": {"copied": changed, "skipped": 0, "deleted": 0, "failed": 0},
            "notCarried": {"noncurrentVersions": {"count": 2, "bytes": 9, "examples": []}},
        });
        if kind == "final" && code == 0 {
            summary["marker"] = json!({
                "runId": "run-1", "state": "verified",
                "carried": {"buckets": 3, "objects": 1007, "bytes": 4096},
            });
        }
        summary.to_string()
    }
}

/// Status of a pod whose container is in this state.
pub(super) fn container(state: &Value) -> Value {
    json!({
        "phase": "Running", "podIP": "10.0.0.8",
        "containerStatuses": [{
            "name": "migrate", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        }],
    })
}
