//! `filestore migrate`: take a legacy S3 store over.

use std::process::ExitCode;

/// Command line of `filestore migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand to its end.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("migrate: not in this build yet")
}
