//! What is worth an event: edges of conditions, and what the operator did.

use crate::api::{FilestoreStatus, WorkloadKind};
use crate::drift::Path;
use crate::plan::{ClaimChange, Drift, JobChange, Kind, Step, WorkloadChange};
use crate::render::AFTER_ANNOTATION;
use crate::status::{find, reason};

/// An event to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Shown as `Warning` instead of `Normal`.
    pub warning: bool,
    /// A word for programs.
    pub reason: &'static str,
    /// A line for people.
    pub note: String,
    /// The object that it happened to. Events that differ in nothing else are counted as one.
    pub related: Option<Related>,
}

/// An object of the Filestore's namespace, or a field of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The field.
    pub field: Option<String>,
}

impl Related {
    fn claim(name: &str) -> Self {
        Self {
            api_version: "v1",
            kind: "PersistentVolumeClaim",
            name: name.to_owned(),
            field: None,
        }
    }

    fn field(kind: Kind, name: &str, path: Option<&Path>) -> Self {
        Self {
            api_version: kind.api_version(),
            kind: kind.as_str(),
            name: name.to_owned(),
            field: path.map(Path::to_string),
        }
    }
}

impl Notice {
    fn new(warning: bool, reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning,
            reason,
            note: note.into(),
            related: None,
        }
    }

    fn about(self, related: Related) -> Self {
        Self {
            related: Some(related),
            ..self
        }
    }

    /// The Filestore is gone, its claim is not.
    pub fn claim_retained(claim: &str, namespace: &str) -> Self {
        Self::new(
            false,
            "ClaimRetained",
            format!(
                "the Filestore was deleted, its data is kept; to delete the data for good: kubectl delete pvc {claim} --namespace {namespace}"
            ),
        )
    }

    /// The Filestore went in the middle of a cut-over.
    pub fn thawed(title: &str, filestore: &str) -> Self {
        Self::new(
            true,
            "LegacyStarted",
            format!(
                "{title} is scaled up again: Filestore {filestore:?} was deleted in the middle of the cut-over"
            ),
        )
    }

    /// A field goes back to another value as soon as it is set.
    pub fn drift_stays(kind: Kind, name: &str, paths: &[Path]) -> Self {
        let fields = list(paths);
        let kind_name = kind.as_str();
        Self::new(
            true,
            "DriftStays",
            format!(
                "{kind_name} {name}: {fields} is changed again while it is written, by an admission webhook most likely; exempt the object from it"
            ),
        )
        .about(Related::field(kind, name, paths.first()))
    }
}

