//! The cluster that the new store is to run in: versions, the operator, the volume for it.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

use super::legacy::Legacy;
use super::{Facts, Finding, Weight, name_of};
use crate::quantity;
use crate::validate::DEFAULT_IMAGE;

/// Oldest Kubernetes that takes the definition of the resource (`selectableFields`, CEL on
/// quantities).
const OLDEST: (u32, u32) = (1, 30);

/// Parts of the names of provisioners whose file systems tend to lack extended attributes.
const NETWORK: [&str; 4] = ["nfs", "efs", "azurefile", "file.csi"];

/// Versions, the definition and the operator.
pub(super) fn cluster(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![match &facts.server {
        Err(why) => Finding::unknown("cluster", "version", why),
        Ok((major, minor, version)) if (*major, *minor) < OLDEST => Finding::new(
            "cluster",
            Weight::Must,
            format!("Kubernetes {version} is too old for the operator"),
        )
        .cure("update to 1.30, or use the chart filestore, which needs no operator"),
        Ok((_, _, version)) => Finding::new("cluster", Weight::Ok, format!("Kubernetes {version}")),
    }];
    findings.push(match &facts.filestores {
        Err(why) => Finding::unknown("operator", "Filestores", why),
        Ok(None) => Finding::new(
            "operator",
            Weight::Note,
            "the cluster does not know Filestores",
        )
        .cure("kubectl apply -k manifests/operator, or use the chart filestore, which needs none"),
        Ok(Some(found)) if found.is_empty() => Finding::new(
            "operator",
            Weight::Ok,
            "Filestores are known; none is in the namespace",
        ),
        Ok(Some(found)) => {
            let names: Vec<String> = found
                .iter()
                .map(|one| {
                    let image = one.spec.image.as_deref().unwrap_or("the operator's image");
                    format!("{} ({image})", one.name_any())
                })
                .collect();
            Finding::new(
                "operator",
                Weight::Note,
                format!("Filestores: {}", names.join(", ")),
            )
        }
    });
    for deployment in facts.deployments.iter().flatten() {
        let labels = deployment.labels();
        if labels.get("app.kubernetes.io/name").map(String::as_str) != Some("filestore-operator") {
            continue;
        }
        let spec = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref());
        let image = spec
            .and_then(|spec| spec.containers.first()?.image.as_deref())
            .unwrap_or("no image");
        let text = format!("operator {} runs {image}", name_of(&deployment.metadata));
        findings.push(Finding::new("operator", Weight::Ok, text));
    }
    let text = format!(
        "this is version {}, its image {DEFAULT_IMAGE}",
        env!("CARGO_PKG_VERSION")
    );
    findings.push(Finding::new("operator", Weight::Note, text));
    findings
}

/// What a claim has, or asks for.
pub(super) fn capacity(claim: &PersistentVolumeClaim) -> Option<&str> {
    let has = claim
        .status
        .as_ref()
        .and_then(|status| status.capacity.as_ref()?.get("storage"));
    let wants = || {
        let spec = claim.spec.as_ref()?;
        spec.resources.as_ref()?.requests.as_ref()?.get("storage")
    };
    has.or_else(wants).map(|quantity| quantity.0.as_str())
}

/// Storage class and space for the new volume.
pub(super) fn target(legacy: Option<&Legacy>, facts: &Facts) -> Vec<Finding> {
    let mut findings = class(facts);
    let drive = legacy.and_then(|legacy| {
        let name = legacy.claim().ok()?;
        let mut claims = facts.claims.iter().flatten();
        claims.find(|claim| name_of(&claim.metadata) == name)
    });
    let Some(size) = drive.and_then(capacity) else {
        return findings;
    };
    let filestores = facts.filestores.iter().flatten().flatten();
    let small: Vec<(String, &str)> = filestores
        .filter_map(|one| Some((one.name_any(), one.spec.storage.size.as_deref()?)))
        .filter(|(_, wants)| quantity::compare(wants, size) == Some(Ordering::Less))
        .collect();
    for (name, wants) in &small {
        let text = format!("Filestore {name} asks for {wants}, the legacy volume has {size}");
        findings.push(
            Finding::new("target", Weight::Warning, text).cure(
                "make it at least as large, unless you know that little of the old one is used",
            ),
        );
    }
    if small.is_empty() {
        let text = format!(
            "the legacy volume has {size}; how much of it is used cannot be seen from here"
        );
        findings.push(
            Finding::new("target", Weight::Note, text)
                .cure(format!("storage.size: {size} is enough")),
        );
    }
    findings
}

fn class(facts: &Facts) -> Vec<Finding> {
    let classes = match &facts.classes {
        Ok(classes) => classes,
        Err(why) => return vec![Finding::unknown("target", "StorageClasses", why)],
    };
    let is_default = |class: &&StorageClass| {
        let annotation = class
            .annotations()
            .get("storageclass.kubernetes.io/is-default-class");
        annotation.is_some_and(|value| value == "true")
    };
    let Some(class) = classes.iter().find(is_default) else {
        let names: Vec<String> = classes.iter().map(ResourceExt::name_any).collect();
        return vec![
            Finding::new(
                "target",
                Weight::Warning,
                format!(
                    "no StorageClass is the default (there are: {})",
                    names.join(", ")
                ),
            )
            .cure("name one under storage.storageClassName"),
        ];
    };
    let grows = if class.allow_volume_expansion == Some(true) {
        "its volumes can grow"
    } else {
        "its volumes cannot grow"
    };
    let text = format!(
        "default StorageClass {} ({}), {grows}",
        class.name_any(),
        class.provisioner
    );
    let network = NETWORK
        .iter()
        .any(|part| class.provisioner.to_ascii_lowercase().contains(part));
    let attributes = if network {
        Finding::new(
            "target",
            Weight::Warning,
            "extended attributes: most network file systems lack them; metadata is then kept in files beside the objects, which versitygw cannot read",
        )
        .cure("choose a class of block storage, or set storage.metadata: sidecar")
    } else {
        Finding::unknown(
            "target",
            "extended attributes",
            "known when the first pod has tried the volume",
        )
    };
    vec![Finding::new("target", Weight::Ok, text), attributes]
}
