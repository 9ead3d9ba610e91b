//! `filestore preflight`: say what a take-over in a namespace would need.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use filestore_migrator::ExitCode as Code;
use filestore_operator::preflight::{Finding, Report, read, report};

use crate::exit::{Coded, WithCode as _};

/// Command line of `filestore preflight`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace with the legacy store [default: that of the kubeconfig's context]
    #[arg(long, short, env = "FILESTORE_NAMESPACE")]
    namespace: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads, prints, and ends with "refused" when something must be done first.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let report = runtime.block_on(look(args))?;
    let text = if args.json {
        serde_json::to_string_pretty(&report).context("write as JSON")? + "\n"
    } else {
        text(&report)
    };
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .context("write to standard output")?;
    let code = if report.ready {
        Code::Ok
    } else {
        Code::Refused
    };
    Ok(ExitCode::from(code.code()))
}

async fn look(args: &Args) -> anyhow::Result<Report> {
    let config = kube::Config::infer()
        .await
        .context("find the cluster: this is neither a pod nor is there a kubeconfig")
        .code(Code::Usage)?;
    let server = config.cluster_url.to_string();
    let namespace = args
        .namespace
        .clone()
        .unwrap_or_else(|| config.default_namespace.clone());
    let client = kube::Client::try_from(config)
        .context("use the cluster's address and keys")
        .code(Code::Usage)?;
    let facts = read::facts(&client, &namespace).await.map_err(|error| {
        let code = match &error {
            kube::Error::Api(status) if status.code == 401 => Code::Auth,
            _ => Code::Retryable,
        };
        Coded::new(
            code,
            anyhow::Error::new(error).context(format!("ask the API server {server}")),
        )
    })?;
    Ok(report(&facts))
}

fn text(report: &Report) -> String {
    let mut text = format!("namespace {}\n\n", report.namespace);
    let mut last = "";
    for Finding {
        check,
        weight,
        found,
        cure,
    } in &report.findings
    {
        let title = if *check == last { "" } else { check };
        last = check;
        put(
            &mut text,
            format_args!("{title:<9} {:<8} {found}\n", weight.as_str()),
        );
        if let Some(cure) = cure {
            put(&mut text, format_args!("{:<18} → {cure}\n", ""));
        }
    }
    if !report.pod_labels.is_empty() {
        put(
            &mut text,
            format_args!("\nlabels for the new pod (pod.labels):\n"),
        );
        for (key, value) in &report.pod_labels {
            put(&mut text, format_args!("  {key}: {value}\n"));
        }
    }
    put(
        &mut text,
        format_args!(
            "\n{}\n",
            if report.ready {
                "nothing has to be done first"
            } else {
                "do what is marked MUST first, then run this again"
            }
        ),
    );
    text
}

fn put(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.push_str(&more.to_string());
}
