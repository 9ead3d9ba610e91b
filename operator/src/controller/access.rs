//! Makes the Secrets of users and keeps the one that the gateway follows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use serde_json::json;

use super::api::{Error, Requests};
use crate::access::{self, CHANGED_ANNOTATION, Pair};
use crate::api::Filestore;
use crate::plan::Drift;
use crate::render::CERTIFICATE_ANNOTATION;
use crate::secret::Secrets;
use crate::status::Problem;
use crate::validate::{User, ValidatedFilestore, rendered_name};

/// How access stands after a round.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What a person must put right.
    pub(super) problems: Vec<Problem>,
    /// When a former key ends.
    pub(super) next: Option<Timestamp>,
    /// What others had changed in the gateway's Secret, which was put back.
    pub(super) drift: Vec<Drift>,
    /// The gateway's Secret; `None` when it could not be kept.
    pub(super) secret: Option<Secret>,
}

/// One round of access, for a gateway that follows it. The Secret of a user that cannot be made
/// or completed is a problem of that user.
///
/// # Errors
/// A request failed.
pub(super) async fn keep(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
    owner: &OwnerReference,
    root: Pair,
) -> Result<Kept, Error> {
    let name = rendered_name(&filestore.name);
    let live: Option<Secret> = requests.get(&name).await?;
    if let Some(problem) = live
        .as_ref()
        .and_then(|live| access::name_taken(live, &name, owner))
    {
        return Ok(Kept {
            problems: vec![problem],
            ..Kept::default()
        });
    }
    let mut problems = Vec::new();
    let mut secrets = Secrets::default();
    for user in &filestore.access.users {
        match secret_of(requests, filestore, user, live.as_ref()).await {
            Ok(found) => {
                let data = found.and_then(|found| found.data).unwrap_or_default();
                let values = data.into_iter().map(|(key, value)| (key, value.0));
                secrets.insert(user.secret.clone(), values.collect());
            }
            Err(error) if error.is_refusal() => problems.push(Problem::refused(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    let now = Timestamp::now();
    let rendered = access::render(filestore, owner, root, &secrets, live.as_ref(), now);
    problems.extend(rendered.problems);
    let same = |live: &Secret| access::is_same(&rendered.secret, live);
    if !live.as_ref().is_some_and(same) {
        let mut object = serde_json::to_value(&rendered.secret)
            .map_err(|error| Error::Json("the access of users", error))?;
        object["apiVersion"] = "v1".into();
        object["kind"] = "Secret".into();
        match requests.apply::<Secret>(&name, &object).await {
            Ok(_) => {}
            Err(error) if error.is_refusal() => {
                problems.push(Problem::refused(error.to_string()));
                return Ok(Kept {
                    problems,
                    ..Kept::default()
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Kept {
        problems,
        next: rendered.next,
        drift: live.map_or_else(Vec::new, |live| access::drift(&rendered.secret, &live)),
        secret: Some(rendered.secret),
    })
}

/// The Secret of a user: made if there is none, completed if we made it.
async fn secret_of(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
    user: &User,
    rendered: Option<&Secret>,
) -> Result<Option<Secret>, Error> {
    let Some(found) = requests.get::<Secret>(&user.secret).await? else {
        let wanted = access::user_secret(filestore, user, &access::new_pair(user, &random()));
        return requests.create(&user.secret, &wanted).await;
    };
    if !access::is_made_by_us(filestore, &found.metadata) {
        return Ok(Some(found));
    }
    let known = access::present(rendered, user);
    let missing = access::missing(filestore, user, &found, known.as_ref());
    if missing.is_empty() {
        return Ok(Some(found));
    }
    // Not over what somebody changes at the same moment.
    let patch = json!({
        "metadata": {"resourceVersion": found.metadata.resource_version},
        "data": missing,
    });
    requests.merge(&user.secret, &patch).await.map(Some)
}

/// Hexadecimal digits that nobody can guess: 122 random bits in each 32 of them.
fn random() -> String {
    let parts = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
    parts.map(|part| part.simple().to_string()).concat()
}

/// Has the kubelet bring Secrets to pods that were there before they changed: the gateway's, and
/// the `certificate` of this hash. Nothing depends on it: it would do so by itself, later.
///
/// # Errors
/// The API server did not answer.
pub(super) async fn remind(
    requests: &Requests<'_>,
    secret: &Secret,
    certificate: Option<&str>,
    pods: &[Pod],
) -> Result<(), Error> {
    for pod in pods {
        let told = pod.annotations().get(CERTIFICATE_ANNOTATION);
        let certificate = certificate.filter(|hash| told.map(String::as_str) != Some(hash));
        let changed = access::reminder(secret, pod).map(|changed| (CHANGED_ANNOTATION, changed));
        let certificate = certificate.map(|hash| (CERTIFICATE_ANNOTATION, hash));
        let annotations: BTreeMap<_, _> = changed.into_iter().chain(certificate).collect();
        if annotations.is_empty() {
            continue;
        }
        let patch = json!({"metadata": {"annotations": annotations}});
        let name = pod.name_any();
        match requests.merge::<Pod>(&name, &patch).await {
            Ok(_) => {}
            Err(error) if error.is_refusal() => {
                tracing::debug!(pod = name, %error, "The kubelet is not told that Secrets changed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Names of the Secrets of users, and of the one that the gateway follows.
pub(super) fn user_secrets(filestore: &Filestore) -> impl Iterator<Item = String> {
    let name = filestore.metadata.name.as_deref().unwrap_or_default();
    let users = filestore
        .spec
        .access
        .iter()
        .flat_map(|access| &access.users);
    users
        .map(move |user| match &user.secret_ref {
            Some(secret) => secret.name.clone(),
            None => format!("{name}-{}", user.name),
        })
        .chain([rendered_name(name)])
}
