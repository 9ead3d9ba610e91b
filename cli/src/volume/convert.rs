//! `filestore volume convert` and `filestore volume import-sidecar`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;

use clap::ValueEnum;
use filestore_migrator::ExitCode;
use filestore_store::convert::{
    Conversion, ConvertOptions, Counts, ImportOptions, Outcome, Phase, import_sidecar,
};
use filestore_store::{Error, MetadataMode};

use super::{Metadata, print};
use crate::exit::Coded;

/// Steps after which a line says how far it got.
const REPORT_EVERY: u64 = 100_000;

/// Command line of `filestore volume convert`.
#[derive(Debug, clap::Args)]
pub(super) struct Convert {
    /// Directory of the volume.
    volume: PathBuf,

    /// Where the metadata is to be kept: on the files, or in a file beside each.
    #[arg(long)]
    to: Mode,

    /// Say what there is and whether it fits; change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Command line of `filestore volume import-sidecar`.
#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// Directory of the volume, or the one that versitygw served.
    volume: PathBuf,

    /// versitygw's sidecar directory (its `--sidecar`, `VGW_META_SIDECAR`).
    #[arg(long, value_name = "DIR")]
    sidecar: PathBuf,

    /// Where to keep the metadata, if the directory is no volume yet.
    #[arg(long, default_value = "auto")]
    metadata: Metadata,

    /// Say what there is and whether it fits; change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Xattr,
    Sidecar,
}

impl From<Mode> for MetadataMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Xattr => Self::Xattr,
            Mode::Sidecar => Self::Sidecar,
        }
    }
}

/// Runs `convert`.
pub(super) fn convert(args: &Convert) -> anyhow::Result<ProcessExit> {
    let options = ConvertOptions {
        to: args.to.into(),
        dry_run: args.dry_run,
    };
    let done = filestore_store::convert::convert(&args.volume, options, &mut reporter());
    let done = done.map_err(|error| coded(error, &args.volume))?;
    let to = name_of(options.to);
    let volume = args.volume.display();
    let counts = counts(&done.counts);
    match done.outcome {
        Outcome::Converted => print(&format!(
            "{volume} converted from {} to {to}: {counts}",
            name_of(done.from)
        ))?,
        Outcome::DryRun if done.from == options.to => {
            print(&format!("{volume} keeps its metadata in {to} mode already"))?;
        }
        Outcome::DryRun => print(&format!(
            "{volume} can be converted from {} to {to}: {counts}",
            name_of(done.from)
        ))?,
        Outcome::Finished => print(&format!(
            "{volume} was converted to {to} before; the rest of the old metadata is removed"
        ))?,
        Outcome::Unchanged => {
            print(&format!("{volume} keeps its metadata in {to} mode already"))?;
        }
        Outcome::Refused => return refused(&args.volume, &done),
    }
    Ok(ProcessExit::SUCCESS)
}

/// Runs `import-sidecar`.
pub(super) fn import(args: &Import) -> anyhow::Result<ProcessExit> {
    let options = ImportOptions {
        sidecar: args.sidecar.clone(),
        metadata: args.metadata.mode(),
        dry_run: args.dry_run,
    };
    let done = import_sidecar(&args.volume, &options, &mut reporter());
    let done = done.map_err(|error| coded(error, &args.volume))?;
    let (volume, mode) = (args.volume.display(), name_of(done.from));
    let counts = counts(&done.counts);
    match done.outcome {
        Outcome::Refused => return refused(&args.volume, &done),
        Outcome::DryRun => print(&format!("{volume} would have, in {mode} mode: {counts}"))?,
        _ => print(&format!("{volume} has, in {mode} mode: {counts}"))?,
    }
    Ok(ProcessExit::SUCCESS)
}

fn name_of(mode: MetadataMode) -> &'static str {
    match mode {
        MetadataMode::Xattr => "xattr",
        MetadataMode::Sidecar => "sidecar",
    }
}

fn counts(counts: &Counts) -> String {
    let Counts {
        buckets,
        objects,
        without_metadata,
        uploads,
        parts,
    } = counts;
    format!(
        "{buckets} buckets, {objects} objects, {without_metadata} files without metadata, {uploads} uploads with {parts} parts"
    )
}

/// Names everything that does not fit, a line each.
fn refused(volume: &Path, done: &Conversion) -> anyhow::Result<ProcessExit> {
    for unfit in &done.unfit {
        print(&format!("! {}: {}", unfit.name, unfit.reason))?;
    }
    let error = anyhow::anyhow!(
        "{}: the metadata listed above does not fit ({}); nothing was converted: shorten it or delete what it belongs to",
        volume.display(),
        done.unfit.len()
    );
    Err(Coded::new(ExitCode::Refused, error).into())
}

fn coded(error: Error, volume: &Path) -> anyhow::Error {
    let code = match error {
        Error::Volume(_) => ExitCode::Refused,
        _ => ExitCode::Failures,
    };
    let context = format!("volume {}", volume.display());
    Coded::new(code, anyhow::Error::new(error).context(context)).into()
}

/// Says on standard error how far a long conversion got.
fn reporter() -> impl FnMut(Phase) {
    let mut now = (Phase::Surveying, 0u64);
    move |phase| {
        if now.0 != phase {
            now = (phase, 0);
        }
        now.1 += 1;
        if now.1.is_multiple_of(REPORT_EVERY) {
            let doing = match phase {
                Phase::Surveying => "read",
                Phase::Writing => "written",
                Phase::Switched | Phase::Clearing => "cleared",
            };
            // A closed standard error must not end a conversion.
            drop(writeln!(std::io::stderr(), "{} {doing}", now.1));
        }
    }
}
