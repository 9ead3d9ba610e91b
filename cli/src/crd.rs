//! `filestore crd`: print the CustomResourceDefinition.

use std::process::ExitCode;

/// Command line of `filestore crd`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand to its end.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("crd: not in this build yet")
}
