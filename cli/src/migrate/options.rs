//! The flags of the two sides and of the work between them.
//!
//! Locations are taken as text and read afterwards: a parser that refuses a value prints it, and a
//! URL can hold a secret.

use std::path::PathBuf;
use std::time::Duration;

use filestore_migrator::{Credentials, Endpoint, Result, RunOptions};

/// A pair of keys from flags' environment twins, or a mounted Secret.
fn credentials(
    access_key: Option<&String>,
    secret_key: Option<&String>,
    directory: Option<&PathBuf>,
) -> Result<Option<Credentials>> {
    if let (Some(access_key), Some(secret_key)) = (access_key, secret_key) {
        return Ok(Some(Credentials {
            access_key: access_key.clone(),
            secret_key: secret_key.clone(),
        }));
    }
    directory
        .map(|directory| Credentials::from_secret_dir(directory))
        .transpose()
}

/// `--from` and what belongs to it.
#[derive(clap::Args)]
pub(super) struct FromSide {
    /// Legacy store: http(s)://host:port, minio-drive:/path or volume:/path.
    #[arg(long, env = "FILESTORE_FROM", value_name = "LOCATION")]
    from: String,
    #[command(flatten)]
    keys: FromKeys,
}

/// Credentials of the source.
#[expect(clippy::struct_field_names, reason = "the fields are the flags")]
#[derive(clap::Args)]
pub(super) struct FromKeys {
    /// Access key of the source.
    #[arg(
        long,
        env = "FILESTORE_FROM_ACCESS_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    from_access_key: Option<String>,
    /// Secret key of the source; the environment keeps it out of process lists.
    #[arg(
        long,
        env = "FILESTORE_FROM_SECRET_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    from_secret_key: Option<String>,
    /// Directory of a mounted Secret with the source's keys, whatever their names.
    #[arg(long, env = "FILESTORE_FROM_SECRET_DIR", value_name = "DIR")]
    from_secret_dir: Option<PathBuf>,
    /// PEM file of an authority to trust for the source.
    #[arg(long, env = "FILESTORE_FROM_CA", value_name = "FILE")]
    from_ca: Option<PathBuf>,
}

impl FromKeys {
    fn endpoint(&self, location: &str) -> Result<Endpoint> {
        let keys = credentials(
            self.from_access_key.as_ref(),
            self.from_secret_key.as_ref(),
            self.from_secret_dir.as_ref(),
        )?;
        Ok(Endpoint {
            location: location.parse()?,
            credentials: keys,
            ca_file: self.from_ca.clone(),
        })
    }
}

/// `--to` and what belongs to it.
#[derive(clap::Args)]
pub(super) struct ToSide {
    /// Target: volume:/path or http(s)://host:port.
    #[arg(long, env = "FILESTORE_TO", value_name = "LOCATION")]
    to: String,
    /// Access key of the target.
    #[arg(
        long,
        env = "FILESTORE_TO_ACCESS_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    to_access_key: Option<String>,
    /// Secret key of the target; the environment keeps it out of process lists.
    #[arg(
        long,
        env = "FILESTORE_TO_SECRET_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    to_secret_key: Option<String>,
    /// Directory of a mounted Secret with the target's keys, whatever their names.
    #[arg(long, env = "FILESTORE_TO_SECRET_DIR", value_name = "DIR")]
    to_secret_dir: Option<PathBuf>,
    /// PEM file of an authority to trust for the target.
    #[arg(long, env = "FILESTORE_TO_CA", value_name = "FILE")]
    to_ca: Option<PathBuf>,
    /// Where marker and manifest go when the target is no volume.
    #[arg(long, env = "FILESTORE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl ToSide {
    /// Options without a source.
    pub(super) fn options(&self) -> Result<RunOptions> {
        let keys = credentials(
            self.to_access_key.as_ref(),
            self.to_secret_key.as_ref(),
            self.to_secret_dir.as_ref(),
        )?;
        let owner = keys.as_ref().map(|keys| keys.access_key.clone());
        let to = Endpoint {
            location: self.to.parse()?,
            credentials: keys,
            ca_file: self.to_ca.clone(),
        };
        let mut options = RunOptions::new(None, to);
        options.state_dir.clone_from(&self.state_dir);
        if let Some(owner) = owner {
            options.owner = owner;
        }
        Ok(options)
    }
}

