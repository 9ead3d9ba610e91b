//! What a take-over in a namespace would need: `filestore preflight`. Reads, and writes nothing.
//!
//! [`read::facts`] asks the API server, [`report`] judges. What may not be read is a finding of its
//! own, no failure: the rights of whoever asks may be few.

mod claim;
mod legacy;
mod name;
pub mod read;
mod target;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::ObjectMeta;
use serde::Serialize;

use crate::api::Filestore;
use legacy::Legacy;

/// What was read; the text says why not.
pub type Seen<T> = Result<T, String>;

/// What a cluster and a namespace of it hold.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the namespace.
    pub namespace: String,
    /// Version of the API server, major and minor, and as it calls itself.
    pub server: Seen<(u32, u32, String)>,
    /// Filestores; `None` = the cluster does not know the resource.
    pub filestores: Seen<Option<Vec<Filestore>>>,
    /// Deployments.
    pub deployments: Seen<Vec<Deployment>>,
    /// StatefulSets.
    pub sets: Seen<Vec<StatefulSet>>,
    /// Services.
    pub services: Seen<Vec<Service>>,
    /// Claims.
    pub claims: Seen<Vec<PersistentVolumeClaim>>,
    /// Volumes that claims of the namespace are bound to.
    pub volumes: Seen<Vec<PersistentVolume>>,
    /// Storage classes.
    pub classes: Seen<Vec<StorageClass>>,
    /// Policies of the network.
    pub policies: Seen<Vec<NetworkPolicy>>,
    /// Disruption budgets.
    pub budgets: Seen<Vec<PodDisruptionBudget>>,
    /// Autoscalers.
    pub autoscalers: Seen<Vec<HorizontalPodAutoscaler>>,
    /// Names of the keys of the legacy store's Secret, by its name; `None` = no such Secret.
    pub secrets: BTreeMap<String, Seen<Option<Vec<String>>>>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// Could not be found out.
    Unknown,
    /// May go wrong.
    Warning,
    /// Has to be done before anything else.
    Must,
}

impl Weight {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Must => "MUST",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: `cluster`, `operator`, `legacy`, `keys`, `name`, `claim`, `target`,
    /// `network`.
    pub check: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// What was found.
    pub found: String,
    /// What to do; absent when nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    fn new(check: &'static str, weight: Weight, found: impl Into<String>) -> Self {
        Self {
            check,
            weight,
            found: found.into(),
            cure: None,
        }
    }

    fn cure(self, cure: impl Into<String>) -> Self {
        Self {
            cure: Some(cure.into()),
            ..self
        }
    }

    fn unknown(check: &'static str, what: &str, why: &str) -> Self {
        Self::new(check, Weight::Unknown, format!("{what}: {why}"))
    }
}

/// What was found, and what it comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of this program.
    pub version: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The legacy store, `Kind name`.
    pub legacy: Option<String>,
    /// Findings, in the order of the checks.
    pub findings: Vec<Finding>,
    /// Nothing has to be done first.
    pub ready: bool,
    /// Labels by which the pod of the new store takes over the Services of the legacy one
    /// (`pod.labels`).
    pub pod_labels: BTreeMap<String, String>,
}

/// Judges.
pub fn report(facts: &Facts) -> Report {
    let mut findings = target::cluster(facts);
    let (legacy, found) = legacy::find(facts);
    findings.extend(found);
    let mut pod_labels = BTreeMap::new();
    if let Some(legacy) = &legacy {
        findings.extend(legacy::keys(legacy, facts));
        let (names, labels) = name::names(legacy, facts);
        findings.extend(names);
        pod_labels = labels;
        findings.extend(claim::claim(legacy, facts));
    }
    findings.extend(target::target(legacy.as_ref(), facts));
    if let Some(legacy) = &legacy {
        findings.extend(name::network(legacy, facts));
    }
    Report {
        version: env!("CARGO_PKG_VERSION"),
        namespace: facts.namespace.clone(),
        legacy: legacy.as_ref().map(Legacy::title),
        ready: findings
            .iter()
            .all(|finding| finding.weight != Weight::Must),
        findings,
        pod_labels,
    }
}

/// Who else keeps an object, in words: `Helm release ryax`.
fn kept_by(metadata: &ObjectMeta) -> Option<String> {
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key);
    let label = |key: &str| metadata.labels.as_ref()?.get(key);
    if let Some(id) = annotation("argocd.argoproj.io/tracking-id") {
        let app = id.split(':').next().unwrap_or_default();
        return Some(format!("Argo CD application {app}"));
    }
    if let Some(release) = annotation("meta.helm.sh/release-name") {
        return Some(format!("Helm release {release}"));
    }
    label("app.kubernetes.io/managed-by").cloned()
}

fn by(metadata: &ObjectMeta) -> String {
    kept_by(metadata).map_or_else(String::new, |who| format!(" (kept by {who})"))
}

fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
