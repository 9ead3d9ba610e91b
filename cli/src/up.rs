//! `filestore up`: run a Filestore manifest on this machine, no cluster needed.
//!
//! ```text
//! FILE ──▶ manifest ──▶ validate ──▶ render ──▶ pod ──▶ init containers, one after the other ──▶ gateway
//!                                                └─ claims are directories, Secrets come from FILE
//! ```
//!
//! What runs is the pod that a cluster would run, container by container, with its paths replaced
//! by directories of this machine (ADR 3). Everything that can be wrong is looked at before
//! anything is written.

mod ports;
mod process;
mod report;
mod run;
mod volumes;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;

use anyhow::{Context as _, anyhow, bail};
use filestore_common::{shutdown, telemetry};
use filestore_gateway::Listen;
use filestore_migrator::ExitCode;
use filestore_operator::render::pod_template;
use filestore_operator::validate::{Server, Source};
use filestore_operator::{Manifest, Secrets, ValidatedFilestore, validate};

use crate::exit::WithCode as _;
use volumes::{Claims, PlacedClaim};

/// Command line of `filestore up`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Manifest: a Filestore and the Secrets it refers to, as YAML documents.
    file: PathBuf,

    /// Directory whose subdirectories are the claims: the volume is DIR/<claim>.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data_dir: PathBuf,

    /// Directory of one claim, instead of DIR/<claim>; may be given several times.
    #[arg(long = "claim", value_name = "CLAIM=DIR")]
    claims: Vec<PlacedClaim>,

    /// Where S3 clients connect, HOST:PORT or :PORT for all interfaces.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: Listen,

    /// Where /metrics, /healthz and /readyz are.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    admin_listen: Listen,

    /// End after the take-over instead of serving.
    #[arg(long)]
    once: bool,

    /// Log level (error, warn, info, debug, trace) or filter.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log_level: String,
}

/// A manifest that was read and checked.
struct Checked {
    filestore: ValidatedFilestore,
    secrets: Secrets,
    claims: Claims,
}

/// Runs the manifest until it is stopped, or until the take-over is done with `--once`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ProcessExit> {
    telemetry::init(&args.log_level, telemetry::LogFormat::Auto).code(ExitCode::Usage)?;
    let checked = check(args).code(ExitCode::Usage)?;
    if !args.once {
        ports::check_free(&[
            ("--listen", args.listen),
            ("--admin-listen", args.admin_listen),
        ])?;
    }
    say(&report::plan(
        &args.file,
        &checked.filestore,
        &checked.claims,
    ))?;
    let shutdown = shutdown::on_signal().context("handle signals")?;
    run::pod(args, &checked, &shutdown)
}

/// Everything that can be known before something is written.
fn check(args: &Args) -> anyhow::Result<Checked> {
    let file = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("read {file}"))?;
    let manifest = Manifest::parse(&file, &text)?;
    // Before its Secret is asked for.
    if manifest.filestore.spec.tls.is_some() {
        bail!("{file}: {NO_TLS}");
    }
    let filestore = validate(&manifest.filestore, &manifest.secrets)
        .map_err(|error| anyhow!("{file}: {error}"))?;
    runs_here(&filestore).with_context(|| file.clone())?;
    let claims = Claims::new(&args.data_dir, &args.claims);
    if let Some(pod) = &pod_template(&filestore).spec {
        claims.check_used(pod)?;
    }
    Ok(Checked {
        filestore,
        secrets: manifest.secrets,
        claims,
    })
}

const NO_TLS: &str = "spec.tls: it is the kubelet that mounts the certificate and renews it; run `filestore gateway --tls-cert FILE --tls-key FILE` here, or remove it";

/// What needs a cluster is refused: it would silently be left out.
fn runs_here(filestore: &ValidatedFilestore) -> anyhow::Result<()> {
    if filestore.suspend {
        bail!("spec.suspend: the Filestore is suspended; set it to false to run it");
    }
    if filestore.server != Server::Bundled {
        bail!(
            "spec.engine: versitygw runs in a cluster; use engine bundled here, it serves the same files"
        );
    }
    if !filestore.access.is_empty() {
        bail!(
            "spec.access.users, spec.buckets[].quota: the operator renders them; run `filestore gateway --access-file` here, or remove them"
        );
    }
    if filestore
        .migration
        .as_ref()
        .is_some_and(|migration| migration.source.is_none())
    {
        bail!(
            "spec.migration.source: there is no cluster to discover the legacy store in; name its endpoint or existingClaim"
        );
    }
    Ok(())
}

/// The directory of the legacy drive, if there is one.
fn legacy_drive(filestore: &ValidatedFilestore, claims: &Claims) -> Option<(String, PathBuf)> {
    match filestore.migration.as_ref()?.source.as_ref()? {
        Source::Offline { claim, path } => Some((claim.clone(), claims.path_in(claim, path))),
        Source::Online { .. } => None,
    }
}

fn is_directory(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_dir())
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .context("write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = include_str!("../../examples/takeover.yaml");

    fn refusal(from: &str, to: &str) -> String {
        assert!(MANIFEST.contains(from), "{from}");
        let manifest = Manifest::parse("m", &MANIFEST.replace(from, to)).unwrap();
        let filestore = validate(&manifest.filestore, &manifest.secrets).unwrap();
        runs_here(&filestore).unwrap_err().to_string()
    }

    #[test]
    fn what_needs_a_cluster_is_refused_by_field() {
        let suspend = refusal("  storage:", "  suspend: true\n  storage:");
        assert!(suspend.starts_with("spec.suspend: "), "{suspend}");
        let engine = refusal(
            "  storage:",
            "  engine: versitygw\n  versitygw: {image: 'v:1'}\n  storage:",
        );
        assert!(engine.starts_with("spec.engine: "), "{engine}");
        let access = refusal(
            "  storage:",
            "  access: {users: [{name: a, grants: [{bucket: '*', access: read}]}]}\n  storage:",
        );
        assert!(access.starts_with("spec.access.users"), "{access}");
        let source = MANIFEST.find("    source:").unwrap();
        let source = refusal(MANIFEST.get(source..).unwrap(), "");
        assert!(source.starts_with("spec.migration.source: "), "{source}");
    }
}