/// Both sides.
#[derive(clap::Args)]
pub(super) struct Sides {
    #[command(flatten)]
    from: FromSide,
    #[command(flatten)]
    to: ToSide,
}

impl Sides {
    pub(super) fn options(&self) -> Result<RunOptions> {
        let from = self.from.keys.endpoint(&self.from.from)?;
        Ok(RunOptions {
            from: Some(from),
            ..self.to.options()?
        })
    }
}

/// Both sides, where there may be no source.
#[derive(clap::Args)]
pub(super) struct OptionalSides {
    /// Legacy store: http(s)://host:port, minio-drive:/path or volume:/path; without it there is
    /// nothing to migrate.
    #[arg(long, env = "FILESTORE_FROM", value_name = "LOCATION")]
    from: Option<String>,
    #[command(flatten)]
    keys: FromKeys,
    #[command(flatten)]
    to: ToSide,
}

impl OptionalSides {
    pub(super) fn options(&self) -> Result<RunOptions> {
        let from = self
            .from
            .as_deref()
            .map(|location| self.keys.endpoint(location))
            .transpose()?;
        Ok(RunOptions {
            from,
            ..self.to.options()?
        })
    }
}

/// How to go about it.
#[derive(Debug, clap::Args)]
pub(super) struct Tuning {
    /// Objects in flight.
    #[arg(
        long,
        env = "FILESTORE_PARALLEL",
        default_value_t = 16,
        value_name = "N"
    )]
    parallel: usize,
    /// Seconds to wait for a store that does not answer.
    #[arg(
        long,
        env = "FILESTORE_WAIT",
        default_value_t = 600,
        value_name = "SECONDS"
    )]
    wait: u64,
    /// Seconds that a name must be unknown before the source counts as absent (`run`).
    #[arg(
        long,
        env = "FILESTORE_ABSENT_AFTER",
        default_value_t = 10,
        value_name = "SECONDS"
    )]
    absent_after: u64,
    /// Seconds that the comparison after cut-over may take (`run`).
    #[arg(
        long,
        env = "FILESTORE_RECHECK",
        default_value_t = 30,
        value_name = "SECONDS"
    )]
    recheck: u64,
    /// Names the migration; chosen by the program otherwise.
    #[arg(long, env = "FILESTORE_MIGRATION_ID", value_name = "ID")]
    id: Option<String>,
    /// Access key that owns new buckets.
    #[arg(long, env = "FILESTORE_OWNER", value_name = "ACCESS_KEY")]
    owner: Option<String>,
    /// Succeed although current objects cannot be carried; they are listed.
    #[arg(long, env = "FILESTORE_ACCEPT_LOSS")]
    accept_loss: bool,
    /// Let `final` delete objects that were on the target before the migration.
    #[arg(long)]
    delete_extraneous: bool,
    /// Refuse to delete more objects than this.
    #[arg(long, value_name = "N")]
    max_delete: Option<u64>,
}

impl Tuning {
    pub(super) fn apply(self, options: RunOptions) -> RunOptions {
        RunOptions {
            run_id: self.id,
            owner: self.owner.unwrap_or(options.owner),
            parallel: self.parallel,
            wait: Duration::from_secs(self.wait),
            absent_after: Duration::from_secs(self.absent_after),
            recheck: Duration::from_secs(self.recheck),
            accept_loss: self.accept_loss,
            delete_extraneous: self.delete_extraneous,
            max_delete: self.max_delete,
            ..options
        }
    }
}

/// Debug output of the flags would show secrets.
macro_rules! hidden_debug {
    ($($name:ty),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}
hidden_debug!(FromSide, FromKeys, ToSide, Sides, OptionalSides);
