//! A round of copying that several workers share, as one fact.

use std::collections::BTreeSet;
use std::net::IpAddr;

use filestore_common::marker::MarkerState;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::{CHANGED, JobState, at_work as pod_at_work, end, is_of, job_over, newest};
use crate::summary::{self, Summary};

/// Label and annotation of a pod of an Indexed Job (Kubernetes, "Jobs").
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Exit codes, those that need a person first; what is not among them comes after the last.
const WORST: [i32; 7] = [5, 6, 2, 8, 1, 3, 4];

/// How a worker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Which: counted from 0.
    pub index: u32,
    /// How it stands. One that ended and is started again by Kubernetes is `Starting`.
    pub state: JobState,
    /// What it told at the end.
    pub summary: Summary,
    ended: Option<Timestamp>,
}

impl WorkerView {
    /// Whether it did its share, apart from what clients kept changing.
    pub fn is_done(&self) -> bool {
        matches!(self.state, JobState::Ended { code: 0 | CHANGED })
    }

    /// How bad its end is; the smaller the worse.
    fn rank(&self) -> (usize, bool) {
        let place = |code| WORST.iter().position(|known| *known == code);
        match self.state {
            JobState::Ended { code } => {
                let place = place(code).unwrap_or(WORST.len());
                (place, self.summary.out_of_time)
            }
            _ => (WORST.len() + 1, false),
        }
    }
}

/// Workers of the Job, in order; none when it is a plain one.
pub(super) fn views(job: &Job, pods: &[Pod]) -> Vec<WorkerView> {
    let Some(spec) = &job.spec else {
        return Vec::new();
    };
    if spec.completion_mode.as_deref() != Some("Indexed") {
        return Vec::new();
    }
    let count = u32::try_from(spec.completions.unwrap_or_default()).unwrap_or_default();
    let status = job.status.as_ref();
    let done = indexes(status.and_then(|status| status.completed_indexes.as_deref()));
    let failed = indexes(status.and_then(|status| status.failed_indexes.as_deref()));
    let is_over = job_over(job).is_some();
    let name = job.name_any();
    let of = |index| {
        let pod = pod_of(&name, pods, index);
        let (state, message, ended) = match pod.and_then(end) {
            Some((code, message, at)) if code == 0 || is_over || failed.contains(&index) => {
                (JobState::Ended { code }, message, at)
            }
            Some((code, ..)) => {
                let why = format!("it ended with exit code {code} and is started again");
                (JobState::Starting(Some(why)), String::new(), None)
            }
            None if done.contains(&index) => (JobState::Ended { code: 0 }, String::new(), None),
            None if is_over || failed.contains(&index) => {
                let status = pod.and_then(|pod| pod.status.as_ref());
                let why = status.and_then(|status| status.reason.clone());
                let why = why.unwrap_or_else(|| "its pod is gone".to_owned());
                (JobState::Lost(why), String::new(), None)
            }
            None => (pod_at_work(pod), String::new(), None),
        };
        WorkerView {
            index,
            state,
            summary: summary::read(&message),
            ended,
        }
    };
    (0..count).map(of).collect()
}

/// The newest pod of a worker.
fn pod_of<'a>(job: &str, pods: &'a [Pod], index: u32) -> Option<&'a Pod> {
    let index = index.to_string();
    newest(pods.iter().filter(|pod| {
        let told = pod
            .annotations()
            .get(INDEX)
            .or_else(|| pod.labels().get(INDEX));
        is_of(pod, job) && told == Some(&index)
    }))
}

/// `1,3-5` as Kubernetes writes it.
fn indexes(text: Option<&str>) -> BTreeSet<u32> {
    let parts = text.unwrap_or_default().split(',');
    parts
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some(from.parse::<u32>().ok()?..=to.parse().ok()?)
        })
        .flatten()
        .collect()
}

