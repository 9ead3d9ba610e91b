//! Keys in the cluster: the Secret of each user, and the one Secret that the gateway follows.
//!
//! ```text
//! root's Secret ─┐
//! users' Secrets ┼─▶ render ─▶ Secret NAME-access: root's keys, users, quotas ─▶ gateway
//! NAME-access ───┘  (keys that were in force before, and until when)
//! ```
//!
//! Pure. Nothing is kept in memory: when the keys in a Secret change, those that were in force
//! are in the gateway's Secret, where they stay for a while.

mod before;
mod keys;
mod user;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::drift::{self, Path, holder_of};
use crate::plan::{Drift, FIELD_MANAGER};
use crate::render::NAME_LABEL;
use crate::secret::{SecretError, Secrets};
use crate::status::{Problem, reason};
use crate::validate::{User, ValidatedFilestore, ValidationError, rendered_name};
pub(crate) use before::present;
use before::{Before, Document, DocumentUser, Ends};
pub(crate) use keys::Pair;
use keys::{Held, after};
pub(crate) use user::{is_made_by_us, missing, new_pair, user_secret};

/// Key of the gateway's Secret with users and quotas.
pub const ACCESS_FILE: &str = "access.json";

/// Keys of the gateway's Secret with root's access keys and secret keys, one per line.
pub const ROOT_FILES: (&str, &str) = ("root-user", "root-password");

/// Key of the gateway's Secret that says until when former keys are valid.
const FORMER_FILE: &str = "former.json";

/// Annotation of the gateway's Secret: when its content changed, RFC 3339.
pub const CHANGED_ANNOTATION: &str = "filestore.ryax.tech/access-changed";

/// Label and value of what the operator made.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "filestore");

/// What the gateway is told, and what stands against it.
pub struct Rendered {
    /// The gateway's Secret.
    pub secret: Secret,
    /// Users whose keys cannot be used.
    pub problems: Vec<Problem>,
    /// When the next former key ends.
    pub next: Option<Timestamp>,
}

impl std::fmt::Debug for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendered")
            .field("problems", &self.problems)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// The gateway's Secret for root's keys and those in `secrets`, when `live` is what it has now.
pub(crate) fn render(
    filestore: &ValidatedFilestore,
    owner: &OwnerReference,
    root: Pair,
    secrets: &Secrets,
    live: Option<&Secret>,
    now: Timestamp,
) -> Rendered {
    let access = &filestore.access;
    let end = overlap_end(access.overlap_seconds, now);
    let mut before = Before::read(live);
    let mut ends = Ends::default();
    let mut problems = Vec::new();
    let root = after(&before.root, Some(root), end, now);
    ends.root = root.iter().map(|held| held.end).collect();
    // An access key belongs to one alone: the gateway refuses a file in which it does not. Root's
    // are root's, and nobody takes another user's.
    let roots: BTreeSet<&str> = access_keys(&root).collect();
    for held in before.users.values_mut() {
        held.retain(|held| !roots.contains(held.pair.access_key.as_str()));
    }
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for user in &access.users {
        for key in before
            .users
            .get(&user.name)
            .into_iter()
            .flat_map(|held| access_keys(held))
        {
            owners
                .entry(key.to_owned())
                .or_insert_with(|| user.name.clone());
        }
    }
    let mut users = Vec::with_capacity(access.users.len());
    for (index, user) in access.users.iter().enumerate() {
        let pair = pair(user, secrets).map_err(|error| unusable(index, &error));
        let pair = pair.and_then(|pair| {
            let owner = match owners.get(&pair.access_key) {
                _ if roots.contains(pair.access_key.as_str()) => "root".to_owned(),
                Some(owner) if *owner != user.name => format!("user {owner:?}"),
                _ => return Ok(pair),
            };
            Err(key_taken(index, user, &owner))
        });
        if let Ok(pair) = &pair {
            owners.insert(pair.access_key.clone(), user.name.clone());
        }
        let had = before.users.get(&user.name).map_or(&[][..], Vec::as_slice);
        // What was valid stays so until a person has put it right.
        let pair = pair.map_err(|problem| problems.push(problem)).ok();
        let keys = after(had, pair, end, now);
        let until: Vec<_> = keys.iter().map(|held| held.end).collect();
        if until.len() > 1 {
            ends.users.insert(user.name.clone(), until);
        }
        users.push(DocumentUser {
            name: user.name.clone(),
            keys: keys.into_iter().map(|held| held.pair).collect(),
            grants: grants(user),
        });
    }
    let buckets = access
        .quotas
        .iter()
        .map(|(name, bytes)| json!({"name": name, "quota": bytes}))
        .collect();
    let next = ends.users.values().flatten().chain(&ends.root);
    let next = next.flatten().min().copied();
    let document = json!(Document { users, buckets });
    let data = data(&root, &document, &json!(ends));
    Rendered {
        secret: secret(filestore, owner, data, live, now),
        problems,
        next,
    }
}

fn data(root: &[Held], document: &Value, ends: &Value) -> BTreeMap<String, ByteString> {
    let lines = |part: fn(&Pair) -> &str| {
        let lines: Vec<&str> = root.iter().map(|held| part(&held.pair)).collect();
        lines.join("\n")
    };
    [
        (ACCESS_FILE, document.to_string()),
        (FORMER_FILE, ends.to_string()),
        (ROOT_FILES.0, lines(|pair| &pair.access_key)),
        (ROOT_FILES.1, lines(|pair| &pair.secret_key)),
    ]
    .map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())))
    .into()
}

