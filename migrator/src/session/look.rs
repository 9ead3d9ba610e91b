//! Ending without a final pass where nothing is left for it to do.

use std::sync::{Mutex, PoisonError};

use super::Session;
use crate::pass::Report;
use crate::policy::Pass;
use crate::scope::worker;
use crate::session::phase;
use crate::verify::{self, Findings, Mode, Outputs};
use crate::{Error, Kind, Phase, Result};

/// Both sides were equal, or made so, when they were looked at last; with the names of objects
/// that the source's listings hide.
#[derive(Debug, Default)]
pub(super) struct Equal(Mutex<Option<Vec<String>>>);

impl Equal {
    pub(super) fn set(&self, hidden: Option<Vec<String>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hidden;
    }

    fn get(&self) -> Option<Vec<String>> {
        let hidden = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hidden.clone()
    }
}

impl Session<'_> {
    /// The comparison that follows a final pass, in its place: it sees every difference that the
    /// pass would have to remove. `None` when there is one, or when only a pass can tell.
    pub(super) async fn look(&self, outputs: &Outputs<'_>) -> Result<Option<(Report, Findings)>> {
        let Some(hidden) = self.equal.get() else {
            return Ok(None);
        };
        let run_id = self.run_id();
        let mut recorder = self.recorder(Pass::Final, &run_id)?;
        // What a power loss may have cost does not show in a listing.
        if self.options.shard.is_some() || recorder.doubtful().is_some() {
            return Ok(None);
        }
        for bucket in self.ends.source.buckets().await? {
            self.ends.target.ensure_bucket(&bucket).await?;
        }
        phase(&*self.ends.progress, Phase::Verify, None, None);
        let findings = verify::verify(&self.ends, Mode::Listing.into(), outputs).await?;
        if findings.differences() + findings.failed > 0 {
            return Ok(None);
        }
        recorder.checkpoint.pass = "final".into();
        let flushed = self.ends.target.flush().await;
        recorder.flushed(flushed, None)?;
        if let Some(state) = &self.state {
            worker::settled(state, &run_id)?;
        }
        let report = Report {
            buckets: findings.carried.buckets,
            objects: findings.same,
            object_bytes: findings.carried.bytes,
            skipped: findings.same.saturating_sub(findings.unproven),
            unproven: findings.unproven,
            hidden,
            tally: findings.tally.clone(),
            ..Report::default()
        };
        Ok(Some((report, findings)))
    }

    /// That nobody wrote to the source since it looked like `before`.
    pub(super) async fn is_still(&self, before: Option<&String>) -> Result<()> {
        if self.ends.source.still().await?.as_ref() == before {
            return Ok(());
        }
        let location = self.identity.location.clone();
        let problem = "changed during the final pass: somebody writes to it";
        Err(Error::new(Kind::Refused, "read", location, problem)
            .with_cure("stop the legacy store first"))
    }
}
