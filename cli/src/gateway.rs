//! `filestore gateway`: serve a volume over S3.

mod environment;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use filestore_common::shutdown;
use filestore_common::telemetry::{self, LogFormat};
use filestore_gateway::{
    AccessSources, Config, CredentialDir, CredentialSources, DEFAULT_REGION, Error, KeyPair,
    Listen, TlsFiles,
};
use filestore_migrator::ExitCode as Exit;
use filestore_store::{Durability, MetadataMode};

use crate::exit::{Coded, WithCode as _};
use environment::Environment;

/// Command line of `filestore gateway`. What is not given on it is taken from the environment
/// variable beside it, then from the one that versitygw uses for the same.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Directory to serve [versitygw: VGW_BACKEND_ARG]
    #[arg(env = "FILESTORE_VOLUME")]
    volume: Option<PathBuf>,

    /// Where S3 clients connect, HOST:PORT or :PORT; may be given several times
    /// [default: :9000] [versitygw: VGW_PORT]
    #[arg(long, env = "FILESTORE_LISTEN", value_delimiter = ',')]
    listen: Vec<Listen>,

    /// Where /metrics, /healthz and /readyz are; "none" for nowhere [default: :9090]
    #[arg(long, env = "FILESTORE_ADMIN_LISTEN")]
    admin_listen: Option<AdminListen>,

    /// Region in answers; requests signed for another one are accepted
    /// [default: us-east-1] [versitygw: VGW_REGION]
    #[arg(long, env = "FILESTORE_REGION")]
    region: Option<String>,

    /// When a change is acknowledged: "durable" survives power loss, "relaxed" is in the page
    /// cache only
    #[arg(long, env = "FILESTORE_DURABILITY", default_value = "durable")]
    durability: DurabilityArg,

    /// Where object metadata is kept; "auto" is what the volume has or can
    #[arg(long, env = "FILESTORE_METADATA", default_value = "auto")]
    metadata: MetadataArg,

    /// Not ready (/readyz) before the migration of this id handed the volume over
    #[arg(long, env = "FILESTORE_REQUIRE_MARKER", value_name = "ID")]
    require_marker: Option<String>,

    /// Access key [versitygw: ROOT_ACCESS_KEY_ID, ROOT_ACCESS_KEY]
    #[arg(long, env = "FILESTORE_ACCESS_KEY", hide_env_values = true)]
    access_key: Option<String>,

    /// Secret of the access key; prefer the environment or --credentials-dir, as other users of
    /// the machine see command lines [versitygw: ROOT_SECRET_ACCESS_KEY, ROOT_SECRET_KEY]
    #[arg(long, env = "FILESTORE_SECRET_KEY", hide_env_values = true)]
    secret_key: Option<SecretArg>,

    /// Directory with key files (a mounted Secret), followed when it changes; may be given
    /// several times
    #[arg(long, env = "FILESTORE_CREDENTIALS_DIR", value_delimiter = ',')]
    credentials_dir: Vec<PathBuf>,

    /// Name of the access key's file in --credentials-dir [default: well-known names]
    #[arg(long, env = "FILESTORE_ACCESS_KEY_FILE", requires = "secret_key_file")]
    access_key_file: Option<String>,

    /// Name of the secret key's file in --credentials-dir [default: well-known names]
    #[arg(long, env = "FILESTORE_SECRET_KEY_FILE", requires = "access_key_file")]
    secret_key_file: Option<String>,

    /// File with users, their grants and buckets' quotas, followed when it changes; may be given
    /// several times
    #[arg(long, env = "FILESTORE_ACCESS_FILE", value_delimiter = ',')]
    access_file: Vec<PathBuf>,

    /// Directory (a mounted Secret) whose *.yaml, *.yml and *.json are such files; may be given
    /// several times
    #[arg(long, env = "FILESTORE_ACCESS_DIR", value_delimiter = ',')]
    access_dir: Vec<PathBuf>,

    /// Serve HTTPS with this certificate (PEM, those that lead to a known authority after it);
    /// followed when it changes [versitygw: VGW_CERT]
    #[arg(long, env = "FILESTORE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert (PEM, without a passphrase) [versitygw: VGW_KEY]
    #[arg(long, env = "FILESTORE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Domain whose subdomains name buckets; may be given several times
    /// [versitygw: VGW_VIRTUAL_DOMAIN]
    #[arg(long, env = "FILESTORE_VIRTUAL_DOMAIN", value_delimiter = ',')]
    virtual_domain: Vec<String>,

    /// Path on the S3 port that always answers 200 [versitygw: VGW_HEALTH]
    #[arg(long, env = "FILESTORE_HEALTH_PATH", value_name = "PATH")]
    health_path: Option<String>,

    /// Threads that serve [default: one per core]
    #[arg(long, env = "FILESTORE_THREADS")]
    threads: Option<NonZeroUsize>,

    /// Put even short file work on other threads (slow network file systems)
    #[arg(long, env = "FILESTORE_BLOCKING_IO")]
    blocking_io: bool,

    /// Copy large bodies through memory instead of sending them by sendfile
    #[arg(long, env = "FILESTORE_NO_SENDFILE")]
    no_sendfile: bool,

    /// Seconds after which a connection without a whole request head is closed
    #[arg(
        long,
        env = "FILESTORE_IDLE_TIMEOUT",
        default_value_t = 75,
        value_name = "SECONDS"
    )]
    idle_timeout: u64,

    /// Seconds that requests in flight may take after SIGTERM or SIGINT
    #[arg(
        long,
        env = "FILESTORE_GRACE_PERIOD",
        default_value_t = 25,
        value_name = "SECONDS"
    )]
    grace_period: u64,

    /// Level (error, warn, info, debug, trace) or filter [default: info] [versitygw: VGW_QUIET
    /// sets warn]
    #[arg(long, env = "FILESTORE_LOG_LEVEL")]
    log_level: Option<String>,

    /// Log lines as auto (JSON unless on a terminal), text or json
    #[arg(long, env = "FILESTORE_LOG_FORMAT", default_value = "auto")]
    log_format: LogFormatArg,
}

