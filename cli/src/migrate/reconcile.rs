//! `migrate merge` and `migrate reverse`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use filestore_migrator::reconcile::{Deletes, Prefer};
use filestore_migrator::run::{MergeOptions, ReverseOptions};
use filestore_migrator::{Outcome, Progress, RunOptions, run as engine};
use tokio_util::sync::CancellationToken;

use super::{options, sides};

/// Who wins a conflict.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Winner {
    /// The later Last-Modified; an object before a deletion; the served store on a tie.
    Newest,
    /// What `--from` holds.
    Source,
    /// What `--to` holds.
    Target,
}

impl From<Winner> for Prefer {
    fn from(winner: Winner) -> Self {
        match winner {
            Winner::Newest => Self::Newest,
            Winner::Source => Self::Source,
            Winner::Target => Self::Target,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Deletions {
    /// Delete on the target what went from the source.
    Apply,
    /// Keep it there for good.
    Keep,
}

#[derive(Debug, clap::Args)]
pub(super) struct Merge {
    #[command(flatten)]
    sides: sides::Sides,
    #[command(flatten)]
    tuning: options::Tuning,
    /// Who wins where both sides changed a key; without it such keys are listed.
    #[arg(long, value_enum)]
    prefer: Option<Winner>,
    /// What to do with objects that went from the source; without it they are listed.
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "apply"
    )]
    deletes: Option<Deletions>,
    #[command(flatten)]
    trial: Trial,
}

#[derive(Debug, clap::Args)]
pub(super) struct Reverse {
    #[command(flatten)]
    sides: sides::Sides,
    #[command(flatten)]
    tuning: options::Tuning,
    /// Who wins where both sides changed a key; without it such keys are listed. `source` is the
    /// served store.
    #[arg(long, value_enum)]
    prefer: Option<Winner>,
    /// The clients left the served store: take the rest back, verify and mark it as rolled back.
    #[arg(long)]
    complete: bool,
    #[command(flatten)]
    trial: Trial,
}

#[derive(Debug, clap::Args)]
struct Trial {
    /// Say what would be done; writes to neither side.
    #[arg(long)]
    dry_run: bool,
    /// Where a dry run lists what would be done, as JSON lines.
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    report: Option<PathBuf>,
}

impl Merge {
    pub(super) async fn run(
        self,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> anyhow::Result<Outcome> {
        let options = RunOptions {
            prefer: self.prefer.map(Into::into),
            ..self.tuning.apply(self.sides.options()?)
        };
        let how = MergeOptions {
            deletes: match self.deletes {
                None => Deletes::List,
                Some(Deletions::Apply) => Deletes::Apply,
                Some(Deletions::Keep) => Deletes::Keep,
            },
            dry_run: self.trial.dry_run,
            report: self.trial.report,
        };
        Ok(engine::merge(&options, &how, progress, cancel).await?)
    }
}

impl Reverse {
    pub(super) async fn run(
        self,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> anyhow::Result<Outcome> {
        let options = RunOptions {
            prefer: self.prefer.map(Into::into),
            ..self.tuning.apply(self.sides.options()?)
        };
        let how = ReverseOptions {
            complete: self.complete,
            dry_run: self.trial.dry_run,
            report: self.trial.report,
        };
        Ok(engine::reverse(&options, &how, progress, cancel).await?)
    }
}
