//! From a checked Filestore and what the cluster shows to the writes that are missing.
//!
//! Pure: the same inputs give the same steps, and when everything is as it should be there are
//! none. Each step stands for one request to the API server, so that a process killed between
//! two of them goes on where it was.

mod claim;
mod extras;
mod step;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::drift::{self, Path};
use crate::extras::Purpose;
use crate::observed::Observed;
use crate::render;
use crate::status::Problem;
use crate::takeover::{self, Stage, Takeover};
use crate::validate::ValidatedFilestore;
pub(crate) use claim::is_protected;
pub(crate) use extras::selector_of;
pub use step::{Apply, ClaimChange, Drift, HandOver, JobChange, Removal, Step, WorkloadChange};

/// Field manager of all that is applied.
pub const FIELD_MANAGER: &str = "filestore-operator";

/// Field manager of the status.
pub const STATUS_MANAGER: &str = "filestore-operator/status";

/// Annotation with the hash of what was applied last. It tells a change of what is wanted (which
/// also takes fields away) from a change that somebody else made.
pub const APPLIED_ANNOTATION: &str = "filestore.ryax.tech/applied";

/// Kinds that belong to a Filestore and go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The account of the pod.
    ServiceAccount,
    /// The Service in front of the pod.
    Service,
    /// The Deployment around the pod.
    Deployment,
    /// An optional object.
    Extra(Purpose),
}

impl Kind {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::Service => "Service",
            Self::Deployment => "Deployment",
            Self::Extra(purpose) => purpose.kind(),
        }
    }

    /// Its `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ServiceAccount | Self::Service => "v1",
            Self::Deployment => "apps/v1",
            Self::Extra(purpose) => purpose.api_version(),
        }
    }
}

/// What is to be done, in this order, and what cannot be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Requests.
    pub steps: Vec<Step>,
    /// What keeps us from more.
    pub problems: Vec<Problem>,
}

/// The writes that are missing for `filestore`, which `owner` refers to.
pub fn plan(
    filestore: &ValidatedFilestore,
    owner: &OwnerReference,
    observed: &Observed,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    plan.steps.extend(first(observed));
    let usable = match claim::data(filestore, observed) {
        Ok((step, problem)) => {
            plan.steps.extend(step);
            plan.problems.extend(problem);
            // A pod that lacks its keys would only replace one that has them.
            !observed.no_keys
        }
        Err(problem) => {
            plan.problems.push(problem);
            false
        }
    };
    let account = render::service_account(filestore);
    plan.apply(
        Kind::ServiceAccount,
        &account,
        owner,
        observed.service_account.as_ref(),
    );
    let service = render::service(filestore);
    plan.apply(Kind::Service, &service, owner, observed.service.as_ref());
    match takeover::current(filestore, observed, now) {
        None | Some(Stage::Fresh(_)) => plan.serve(filestore, owner, observed, usable),
        Some(stage) => plan.take_over(filestore, owner, observed, &stage, now),
    }
    // By the labels that the pod will wear, it takes names that others made.
    let source = observed.takeover.as_ref().and_then(Takeover::source);
    let dressed = source.map(|source| takeover::dressed(filestore, &source, ""));
    let shown = dressed.as_ref().unwrap_or(filestore);
    plan.extras(shown, owner, &observed.extras);
    plan
}

/// What comes before anything else is written: the protection of the legacy volume.
pub fn first(observed: &Observed) -> Option<Step> {
    claim::protect_source(observed)
}

impl Plan {
    fn serve(
        &mut self,
        filestore: &ValidatedFilestore,
        owner: &OwnerReference,
        observed: &Observed,
        usable: bool,
    ) {
        if usable {
            let live = observed.deployment.as_ref();
            let deployment = render::followed(filestore, render::deployment(filestore));
            let deployment = render::with_source_keys(deployment, source_keys(observed));
            self.apply(Kind::Deployment, &deployment, owner, live);
        }
    }