/// A secret on a command line that does not show itself.
#[derive(Clone)]
struct SecretArg(String);

impl std::str::FromStr for SecretArg {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for SecretArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[derive(Debug, Clone, Copy)]
struct AdminListen(Option<Listen>);

impl std::str::FromStr for AdminListen {
    type Err = filestore_gateway::ListenError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|listen| Self(Some(listen)))
    }
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum DurabilityArg {
    #[default]
    Durable,
    Relaxed,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum MetadataArg {
    #[default]
    Auto,
    Xattr,
    Sidecar,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum LogFormatArg {
    #[default]
    Auto,
    Text,
    Json,
}

const DEFAULT_PORT: u16 = 9000;
const DEFAULT_ADMIN_PORT: u16 = 9090;

/// Runs the subcommand to its end.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let format = match args.log_format {
        LogFormatArg::Auto => LogFormat::Auto,
        LogFormatArg::Text => LogFormat::Text,
        LogFormatArg::Json => LogFormat::Json,
    };
    let level = log_level(&args, &environment);
    telemetry::init(&level, format).context("set logging up")?;
    let config = config(args, &environment).code(Exit::Usage)?;
    for warning in environment.warnings() {
        tracing::warn!("{warning}");
    }
    let shutdown = shutdown::on_signal().context("handle signals")?;
    filestore_gateway::serve(&config, &shutdown).map_err(coded)?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration for these arguments where `variables` are the environment.
pub(crate) fn config_from(
    args: Args,
    variables: &BTreeMap<String, String>,
) -> anyhow::Result<Config> {
    config(args, &variables.clone().into_iter().collect())
}

/// Gives an error of the gateway its exit code.
pub(crate) fn coded(error: Error) -> anyhow::Error {
    let code = match &error {
        Error::Credentials(_) | Error::Access(_) | Error::Tls(_) => Exit::Usage,
        Error::Volume { .. } => Exit::Refused,
        Error::Bind { .. } => Exit::Retryable,
        Error::Start(_) | Error::Panicked => Exit::Failures,
    };
    Coded::new(code, error).into()
}

fn log_level(args: &Args, environment: &Environment) -> String {
    let quiet = environment.is_set("VGW_QUIET");
    let default = if quiet { "warn" } else { "info" };
    args.log_level.as_deref().unwrap_or(default).to_owned()
}

fn config(args: Args, environment: &Environment) -> anyhow::Result<Config> {
    environment.refuse_unsupported()?;
    // versitygw's argument is the directory with the buckets, which need not be the volume.
    let data_root = match args.volume {
        Some(_) => None,
        None => environment.text("VGW_BACKEND_ARG").map(PathBuf::from),
    };
    let volume = args
        .volume
        .or_else(|| data_root.clone())
        .context("no volume: name the directory to serve, or set FILESTORE_VOLUME")?;
    let credentials = CredentialSources {
        fixed: key_pair(
            args.access_key,
            args.secret_key,
            args.credentials_dir.is_empty().then_some(environment),
        )?
        .into_iter()
        .collect(),
        directories: args
            .credentials_dir
            .into_iter()
            .map(|path| CredentialDir {
                path,
                names: args
                    .access_key_file
                    .clone()
                    .zip(args.secret_key_file.clone()),
            })
            .collect(),
    };
    let mut config = Config::new(volume, credentials);
    config.access = AccessSources {
        files: args.access_file,
        directories: args.access_dir,
    };
    config.tls = tls(args.tls_cert, args.tls_key, environment)?;
    config.data_root = data_root;
    config.listen = if args.listen.is_empty() {
        environment.listen("VGW_PORT")?
    } else {
        args.listen
    };
    if config.listen.is_empty() {
        config.listen.push(Listen::Any(DEFAULT_PORT));
    }
    config.admin_listen = args
        .admin_listen
        .map_or(Some(Listen::Any(DEFAULT_ADMIN_PORT)), |listen| listen.0);
    config.region = args
        .region
        .or_else(|| environment.text("VGW_REGION"))
        .unwrap_or_else(|| DEFAULT_REGION.to_owned());
    config.durability = match args.durability {
        DurabilityArg::Durable => Durability::Durable,
        DurabilityArg::Relaxed => Durability::Relaxed,
    };
    config.metadata = match args.metadata {
        MetadataArg::Auto => None,
        MetadataArg::Xattr => Some(MetadataMode::Xattr),
        MetadataArg::Sidecar => Some(MetadataMode::Sidecar),
    };
    config.require_marker = args.require_marker;
    config.virtual_domains = args.virtual_domain;
    config
        .virtual_domains
        .extend(environment.text("VGW_VIRTUAL_DOMAIN"));
    config.health_path = args.health_path.or_else(|| environment.text("VGW_HEALTH"));
    config.threads = args.threads;
    config.blocking_io = args.blocking_io;
    config.sendfile = !args.no_sendfile;
    config.idle_timeout = Duration::from_secs(args.idle_timeout);
    config.grace = Duration::from_secs(args.grace_period);
    Ok(config)
}

/// The pair that stays as it is. `environment` is left out where a directory has the keys: a
/// variable would be valid for ever beside what is rotated there.
fn key_pair(
    access_key: Option<String>,
    secret_key: Option<SecretArg>,
    environment: Option<&Environment>,
) -> anyhow::Result<Option<KeyPair>> {
    let variable = |name| environment.and_then(|environment| environment.text(name));
    let access = access_key
        .or_else(|| variable("ROOT_ACCESS_KEY_ID"))
        .or_else(|| variable("ROOT_ACCESS_KEY"));
    let secret = secret_key
        .map(|secret| secret.0)
        .or_else(|| variable("ROOT_SECRET_ACCESS_KEY"))
        .or_else(|| variable("ROOT_SECRET_KEY"));
    match (access, secret) {
        (None, None) => Ok(None),
        (Some(access), Some(secret)) => Ok(Some(KeyPair::new(access, secret))),
        (Some(_), None) => anyhow::bail!("an access key is given but no secret key"),
        (None, Some(_)) => anyhow::bail!("a secret key is given but no access key"),
    }
}

/// Both files of the S3 port's certificate, or neither.
fn tls(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    environment: &Environment,
) -> anyhow::Result<Option<TlsFiles>> {
    let variable = |name| environment.text(name).map(PathBuf::from);
    let certificate = certificate.or_else(|| variable("VGW_CERT"));
    let key = key.or_else(|| variable("VGW_KEY"));
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => {
            anyhow::bail!("a certificate is given but not its key: add --tls-key (or VGW_KEY)")
        }
        (None, Some(_)) => anyhow::bail!(
            "the key of a certificate is given but not the certificate: add --tls-cert (or VGW_CERT)"
        ),
    }
}

#[cfg(test)]
mod tests;
