//! `filestore migrate`: take a legacy S3 store over.

mod admin;
mod finish;
mod options;
mod output;
mod reconcile;
mod roll_back;
mod scope;
mod show;
mod sides;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use filestore_migrator::verify::{Depth, Mode, Sample};
use filestore_migrator::{ExitCode, Outcome, Progress, RunOptions, run as engine};
use tokio_util::sync::CancellationToken;

use crate::exit;
use crate::progress::{Shown, Style};
use summary::{End, SummaryFile};

/// Command line of `filestore migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    show: show::Show,
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
        scope: scope::ScopeFlags,
        #[command(flatten)]
        tuning: options::Tuning,
        /// Seconds in which objects may be read to estimate the time of the copy; 0 = none.
        #[arg(long, default_value_t = 3, value_name = "SECONDS")]
        measure: u64,
        /// Of a store that was rolled back: say what taking it over again would do, as `run --again`.
        #[arg(long, env = "FILESTORE_AGAIN")]
        again: bool,
        /// Who wins where both sides changed a key since a roll-back; without it such keys are
        /// listed.
        #[arg(long, value_enum)]
        prefer: Option<reconcile::Winner>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy what differs; may be repeated while writers are at work; deletes nothing.
    Copy {
        #[command(flatten)]
        sides: sides::Sides,
        #[command(flatten)]
        scope: scope::ScopeFlags,
        #[command(flatten)]
        shard: scope::ShardFlag,
        #[command(flatten)]
        tuning: options::Tuning,
        /// Who wins where both sides changed a key since a roll-back; without it such keys are
        /// listed.
        #[arg(long, value_enum)]
        prefer: Option<reconcile::Winner>,
        /// Write a JSON line for every object that is copied, deleted or fails.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
    /// Make the target equal to the source, writers stopped: copy, delete, verify, mark.
    Final(finish::Final),
    /// Compare both sides key by key.
    Verify {
        #[command(flatten)]
        sides: sides::Sides,
        #[command(flatten)]
        scope: scope::ScopeFlags,
        #[command(flatten)]
        shard: scope::ShardFlag,
        #[command(flatten)]
        tuning: options::Tuning,
        /// How closely to look.
        #[arg(long, value_enum, default_value_t = Look::Listing)]
        mode: Look,
        /// Read only this share of the objects, the same ones each time (`2.5%`); listings are
        /// compared whole all the same.
        #[arg(long, default_value_t, value_name = "N%")]
        sample: Sample,
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
        scope: scope::ScopeFlags,
        #[command(flatten)]
        tuning: options::Tuning,
        /// How closely to look before the marker is written.
        #[arg(long, value_enum, default_value_t = Look::Listing)]
        verify: Look,
        /// End with the marker `verified`; somebody else hands the target over.
        #[arg(long)]
        no_cutover: bool,
        /// Write a JSON line for every object that is copied, deleted or fails.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
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
    /// The whole way back, for a volume that nothing serves and a legacy store that only this
    /// reaches: marks the volume, waits for the legacy store, takes everything back, verifies.
    RollBack(roll_back::RollBack),
    /// Show marker and progress of a target.
    Status {
        #[command(flatten)]
        to: sides::ToSide,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Plan { .. } => "plan",
            Self::Copy { .. } => "copy",
            Self::Final(_) => "final",
            Self::Verify { .. } => "verify",
            Self::Run { .. } => "run",
            Self::Merge(_) => "merge",
            Self::Reverse(_) => "reverse",
            Self::RollBack(_) => "roll-back",
            Self::Status { .. } => "status",
        }
    }
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
        scope,
        tuning,
        verify,
        no_cutover,
        report: _,
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
        ..scope.apply(tuning.apply(sides.options()?), false)?
    })
}