    fn take_over(
        &mut self,
        filestore: &ValidatedFilestore,
        owner: &OwnerReference,
        observed: &Observed,
        stage: &Stage,
        now: Timestamp,
    ) {
        let Some((cluster, seen)) = filestore
            .migration
            .as_ref()
            .and_then(|migration| migration.cluster.as_ref())
            .zip(observed.takeover.as_ref())
        else {
            return;
        };
        // What was begun is brought to an end; nothing is begun while something is wrong.
        let begins = matches!(stage, Stage::Make { .. } | Stage::Freeze(_));
        if begins && (observed.no_keys || !self.problems.is_empty()) {
            return;
        }
        let steps = takeover::steps(filestore, cluster, owner, observed, stage, now);
        self.steps.extend(steps.first);
        let serves = matches!(
            stage,
            Stage::Start | Stage::HandOver(_) | Stage::Served { .. }
        );
        let live = observed.deployment.as_ref();
        let replicas = live.and_then(|live| live.spec.as_ref()?.replicas);
        if let Some(source) = seen.source()
            && (serves || replicas.is_some_and(|replicas| replicas != 0))
        {
            let record = seen.record();
            let run = record
                .filter(|record| record.stage != takeover::Mark::RolledBack)
                .map(|record| record.run)
                .or_else(|| live.and_then(render::required_marker))
                .unwrap_or_else(|| cluster.run.clone());
            let mut dressed = takeover::dressed(filestore, &source, &run);
            dressed.suspend |= !serves;
            let deployment = render::followed(&dressed, render::deployment(&dressed));
            self.apply(Kind::Deployment, &deployment, owner, live);
        }
        self.steps.extend(steps.then);
    }

    fn apply<K>(&mut self, kind: Kind, wanted: &K, owner: &OwnerReference, live: Option<&K>)
    where
        K: Serialize + Resource,
    {
        let metadata = wanted.meta();
        let name = metadata.name.clone().unwrap_or_default();
        if let Some(live) = live {
            if live.meta().deletion_timestamp.is_some() {
                // Its end will wake us.
                return;
            }
            if !is_ours(live.meta(), metadata) && !is_owned(live.meta(), owner) {
                self.problems
                    .push(Problem::name_taken(kind.as_str(), &name, live.meta()));
                return;
            }
        }
        match compare(wanted, owner, live) {
            Ok(None) => {}
            Ok(Some((object, drift))) => self.steps.push(Step::Apply(Apply {
                kind,
                name,
                object,
                drift,
            })),
            // An object of ours is always a JSON object; said rather than passed over.
            Err(error) => {
                let problem = Problem::refused(format!("{} {name:?}: {error}", kind.as_str()));
                self.problems.push(problem);
            }
        }
    }
}

/// The keys of a running source with which the pod is to be. A take-over that failed is started
/// again by the kubelet after up to five minutes, whatever was corrected, and one that is refused
/// asks again with the keys that it has; another pod starts at once with others. One at work, or
/// done, is left alone.
fn source_keys(observed: &Observed) -> Option<String> {
    let live = observed.deployment.as_ref();
    let started = live.and_then(render::source_keys);
    if live.is_some() && !observed.migrate_is_stuck() {
        return started;
    }
    observed.source_keys.clone().or(started)
}

/// Whether a live object was made for the same Filestore: its labels say so.
fn is_ours(live: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let name = |metadata: &ObjectMeta| {
        let labels = metadata.labels.as_ref()?;
        labels.get(render::NAME_LABEL).cloned()
    };
    name(live) == name(wanted)
}

/// Whether a live object says that it belongs to the Filestore, whatever became of its labels.
fn is_owned(live: &ObjectMeta, owner: &OwnerReference) -> bool {
    let owners = live.owner_references.iter().flatten();
    owners.into_iter().any(|found| found.uid == owner.uid)
}

/// What to apply, with what others changed; `None` when everything is as wanted.
fn compare<K>(
    wanted: &K,
    owner: &OwnerReference,
    live: Option<&K>,
) -> serde_json::Result<Option<(Value, Vec<Drift>)>>
where
    K: Serialize + Resource,
{
    let mut object = serde_json::to_value(wanted)?;
    let metadata = &mut object["metadata"];
    metadata["ownerReferences"] = serde_json::json!([owner]);
    let hash = hash(&object);
    object["metadata"]["annotations"][APPLIED_ANNOTATION] = Value::String(hash.clone());
    let Some(live) = live else {
        return Ok(Some((object, Vec::new())));
    };
    let differences = drift::differences(&object, &serde_json::to_value(live)?);
    if differences.is_empty() {
        return Ok(None);
    }
    let applied = live
        .meta()
        .annotations
        .as_ref()
        .and_then(|all| all.get(APPLIED_ANNOTATION));
    let managed = live.meta().managed_fields.as_deref().unwrap_or_default();
    let drift = if applied == Some(&hash) {
        differences
            .into_iter()
            .map(|path| by_whom(path, managed))
            .collect()
    } else {
        Vec::new()
    };
    Ok(Some((object, drift)))
}

fn by_whom(path: Path, managed: &[ManagedFieldsEntry]) -> Drift {
    let who = drift::manager_of(&path, managed, &[FIELD_MANAGER, STATUS_MANAGER]);
    Drift {
        manager: who.map(str::to_owned),
        path,
    }
}

/// Names the content of an object; 16 hexadecimal digits.
fn hash(object: &Value) -> String {
    let digest = Sha256::digest(object.to_string().as_bytes());
    hex::encode(digest.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests;