fn list(paths: &[Path]) -> String {
    paths
        .iter()
        .map(Path::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What a step that was carried out has to tell; `None` for routine.
pub fn of_step(step: &Step) -> Option<Notice> {
    let (claim, reason, note) = match step {
        Step::CreateClaim(claim) => {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            (
                name,
                "ClaimCreated",
                format!("PersistentVolumeClaim {name}"),
            )
        }
        Step::PatchClaim { name, why, .. } => match why {
            ClaimChange::Grow(from, to) => (
                name.as_str(),
                "ClaimGrows",
                format!("PersistentVolumeClaim {name} from {from} to {to}"),
            ),
            ClaimChange::Protect => (
                name.as_str(),
                "ClaimProtected",
                format!("PersistentVolumeClaim {name}: Helm and Argo CD are told to keep it"),
            ),
            ClaimChange::PutBack(drift) => return of_drift(drift, Related::claim(name)),
        },
        Step::Apply(apply) => {
            let related = Related::field(apply.kind, &apply.name, None);
            return of_drift(&apply.drift, related);
        }
        Step::CreateJob(job) => {
            let name = job.metadata.name.as_deref().unwrap_or_default();
            let annotations = job.metadata.annotations.as_ref();
            let note = match annotations.and_then(|all| all.get(AFTER_ANNOTATION)) {
                Some(failed) => format!("Job {name}, at once: what Job {failed} used has changed"),
                None => format!("Job {name}"),
            };
            return Some(Notice::new(false, "JobCreated", note));
        }
        Step::PatchJob { name, why, .. } => {
            return match why {
                JobChange::Stop(why) => Some(Notice::new(
                    true,
                    "JobStopped",
                    format!("Job {name}: {why}"),
                )),
                JobChange::Trim => None,
            };
        }
        Step::PatchWorkload {
            kind, name, why, ..
        } => return Some(of_workload(*kind, name, why)),
        Step::Remove(_) | Step::Go { .. } | Step::HandOver(_) => return None,
    };
    Some(Notice::new(false, reason, note).about(Related::claim(claim)))
}

fn of_workload(kind: WorkloadKind, name: &str, why: &WorkloadChange) -> Notice {
    let title = format!("{} {name}", kind.as_str());
    let (warning, reason, note) = match why {
        WorkloadChange::Freeze => (
            false,
            "LegacyStopped",
            format!("{title} is scaled to 0 for the final pass"),
        ),
        WorkloadChange::HandOver => (
            false,
            "HandOver",
            format!("the new store takes the place of {title}, which stays at 0"),
        ),
        WorkloadChange::GiveUp(why) => (
            true,
            "LegacyStarted",
            format!("{title} is scaled up again, the cut-over failed: {why}"),
        ),
        WorkloadChange::Writers(who) => (
            true,
            reason::WRITERS_SEEN,
            format!(
                "{title} was started after the hand-over by {who:?} and is scaled to 0; it may have taken writes"
            ),
        ),
        WorkloadChange::RolledBack => (
            false,
            "LegacyStarted",
            format!("{title} is scaled up again, all went back to it"),
        ),
    };
    Notice::new(warning, reason, note).about(Related {
        api_version: "apps/v1",
        kind: kind.as_str(),
        name: name.to_owned(),
        field: None,
    })
}

/// What somebody changed in a Secret of ours.
pub fn of_secret(name: &str, drift: &[Drift]) -> Option<Notice> {
    let secret = Related {
        api_version: "v1",
        kind: "Secret",
        name: name.to_owned(),
        field: None,
    };
    of_drift(drift, secret)
}

fn of_drift(drift: &[Drift], object: Related) -> Option<Notice> {
    let first = drift.first()?;
    let more = match drift.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let who = match &first.manager {
        Some(manager) => format!("{manager:?}"),
        None => "a client that the API server did not record".to_owned(),
    };
    let field = first.path.to_string();
    let note = format!(
        "{} {}: {field}{more}, changed by {who}, is put back",
        object.kind, object.name
    );
    let related = Related {
        field: Some(field),
        ..object
    };
    Some(Notice::new(true, "DriftCorrected", note).about(related))
}

/// What has changed between two statuses and concerns people.
pub fn of_edges(previous: &FilestoreStatus, next: &FilestoreStatus) -> Vec<Notice> {
    let mut notices = Vec::new();
    for condition in &next.conditions {
        let before = find(previous, &condition.type_);
        let holds = condition.status == "True";
        let same = before.is_some_and(|before| {
            before.status == condition.status && before.reason == condition.reason
        });
        if same {
            continue;
        }
        let Some(reason) = reason::ALL
            .iter()
            .map(|row| row.name)
            .find(|name| *name == condition.reason)
        else {
            continue;
        };
        let told = match condition.type_.as_str() {
            reason::READY => (holds || reason == reason::SUSPENDED).then_some(false),
            reason::STALLED => holds.then_some(true),
            reason::MIGRATED if holds => (reason != reason::NOT_REQUESTED).then_some(false),
            reason::MIGRATED => match reason {
                reason::COPYING
                | reason::PRECOPYING
                | reason::AWAITING_APPROVAL
                | reason::CUTTING_OVER
                | reason::DEADLINE_PASSED
                | reason::ROLLING_BACK
                | reason::ROLLED_BACK => Some(false),
                reason::CUTOVER_FAILED => Some(true),
                reason::SOURCE_UNREACHABLE | reason::SOURCE_CHANGING | reason::VERIFY_FAILED => {
                    Some(true)
                }
                _ => None,
            },
            reason::STORAGE_READY => (reason == reason::EXPANDING).then_some(false),
            reason::MONITORING_READY => (!holds).then_some(true),
            _ => None,
        };
        if let Some(warning) = told {
            notices.push(Notice::new(warning, reason, condition.message.clone()));
        }
    }
    notices
}
