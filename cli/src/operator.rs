//! `filestore operator`: keep a cluster as its Filestores say.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::process::ExitCode;

use anyhow::Context as _;
use filestore_common::shutdown;
use filestore_common::telemetry::{self, LogFormat};
use filestore_migrator::ExitCode as Exit;
use filestore_operator::controller::{self, Scope, Settings};

use crate::exit::WithCode as _;

/// Command line of `filestore operator`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the lease, and the one to look after when nothing else is said
    /// [default: that of the pod, or of the kubeconfig's context]
    #[arg(long, env = "FILESTORE_NAMESPACE")]
    namespace: Option<String>,

    /// Namespaces to look after; may be given several times
    #[arg(
        long,
        env = "FILESTORE_WATCH_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAMESPACE"
    )]
    watch_namespaces: Vec<String>,

    /// Look after all namespaces; needs cluster-wide rights
    #[arg(
        long,
        env = "FILESTORE_ALL_NAMESPACES",
        conflicts_with = "watch_namespaces"
    )]
    all_namespaces: bool,

    /// Image for Filestores that name none [default: that of this version]
    #[arg(long, env = "FILESTORE_IMAGE")]
    image: Option<String>,

    /// Where /metrics, /healthz and /readyz are, ADDRESS:PORT or :PORT; "none" for nowhere
    #[arg(long, env = "FILESTORE_METRICS_LISTEN", default_value = ":8080")]
    metrics_listen: Address,

    /// Act without waiting for the lease, where nothing else can start a second operator
    #[arg(long, env = "FILESTORE_NO_LEADER_ELECTION")]
    no_leader_election: bool,

    /// Name of this process in the lease and in events [default: the host's, which is the pod's]
    #[arg(long, env = "POD_NAME")]
    identity: Option<String>,

    /// Level (error, warn, info, debug, trace) or filter
    #[arg(long, env = "FILESTORE_LOG_LEVEL", default_value = "info")]
    log_level: String,

    /// Log lines as auto (JSON unless on a terminal), text or json
    #[arg(long, env = "FILESTORE_LOG_FORMAT", default_value = "auto")]
    log_format: LogFormat,
}

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    None,
    /// All interfaces: IPv6 with IPv4, or IPv4 alone on machines without IPv6.
    Any(u16),
    At(SocketAddr),
}

impl std::str::FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text == "none" {
            return Ok(Self::None);
        }
        if let Some(port) = text.strip_prefix(':') {
            return Ok(Self::Any(port.parse().context("no port")?));
        }
        Ok(Self::At(
            text.parse().context("write ADDRESS:PORT, :PORT or none")?,
        ))
    }
}

impl Address {
    fn bind(&self) -> anyhow::Result<Option<TcpListener>> {
        let bound = match self {
            Self::None => return Ok(None),
            Self::Any(port) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port))),
            Self::At(address) => TcpListener::bind(address),
        };
        bound.map(Some).with_context(|| {
            format!("listen on {self:?} for metrics; choose another with --metrics-listen")
        })
    }
}

/// Runs the subcommand to its end.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    telemetry::init(&args.log_level, args.log_format).code(Exit::Usage)?;
    let shutdown = shutdown::on_signal().context("handle signals")?;
    // One thread does: rounds wait for the API server, they do not compute.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let config = kube::Config::infer()
            .await
            .context("find the cluster: this is neither a pod nor is there a kubeconfig")
            .code(Exit::Usage)?;
        let namespace = args
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config)
            .context("use the cluster's address and keys")
            .code(Exit::Usage)?;
        let settings = Settings {
            scope: scope(args, &namespace),
            namespace,
            identity: args.identity.clone().unwrap_or_else(host_name),
            leader_election: !args.no_leader_election,
            image: args.image.clone(),
            listener: args.metrics_listen.bind().code(Exit::Retryable)?,
        };
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            scope = ?settings.scope,
            identity = %settings.identity,
            "Operator starts"
        );
        Box::pin(controller::run(client, settings, shutdown)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn scope(args: &Args, namespace: &str) -> Scope {
    if args.all_namespaces {
        Scope::All
    } else if args.watch_namespaces.is_empty() {
        Scope::Namespaces(vec![namespace.to_owned()])
    } else {
        let mut names = args.watch_namespaces.clone();
        names.sort();
        names.dedup();
        Scope::Namespaces(names)
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // Two processes on one machine are two candidates.
    format!("{}-{}", name.trim(), std::process::id())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn scope_of(line: &[&str]) -> Scope {
        let line = ["operator"].iter().chain(line);
        scope(&Line::try_parse_from(line).unwrap().args, "own")
    }

    #[test]
    fn without_a_word_only_its_own_namespace_is_looked_after() {
        assert_eq!(scope_of(&[]), Scope::Namespaces(vec!["own".into()]));
        assert_eq!(
            scope_of(&["--watch-namespaces", "b,a", "--watch-namespaces", "a"]),
            Scope::Namespaces(vec!["a".into(), "b".into()])
        );
        assert_eq!(scope_of(&["--all-namespaces"]), Scope::All);
        let both = ["operator", "--all-namespaces", "--watch-namespaces", "a"];
        assert!(Line::try_parse_from(both).is_err());
    }

    #[test]
    fn addresses() {
        assert_eq!(":8080".parse::<Address>().unwrap(), Address::Any(8080));
        assert_eq!("none".parse::<Address>().unwrap(), Address::None);
        assert!("127.0.0.1:1".parse::<Address>().is_ok());
        for bad in ["", ":", ":x", "8080", "localhost"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
