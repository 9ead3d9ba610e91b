//! From what the cluster shows to the status of a Filestore. Pure; the clock is an argument.

mod extras;
mod migrated;
mod problem;
pub mod reason;
mod takeover;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::{FilestoreStatus, Phase, StorageStatus};
use crate::observed::{ContainerView, Observed};
use crate::quantity;
use crate::render;
use crate::takeover::{Stage, stage};
use crate::validate::{InCluster, ValidatedFilestore};
pub(crate) use migrated::cure;
pub use problem::Problem;

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    /// `True` or `False`.
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn new(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds,
            reason,
            message: message.into(),
        }
    }

    fn of(problem: &Problem) -> Self {
        Self::new(false, problem.reason, problem.message.clone())
    }
}

/// What a status is computed from.
#[derive(Debug)]
pub struct Input<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The status that is there.
    pub previous: &'a FilestoreStatus,
    /// The checked spec; `None` when it is wrong, then `problems` says why.
    pub filestore: Option<&'a ValidatedFilestore>,
    /// The cluster, after this round's writes.
    pub observed: &'a Observed,
    /// What keeps the operator from its work.
    pub problems: &'a [Problem],
    /// Now.
    pub now: Timestamp,
}

/// The status for `input`. Equal to the previous one when nothing has changed.
pub fn status(input: &Input<'_>) -> FilestoreStatus {
    let verdicts = verdicts(input);
    let phase = phase(&verdicts);
    let conditions = verdicts
        .iter()
        .map(|(kind, verdict)| condition(input, kind, verdict))
        .collect();
    let previous = input.previous;
    let Some(filestore) = input.filestore else {
        // What was known of the volume stays known.
        return FilestoreStatus {
            observed_generation: input.generation,
            phase: Some(phase),
            conditions,
            ..previous.clone()
        };
    };
    let migrated = verdicts.iter().find(|(kind, _)| *kind == reason::MIGRATED);
    FilestoreStatus {
        observed_generation: input.generation,
        phase: Some(phase),
        endpoint: input
            .observed
            .service
            .as_ref()
            .map(|_| render::endpoint(filestore)),
        image: Some(filestore.image.clone()),
        storage: Some(storage(filestore, input.observed, previous)),
        migration: match in_cluster(input, filestore) {
            Some((cluster, stage)) => Some(takeover::numbers(
                filestore,
                cluster,
                input.observed,
                previous,
                &stage,
            )),
            None => migrated.and_then(|(_, verdict)| {
                migrated::numbers(filestore, input.observed, previous, verdict)
            }),
        },
        conditions,
    }
}

/// The take-over of a legacy store in the cluster, where one is asked for.
fn in_cluster<'a>(
    input: &Input<'_>,
    filestore: &'a ValidatedFilestore,
) -> Option<(&'a InCluster, Stage)> {
    let cluster = filestore.migration.as_ref()?.cluster.as_ref()?;
    input.observed.takeover.as_ref()?;
    let stage = stage(filestore, cluster, input.observed, input.now);
    Some((cluster, stage))
}

/// The condition of this type.
pub fn find<'a>(status: &'a FilestoreStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|found| found.type_ == kind)
}

fn condition(input: &Input<'_>, kind: &str, verdict: &Verdict) -> Condition {
    let status = if verdict.holds { "True" } else { "False" };
    let since = find(input.previous, kind)
        .filter(|found| found.status == status)
        .map(|found| found.last_transition_time.clone());
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message.clone(),
        observed_generation: input.generation,
        // The API keeps whole seconds.
        last_transition_time: since.unwrap_or_else(|| {
            Time(Timestamp::from_second(input.now.as_second()).unwrap_or(input.now))
        }),
    }
}

