//! One round for one Filestore.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use super::access;
use super::api::{Error, Requests};
use super::context::Context;
use super::deletion;
use super::observe::{self, Fetched};
use super::store::Root;
use crate::access::Pair;
use crate::api::{API_VERSION, Filestore, FilestoreStatus, Phase};
use crate::notices;
use crate::observed::Observed;
use crate::plan;
use crate::status::{self, Problem};
use crate::takeover;
use crate::validate::{KeyPair, Server, ValidatedFilestore, rendered_name, validate};

/// What the watch shows; an object of an unknown form must not hide the others.
pub(super) type Watched = DeserializeGuard<Filestore>;

/// Longest pause after failed requests.
const LONGEST_BACKOFF: Duration = Duration::from_mins(5);

fn key(watched: &Watched) -> (String, String) {
    (watched.namespace().unwrap_or_default(), watched.name_any())
}

/// One round, measured.
///
/// # Errors
/// A request failed; [`on_error`] says when to try again.
pub(super) async fn reconcile(
    watched: Arc<Watched>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let begun = Instant::now();
    let result = Box::pin(round(&watched, &context)).await;
    context.metrics.round(begun.elapsed(), result.is_ok());
    if result.is_ok() {
        context.failures().remove(&key(&watched));
    }
    result
}

/// Tries again after 1 s, 2 s, 4 s … up to five minutes, spread by a tenth.
#[expect(clippy::needless_pass_by_value, reason = "the controller's signature")]
pub(super) fn on_error(watched: Arc<Watched>, error: &Error, context: Arc<Context>) -> Action {
    let key = key(&watched);
    tracing::warn!(name = %key.1, namespace = %key.0, %error, "Round failed");
    let mut failures = context.failures();
    let count = failures.entry(key.clone()).or_default();
    *count = count.saturating_add(1);
    let pause = Duration::from_secs(1 << (*count - 1).min(9)).min(LONGEST_BACKOFF);
    Action::requeue(spread(pause, &(key, *count)))
}

/// `pause`, up to a tenth longer, so that many objects do not come at once.
fn spread(pause: Duration, seed: &impl std::hash::Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % 1000).unwrap_or_default();
    pause + pause / 10 * part / 1000
}

async fn round(watched: &Watched, context: &Context) -> Result<Action, Error> {
    let namespace = watched.namespace().unwrap_or_default();
    let requests = Requests {
        client: context.client(),
        namespace: &namespace,
        metrics: &context.metrics,
    };
    let Some(fetched) = observe::filestore(&requests, &watched.name_any()).await? else {
        context.metrics.forget(&namespace, &watched.name_any());
        Box::pin(deletion::thaw(context, &namespace, &watched.name_any())).await?;
        return Ok(Action::await_change());
    };
    if fetched.metadata.deletion_timestamp.is_some() {
        // Somebody's finalizer holds it. Nothing is made for what is going away.
        return Ok(Action::await_change());
    }
    let mut work = Work {
        context,
        requests,
        about: reference(&fetched),
        observed: Observed::default(),
        root: None,
        problems: Vec::new(),
        refused: None,
        key_ends: None,
    };
    let checked = match work.check(&fetched).await {
        Ok(checked) => checked,
        Err(error) => work.refuse(error).map(|()| None)?,
    };
    if let Some(filestore) = &checked
        && let Err(error) = Box::pin(work.keep(filestore, &fetched)).await
    {
        work.refuse(error)?;
    }
    let next = work.report(&fetched, checked.as_ref()).await?;
    context
        .metrics
        .phase(&namespace, &watched.name_any(), next.phase);
    if let Some(error) = work.refused {
        return Err(error);
    }
    let now = Timestamp::now();
    let stage = checked
        .as_ref()
        .and_then(|filestore| takeover::current(filestore, &work.observed, now));
    let soon = stage.and_then(|stage| takeover::pace(&stage, now));
    let pause = soon.unwrap_or_else(|| spread(pause(next.phase), &fetched.metadata.uid));
    Ok(Action::requeue(until(work.key_ends, pause)))
}

/// How long a round's result is good for when no watch says otherwise.
fn pause(phase: Option<Phase>) -> Duration {
    Duration::from_secs(match phase {
        Some(Phase::Migrating) => 10,
        Some(Phase::Provisioning) => 30,
        Some(Phase::Failed | Phase::Degraded) => 300,
        _ => 600,
    })
}

/// `pause`, or less when something ends before.
fn until(end: Option<Timestamp>, pause: Duration) -> Duration {
    let left = end.map(|end| end.duration_since(Timestamp::now()));
    match left.map(Duration::try_from) {
        None => pause,
        Some(Ok(left)) => pause.min(left + Duration::from_secs(1)),
        Some(Err(_)) => Duration::from_secs(1),
    }
}

fn reference(fetched: &Fetched) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(Filestore::kind(&()).into_owned()),
        name: fetched.metadata.name.clone(),
        namespace: fetched.metadata.namespace.clone(),
        uid: fetched.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A round under way.
pub(super) struct Work<'a> {
    pub(super) context: &'a Context,
    pub(super) requests: Requests<'a>,
    pub(super) about: ObjectReference,
    pub(super) observed: Observed,
    /// Keys of the store, once they are known.
    pub(super) root: Option<Root>,
    problems: Vec<Problem>,
    /// The first request that the API server refused.
    refused: Option<Error>,
    /// When a former key ends.
    key_ends: Option<Timestamp>,
}

