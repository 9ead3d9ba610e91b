//! Claims: made, grown and protected, never owned, shrunk or deleted.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{ClaimChange, Drift, FIELD_MANAGER, Step, is_ours};
use crate::drift::{self, Path};
use crate::observed::Observed;
use crate::quantity;
use crate::render;
use crate::status::Problem;
use crate::validate::ValidatedFilestore;

/// Helm's word for "leave it".
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// Argo CD's options for an object, separated by commas.
const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";

/// Argo CD prunes what only carries Helm's annotation (argo-cd 3.6: `isPruningDisabled`).
const UNPRUNED: [&str; 2] = ["Prune=false", "Delete=false"];

/// Protects the claim of the legacy store; nothing else about it is ever changed.
pub(super) fn protect_source(observed: &Observed) -> Option<Step> {
    let source = observed.source_claim.as_ref()?;
    patch(source, BTreeMap::new(), None)
}

/// The step for the claim with the data, and what is wrong with it short of making it unusable.
///
/// # Errors
/// The store cannot run on it.
pub(super) fn data(
    filestore: &ValidatedFilestore,
    observed: &Observed,
) -> Result<(Option<Step>, Option<Problem>), Problem> {
    let name = &filestore.storage.claim;
    let Some(wanted) = render::claim(filestore) else {
        return match &observed.claim {
            Some(_) => Ok((None, None)),
            None => Err(Problem::claim_missing(name)),
        };
    };
    let Some(live) = &observed.claim else {
        return Ok((Some(Step::CreateClaim(Box::new(wanted))), None));
    };
    if live.metadata.deletion_timestamp.is_some() {
        return Err(Problem::claim_deleting(name));
    }
    if !is_ours(&live.metadata, &wanted.metadata) && !is_made_by_us(&live.metadata) {
        return Err(Problem::claim_conflict(name));
    }
    let (has, wants) = (request(live), request(&wanted));
    let order = has
        .as_deref()
        .zip(wants.as_deref())
        .and_then(|(has, wants)| quantity::compare(wants, has));
    let grow = match (order, has, wants) {
        (Some(Ordering::Less), Some(has), Some(wants)) => {
            let problem = Problem::shrink_refused(name, &has, &wants);
            return Ok((patch(live, labels(&wanted.metadata), None), Some(problem)));
        }
        (Some(Ordering::Greater), Some(has), Some(wants)) => Some((has, wants)),
        _ => None,
    };
    Ok((patch(live, labels(&wanted.metadata), grow), None))
}

/// Whether we made the claim, whatever became of its labels.
fn is_made_by_us(live: &ObjectMeta) -> bool {
    let managed = live.managed_fields.iter().flatten();
    managed
        .into_iter()
        .any(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER))
}

fn request(claim: &PersistentVolumeClaim) -> Option<String> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    Some(requests.get("storage")?.0.clone())
}

fn labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    metadata.labels.clone().unwrap_or_default()
}

/// A merge patch with what is missing on `live`.
fn patch(
    live: &PersistentVolumeClaim,
    labels: BTreeMap<String, String>,
    grow: Option<(String, String)>,
) -> Option<Step> {
    let has = live.metadata.labels.clone().unwrap_or_default();
    let missing: Map<String, Value> = labels
        .into_iter()
        .filter(|(key, value)| has.get(key) != Some(value))
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    let annotations = protection(live.metadata.annotations.as_ref());
    let drift = || {
        let labels = missing.keys().map(|key| ["metadata", "labels", key]);
        let protection = annotations.keys();
        let protection = protection.map(|key| ["metadata", "annotations", key]);
        let paths = protection.chain(labels).map(|path| Path::fields(&path));
        paths.map(|path| by_whom(path, live)).collect()
    };
    let why = match &grow {
        Some((from, to)) => ClaimChange::Grow(from.clone(), to.clone()),
        None if is_made_by_us(&live.metadata) => ClaimChange::PutBack(drift()),
        None => ClaimChange::Protect,
    };
    let mut patch = json!({});
    if !missing.is_empty() {
        patch["metadata"]["labels"] = Value::Object(missing);
    }
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(annotations);
    }
    if let Some((_, to)) = grow {
        patch["spec"]["resources"]["requests"]["storage"] = Value::String(to);
    }
    (patch != json!({})).then(|| Step::PatchClaim {
        name: live.metadata.name.clone().unwrap_or_default(),
        patch,
        why,
    })
}

/// Only who holds the field now: a claim is changed by the cluster's own controllers all the time,
/// and whoever removed a field is none of them.
fn by_whom(path: Path, live: &PersistentVolumeClaim) -> Drift {
    let managed = live.metadata.managed_fields.as_deref().unwrap_or_default();
    Drift {
        manager: drift::holder_of(&path, managed, &[FIELD_MANAGER]).map(str::to_owned),
        path,
    }
}

/// Whether neither Helm nor Argo CD removes an object with these annotations.
pub(crate) fn is_protected(metadata: &ObjectMeta) -> bool {
    protection(metadata.annotations.as_ref()).is_empty()
}

/// Annotations to set so that neither Helm nor Argo CD removes the claim; other options that are
/// there stay.
fn protection(has: Option<&BTreeMap<String, String>>) -> Map<String, Value> {
    let value = |key: &str| has.and_then(|all| all.get(key)).map_or("", String::as_str);
    let mut set = Map::new();
    if value(KEEP.0) != KEEP.1 {
        set.insert(KEEP.0.to_owned(), Value::from(KEEP.1));
    }
    let present: Vec<&str> = value(SYNC_OPTIONS)
        .split(',')
        .map(str::trim)
        .filter(|option| !option.is_empty())
        .collect();
    if UNPRUNED.iter().any(|option| !present.contains(option)) {
        let decided =
            |option: &&&str| !option.starts_with("Prune=") && !option.starts_with("Delete=");
        let options: Vec<&str> = present
            .iter()
            .filter(decided)
            .copied()
            .chain(UNPRUNED)
            .collect();
        set.insert(SYNC_OPTIONS.to_owned(), Value::String(options.join(",")));
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(present: &str) -> String {
        let has = BTreeMap::from([
            (KEEP.0.to_owned(), KEEP.1.to_owned()),
            (SYNC_OPTIONS.to_owned(), present.to_owned()),
        ]);
        let set = protection(Some(&has));
        set.get(SYNC_OPTIONS)
            .and_then(Value::as_str)
            .unwrap_or("unchanged")
            .to_owned()
    }

    #[test]
    fn options_of_others_stay() {
        assert_eq!(options("Prune=false,Delete=false"), "unchanged");
        assert_eq!(
            options("Delete=false, Prune=false,ServerSideApply=true"),
            "unchanged"
        );
        assert_eq!(
            options("ServerSideApply=true"),
            "ServerSideApply=true,Prune=false,Delete=false"
        );
        assert_eq!(
            options("Prune=confirm,Delete=false"),
            "Prune=false,Delete=false"
        );
        assert_eq!(options(""), "Prune=false,Delete=false");
    }

    #[test]
    fn a_bare_claim_gets_both_annotations() {
        let set = protection(None);
        assert_eq!(set[KEEP.0], KEEP.1);
        assert_eq!(set[SYNC_OPTIONS], "Prune=false,Delete=false");
    }
}
