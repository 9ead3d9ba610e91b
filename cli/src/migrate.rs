//! `filestore migrate`: take a legacy S3 store over.

mod options;
mod output;
mod reconcile;
mod sides;

use std::path::PathBuf;
use std::process::ExitCode as ProcessExit;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use filestore_migrator::verify::Mode;
use filestore_migrator::{ExitCode, Outcome, Progress, RunOptions, run as engine};
use tokio_util::sync::CancellationToken;

use crate::progress::Shown;

/// Command line of `filestore migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what a migration would do; writes nothing.
    Plan {
        #[command(flatten)]
        sides: sides::Sides,
        #[command(flatten)]
        tuning: options::Tuning,
        /// Seconds in which objects may be read to estimate the time of the copy; 0 = none.
        #[arg(long, default_value_t = 3, value_name = "SECONDS")]
        measure: u64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy what differs; may be repeated while writers are at work; deletes nothing.
    Copy {
        #[command(flatten)]
        sides: sides::Sides,
        #[command(flatten)]
        tuning: options::Tuning,
    },
    /// Make the target equal to the source, writers stopped: copy, delete, verify, mark.
    Final {
        #[command(flatten)]
        sides: sides::Sides,
        #[command(flatten)]
        tuning: options::Tuning,
        /// How closely to look at the end.
        #[arg(long, value_enum, default_value_t = Look::Listing)]
        verify: Look,
        /// Mark the target as handed over to its clients.
        #[arg(long)]
        cutover: bool,
    },
    /// Compare both sides key by key.
    Verify {
        #[command(flatten)]
        sides: sides::Sides,
        #[command(flatten)]
        tuning: options::Tuning,
        /// How closely to look.
        #[arg(long, value_enum, default_value_t = Look::Listing)]
        mode: Look,
        /// Write a JSON line for every key.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What an init container runs: nothing to migrate, a whole take-over, or a check after it.
    Run {
        #[command(flatten)]
        sides: sides::OptionalSides,
        #[command(flatten)]
        tuning: options::Tuning,
        /// How closely to look before the marker is written.
        #[arg(long, value_enum, default_value_t = Look::Listing)]
        verify: Look,
        /// End with the marker `verified`; somebody else hands the target over.
        #[arg(long)]
        no_cutover: bool,
        /// A store that was rolled back is taken over again; writes to either side are kept. Goes
        /// with a new `--id`.
        #[arg(long, env = "FILESTORE_AGAIN")]
        again: bool,
        /// Who wins where both sides changed a key (`--again`); without it such keys are listed.
        #[arg(long, value_enum, requires = "again")]
        prefer: Option<reconcile::Winner>,
    },
    /// After the hand-over: bring to the target what changed on the source since.
    Merge(reconcile::Merge),
    /// Back to the legacy store: what changed on the served store (`--from`) since the hand-over is
    /// written to the legacy one (`--to`).
    Reverse(reconcile::Reverse),
    /// Show marker and progress of a target.
    Status {
        #[command(flatten)]
        to: sides::ToSide,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Look {
    /// ETag and size of both listings.
    Listing,
    /// Read the target and compute its ETags.
    Etag,
    /// Read both sides and compare every byte.
    Bytes,
}

impl From<Look> for Mode {
    fn from(look: Look) -> Self {
        match look {
            Look::Listing => Self::Listing,
            Look::Etag => Self::ETag,
            Look::Bytes => Self::Bytes,
        }
    }
}

/// What `migrate run` is asked for by these arguments, for a caller that runs it itself.
pub(crate) fn run_options(args: Args) -> anyhow::Result<RunOptions> {
    let Command::Run {
        sides,
        tuning,
        verify,
        no_cutover,
        again,
        prefer,
    } = args.command
    else {
        anyhow::bail!("only `migrate run` prepares a volume for a gateway");
    };
    Ok(RunOptions {
        cutover: !no_cutover,
        verify: verify.into(),
        again,
        prefer: prefer.map(Into::into),
        ..tuning.apply(sides.options()?)
    })
}

/// Runs the subcommand to its end.
pub(crate) fn run(args: Args) -> anyhow::Result<ProcessExit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let shown = Arc::new(Shown::new());
    let result = runtime.block_on(async {
        let cancel = cancelled_by_signal()?;
        let result = dispatch(args.command, shown.clone(), cancel).await;
        shown.finish();
        result
    });
    // A blocked read of a dead mount must not hold the exit back.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ProcessExit::from(result?.code()))
}

fn cancelled_by_signal() -> anyhow::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let token = CancellationToken::new();
    let (mut term, mut int) = (
        signal(SignalKind::terminate()).context("listen for SIGTERM")?,
        signal(SignalKind::interrupt()).context("listen for SIGINT")?,
    );
    let cancel = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        cancel.cancel();
    });
    Ok(token)
}

async fn dispatch(
    command: Command,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> anyhow::Result<ExitCode> {
    match command {
        Command::Plan {
            sides,
            tuning,
            measure,
            json,
        } => {
            let options = RunOptions {
                measure: Duration::from_secs(measure),
                ..tuning.apply(sides.options()?)
            };
            let plan = engine::plan(&options, progress, cancel).await?;
            if json {
                output::json(&plan)?;
            } else {
                output::text(&plan.to_string())?;
            }
            Ok(plan.exit())
        }
        Command::Copy { sides, tuning } => {
            let options = tuning.apply(sides.options()?);
            ended(&engine::copy(&options, progress, cancel).await?)
        }
        Command::Final {
            sides,
            tuning,
            verify,
            cutover,
        } => {
            let options = RunOptions {
                cutover,
                ..tuning.apply(sides.options()?)
            };
            ended(&engine::finish(&options, verify.into(), progress, cancel).await?)
        }
        Command::Verify {
            sides,
            tuning,
            mode,
            report,
            json,
        } => {
            let options = tuning.apply(sides.options()?);
            let report = report.as_deref();
            let (exit, findings) =
                engine::verify(&options, mode.into(), report, progress, cancel).await?;
            if json {
                output::json(&findings)?;
            } else {
                output::text(&findings.to_string())?;
            }
            Ok(exit)
        }
        command @ Command::Run { .. } => {
            let options = run_options(Args { command })?;
            ended(&engine::run(&options, progress, cancel).await?)
        }
        Command::Merge(merge) => merge.run(progress, cancel).await,
        Command::Reverse(reverse) => reverse.run(progress, cancel).await,
        Command::Status { to, json } => {
            let status = engine::status(&to.options()?)?;
            if json {
                output::json(&status)?;
            } else {
                output::text(&status.to_string())?;
            }
            Ok(ExitCode::Ok)
        }
    }
}

fn ended(outcome: &Outcome) -> anyhow::Result<ExitCode> {
    output::text(&outcome.summary)?;
    Ok(outcome.exit)
}
