//! Optional objects: applied when the spec asks for them, taken away when it does not any more.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::{Kind, Plan, Removal, Step, is_ours, is_owned};
use crate::extras::{Extra, Found, PURPOSE_LABEL, Purpose};
use crate::render::{self, API_PORT, API_PORT_NAME};
use crate::status::Problem;
use crate::validate::ValidatedFilestore;

impl Plan {
    pub(super) fn extras(
        &mut self,
        filestore: &ValidatedFilestore,
        owner: &OwnerReference,
        found: &Found,
    ) {
        let wanted = render::extras(filestore);
        for Extra { purpose, object } in &wanted {
            let refused = found.refused.iter().find(|(kind, _)| kind == purpose);
            if let Some((_, message)) = refused {
                self.problems.push(Problem::refused(message.clone()));
                continue;
            }
            if found.unserved.contains(purpose) {
                continue;
            }
            let live = found.get(*purpose, &object.name_any());
            match live.filter(|live| is_foreign(live, object, owner)) {
                Some(live) if *purpose == Purpose::Compatibility => {
                    if !leads_here(live, filestore) {
                        self.problems.push(Problem::compat_conflict(live));
                    }
                }
                _ => self.apply(Kind::Extra(*purpose), object, owner, live),
            }
        }
        let removals = found.live.iter().filter(|live| {
            let same = |one: &Extra| {
                one.purpose == live.purpose && one.object.name_any() == live.object.name_any()
            };
            !wanted.iter().any(same) && is_removable(live, owner)
        });
        let steps = removals.map(|live| {
            Step::Remove(Removal {
                purpose: live.purpose,
                name: live.object.name_any(),
                uid: live.object.uid().unwrap_or_default(),
            })
        });
        self.steps.extend(steps);
    }
}

fn is_foreign(live: &DynamicObject, wanted: &DynamicObject, owner: &OwnerReference) -> bool {
    !is_ours(&live.metadata, &wanted.metadata) && !is_owned(&live.metadata, owner)
}

/// Only what we made for exactly this Filestore and this purpose is taken away.
fn is_removable(live: &Extra, owner: &OwnerReference) -> bool {
    let metadata = &live.object.metadata;
    let purpose = live.object.labels().get(PURPOSE_LABEL);
    metadata.deletion_timestamp.is_none()
        && is_owned(metadata, owner)
        && purpose.is_some_and(|purpose| purpose == live.purpose.as_str())
}

/// Whether a Service of somebody else leads to our pod: it selects only labels that the pod wears,
/// and one of its ports is that of S3.
fn leads_here(service: &DynamicObject, filestore: &ValidatedFilestore) -> bool {
    let worn = render::pod_template(filestore)
        .metadata
        .and_then(|metadata| metadata.labels)
        .unwrap_or_default();
    let selects = selector_of(service);
    let ports = service.data["spec"]["ports"].as_array();
    let is_ours = |port: &serde_json::Value| {
        let target = &port["targetPort"];
        let number = if target.is_null() {
            &port["port"]
        } else {
            target
        };
        *number == API_PORT_NAME || *number == API_PORT
    };
    !selects.is_empty()
        && selects
            .iter()
            .all(|(key, value)| worn.get(key) == Some(value))
        && ports.is_some_and(|ports| ports.iter().any(is_ours))
}

/// What a Service selects; empty when it selects nothing.
pub(crate) fn selector_of(service: &DynamicObject) -> BTreeMap<String, String> {
    let selector = service.data["spec"]["selector"].as_object();
    selector
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
