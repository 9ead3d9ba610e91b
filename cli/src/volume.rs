//! `filestore volume`: work on a volume that no server needs to run for.

mod convert;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use filestore_common::BucketName;
use filestore_common::key::NameError;
use filestore_migrator::ExitCode;
use filestore_store::{Error, MetadataMode, Store, StoreOptions};

use crate::exit::WithCode as _;

/// Command line of `filestore volume`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a volume's layout and buckets; what is there already stays as it is.
    Prepare(Prepare),
    /// Change where a volume keeps its metadata. No gateway or migration may use it meanwhile.
    Convert(convert::Convert),
    /// Take over the metadata that versitygw kept in a sidecar directory. It is only read.
    ImportSidecar(convert::Import),
}

/// Command line of `filestore volume prepare`.
#[derive(Debug, clap::Args)]
struct Prepare {
    /// Directory of the volume.
    volume: PathBuf,

    /// Bucket to create when it is missing; may be given several times.
    #[arg(long = "bucket", value_name = "NAME", value_parser = bucket_name)]
    buckets: Vec<BucketName>,

    /// Access key that new buckets belong to.
    #[arg(long, env = "FILESTORE_OWNER", value_name = "ACCESS_KEY")]
    owner: String,

    /// Where object metadata is kept; fixed when the volume is created.
    #[arg(long, default_value = "auto")]
    metadata: Metadata,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Metadata {
    /// What the volume has or can.
    Auto,
    Xattr,
    Sidecar,
}

fn bucket_name(text: &str) -> Result<BucketName, NameError> {
    BucketName::new(text)
}

/// Runs the subcommand and reports on standard output.
pub(crate) fn run(args: &Args) -> anyhow::Result<ProcessExit> {
    match &args.command {
        Command::Prepare(_) => {
            for line in prepare(args)? {
                print(&line)?;
            }
            Ok(ProcessExit::SUCCESS)
        }
        Command::Convert(args) => convert::convert(args),
        Command::ImportSidecar(args) => convert::import(args),
    }
}

/// Creates layout and buckets; returns a line for each bucket that was missing.
pub(crate) fn prepare(args: &Args) -> anyhow::Result<Vec<String>> {
    let Command::Prepare(args) = &args.command else {
        anyhow::bail!("only `volume prepare` prepares a volume for a gateway");
    };
    let store = open(&args.volume, args.metadata)?;
    let mut lines = Vec::new();
    for bucket in &args.buckets {
        match store.create_bucket(bucket, &args.owner) {
            Ok(()) => lines.push(format!("bucket {bucket} created")),
            Err(Error::BucketExists) => {}
            Err(error) => return Err(error).with_context(|| format!("create bucket {bucket}")),
        }
    }
    Ok(lines)
}

fn print(line: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{line}").context("write to standard output")
}

impl Metadata {
    /// The mode; `None` = what the volume has or can.
    fn mode(self) -> Option<MetadataMode> {
        match self {
            Self::Auto => None,
            Self::Xattr => Some(MetadataMode::Xattr),
            Self::Sidecar => Some(MetadataMode::Sidecar),
        }
    }
}

fn open(volume: &Path, metadata: Metadata) -> anyhow::Result<Store> {
    let options = StoreOptions {
        metadata: metadata.mode(),
        ..StoreOptions::default()
    };
    Store::open(volume, &options)
        .with_context(|| format!("volume {}", volume.display()))
        .code(ExitCode::Refused)
}
