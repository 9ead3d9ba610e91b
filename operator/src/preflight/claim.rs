//! The claim with the legacy drive: does it outlive what is about to happen?

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::legacy::Legacy;
use super::{Facts, Finding, Weight, kept_by, name_of};
use crate::minio;
use crate::plan::is_protected;

const CHECK: &str = "claim";

pub(super) fn claim(legacy: &Legacy, facts: &Facts) -> Vec<Finding> {
    let claims = match &facts.claims {
        Ok(claims) => claims,
        Err(why) => return vec![Finding::unknown(CHECK, "PersistentVolumeClaims", why)],
    };
    let name = match legacy.claim() {
        Ok(name) => name,
        Err(why) => {
            return vec![
                Finding::new(
                    CHECK,
                    Weight::Warning,
                    format!("the operator cannot read the drive: {why}"),
                )
                .cure("take it over by its endpoint (migration.source.endpoint)"),
            ];
        }
    };
    let name = name.as_str();
    let Some(claim) = claims.iter().find(|claim| name_of(&claim.metadata) == name) else {
        let text = format!("PersistentVolumeClaim {name} does not exist");
        return vec![Finding::new(CHECK, Weight::Must, text)];
    };
    let mut findings = vec![describe(claim, name)];
    findings.extend(protection(claim, name, &facts.namespace));
    findings.extend(volume(claim, facts));
    findings
}

fn describe(claim: &PersistentVolumeClaim, name: &str) -> Finding {
    let spec = claim.spec.as_ref();
    let modes = spec
        .and_then(|spec| spec.access_modes.clone())
        .unwrap_or_default();
    let size = super::target::capacity(claim).unwrap_or("no size");
    let text = format!("PersistentVolumeClaim {name}: {size}, {}", modes.join(", "));
    let bound = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if bound != Some("Bound") {
        return Finding::new(CHECK, Weight::Must, format!("{text}, not bound"));
    }
    if let Some(why) = minio::not_beside(name, &modes) {
        return Finding::new(CHECK, Weight::Warning, format!("{text}; {why}")).cure(
            "scale the legacy store to 0 at a time that suits its clients; the operator then takes it over from its drive",
        );
    }
    Finding::new(CHECK, Weight::Ok, text)
}

fn protection(claim: &PersistentVolumeClaim, name: &str, namespace: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let owners = claim.metadata.owner_references.iter().flatten();
    for owner in owners {
        findings.push(
            Finding::new(
                CHECK,
                Weight::Must,
                format!(
                    "it belongs to {} {} and is deleted with it",
                    owner.kind, owner.name
                ),
            )
            .cure(format!(
                "remove metadata.ownerReferences: kubectl edit pvc {name} --namespace {namespace}"
            )),
        );
    }
    if is_protected(&claim.metadata) {
        let text = "Helm and Argo CD are told to keep it";
        findings.push(Finding::new(CHECK, Weight::Ok, text));
        return findings;
    }
    let cure = format!(
        "kubectl annotate pvc {name} --namespace {namespace} --overwrite helm.sh/resource-policy=keep argocd.argoproj.io/sync-options=Prune=false,Delete=false"
    );
    findings.push(
        match kept_by(&claim.metadata) {
            Some(who) => Finding::new(
                CHECK,
                Weight::Must,
                format!("{who} deletes it when an upgrade leaves it out"),
            ),
            None => Finding::new(
                CHECK,
                Weight::Warning,
                "Helm and Argo CD are not told to keep it",
            ),
        }
        .cure(cure),
    );
    findings
}

fn volume(claim: &PersistentVolumeClaim, facts: &Facts) -> Option<Finding> {
    let volume = claim.spec.as_ref()?.volume_name.as_deref()?;
    let volumes = match &facts.volumes {
        Ok(volumes) => volumes,
        Err(why) => {
            let what = format!("reclaim policy of PersistentVolume {volume}");
            return Some(Finding::unknown(CHECK, &what, why));
        }
    };
    let found = volumes
        .iter()
        .find(|found| name_of(&found.metadata) == volume)?;
    let policy = found
        .spec
        .as_ref()?
        .persistent_volume_reclaim_policy
        .as_deref();
    Some(match policy {
        Some("Delete") => Finding::new(
            CHECK,
            Weight::Warning,
            format!("PersistentVolume {volume} is deleted with its claim"),
        )
        .cure(format!(
            "kubectl patch pv {volume} --patch '{{\"spec\":{{\"persistentVolumeReclaimPolicy\":\"Retain\"}}}}'"
        )),
        other => Finding::new(
            CHECK,
            Weight::Ok,
            format!("PersistentVolume {volume}: {}", other.unwrap_or("Retain")),
        ),
    })
}
