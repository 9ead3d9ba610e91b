//! Jobs of a take-over, as facts.

mod workers;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::observed::{ContainerView, view};
use crate::render::{
    ABORTED_ANNOTATION, ABORTED_AT_ANNOTATION, FAILURES_ANNOTATION, GO, GO_ANNOTATION, JOB_LABEL,
    LAYOUT_CONTAINER, NUMBER_ANNOTATION, ROUND_ANNOTATION, RUN_LABEL, USED_ANNOTATION,
};
use crate::summary::{self, Summary};

/// Exit status of `migrate copy` when objects kept changing (docs/reference/exit-codes.md).
const CHANGED: i32 = 7;

pub use workers::{WorkerView, Workers, at_work as workers_at_work};

/// What a Job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// A round of copying beside the running legacy store.
    Copy,
    /// Whether the image of the legacy store can be started here.
    Gate,
    /// The final pass; its pod waits before the freeze.
    Final,
    /// Back to the legacy store.
    Back,
    /// Not back after all.
    Abandon,
}

impl JobKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Copy,
        Self::Gate,
        Self::Final,
        Self::Back,
        Self::Abandon,
    ];

    /// As in names and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Gate => "gate",
            Self::Final => "final",
            Self::Back => "back",
            Self::Abandon => "abandon",
        }
    }
}

/// How a Job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Its pod does not run yet; the kubelet's or scheduler's words why, if there are any.
    Starting(Option<String>),
    /// Its pod runs.
    Running {
        /// It is ready: the final pass waits for the word.
        held: bool,
        /// When it got the word.
        went: Option<Timestamp>,
    },
    /// Its container ended.
    Ended {
        /// Exit status.
        code: i32,
    },
    /// It ended without an exit status: stopped, evicted, out of time.
    Lost(String),
}

/// A Job.
#[derive(Clone, Debug)]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// What for.
    pub kind: JobKind,
    /// Counted over all Jobs of its kind.
    pub number: u32,
    /// Counted over those of its run.
    pub round: u32,
    /// How many before it failed, one after the other.
    pub failures: u32,
    /// How it stands.
    pub state: JobState,
    /// A name for all that it uses.
    pub used: Option<String>,
    /// What it told at the end.
    pub summary: Summary,
    /// When it was given up, ended, or was made.
    pub at: Option<Timestamp>,
    /// When its word to go came, if it did.
    pub went: Option<Timestamp>,
    /// Why the take-over was given up with it.
    pub aborted: Option<String>,
    /// It is not to run any more.
    pub suspended: bool,
    /// Its pod.
    pub pod: Option<String>,
    /// How those stand that share it; empty when one pod does it all.
    pub workers: Vec<WorkerView>,
}

impl JobView {
    /// Whether it ended, well or not.
    pub fn is_over(&self) -> bool {
        matches!(self.state, JobState::Ended { .. } | JobState::Lost(_))
    }

    /// Whether it ended well. A round of copying did also when clients kept changing objects
    /// meanwhile: the next pass takes those, and the final one has nobody beside it.
    pub fn is_done(&self) -> bool {
        let well = match self.state {
            JobState::Ended { code } => code == 0 || self.kind == JobKind::Copy && code == CHANGED,
            _ => false,
        };
        well && self.aborted.is_none()
    }

    /// Failed ones in a row, itself among them.
    pub fn failed_in_a_row(&self) -> u32 {
        if self.is_done() || self.is_out_of_time() {
            0
        } else {
            self.failures + 1
        }
    }

    /// Whether its time was over: no failure, the next one goes on where it was.
    pub fn is_out_of_time(&self) -> bool {
        self.summary.out_of_time && self.aborted.is_none()
    }
}

/// Jobs of a Filestore and run, by kind and number.
pub fn views(jobs: &[Job], pods: &[Pod], run: &str) -> Vec<JobView> {
    let mut found: Vec<JobView> = jobs
        .iter()
        .filter(|job| {
            job.labels()
                .get(RUN_LABEL)
                .is_some_and(|found| found == run)
        })
        .filter_map(|job| view_of(job, pods))
        .collect();
    found.sort_by_key(|job| (job.kind, job.number));
    found
}

/// The next number of a kind: of whatever run, names are not used twice.
pub fn next_number(jobs: &[Job], kind: JobKind) -> u32 {
    let numbers = jobs
        .iter()
        .filter(|job| {
            job.labels()
                .get(JOB_LABEL)
                .is_some_and(|found| found == kind.as_str())
        })
        .map(|job| number(job.annotations(), NUMBER_ANNOTATION));
    numbers.max().unwrap_or_default() + 1
}

