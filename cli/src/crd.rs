//! `filestore crd`: print the CustomResourceDefinition.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

/// Command line of `filestore crd`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints the CustomResourceDefinition as YAML.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    let yaml = filestore_operator::api::crd_yaml().context("write the definition as YAML")?;
    std::io::stdout()
        .lock()
        .write_all(yaml.as_bytes())
        .context("write to standard output")?;
    Ok(ExitCode::SUCCESS)
}
