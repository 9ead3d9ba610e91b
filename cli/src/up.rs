//! `filestore up`: run a Filestore manifest on this machine.

use std::process::ExitCode;

/// Command line of `filestore up`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand to its end.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("up: not in this build yet")
}
