//! `migrate final`.

use std::path::PathBuf;
use std::sync::Arc;

use filestore_migrator::{ExitCode, Location, Outcome, RunOptions, run as engine};
use tokio_util::sync::CancellationToken;

use super::{Look, options, reconcile, scope, sides};
use crate::exit::WithCode as _;
use crate::progress::Shown;

#[derive(Debug, clap::Args)]
pub(super) struct Final {
    #[command(flatten)]
    sides: sides::Sides,
    #[command(flatten)]
    scope: scope::ScopeFlags,
    #[command(flatten)]
    tuning: options::Tuning,
    /// How closely to look at the end.
    #[arg(long, value_enum, default_value_t = Look::Listing)]
    verify: Look,
    /// Mark the target as handed over to its clients.
    #[arg(long)]
    cutover: bool,
    /// Bring the target up to date first, deleting nothing, and wait until this file holds `go`;
    /// only then the writers have to be stopped.
    #[arg(long, env = "FILESTORE_HOLD_FILE", value_name = "FILE")]
    hold_file: Option<PathBuf>,
    /// Whoever starts this saw the process go that served the drive: it is not watched for its sign
    /// of life (up to 20 seconds). Two looks at the drive must be the same all the same.
    #[arg(long, env = "FILESTORE_SOURCE_IS_STOPPED")]
    source_is_stopped: bool,
    /// Who wins where both sides changed a key since a roll-back; without it such keys are listed.
    #[arg(long, value_enum)]
    prefer: Option<reconcile::Winner>,
    /// Write a JSON line for every object that is copied, deleted or fails.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Final {
    pub(super) async fn run(
        self,
        shown: &Arc<Shown>,
        cancel: CancellationToken,
    ) -> anyhow::Result<Outcome> {
        shown.report_to(self.report.as_deref())?;
        let mut sides = self.sides.options()?;
        if self.source_is_stopped {
            stopped(&mut sides)?;
        }
        let options = RunOptions {
            cutover: self.cutover,
            hold_file: self.hold_file,
            prefer: self.prefer.map(Into::into),
            ..self.scope.apply(self.tuning.apply(sides), false)?
        };
        let mode = self.verify.into();
        Ok(engine::finish(&options, mode, shown.clone(), cancel).await?)
    }
}

/// `--source-is-stopped`.
fn stopped(options: &mut RunOptions) -> anyhow::Result<()> {
    match &mut options.from {
        Some(from) if matches!(from.location, Location::MinioDrive(_)) => {
            from.stopped = true;
            Ok(())
        }
        _ => {
            let problem = anyhow::anyhow!(
                "--source-is-stopped is about the drive of a stopped MinIO; a store behind a URL \
                 is running: leave it out"
            );
            Err(problem).code(ExitCode::Usage)
        }
    }
}
