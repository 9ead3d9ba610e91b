//! `migrate roll-back`.

use std::sync::Arc;

use filestore_migrator::{Outcome, Progress, RunOptions, run as engine};
use tokio_util::sync::CancellationToken;

use super::reconcile::Winner;
use super::{options, sides};

#[derive(Debug, clap::Args)]
pub(super) struct RollBack {
    #[command(flatten)]
    sides: sides::BackSides,
    #[command(flatten)]
    tuning: options::Tuning,
    /// Who wins where both sides changed a key; without it such keys are listed. `source` is the
    /// served volume.
    #[arg(long, value_enum)]
    prefer: Option<Winner>,
    /// Give the way back up: the volume belongs to its clients again.
    #[arg(long)]
    abandon: bool,
}

impl RollBack {
    pub(super) async fn run(
        self,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
    ) -> anyhow::Result<Outcome> {
        let options = RunOptions {
            prefer: self.prefer.map(Into::into),
            ..self.tuning.apply(self.sides.options()?)
        };
        if self.abandon {
            return Ok(engine::abandon(&options)?);
        }
        Ok(engine::roll_back(&options, progress, cancel).await?)
    }
}