fn verdicts(input: &Input<'_>) -> Vec<(&'static str, Verdict)> {
    let mut verdicts = Vec::new();
    let storage = input
        .filestore
        .map(|filestore| storage_ready(input, filestore));
    let migrated = input
        .filestore
        .map(|filestore| match in_cluster(input, filestore) {
            Some((cluster, stage)) => {
                takeover::condition(filestore, cluster, input.observed, &stage)
            }
            None => migrated::condition(filestore, input.observed, input.previous),
        });
    let stalled = stalled(input, storage.as_ref(), migrated.as_ref());
    let ready = ready(input, &stalled, migrated.as_ref());
    let moving = !ready.holds && !stalled.holds && ready.reason != reason::SUSPENDED;
    let reconciling = if moving {
        Verdict::new(true, reason::PROGRESSING, ready.message.clone())
    } else {
        Verdict::new(false, reason::DONE, "")
    };
    verdicts.push((reason::READY, ready));
    verdicts.push((reason::RECONCILING, reconciling));
    verdicts.push((reason::STALLED, stalled));
    verdicts.push((reason::CREDENTIALS_READY, credentials_ready(input)));
    verdicts.extend(storage.map(|verdict| (reason::STORAGE_READY, verdict)));
    verdicts.extend(migrated.map(|verdict| (reason::MIGRATED, verdict)));
    verdicts.extend(extras::verdicts(input));
    verdicts
}

fn credentials_ready(input: &Input<'_>) -> Verdict {
    match input
        .problems
        .iter()
        .find(|problem| problem.is_credentials())
    {
        Some(problem) => Verdict::of(problem),
        None => Verdict::new(true, reason::FOUND, ""),
    }
}

fn storage_ready(input: &Input<'_>, filestore: &ValidatedFilestore) -> Verdict {
    if let Some(problem) = input.problems.iter().find(|problem| problem.is_storage()) {
        // A wish that cannot be met does not make the volume unusable.
        return Verdict {
            holds: problem.reason == reason::SHRINK_REFUSED,
            ..Verdict::of(problem)
        };
    }
    let name = &filestore.storage.claim;
    let status = input
        .observed
        .claim
        .as_ref()
        .and_then(|claim| claim.status.as_ref());
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Bound") => match growing(input.observed) {
            Some((has, wants)) => {
                Verdict::new(true, reason::EXPANDING, format!("from {has} to {wants}"))
            }
            None => Verdict::new(true, reason::BOUND, ""),
        },
        Some("Lost") => Verdict::new(
            false,
            reason::CLAIM_LOST,
            format!("the volume of PersistentVolumeClaim {name:?} is gone; restore it"),
        ),
        _ => Verdict::new(
            false,
            reason::CLAIM_PENDING,
            format!("PersistentVolumeClaim {name:?} has no volume yet"),
        ),
    }
}

/// Present and future size while a volume grows: the claim asks for more than it has.
fn growing(observed: &Observed) -> Option<(String, String)> {
    let spec = observed.claim.as_ref()?.spec.as_ref()?;
    let wants = &spec
        .resources
        .as_ref()?
        .requests
        .as_ref()?
        .get("storage")?
        .0;
    let has = capacity(observed)?;
    (quantity::compare(&has, wants)? == std::cmp::Ordering::Less).then(|| (has, wants.clone()))
}

fn capacity(observed: &Observed) -> Option<String> {
    let status = observed.claim.as_ref()?.status.as_ref()?;
    Some(status.capacity.as_ref()?.get("storage")?.0.clone())
}

