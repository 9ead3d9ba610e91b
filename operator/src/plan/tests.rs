use serde_json::json;

use super::*;
use crate::extras::Extra;
use crate::{Manifest, validate};

fn filestore(spec: &str) -> ValidatedFilestore {
    let text = format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData: {{root-user: ryax, root-password: Ab3dEf6hIj9k}}
---
apiVersion: filestore.ryax.tech/v1alpha1
kind: Filestore
metadata: {{name: files, namespace: ns}}
spec:
  credentials: {{secretRef: {{name: keys}}}}
  storage: {{size: 20Gi}}
{spec}"
    );
    let manifest = Manifest::parse("m.yaml", &text).unwrap();
    validate(&manifest.filestore, &manifest.secrets).unwrap()
}

fn owner() -> OwnerReference {
    OwnerReference {
        uid: "u".into(),
        name: "files".into(),
        ..OwnerReference::default()
    }
}

/// The objects that a plan would make, as they come back from the API server.
fn made(plan: &Plan) -> Observed {
    let mut observed = Observed::default();
    for step in &plan.steps {
        match step {
            Step::CreateClaim(claim) => observed.claim = Some(claim.as_ref().clone()),
            Step::Apply(apply) => {
                let object = apply.object.clone();
                match apply.kind {
                    Kind::ServiceAccount => {
                        observed.service_account = serde_json::from_value(object).unwrap();
                    }
                    Kind::Service => observed.service = serde_json::from_value(object).unwrap(),
                    Kind::Deployment => {
                        observed.deployment = serde_json::from_value(object).unwrap();
                    }
                    Kind::Extra(purpose) => {
                        let object = serde_json::from_value(object).unwrap();
                        observed.extras.put(Extra { purpose, object });
                    }
                }
            }
            _ => {}
        }
    }
    observed
}

fn kinds(plan: &Plan) -> Vec<(Kind, usize)> {
    plan.steps
        .iter()
        .filter_map(|step| match step {
            Step::Apply(apply) => Some((apply.kind, apply.drift.len())),
            _ => None,
        })
        .collect()
}

#[test]
fn what_was_made_needs_nothing_more() {
    // Quantities are those that the API server would write otherwise.
    let filestore =
        filestore("  pod: {resources: {requests: {cpu: '0.5'}, limits: {memory: 1024Mi}}}\n");
    let mut observed = made(&plan(
        &filestore,
        &owner(),
        &Observed::default(),
        Timestamp::UNIX_EPOCH,
    ));
    let pod = observed.deployment.as_mut().unwrap().spec.as_mut().unwrap();
    let container = &mut pod.template.spec.as_mut().unwrap().containers[0];
    container.resources =
        serde_json::from_value(json!({"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}))
            .unwrap();
    assert_eq!(
        plan(&filestore, &owner(), &observed, Timestamp::UNIX_EPOCH),
        Plan::default()
    );
}

/// A field that is wanted no more leaves no difference behind, so the hash has to tell.
#[test]
fn a_field_that_goes_away_is_applied_and_is_no_drift() {
    let before = filestore("  pod: {annotations: {a: b}}\n");
    let observed = made(&plan(
        &before,
        &owner(),
        &Observed::default(),
        Timestamp::UNIX_EPOCH,
    ));
    let after = plan(&filestore(""), &owner(), &observed, Timestamp::UNIX_EPOCH);
    assert_eq!(kinds(&after), [(Kind::Deployment, 0)]);
}

#[test]
fn an_object_that_is_being_deleted_is_waited_for() {
    let filestore = filestore("");
    let mut observed = made(&plan(
        &filestore,
        &owner(),
        &Observed::default(),
        Timestamp::UNIX_EPOCH,
    ));
    let service = observed.service.as_mut().unwrap();
    service.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-11-30T10:00:00Z")).unwrap());
    service.spec = None;
    assert_eq!(
        plan(&filestore, &owner(), &observed, Timestamp::UNIX_EPOCH),
        Plan::default()
    );
}

#[test]
fn labels_that_somebody_took_away_come_back() {
    let filestore = filestore("");
    let mut observed = made(&plan(
        &filestore,
        &owner(),
        &Observed::default(),
        Timestamp::UNIX_EPOCH,
    ));
    observed.service.as_mut().unwrap().metadata.labels = None;
    let claim = observed.claim.as_mut().unwrap();
    claim.metadata.labels = None;
    claim.metadata.managed_fields =
        serde_json::from_value(json!([{"manager": FIELD_MANAGER}])).unwrap();
    let plan = plan(&filestore, &owner(), &observed, Timestamp::UNIX_EPOCH);
    assert_eq!(kinds(&plan), [(Kind::Service, 1)]);
    assert!(
        plan.steps.iter().any(|step| matches!(
            step,
            Step::PatchClaim { patch, .. } if patch["metadata"]["labels"]["filestore.ryax.tech/name"] == "files"
        )),
        "{plan:?}"
    );
    assert_eq!(plan.problems, []);
}

#[test]
fn a_claim_that_is_being_deleted_stops_the_rest() {
    let filestore = filestore("");
    let mut observed = made(&plan(
        &filestore,
        &owner(),
        &Observed::default(),
        Timestamp::UNIX_EPOCH,
    ));
    observed.claim.as_mut().unwrap().metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-11-30T10:00:00Z")).unwrap());
    observed
        .deployment
        .as_mut()
        .unwrap()
        .spec
        .as_mut()
        .unwrap()
        .replicas = Some(0);
    let plan = plan(&filestore, &owner(), &observed, Timestamp::UNIX_EPOCH);
    // No pod is started on what is going away, and the one that runs is left alone.
    assert_eq!(plan.steps, []);
    assert_eq!(
        plan.problems[0].reason,
        crate::status::reason::CLAIM_DELETING
    );
}
