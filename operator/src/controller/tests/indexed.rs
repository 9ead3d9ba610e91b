//! What the Job controller and the kubelets make of an Indexed Job.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

/// Instead of an exit code: the node of the pod is lost.
pub(super) const LOST: i32 = -1;

const PODS: &str = "/api/v1/namespaces/ns/pods/";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

impl Cluster {
    /// One step of the workers of a Job: all start; then each ends, and is started again as the
    /// Job says; then the Job is over.
    pub(super) fn indexed_acts(&self, path: &str) -> bool {
        let job = self.server.get(path).unwrap();
        let count = job["spec"]["completions"].as_u64().unwrap();
        let mut acted = false;
        for index in 0..count {
            acted |= self.worker_acts(&job, index);
        }
        if acted {
            return true;
        }
        let failed: Vec<String> = (0..count)
            .filter(|index| self.last_end(&job, *index) != Some(0))
            .map(|index| index.to_string())
            .collect();
        let mut job = job;
        let outcome = if failed.is_empty() {
            "Complete"
        } else {
            "Failed"
        };
        job["status"] = json!({
            "conditions": [{"type": outcome, "status": "True", "reason": "FailedIndexes", "message": "m",
                            "lastTransitionTime": format!("{:.0}", Timestamp::now())}],
            "failedIndexes": failed.join(","),
        });
        self.server.put(path, job);
        true
    }

    fn pod_path(job: &Value, index: u64, start: usize) -> String {
        let name = job["metadata"]["name"].as_str().unwrap();
        format!("{PODS}{name}-{index}-{start}-x")
    }

    /// Its pods so far.
    fn starts(&self, job: &Value, index: u64) -> usize {
        let made = |start: &usize| {
            self.server
                .get(&Self::pod_path(job, index, *start))
                .is_some()
        };
        (0..9).take_while(made).count()
    }

    fn last_end(&self, job: &Value, index: u64) -> Option<i64> {
        let start = self.starts(job, index).checked_sub(1)?;
        let pod = self.server.get(&Self::pod_path(job, index, start))?;
        if pod["status"]["phase"] == "Failed" && pod["status"]["containerStatuses"].is_null() {
            return Some(i64::from(LOST));
        }
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].as_i64()
    }

    fn worker_acts(&self, job: &Value, index: u64) -> bool {
        let starts = self.starts(job, index);
        let Some(start) = starts.checked_sub(1) else {
            self.start_worker(job, index, 0);
            return true;
        };
        if let Some(code) = self.last_end(job, index) {
            let rule = &job["spec"]["podFailurePolicy"]["rules"][0];
            assert_eq!(rule["action"], "FailIndex");
            let ends = rule["onExitCodes"]["values"].as_array().unwrap();
            let again = job["spec"]["backoffLimitPerIndex"].as_u64().unwrap();
            if code == 0 || ends.contains(&json!(code)) || starts as u64 > again {
                return false;
            }
            self.start_worker(job, index, starts);
            return true;
        }
        let at = Self::pod_path(job, index, start);
        let mut pod = self.server.get(&at).unwrap();
        let mut script = self.volume.script();
        let scripted = script.workers.iter().position(|(of, _)| *of == index);
        let code = scripted.map_or(0, |at| script.workers.remove(at).1);
        let changed = script.shares.get(usize::try_from(index).unwrap()).copied();
        script.marker.get_or_insert(MarkerState::Copying);
        drop(script);
        if code == LOST {
            pod["status"] = json!({"phase": "Failed", "reason": "NodeLost"});
        } else {
            let late = code == 4;
            let summary = json!({
                "version": 1, "command": "copy", "exit": code, "meaning": format!("as {code} says"),
                "ending": if late { "deadline" } else { "incomplete" },
                "outcomes": {"copied": changed.unwrap_or(7), "skipped": 0, "deleted": 0, "failed": 0},
                "copiedBytes": 10,
                "notCarried": {"noncurrentVersions": {"count": 2, "bytes": 9, "examples": []}},
            });
            pod["status"] = jobs::container(&json!({"terminated": {
                "exitCode": code, "reason": "Completed", "message": summary.to_string(),
                "finishedAt": format!("{:.0}", Timestamp::now()),
            }}));
        }
        self.server.put(&at, pod);
        true
    }

    fn start_worker(&self, job: &Value, index: u64, start: usize) {
        let name = job["metadata"]["name"].as_str().unwrap();
        let mut labels = job["spec"]["template"]["metadata"]["labels"].clone();
        labels["batch.kubernetes.io/job-name"] = json!(name);
        let mut status = jobs::container(&json!({"running": {}}));
        status["podIP"] = json!(format!("10.0.1.{index}"));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{name}-{index}-{start}-x"), "labels": labels,
                "annotations": {INDEX: index.to_string()},
                "creationTimestamp": format!("2026-11-30T10:00:0{start}Z"),
            },
            "spec": job["spec"]["template"]["spec"], "status": status,
        });
        self.server.put(&Self::pod_path(job, index, start), pod);
    }
}