impl Work<'_> {
    /// Keeps a refusal among the problems; what else went wrong ends the round.
    fn refuse(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_refusal() {
            return Err(error);
        }
        self.problems.push(Problem::refused(error.to_string()));
        self.refused.get_or_insert(error);
        Ok(())
    }

    /// The checked spec; `None` when it is wrong, which is then among the problems.
    async fn check(&mut self, fetched: &Fetched) -> Result<Option<ValidatedFilestore>, Error> {
        let checked = match &fetched.filestore {
            Ok(filestore) => self.validated(filestore.clone()).await?,
            Err(error) => Err(Problem::unreadable(error)),
        };
        match checked {
            Ok(checked) => Ok(Some(checked)),
            Err(problem) => {
                self.problems.push(problem);
                // A store that serves goes on serving; whether it does is all we ask.
                let name = fetched.metadata.name.as_deref().unwrap_or_default();
                self.observed.pods = observe::servers(&self.requests, name).await?;
                Ok(None)
            }
        }
    }

    async fn validated(
        &mut self,
        mut filestore: Filestore,
    ) -> Result<Result<ValidatedFilestore, Problem>, Error> {
        if let Some(image) = &self.context.image {
            filestore.spec.image.get_or_insert_with(|| image.clone());
        }
        let secrets = observe::secrets(&self.requests, &filestore).await?;
        let checked = validate(&filestore, &secrets);
        if let Ok(checked) = &checked {
            let KeyPair {
                secret,
                access_key,
                secret_key,
            } = &checked.root;
            let value = |key: &str| secrets.value(secret, key).ok().map(str::to_owned);
            self.root = value(access_key)
                .zip(value(secret_key))
                .map(|(access_key, secret_key)| Root {
                    access_key,
                    secret_key,
                    region: checked.region.clone(),
                    certificate: checked.tls.as_ref().map(|tls| tls.certificate.clone()),
                });
        }
        Ok(checked.map_err(|error| Problem::invalid(&error)))
    }

    /// Brings the cluster to what the spec says.
    async fn keep(
        &mut self,
        filestore: &ValidatedFilestore,
        fetched: &Fetched,
    ) -> Result<(), Error> {
        self.observed = Box::pin(observe::cluster(
            &self.requests,
            filestore,
            &fetched.status,
            self.context.stores.as_ref(),
        ))
        .await?;
        let owner = OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: Filestore::kind(&()).into_owned(),
            name: fetched.metadata.name.clone().unwrap_or_default(),
            uid: fetched.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            ..Default::default()
        };
        if let Some(step) = plan::first(&self.observed)
            && let Err(error) = self.carry_out(&step).await
        {
            self.refuse(error)?;
        }
        self.keep_access(filestore, &owner).await?;
        let plan = plan::plan(filestore, &owner, &self.observed, Timestamp::now());
        self.problems.extend(plan.problems);
        for step in &plan.steps {
            if let Err(error) = self.carry_out(step).await {
                self.refuse(error)?;
            }
        }
        Ok(())
    }

    /// Keeps the Secrets of users and the gateway's, before any pod that needs them.
    async fn keep_access(
        &mut self,
        filestore: &ValidatedFilestore,
        owner: &OwnerReference,
    ) -> Result<(), Error> {
        let Some(root) = self
            .root
            .as_ref()
            .filter(|_| filestore.server == Server::Bundled)
        else {
            return Ok(());
        };
        let root = Pair {
            access_key: root.access_key.clone(),
            secret_key: root.secret_key.clone(),
        };
        let kept = access::keep(&self.requests, filestore, owner, root).await?;
        self.problems.extend(kept.problems);
        self.key_ends = kept.next;
        if let Some(notice) = notices::of_secret(&rendered_name(&filestore.name), &kept.drift) {
            self.context.tell(&notice, &self.about).await;
        }
        self.observed.no_keys = kept.secret.is_none();
        if let Some(secret) = kept.secret {
            let certificate = filestore.tls.as_ref().map(|tls| tls.hash.as_str());
            access::remind(&self.requests, &secret, certificate, &self.observed.pods).await?;
        }
        Ok(())
    }

    /// Tells how it stands: events first, so that a process killed in between tells twice rather
    /// than never; then the status, if it has changed.
    async fn report(
        &self,
        fetched: &Fetched,
        filestore: Option<&ValidatedFilestore>,
    ) -> Result<FilestoreStatus, Error> {
        let next = status::status(&status::Input {
            generation: fetched.metadata.generation,
            previous: &fetched.status,
            filestore,
            observed: &self.observed,
            problems: &self.problems,
            now: Timestamp::now(),
        });
        if next == fetched.status {
            return Ok(next);
        }
        for notice in notices::of_edges(&fetched.status, &next) {
            self.context.tell(&notice, &self.about).await;
        }
        let name = fetched.metadata.name.as_deref().unwrap_or_default();
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": Filestore::kind(&()),
            "metadata": {"name": name, "namespace": fetched.metadata.namespace},
            "status": next,
        });
        self.requests.apply_status::<Watched>(name, &object).await?;
        Ok(next)
    }
}
