//! From a checked Filestore and what the cluster shows to the writes that are missing.
//!
//! Pure: the same inputs give the same steps, and when everything is as it should be there are
//! none. Each step stands for one request to the API server, so that a process killed between
//! two of them goes on where it was.

mod claim;
mod extras;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
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
use crate::validate::ValidatedFilestore;
pub(crate) use claim::is_protected;
pub(crate) use extras::selector_of;

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

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make the claim for the data.
    CreateClaim(Box<PersistentVolumeClaim>),
    /// Change a claim by a merge patch.
    PatchClaim {
        /// Name of the claim.
        name: String,
        /// The patch: nothing but what changes.
        patch: Value,
        /// What for.
        why: ClaimChange,
    },
    /// Apply an object that goes with the Filestore.
    Apply(Apply),
    /// Take an optional object away that is not asked for any more.
    Remove(Removal),
}

/// Why a claim is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimChange {
    /// It grows from the first to the second size.
    Grow(String, String),
    /// Labels or the annotations that protect it were missing.
    Protect,
}

/// An object to take away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What it is for.
    pub purpose: Purpose,
    /// Its name.
    pub name: String,
    /// Its uid: another object of that name is left.
    pub uid: String,
}

/// A server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// Kind of the object.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// All fields that we mean.
    pub object: Value,
    /// What somebody else changed; empty when the object is new or what we want has changed.
    pub drift: Vec<Drift>,
}

/// A field that somebody else changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The field.
    pub path: Path,
    /// Who, by the name of the field manager. `None` where the API server kept no trace: it records
    /// neither who removed a field nor who scaled to 0.
    pub manager: Option<String>,
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
pub fn plan(filestore: &ValidatedFilestore, owner: &OwnerReference, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    // The legacy volume is protected before anything else happens.
    plan.steps.extend(claim::protect_source(observed));
    let usable = match claim::data(filestore, observed) {
        Ok((step, problem)) => {
            plan.steps.extend(step);
            plan.problems.extend(problem);
            true
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
    if usable && held(filestore, observed).is_none() {
        let deployment = render::deployment(filestore);
        plan.apply(
            Kind::Deployment,
            &deployment,
            owner,
            observed.deployment.as_ref(),
        );
    }
    plan.extras(filestore, owner, &observed.extras);
    plan
}

/// Workloads that keep the store from starting: one of them looks like the legacy store, which
/// the spec wants to be taken over but does not name. An empty store beside it would look like
/// lost data.
pub fn held<'a>(filestore: &ValidatedFilestore, observed: &'a Observed) -> Option<&'a [String]> {
    let unnamed = filestore
        .migration
        .as_ref()
        .is_some_and(|migration| migration.source.is_none());
    // A store that exists is not taken down because a MinIO appears beside it.
    (unnamed && observed.deployment.is_none() && !observed.legacy.is_empty())
        .then_some(observed.legacy.as_slice())
}

impl Plan {
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
                    .push(Problem::name_taken(kind, &name, live.meta()));
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
