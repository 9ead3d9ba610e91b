//! The claim for a new volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ObjectMeta;

use super::deployment::object_meta;
use crate::validate::ValidatedFilestore;

/// The claim to make; `None` when the Filestore uses one that exists.
///
/// It has no owner, and Helm as well as Argo CD are told to leave it alone (Argo CD prunes what
/// only carries Helm's annotation): removing the Filestore never removes the data.
pub fn claim(filestore: &ValidatedFilestore) -> Option<PersistentVolumeClaim> {
    let new = filestore.storage.new.as_ref()?;
    let annotations = [
        ("helm.sh/resource-policy", "keep"),
        (
            "argocd.argoproj.io/sync-options",
            "Prune=false,Delete=false",
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(filestore.storage.claim.clone()),
            annotations: Some(BTreeMap::from(annotations)),
            ..object_meta(filestore)
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(
                new.access_modes
                    .iter()
                    .map(|mode| mode.as_str().to_owned())
                    .collect(),
            ),
            storage_class_name: new.storage_class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([(
                    "storage".to_owned(),
                    Quantity(new.size.clone()),
                )])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}
