//! `filestore images`: print all images that would be pulled.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use filestore_migrator::ExitCode as Code;
use filestore_operator::images::Images;

use crate::exit::WithCode as _;

/// Command line of `filestore images`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Filestore manifests, rendered objects (helm template, kubectl kustomize), values of our charts; "-" is standard input [default: the image of this version alone]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Prints one image per line, sorted, each once.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut images = Images::default();
    for file in &args.files {
        let name = file.display().to_string();
        let text = if name == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map(|_| text)
                .context("read standard input")
        } else {
            std::fs::read_to_string(file).with_context(|| format!("read {name}"))
        };
        images
            .add(&name, &text.code(Code::Usage)?)
            .code(Code::Usage)?;
    }
    let mut out = std::io::stdout().lock();
    for image in images.finish() {
        writeln!(out, "{image}").context("write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}
