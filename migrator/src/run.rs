//! `run`: what an init job or `filestore up` does before a gateway may serve.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use filestore_common::marker::Marker;
use tokio_util::sync::CancellationToken;

use crate::{Endpoint, Error, ExitCode, Kind, Progress, Result};

/// What to migrate and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The legacy store; `None` = nothing is configured, nothing to migrate.
    pub from: Option<Endpoint>,
    /// The target.
    pub to: Endpoint,
    /// Names the run; `None` = the marker's, or a new one.
    pub run_id: Option<String>,
    /// Where marker and manifest go when the target is no volume.
    pub state_dir: Option<PathBuf>,
    /// Access key that becomes the owner of new buckets.
    pub owner: String,
    /// Objects in flight.
    pub parallel: usize,
    /// How long to wait for a source that does not answer.
    pub wait: Duration,
    /// How long a name must be unknown before the source counts as absent.
    pub absent_after: Duration,
    /// Bound of the comparison after cut-over.
    pub recheck: Duration,
    /// Write `cutover` at the end (the caller starts a gateway next); else `verified`.
    pub cutover: bool,
    /// Go on although current objects cannot be carried (they are listed).
    pub accept_loss: bool,
}

impl RunOptions {
    /// Options with every default.
    pub fn new(from: Option<Endpoint>, to: Endpoint) -> Self {
        Self {
            from,
            to,
            run_id: None,
            state_dir: None,
            owner: "filestore".into(),
            parallel: 16,
            wait: Duration::from_secs(600),
            absent_after: Duration::from_secs(10),
            recheck: Duration::from_secs(30),
            cutover: true,
            accept_loss: false,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// There is no legacy store.
    NothingToMigrate,
    /// Copied, verified, marked.
    Migrated,
    /// Was cut over before; the source was compared with the manifest.
    Rechecked,
    /// Was cut over before; the source was not (or not completely) compared.
    NotRechecked,
    /// Not finished: see `exit`.
    Incomplete,
}

/// The result of a command that ran to its end.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit code.
    pub exit: ExitCode,
    /// What came of it.
    pub ending: Ending,
    /// Marker as it is on the target now.
    pub marker: Option<Marker>,
    /// A few lines for people.
    pub summary: String,
}

/// Brings the target to where a gateway may serve from it: nothing to migrate; copy, verify and
/// mark; or, after cut-over, a bounded and never destructive comparison. Can be killed and
/// repeated at any point. The target is closed when this returns.
///
/// # Errors
/// [`Error`] when it could not run to its end; its [`Error::exit_code`] is the exit code.
pub async fn run(
    _options: &RunOptions,
    _progress: Arc<dyn Progress>,
    _cancel: CancellationToken,
) -> Result<Outcome> {
    Err(Error::new(Kind::Other, "run", "migration", "not built yet"))
}