/// What needs a person, the first thing first.
fn stalled(input: &Input<'_>, storage: Option<&Verdict>, migrated: Option<&Verdict>) -> Verdict {
    let yes = |reason, message: &str| Verdict::new(true, reason, message);
    if let Some(problem) = input.problems.first() {
        return yes(problem.reason, &problem.message);
    }
    if let Some(lost) = storage.filter(|storage| storage.reason == reason::CLAIM_LOST) {
        return yes(lost.reason, &lost.message);
    }
    if let Some(migrated) = migrated.filter(|migrated| migrated::needs_a_person(migrated)) {
        return yes(migrated.reason, &migrated.message);
    }
    if let Some(message) = input.observed.unschedulable() {
        return yes(reason::UNSCHEDULABLE, &message);
    }
    match input.observed.hindrance() {
        Some((container, ContainerView::Waiting { reason, message })) => {
            let kind = match reason.as_str() {
                "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                    reason::IMAGE_PULL_FAILED
                }
                _ => reason::POD_FAILING,
            };
            yes(kind, &format!("container {container}: {reason}: {message}"))
        }
        // The take-over has its own condition, judged above.
        Some((container, _)) if container == render::MIGRATE_CONTAINER => {
            Verdict::new(false, reason::NO_PROBLEM, "")
        }
        Some((container, ContainerView::Ended { code, message })) => yes(
            reason::POD_FAILING,
            &format!("container {container} ended with exit code {code}: {message}"),
        ),
        _ => Verdict::new(false, reason::NO_PROBLEM, ""),
    }
}

fn ready(input: &Input<'_>, stalled: &Verdict, migrated: Option<&Verdict>) -> Verdict {
    let no = |reason, message: &str| Verdict::new(false, reason, message);
    if input.filestore.is_some_and(|filestore| filestore.suspend) {
        return no(
            reason::SUSPENDED,
            "suspend is true; no pod runs, the claim stays",
        );
    }
    if input.observed.pod_ready() {
        return Verdict::new(true, reason::SERVING, "clients are served");
    }
    if stalled.holds {
        return no(stalled.reason, &stalled.message);
    }
    let has_pod = input.observed.pod().is_some();
    let in_cluster = input.observed.takeover.is_some();
    match migrated.filter(|migrated| !migrated.holds) {
        Some(migrated) if has_pod || in_cluster => no(migrated.reason, &migrated.message),
        _ if has_pod => no(reason::POD_NOT_READY, "the pod is not ready yet"),
        _ => no(reason::PROGRESSING, "the pod is yet to be started"),
    }
}

/// The conditions in one word. Nothing reads it but people.
fn phase(verdicts: &[(&str, Verdict)]) -> Phase {
    let find = |kind| {
        verdicts
            .iter()
            .find(|(found, _)| *found == kind)
            .map(|(_, verdict)| verdict)
    };
    let holds = |kind| find(kind).is_some_and(|verdict| verdict.holds);
    let because = |kind, reason| find(kind).is_some_and(|verdict| verdict.reason == reason);
    match (holds(reason::READY), holds(reason::STALLED)) {
        _ if because(reason::READY, reason::SUSPENDED) => Phase::Suspended,
        (true, false) => Phase::Ready,
        (true, true) => Phase::Degraded,
        (false, true) => Phase::Failed,
        (false, false) if find(reason::MIGRATED).is_some_and(|verdict| !verdict.holds) => {
            Phase::Migrating
        }
        (false, false) => Phase::Provisioning,
    }
}

fn storage(
    filestore: &ValidatedFilestore,
    observed: &Observed,
    previous: &FilestoreStatus,
) -> StorageStatus {
    let spec = observed
        .claim
        .as_ref()
        .and_then(|claim| claim.spec.as_ref());
    let before = previous
        .storage
        .as_ref()
        .and_then(|storage| storage.used_percent);
    StorageStatus {
        claim_name: filestore.storage.claim.clone(),
        volume_name: spec.and_then(|spec| spec.volume_name.clone()),
        capacity: capacity(observed),
        used_percent: used_percent(observed.told.used_permille, before),
    }
}

/// How full the volume is: whole points, rounded down. Every change is a write, so a volume that
/// wavers about the edge of a point keeps what was said before until it is half a point beyond.
fn used_percent(permille: Option<i32>, before: Option<i32>) -> Option<i32> {
    // A gateway that cannot be asked for a moment has not become empty.
    let Some(now) = permille else {
        return before;
    };
    let still = before.filter(|before| {
        let said = before.saturating_mul(10);
        now < 1000 && (said.saturating_sub(5)..said.saturating_add(15)).contains(&now)
    });
    still.or(Some(now / 10))
}

#[cfg(test)]
mod tests;