fn number(annotations: &BTreeMap<String, String>, name: &str) -> u32 {
    annotations
        .get(name)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn view_of(job: &Job, pods: &[Pod]) -> Option<JobView> {
    let word = job.labels().get(JOB_LABEL)?;
    let kind = JobKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word.as_str())?;
    let name = job.name_any();
    let pod = newest(pods.iter().filter(|pod| is_of(pod, &name)));
    let suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    let workers = workers::views(job, pods);
    let (state, summary, ended) = if workers.is_empty() {
        let (state, message, ended) = state(job, pod, suspended);
        (state, summary::read(&message), ended)
    } else {
        workers::together(&workers, job_over(job).as_ref(), suspended)
    };
    let made = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let annotations = job.annotations();
    Some(JobView {
        kind,
        number: number(annotations, NUMBER_ANNOTATION),
        round: number(annotations, ROUND_ANNOTATION),
        failures: number(annotations, FAILURES_ANNOTATION),
        used: annotations.get(USED_ANNOTATION).cloned(),
        summary,
        at: annotations
            .get(ABORTED_AT_ANNOTATION)
            .and_then(|at| at.parse().ok())
            .or(ended)
            .or(made),
        went: pod.and_then(went),
        aborted: annotations.get(ABORTED_ANNOTATION).cloned(),
        suspended,
        pod: pod.map(ResourceExt::name_any),
        workers,
        name,
        state,
    })
}

/// Whether a pod is of the Job of this name.
fn is_of(pod: &Pod, name: &str) -> bool {
    let labels = pod.labels();
    let of = ["batch.kubernetes.io/job-name", "job-name"];
    of.iter()
        .any(|label| labels.get(*label).is_some_and(|found| found == name))
}

fn newest<'a>(pods: impl Iterator<Item = &'a Pod>) -> Option<&'a Pod> {
    pods.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// When the pod got the word: told beside it.
fn went(pod: &Pod) -> Option<Timestamp> {
    let word = pod.annotations().get(GO_ANNOTATION)?;
    if word != GO {
        return None;
    }
    let at = pod.annotations().get(super::WENT_ANNOTATION)?;
    at.parse().ok()
}

fn state(job: &Job, pod: Option<&Pod>, suspended: bool) -> (JobState, String, Option<Timestamp>) {
    let none = String::new;
    if let Some((code, message, at)) = pod.and_then(end) {
        return (JobState::Ended { code }, message, at);
    }
    match job_over(job) {
        Some((None, at)) => return (JobState::Ended { code: 0 }, none(), at),
        Some((Some(why), at)) => return (JobState::Lost(why), none(), at),
        None => {}
    }
    if suspended {
        return (JobState::Lost("it was stopped".to_owned()), none(), None);
    }
    (at_work(pod), none(), None)
}

/// The container that does the work.
fn worker(pod: &Pod) -> Option<&ContainerStatus> {
    let status = pod.status.as_ref()?;
    status.container_statuses.as_ref()?.first()
}

/// Exit status and last words of a pod that ended, and when.
fn end(pod: &Pod) -> Option<(i32, String, Option<Timestamp>)> {
    let status = pod.status.as_ref()?;
    // A volume that cannot be prepared keeps the worker from starting.
    let before = status.init_container_statuses.as_ref();
    let before = before.and_then(|all| all.iter().find(|one| one.name == LAYOUT_CONTAINER));
    for (container, is_main) in [(before, false), (worker(pod), true)] {
        if let Some(ContainerView::Ended { code, message }) = container.and_then(view)
            && (is_main || code != 0)
        {
            return Some((code, message, container.and_then(ended_at)));
        }
    }
    None
}

/// How a pod stands that did not end.
fn at_work(pod: Option<&Pod>) -> JobState {
    match pod.and_then(worker).and_then(view) {
        Some(ContainerView::Running) => {
            let went = pod.and_then(went);
            let held = condition(pod, "Ready").is_some_and(|found| found.status == "True");
            JobState::Running { held, went }
        }
        Some(ContainerView::Waiting { reason, message })
            if !matches!(
                reason.as_str(),
                "PodInitializing" | "ContainerCreating" | ""
            ) =>
        {
            JobState::Starting(Some(format!("{reason}: {message}")))
        }
        _ => JobState::Starting(
            condition(pod, "PodScheduled")
                .filter(|found| found.status == "False")
                .and_then(|found| found.message.clone()),
        ),
    }
}

fn ended_at(container: &ContainerStatus) -> Option<Timestamp> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    Some(ended.finished_at.as_ref()?.0)
}

fn condition<'a>(pod: Option<&'a Pod>, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod?.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|found| found.type_ == kind)
}

/// When the Job ended by the Job controller's account, and why if it failed.
fn job_over(job: &Job) -> Option<(Option<String>, Option<Timestamp>)> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is = |kind: &str| {
        let mut all = conditions.iter();
        all.find(|found| found.type_ == kind && found.status == "True")
    };
    let at = |time: Option<&Time>| time.map(|time| time.0);
    if let Some(found) = is("Failed") {
        let reason = found.reason.clone().unwrap_or_default();
        let message = found.message.clone().unwrap_or_default();
        let why = format!("{reason}: {message}");
        return Some((Some(why), at(found.last_transition_time.as_ref())));
    }
    let found = is("Complete")?;
    Some((None, at(found.last_transition_time.as_ref())))
}