/// Runs the subcommand to its end.
pub(crate) fn run(args: Args) -> anyhow::Result<ProcessExit> {
    let Args { show, command } = args;
    let began = SystemTime::now();
    let summary_file = show
        .summary_file
        .as_deref()
        .map(SummaryFile::open)
        .transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let shown = Arc::new(Shown::with(show.progress));
    let name = command.name();
    let result = runtime.block_on(async {
        if let Some(address) = show.admin_addr {
            admin::serve(address, &shown)?;
        }
        let cancel = cancelled_by_signal()?;
        dispatch(command, &shown, cancel).await
    });
    let result = shown.finish().context("write the report").and(result);
    let outcome = shown.outcome();
    let end = End {
        command: name,
        began,
        exit: result.as_ref().map_or_else(exit::of, |exit| *exit),
        error: result.as_ref().err().map(|error| format!("{error:#}")),
        out_of_time: result.as_ref().is_err_and(out_of_time),
        outcome: outcome.as_ref(),
        seen: &shown.snapshot(),
    };
    let summary = summary::summary(&end);
    if show.progress == Style::Json {
        output::event(&serde_json::json!({"event": "summary", "summary": &summary}));
    }
    if let Some(file) = summary_file {
        file.write(&summary)?;
    }
    // A blocked read of a dead mount must not hold the exit back.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        // The reader of JSON was told already, in JSON.
        Err(_) if show.progress == Style::Json => Ok(ProcessExit::from(end.exit.code())),
        result => Ok(ProcessExit::from(result?.code())),
    }
}

/// Whether `--deadline` broke it off.
fn out_of_time(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<filestore_migrator::Error>();
    error.is_some_and(|error| error.kind == filestore_migrator::Kind::Deadline)
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
        // The first ends in order, the second at once; a rerun resumes after either.
        for signal in 0.. {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if signal > 0 {
                #[expect(clippy::exit, reason = "the second signal asks for nothing less")]
                std::process::exit(i32::from(ExitCode::Interrupted.code()));
            }
            cancel.cancel();
        }
    });
    Ok(token)
}

async fn dispatch(
    command: Command,
    shown: &Arc<Shown>,
    cancel: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let progress: Arc<dyn Progress> = shown.clone();
    match command {
        Command::Plan {
            sides,
            scope,
            tuning,
            measure,
            again,
            prefer,
            json,
        } => {
            let options = RunOptions {
                measure: Duration::from_secs(measure),
                again,
                prefer: prefer.map(Into::into),
                ..scope.apply(tuning.apply(sides.options()?), true)?
            };
            plan(&options, json, progress, cancel).await
        }
        Command::Copy {
            sides,
            scope,
            shard,
            tuning,
            prefer,
            report,
        } => {
            shown.report_to(report.as_deref())?;
            let options = RunOptions {
                prefer: prefer.map(Into::into),
                ..shard.apply(scope.apply(tuning.apply(sides.options()?), true)?)
            };
            ended(shown, &engine::copy(&options, progress, cancel).await?)
        }
        Command::Final(last) => ended(shown, &last.run(shown, cancel).await?),
        Command::Verify {
            sides,
            scope,
            shard,
            tuning,
            mode,
            sample,
            report,
            json,
        } => {
            let options = shard.apply(scope.apply(tuning.apply(sides.options()?), true)?);
            let depth = Depth {
                mode: mode.into(),
                sample,
                prove: true,
                agreed: false,
                tags: true,
            };
            verify(&options, depth, report.as_deref(), json, progress, cancel).await
        }
        command @ Command::Run { .. } => {
            if let Command::Run { report, .. } = &command {
                shown.report_to(report.as_deref())?;
            }
            let show = show::Show::default();
            let options = run_options(Args { show, command })?;
            ended(shown, &engine::run(&options, progress, cancel).await?)
        }
        Command::Merge(merge) => ended(shown, &merge.run(progress, cancel).await?),
        Command::Reverse(reverse) => ended(shown, &reverse.run(progress, cancel).await?),
        Command::RollBack(back) => ended(shown, &back.run(progress, cancel).await?),
        Command::Status { to, json } => {
            let status = engine::status(&to.options()?)?;
            output::either(json, &status)?;
            Ok(ExitCode::Ok)
        }
    }
}

async fn plan(
    options: &RunOptions,
    json: bool,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let plan = engine::plan(options, progress, cancel).await?;
    output::either(json, &plan)?;
    Ok(plan.exit())
}

async fn verify(
    options: &RunOptions,
    depth: Depth,
    report: Option<&Path>,
    json: bool,
    progress: Arc<dyn Progress>,
    cancel: CancellationToken,
) -> anyhow::Result<ExitCode> {
    let (exit, findings) = engine::verify(options, depth, report, progress, cancel).await?;
    output::either(json, &findings)?;
    Ok(exit)
}

fn ended(shown: &Shown, outcome: &Outcome) -> anyhow::Result<ExitCode> {
    shown.ended(outcome);
    output::text(&outcome.summary)?;
    Ok(outcome.exit)
}
