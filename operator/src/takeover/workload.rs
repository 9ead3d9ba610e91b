//! The workload of a legacy store, and what we wrote on it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::WorkloadKind;
use crate::render::{COMPONENT_LABEL, NAME_LABEL};

/// Annotation on the workload of a legacy store: how its take-over stands. It is written in the
/// same request as the number of replicas, so that neither is ever there without the other.
pub const RECORD_ANNOTATION: &str = "filestore.ryax.tech/take-over";

/// Annotation on the workload of a legacy store: who started it after the hand-over, and when.
/// Stays until a person removes it.
pub const WRITERS_ANNOTATION: &str = "filestore.ryax.tech/writers-seen";

/// A Deployment or StatefulSet.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Which of the two.
    pub kind: WorkloadKind,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Pods that it is to have.
    pub replicas: i32,
    /// Labels that it selects its pods by.
    pub selector: BTreeMap<String, String>,
    /// Its pods.
    pub template: PodTemplateSpec,
    /// Claims of its first pod by the name of the volume, where it makes them itself.
    pub claims: BTreeMap<String, String>,
}

impl Workload {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// As people write it: `Deployment ryax-minio`.
    pub fn title(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.name())
    }

    /// Labels of its pods.
    pub fn pod_labels(&self) -> BTreeMap<String, String> {
        let metadata = self.template.metadata.as_ref();
        metadata
            .and_then(|metadata| metadata.labels.clone())
            .unwrap_or_default()
    }

    /// Whether it is the Deployment of a Filestore.
    pub fn is_of_a_filestore(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key(COMPONENT_LABEL))
    }

    /// What we wrote on it; nothing when it cannot be read.
    pub fn record(&self) -> Option<Record> {
        let annotations = self.metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(RECORD_ANNOTATION)?).ok()
    }

    /// Who started it after the hand-over, and when.
    pub fn writers(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(WRITERS_ANNOTATION).map(String::as_str)
    }

    /// A merge patch that sets replicas and record in one; good for the object as it was seen.
    pub fn patch(&self, replicas: i32, record: Option<&Record>) -> Value {
        let mut patch = json!({
            "metadata": {
                "annotations": {RECORD_ANNOTATION: record.map(|record| json!(record).to_string())},
                // Its changes wake us by this label.
                "labels": {NAME_LABEL: record.map(|record| &record.by)},
                "resourceVersion": self.metadata.resource_version,
                "uid": self.metadata.uid,
            },
        });
        if self.replicas != replicas {
            patch["spec"] = json!({"replicas": replicas});
        }
        patch
    }
}

fn selector(selector: Option<&LabelSelector>) -> BTreeMap<String, String> {
    selector
        .and_then(|selector| selector.match_labels.clone())
        .unwrap_or_default()
}

impl From<&Deployment> for Workload {
    fn from(found: &Deployment) -> Self {
        let spec = found.spec.clone().unwrap_or_default();
        Self {
            kind: WorkloadKind::Deployment,
            metadata: found.metadata.clone(),
            replicas: spec.replicas.unwrap_or(1),
            selector: selector(Some(&spec.selector)),
            template: spec.template,
            claims: BTreeMap::new(),
        }
    }
}

impl From<&StatefulSet> for Workload {
    fn from(found: &StatefulSet) -> Self {
        let spec = found.spec.clone().unwrap_or_default();
        let name = found.metadata.name.clone().unwrap_or_default();
        let templates = spec.volume_claim_templates.unwrap_or_default();
        Self {
            kind: WorkloadKind::StatefulSet,
            metadata: found.metadata.clone(),
            replicas: spec.replicas.unwrap_or(1),
            selector: selector(Some(&spec.selector)),
            template: spec.template,
            claims: templates
                .into_iter()
                .filter_map(|template| template.metadata.name)
                .map(|volume| (volume.clone(), format!("{volume}-{name}-0")))
                .collect(),
        }
    }
}

/// How the take-over of a workload stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Name of the Filestore.
    pub by: String,
    /// Name of the run.
    pub run: String,
    /// How far it is.
    pub stage: Mark,
    /// Replicas before.
    pub replicas: i32,
    /// When the legacy store was scaled to 0.
    pub at: Timestamp,
    /// The Job of the final pass that this freeze is for.
    pub job: String,
}

/// How far the take-over of a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// Scaled to 0 for the final pass; scaled up again when that fails.
    Frozen,
    /// Clients may have written to the new store: never scaled up but by the way back.
    HandedOver,
    /// The legacy store serves again.
    RolledBack,
}