fn secret(
    filestore: &ValidatedFilestore,
    owner: &OwnerReference,
    data: BTreeMap<String, ByteString>,
    live: Option<&Secret>,
    now: Timestamp,
) -> Secret {
    let changed = live.filter(|live| has(live, &data)).and_then(changed);
    let changed = changed.map_or_else(|| now.to_string(), str::to_owned);
    let annotations = BTreeMap::from([(CHANGED_ANNOTATION.to_owned(), changed)]);
    Secret {
        metadata: ObjectMeta {
            owner_references: Some(vec![owner.clone()]),
            annotations: Some(annotations),
            ..metadata(filestore, &rendered_name(&filestore.name))
        },
        data: Some(data),
        ..Secret::default()
    }
}

fn metadata(filestore: &ValidatedFilestore, name: &str) -> ObjectMeta {
    let labels = [(NAME_LABEL, filestore.name.as_str()), MANAGED_BY];
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: filestore.namespace.clone(),
        labels: Some(
            labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        ),
        ..ObjectMeta::default()
    }
}

fn access_keys(held: &[Held]) -> impl Iterator<Item = &str> {
    held.iter().map(|held| held.pair.access_key.as_str())
}

fn grants(user: &User) -> Vec<Value> {
    let grants = user.grants.iter().map(|grant| {
        json!({
            "bucket": grant.bucket,
            "prefix": grant.prefix.as_deref().unwrap_or_default(),
            "access": grant.access.as_str(),
        })
    });
    grants.collect()
}

fn overlap_end(seconds: u32, now: Timestamp) -> Timestamp {
    let end = now.checked_add(SignedDuration::from_secs(i64::from(seconds)));
    let end = end.unwrap_or(now);
    // Whole seconds, as people read them.
    Timestamp::from_second(end.as_second()).unwrap_or(end)
}

fn pair(user: &User, secrets: &Secrets) -> Result<Pair, SecretError> {
    let value = |key: &str| secrets.value(&user.secret, key).map(str::to_owned);
    Ok(Pair {
        access_key: value(&user.keys.access_key)?,
        secret_key: value(&user.keys.secret_key)?,
    })
}

fn unusable(index: usize, error: &SecretError) -> Problem {
    Problem::invalid(&ValidationError::secret(
        format!("spec.access.users[{index}].secretRef"),
        error,
    ))
}

fn key_taken(index: usize, user: &User, owner: &str) -> Problem {
    Problem {
        reason: reason::ACCESS_KEY_TAKEN,
        message: format!(
            "spec.access.users[{index}]: the access key in Secret {:?} belongs to {owner}; give user {:?} one of its own (its former keys stay valid until then)",
            user.secret, user.name
        ),
    }
}

/// Whether the Secret has all of `data`. What others add is their affair.
fn has(live: &Secret, data: &BTreeMap<String, ByteString>) -> bool {
    let live = live.data.as_ref();
    data.iter()
        .all(|(name, value)| live.and_then(|live| live.get(name)) == Some(value))
}

fn changed(secret: &Secret) -> Option<&str> {
    let annotations = secret.metadata.annotations.as_ref()?;
    let found = annotations.get(CHANGED_ANNOTATION)?;
    // Whatever else is there, somebody wrote.
    found.parse::<Timestamp>().is_ok().then_some(found.as_str())
}

/// Whether `live` has all that was rendered: values, labels, annotation and owner.
pub(crate) fn is_same(wanted: &Secret, live: &Secret) -> bool {
    let data = wanted.data.as_ref();
    data.is_none_or(|data| has(live, data))
        && metadata_differs(wanted, live).is_empty()
        && changed(wanted) == changed(live)
}

/// Labels and owner that are not as wanted.
fn metadata_differs(wanted: &Secret, live: &Secret) -> Vec<Path> {
    let meant = |secret: &Secret| {
        json!({"metadata": {
            "labels": secret.metadata.labels,
            "ownerReferences": secret.metadata.owner_references,
        }})
    };
    drift::differences(&meant(wanted), &meant(live))
}

/// What stands against keeping the gateway's Secret: one of its name that somebody else made.
pub(crate) fn name_taken(live: &Secret, name: &str, owner: &OwnerReference) -> Option<Problem> {
    let is_owner = |found: &OwnerReference| found.uid == owner.uid;
    let ours = live.owner_references().iter().any(is_owner)
        || live.labels().get(NAME_LABEL) == Some(&owner.name);
    (!ours).then(|| Problem::name_taken("Secret", name, &live.metadata))
}

/// What others changed in the gateway's Secret: values that they hold and that are not `wanted`.
pub(crate) fn drift(wanted: &Secret, live: &Secret) -> Vec<Drift> {
    let data = wanted.data.iter().flatten();
    let changed = data.filter(|(name, value)| {
        let live = live.data.as_ref();
        live.and_then(|live| live.get(*name)) != Some(*value)
    });
    let changed = changed.map(|(name, _)| Path::fields(&["data", name]));
    let of = |path: Path| {
        let manager = holder_of(&path, live.managed_fields(), &[FIELD_MANAGER])?.to_owned();
        Some(Drift {
            path,
            manager: Some(manager),
        })
    };
    let metadata = metadata_differs(wanted, live);
    changed.chain(metadata).filter_map(of).collect()
}

/// Annotation of the pod for the content of the gateway's Secret, where the pod may not have it
/// yet. The kubelet brings a Secret to a pod within a minute or two, but at once when anything of
/// the pod changes.
pub(crate) fn reminder<'a>(rendered: &'a Secret, pod: &Pod) -> Option<&'a str> {
    let changed = changed(rendered)?;
    let at: Timestamp = changed.parse().ok()?;
    let older = pod.metadata.creation_timestamp.as_ref()?.0 < at;
    let told = pod
        .annotations()
        .get(CHANGED_ANNOTATION)
        .map(String::as_str);
    (older && told != Some(changed)).then_some(changed)
}

#[cfg(test)]
mod tests;
