//! `filestore gateway`: serve a volume over S3.

use std::process::ExitCode;

/// Command line of `filestore gateway`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand to its end.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("gateway: not in this build yet")
}
