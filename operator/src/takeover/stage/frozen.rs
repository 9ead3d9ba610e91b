//! The legacy store is at 0 and clients have no store: bring it to an end, or back.

use jiff::SignedDuration;

use super::{Facts, HTTPS_TOO_EARLY, Stage};
use crate::render::required_marker;
use crate::status::cure;
use crate::takeover::{JobState, JobView, Record};

/// Longest time for the legacy pods to go.
const STOP_LIMIT: SignedDuration = SignedDuration::from_mins(2);

/// Longest time in which clients have no store.
const FREEZE_LIMIT: SignedDuration = SignedDuration::from_mins(30);

/// Longest time from the end of the final pass to the hand-over.
const START_LIMIT: SignedDuration = SignedDuration::from_mins(2);

impl Facts<'_> {
    /// The legacy store is at 0, clients wait.
    pub(super) fn frozen(&self, record: &Record) -> Stage {
        let deployment = self.observed.deployment.as_ref();
        if self.observed.pod_ready() && deployment.and_then(required_marker).is_some() {
            // Somebody else handed it over: there is no way back by itself any more.
            return self.served(None);
        }
        let job = self.jobs.iter().find(|job| job.name == record.job);
        let up = |why: String| Stage::GiveUp(job.cloned().map(Box::new), why);
        let Some(job) = job else {
            return up(format!("Job {} of the final pass is gone", record.job));
        };
        if let Some(why) = &job.aborted {
            return up(why.clone());
        }
        if self.filestore.suspend {
            return up("suspend was set to true".to_owned());
        }
        if self.filestore.tls.is_some() {
            return up(HTTPS_TOO_EARLY.to_owned());
        }
        let replicas = self
            .seen
            .legacy()
            .map_or(0, |legacy| legacy.workload.replicas);
        if replicas > 0 {
            return up("the legacy store was started during the final pass".to_owned());
        }
        if self.late(Some(record.at), FREEZE_LIMIT) {
            return up("the cut-over took too long".to_owned());
        }
        match &job.state {
            JobState::Ended { code: 0 } => self.start(job),
            JobState::Ended { code } => up(format!(
                "the final pass ended with exit code {code}: {}{}",
                job.summary.text,
                cure(*code, &job.summary)
            )),
            JobState::Lost(why) => up(format!("the final pass was lost: {why}")),
            JobState::Starting(_) => up("the pod of the final pass is gone".to_owned()),
            JobState::Running { went: Some(_), .. } => Stage::Final(Box::new(job.clone())),
            JobState::Running { went: None, .. } if !self.seen.legacy_runs() => {
                Stage::Go(Box::new(job.clone()))
            }
            JobState::Running { .. } if self.late(Some(record.at), STOP_LIMIT) => {
                up("the pods of the legacy store did not go".to_owned())
            }
            JobState::Running { .. } => Stage::Stops,
        }
    }

    /// The final pass ended well.
    fn start(&self, job: &JobView) -> Stage {
        if self.seen.legacy_runs() {
            return Stage::GiveUp(
                Some(Box::new(job.clone())),
                "a pod of the legacy store came back".to_owned(),
            );
        }
        if self.late(job.at, START_LIMIT) {
            let why = match self.observed.hindrance() {
                Some((container, how)) => format!("container {container}: {how:?}"),
                None => "it did not answer as it should".to_owned(),
            };
            return Stage::GiveUp(
                Some(Box::new(job.clone())),
                format!("the new store did not start: {why}"),
            );
        }
        let wanted = self.observed.deployment.as_ref();
        let is_wanted = wanted.is_some_and(|found| {
            required_marker(found).is_some()
                && found.spec.as_ref().and_then(|spec| spec.replicas) == Some(1)
        });
        if is_wanted && self.observed.serves() {
            Stage::HandOver(Box::new(job.clone()))
        } else {
            Stage::Start
        }
    }
}
