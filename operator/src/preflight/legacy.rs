//! The legacy MinIO of the namespace, and its keys.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

use super::{Facts, Finding, Weight, by, name_of};
use crate::minio::{self, SecretKey};
use crate::render::NAME_LABEL;
use crate::takeover::Workload;

const CHECK: &str = "legacy";

/// Settings after which a drive holds something else than what clients wrote; they are read over
/// the S3 API only.
const ENCRYPTION: [&str; 3] = ["MINIO_KMS", "MINIO_SSE", "MINIO_IDENTITY"];

/// A workload that looks like a MinIO.
#[derive(Clone, Debug)]
pub(super) struct Legacy {
    pub(super) workload: Workload,
    /// Ready pods.
    ready: i32,
}

impl Legacy {
    pub(super) fn title(&self) -> String {
        self.workload.title()
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.workload.pod_labels()
    }

    fn container(&self) -> Option<&Container> {
        minio::server(&self.workload)
    }

    /// The claim with the drive.
    ///
    /// # Errors
    /// In words why it is not known.
    pub(super) fn claim(&self) -> Result<String, String> {
        let container = self.container().ok_or("it has no container")?;
        Ok(minio::drive(&self.workload, container)?.0)
    }

    /// Secret and key of the root user and of its password.
    pub(super) fn keys(&self) -> Option<[SecretKey; 2]> {
        minio::keys(self.workload.template.spec.as_ref()?, self.container()?)
    }
}

fn all(facts: &Facts) -> Vec<Legacy> {
    let deployments = facts.deployments.iter().flatten().map(|found| Legacy {
        workload: found.into(),
        ready: found
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0),
    });
    let sets = facts.sets.iter().flatten().map(|found| Legacy {
        workload: found.into(),
        ready: found
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0),
    });
    deployments
        .chain(sets)
        .filter(|found| minio::is_minio(&found.workload))
        // One that was taken over bears the name of its Filestore.
        .filter(|found| {
            let labels = found.workload.metadata.labels.as_ref();
            labels.is_none_or(|labels| !labels.contains_key(NAME_LABEL))
        })
        .collect()
}

/// The one legacy store; several are none, as nobody can know which is meant.
pub(super) fn find(facts: &Facts) -> (Option<Legacy>, Vec<Finding>) {
    let mut findings: Vec<Finding> = [
        ("Deployments", facts.deployments.as_ref().err()),
        ("StatefulSets", facts.sets.as_ref().err()),
    ]
    .into_iter()
    .filter_map(|(what, why)| Some(Finding::unknown(CHECK, what, why?)))
    .collect();
    let mut found = all(facts);
    match found.len() {
        // What may not be looked at may be one.
        0 if !findings.is_empty() => (None, findings),
        0 => {
            let text = "nothing in the namespace looks like a MinIO: a fresh store";
            findings.push(Finding::new(CHECK, Weight::Note, text));
            (None, findings)
        }
        1 => {
            let legacy = found.remove(0);
            findings.extend(about(&legacy, facts));
            (Some(legacy), findings)
        }
        _ => {
            let names: Vec<String> = found.iter().map(Legacy::title).collect();
            let text = format!("{} look like legacy stores", names.join(", "));
            let finding = Finding::new(CHECK, Weight::Must, text)
                .cure("name the one that is meant under migration.source");
            findings.push(finding);
            (None, findings)
        }
    }
}