/// How the Job stands as a whole: over when Kubernetes says so (until then a worker that failed may
/// be started again), and then as its worst worker.
pub(super) fn together(
    workers: &[WorkerView],
    over: Option<&(Option<String>, Option<Timestamp>)>,
    suspended: bool,
) -> (JobState, Summary, Option<Timestamp>) {
    let Some((_, at)) = over else {
        let state = if suspended {
            JobState::Lost("it was stopped".to_owned())
        } else {
            under_way(workers)
        };
        return (state, Summary::default(), None);
    };
    let ended = workers.iter().filter_map(|worker| worker.ended).max();
    let failed: Vec<&WorkerView> = workers.iter().filter(|worker| !worker.is_done()).collect();
    let worst = failed.iter().min_by_key(|worker| worker.rank());
    let mut summary = sum(workers);
    let state = match worst {
        None => {
            let code = if workers.iter().any(is_changing) {
                CHANGED
            } else {
                0
            };
            JobState::Ended { code }
        }
        Some(worst) => {
            let others = match failed.len() - 1 {
                0 => String::new(),
                more => format!("; {more} more failed"),
            };
            // Unless each of them only ran out of time, something failed.
            summary.out_of_time = failed.iter().all(|worker| worker.summary.out_of_time);
            let why = match &worst.state {
                JobState::Ended { code } if worst.summary.text.is_empty() => {
                    format!("exit code {code}")
                }
                JobState::Lost(why) => why.clone(),
                _ => worst.summary.text.clone(),
            };
            summary.text = format!("worker {} of {}: {why}{others}", worst.index, workers.len());
            match worst.state {
                JobState::Ended { code } => JobState::Ended { code },
                _ => JobState::Lost(summary.text.clone()),
            }
        }
    };
    (state, summary, ended.or(*at))
}

fn is_changing(worker: &WorkerView) -> bool {
    worker.state == JobState::Ended { code: CHANGED }
}

fn under_way(workers: &[WorkerView]) -> JobState {
    let starting = workers.iter().find_map(|worker| match &worker.state {
        JobState::Starting(Some(why)) => Some(format!(
            "worker {} of {}: {why}",
            worker.index,
            workers.len()
        )),
        _ => None,
    });
    let waits = |worker: &WorkerView| matches!(worker.state, JobState::Starting(_));
    if starting.is_some() || workers.iter().all(waits) {
        return JobState::Starting(starting);
    }
    JobState::Running {
        held: false,
        went: None,
    }
}

/// What all of them told.
fn sum(workers: &[WorkerView]) -> Summary {
    let told = || workers.iter().map(|worker| &worker.summary);
    // Of one that nobody heard it is not known: then there may be much.
    let copied = told().try_fold((0, 0), |(copied, same), summary| {
        let (more, unchanged) = summary.copied?;
        Some((copied + more, same + unchanged))
    });
    let through = told().map(|summary| summary.through).sum();
    let left: BTreeSet<String> = told().flat_map(|one| one.left_behind.clone()).collect();
    let markers = || told().filter_map(|summary| summary.marker.as_ref());
    let marker = markers()
        .find(|(state, _)| *state == MarkerState::Cutover)
        .or_else(|| markers().next());
    Summary {
        copied,
        through,
        left_behind: left.into_iter().collect(),
        marker: marker.cloned(),
        ..Summary::default()
    }
}

/// Where workers at work can be asked how far they are, and what those told that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// Addresses of those that run.
    pub addresses: Vec<IpAddr>,
    /// Objects and bytes that those did that ended.
    pub ended: Vec<(u64, u64)>,
}

/// The workers of a Job that several share and that is not over.
pub fn at_work(jobs: &[Job], pods: &[Pod]) -> Option<Workers> {
    let job = jobs.iter().find(|job| {
        let spec = job.spec.as_ref();
        let suspended = spec.and_then(|spec| spec.suspend) == Some(true);
        let indexed = spec.and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed");
        indexed && !suspended && job_over(job).is_none()
    })?;
    let name = job.name_any();
    let views = views(job, pods);
    let mut workers = Workers {
        count: views.len(),
        ..Workers::default()
    };
    for worker in views {
        match worker.state {
            JobState::Running { .. } => {
                let pod = pod_of(&name, pods, worker.index);
                let status = pod.and_then(|pod| pod.status.as_ref());
                let address = status.and_then(|status| status.pod_ip.as_deref());
                let address = address.and_then(|address| address.parse::<IpAddr>().ok());
                workers.addresses.extend(address);
            }
            JobState::Ended { .. } => {
                let (copied, same) = worker.summary.copied.unwrap_or_default();
                let bytes = worker.summary.copied_bytes.unwrap_or_default();
                workers.ended.push((copied + same, bytes));
            }
            _ => {}
        }
    }
    Some(workers)
}
