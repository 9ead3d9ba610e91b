//! The legacy MinIO of the namespace, and its keys.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use kube::core::ObjectMeta;

use super::{Facts, Finding, Weight, by, name_of};
use crate::render::NAME_LABEL;

const CHECK: &str = "legacy";

/// Settings after which a drive holds something else than what clients wrote; they are read over
/// the S3 API only.
const ENCRYPTION: [&str; 3] = ["MINIO_KMS", "MINIO_SSE", "MINIO_IDENTITY"];

/// A workload that looks like a MinIO.
#[derive(Clone, Debug)]
pub(super) struct Legacy {
    pub(super) kind: &'static str,
    pub(super) metadata: ObjectMeta,
    /// Wanted and ready pods.
    pub(super) replicas: (i32, i32),
    pub(super) template: PodTemplateSpec,
}

impl Legacy {
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.kind, name_of(&self.metadata))
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let metadata = self.template.metadata.as_ref();
        metadata
            .and_then(|metadata| metadata.labels.clone())
            .unwrap_or_default()
    }

    /// The container that serves.
    pub(super) fn container(&self) -> Option<&Container> {
        let containers = &self.template.spec.as_ref()?.containers;
        containers
            .iter()
            .find(|container| is_minio_image(container))
            .or_else(|| containers.first())
    }

    /// The claim with the drive: the first that the container mounts.
    pub(super) fn claim(&self) -> Option<&str> {
        let spec = self.template.spec.as_ref()?;
        let mounts = self.container()?.volume_mounts.as_deref()?;
        mounts.iter().find_map(|mount| {
            let volumes = spec.volumes.iter().flatten();
            let volume = volumes
                .into_iter()
                .find(|volume| volume.name == mount.name)?;
            let claim = volume.persistent_volume_claim.as_ref()?;
            Some(claim.claim_name.as_str())
        })
    }

    /// Secret and key of the root user and of its password.
    pub(super) fn keys(&self) -> Option<[(String, String); 2]> {
        let user = self.key("MINIO_ROOT_USER")?;
        let password = self.key("MINIO_ROOT_PASSWORD")?;
        Some([user, password])
    }

    /// Where a variable comes from: a Secret by reference, or a file of a mounted one.
    fn key(&self, name: &str) -> Option<(String, String)> {
        let container = self.container()?;
        let env = container.env.as_deref().unwrap_or_default();
        let reference = env.iter().find(|variable| variable.name == name);
        if let Some(key) =
            reference.and_then(|variable| variable.value_from.as_ref()?.secret_key_ref.as_ref())
        {
            return Some((key.name.clone(), key.key.clone()));
        }
        let file = format!("{name}_FILE");
        let path = env
            .iter()
            .find(|variable| variable.name == file)?
            .value
            .as_ref()?;
        let (folder, key) = path.rsplit_once('/')?;
        let mounts = container.volume_mounts.iter().flatten();
        let mount = mounts
            .into_iter()
            .find(|mount| mount.mount_path.trim_end_matches('/') == folder)?;
        let volumes = self.template.spec.as_ref()?.volumes.iter().flatten();
        let volume = volumes
            .into_iter()
            .find(|volume| volume.name == mount.name)?;
        let secret = volume.secret.as_ref()?.secret_name.clone()?;
        Some((secret, key.to_owned()))
    }
}

fn is_minio_image(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let path = image.split('@').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    last.split(':').next() == Some("minio")
}

fn looks_like_minio(metadata: &ObjectMeta, template: &PodTemplateSpec) -> bool {
    let labels = metadata.labels.clone().unwrap_or_default();
    if labels.contains_key(NAME_LABEL) {
        // Ours may wear such labels, too.
        return false;
    }
    let label = |name: &str| {
        labels
            .get(&format!("app.kubernetes.io/{name}"))
            .map(String::as_str)
    };
    let by_label =
        label("name") == Some("minio") && matches!(label("component"), None | Some("minio"));
    let containers = template
        .spec
        .as_ref()
        .map(|spec| spec.containers.as_slice());
    by_label || containers.unwrap_or_default().iter().any(is_minio_image)
}

fn all(facts: &Facts) -> Vec<Legacy> {
    let deployments = facts.deployments.iter().flatten().filter_map(|found| {
        let spec = found.spec.as_ref()?;
        let ready = found
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas);
        Some(Legacy {
            kind: "Deployment",
            metadata: found.metadata.clone(),
            replicas: (spec.replicas.unwrap_or(1), ready.unwrap_or(0)),
            template: spec.template.clone(),
        })
    });
    let sets = facts.sets.iter().flatten().filter_map(|found| {
        let spec = found.spec.as_ref()?;
        let ready = found
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas);
        Some(Legacy {
            kind: "StatefulSet",
            metadata: found.metadata.clone(),
            replicas: (spec.replicas.unwrap_or(1), ready.unwrap_or(0)),
            template: spec.template.clone(),
        })
    });
    deployments
        .chain(sets)
        .filter(|found| looks_like_minio(&found.metadata, &found.template))
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
    let (wanted, ready) = legacy.replicas;
    let image = legacy
        .container()
        .and_then(|container| container.image.as_deref())
        .unwrap_or("no image");
    let text = format!(
        "{}{} runs {image}, {ready} of {wanted} pods ready",
        legacy.title(),
        by(&legacy.metadata)
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
    let name = name_of(&legacy.metadata);
    for scaler in facts.autoscalers.iter().flatten() {
        let target = scaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
        if target.is_some_and(|target| target.kind == legacy.kind && target.name == name) {
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
    let entries = legacy.metadata.managed_fields.iter().flatten();
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