fn about(legacy: &Legacy, facts: &Facts) -> Vec<Finding> {
    let wanted = legacy.workload.replicas;
    let ready = legacy.ready;
    let image = legacy
        .container()
        .and_then(|container| container.image.as_deref())
        .unwrap_or("no image");
    let text = format!(
        "{}{} runs {image}, {ready} of {wanted} pods ready",
        legacy.title(),
        by(&legacy.workload.metadata)
    );
    let mut findings = vec![Finding::new(CHECK, Weight::Ok, text)];
    if wanted > 1 {
        findings.push(
            Finding::new(
                CHECK,
                Weight::Warning,
                format!("{wanted} replicas: one drive of several holds no complete object"),
            )
            .cure("take it over by its endpoint (migration.source.endpoint), not from a claim"),
        );
    }
    let env = legacy
        .container()
        .and_then(|container| container.env.as_deref());
    let sealed: Vec<&str> = env
        .unwrap_or_default()
        .iter()
        .map(|variable| variable.name.as_str())
        .filter(|name| ENCRYPTION.iter().any(|start| name.starts_with(start)))
        .collect();
    if !sealed.is_empty() {
        findings.push(
            Finding::new(
                CHECK,
                Weight::Warning,
                format!(
                    "{} is set: users or encryption that are not on the drive",
                    sealed.join(", ")
                ),
            )
            .cure("see what `filestore migrate plan` lists as not carried"),
        );
    }
    findings.extend(scaling(legacy, facts));
    findings
}

/// The take-over scales the legacy store to 0; who scales it up again?
fn scaling(legacy: &Legacy, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let kind = legacy.workload.kind.as_str();
    let name = legacy.workload.name();
    for scaler in facts.autoscalers.iter().flatten() {
        let target = scaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
        if target.is_some_and(|target| target.kind == kind && target.name == name) {
            let scaler = name_of(&scaler.metadata);
            findings.push(
                Finding::new(
                    CHECK,
                    Weight::Must,
                    format!(
                        "HorizontalPodAutoscaler {scaler} would scale the legacy store up again"
                    ),
                )
                .cure(format!(
                    "kubectl delete hpa {scaler} --namespace {}",
                    facts.namespace
                )),
            );
        }
    }
    let entries = legacy.workload.metadata.managed_fields.iter().flatten();
    for entry in entries {
        let manager = entry.manager.as_deref().unwrap_or_default();
        let lower = manager.to_ascii_lowercase();
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:spec"]);
        let sets_replicas = fields.is_some_and(|spec| spec.get("f:replicas").is_some());
        if sets_replicas && (lower.contains("argocd") || lower.contains("helm")) {
            findings.push(
                Finding::new(
                    CHECK,
                    Weight::Warning,
                    format!("{manager} sets replicas, and scales the legacy store up again at its next run"),
                )
                .cure("set replicas to 0 there when it is taken over"),
            );
        }
    }
    findings
}

/// Whether the keys that clients have can be used again.
pub(super) fn keys(legacy: &Legacy, facts: &Facts) -> Vec<Finding> {
    let check = "keys";
    let Some(keys) = legacy.keys() else {
        return vec![
            Finding::new(check, Weight::Warning, "the root keys come from no Secret")
                .cure("put them into one and name it under credentials"),
        ];
    };
    let named = |secret: &str| {
        let keys = keys.iter().filter(|(name, _)| name == secret);
        keys.map(|(_, key)| key.clone()).collect::<Vec<_>>()
    };
    facts
        .secrets
        .iter()
        .map(|(secret, seen)| match seen {
            Err(why) => Finding::unknown(check, &format!("Secret {secret}"), why),
            Ok(None) => Finding::new(
                check,
                Weight::Must,
                format!("Secret {secret} does not exist"),
            )
            .cure("create it with the keys that clients have"),
            Ok(Some(has)) => {
                let wanted = named(secret);
                let missing: Vec<&String> =
                    wanted.iter().filter(|key| !has.contains(key)).collect();
                match missing.as_slice() {
                    [] => Finding::new(
                        check,
                        Weight::Ok,
                        format!("Secret {secret} has {}", wanted.join(" and ")),
                    ),
                    [key, ..] => Finding::new(
                        check,
                        Weight::Must,
                        format!(
                            "Secret {secret} has no key {key} (it has {})",
                            has.join(", ")
                        ),
                    )
                    .cure("add it, or name the right one under credentials.keys"),
                }
            }
        })
        .collect()
}

/// Names of the Secrets that the legacy stores of the namespace take their root keys from.
pub(super) fn secret_names(facts: &Facts) -> Vec<String> {
    let mut names: Vec<String> = all(facts)
        .iter()
        .filter_map(Legacy::keys)
        .flatten()
        .map(|(secret, _)| secret)
        .collect();
    names.sort();
    names.dedup();
    names
}
