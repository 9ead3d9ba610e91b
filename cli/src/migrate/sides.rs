//! The flags of the two sides.
//!
//! Locations are taken as text and read afterwards: a parser that refuses a value prints it, and a
//! URL can hold a secret.

use std::io::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use filestore_migrator::{Addressing, Credentials, Endpoint, Error, Kind, Result, RunOptions};

/// Where requests name their bucket.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Style {
    /// http://host/bucket/key.
    #[default]
    Path,
    /// http://bucket.host/key.
    Virtual,
}

impl From<Style> for Addressing {
    fn from(style: Style) -> Self {
        match style {
            Style::Path => Self::Path,
            Style::Virtual => Self::Virtual,
        }
    }
}

/// What is given for one side beside its location.
struct Side<'a> {
    name: &'static str,
    access_key: Option<&'a String>,
    secret_key: Option<&'a String>,
    access_key_file: Option<&'a PathBuf>,
    secret_key_file: Option<&'a PathBuf>,
    secret_dir: Option<&'a PathBuf>,
    ca: Option<&'a PathBuf>,
    insecure: bool,
    addressing: Style,
    region: Option<&'a String>,
}

impl Side<'_> {
    fn endpoint(&self, location: &str) -> Result<Endpoint> {
        if self.insecure {
            // Nobody is left to warn when standard error is closed.
            drop(writeln!(
                std::io::stderr(),
                "warning: --{0}-insecure: the certificate of the {1} is not checked; whoever \
                 answers can read and change what is carried; --{0}-ca is the safe way",
                self.name,
                if self.name == "from" {
                    "source"
                } else {
                    "target"
                }
            ));
        }
        Ok(Endpoint {
            location: location.parse()?,
            credentials: self.credentials()?,
            ca_file: self.ca.cloned(),
            insecure: self.insecure,
            addressing: self.addressing.into(),
            region: self.region.cloned(),
            stopped: false,
        })
    }

    /// The pair of keys: by value, then by file, then from a mounted Secret.
    fn credentials(&self) -> Result<Option<Credentials>> {
        let name = self.name;
        let half = |what: &str, other: &str| {
            let object = format!("--{name}-{what}");
            Err(Error::new(Kind::Usage, "read", object, "is given alone")
                .with_cure(format!("give --{name}-{other} as well")))
        };
        match (self.access_key, self.secret_key) {
            (Some(access_key), Some(secret_key)) => {
                return Ok(Some(Credentials {
                    access_key: access_key.clone(),
                    secret_key: secret_key.clone(),
                }));
            }
            (Some(_), None) if self.secret_key_file.is_none() && self.secret_dir.is_none() => {
                return half("access-key", "secret-key");
            }
            (None, Some(_)) if self.access_key_file.is_none() && self.secret_dir.is_none() => {
                return half("secret-key", "access-key");
            }
            _ => {}
        }
        match (self.access_key_file, self.secret_key_file) {
            (Some(access_key), Some(secret_key)) => {
                return Credentials::from_files(access_key, secret_key).map(Some);
            }
            (Some(_), None) => return half("access-key-file", "secret-key-file"),
            (None, Some(_)) => return half("secret-key-file", "access-key-file"),
            (None, None) => {}
        }
        self.secret_dir
            .map(|directory| Credentials::from_secret_dir(directory))
            .transpose()
    }
}

/// How to reach the source.
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
    /// File that holds the source's access key.
    #[arg(long, env = "FILESTORE_FROM_ACCESS_KEY_FILE", value_name = "FILE")]
    from_access_key_file: Option<PathBuf>,
    /// File that holds the source's secret key.
    #[arg(long, env = "FILESTORE_FROM_SECRET_KEY_FILE", value_name = "FILE")]
    from_secret_key_file: Option<PathBuf>,
    /// Directory of a mounted Secret with the source's keys, whatever their names.
    #[arg(long, env = "FILESTORE_FROM_SECRET_DIR", value_name = "DIR")]
    from_secret_dir: Option<PathBuf>,
    /// PEM file of an authority to trust for the source.
    #[arg(long, env = "FILESTORE_FROM_CA", value_name = "FILE")]
    from_ca: Option<PathBuf>,
    /// Take any certificate of the source, whoever made it and for whom.
    #[arg(long, env = "FILESTORE_FROM_INSECURE")]
    from_insecure: bool,
    /// Where requests to the source name their bucket: in the path, or in the host name.
    #[arg(
        long,
        env = "FILESTORE_FROM_ADDRESSING",
        value_enum,
        default_value_t,
        value_name = "STYLE"
    )]
    from_addressing: Style,
    /// Region of the source; learned from its answers when it is not us-east-1.
    #[arg(long, env = "FILESTORE_FROM_REGION", value_name = "REGION")]
    from_region: Option<String>,
}

impl FromKeys {
    fn endpoint(&self, location: &str) -> Result<Endpoint> {
        let side = Side {
            name: "from",
            access_key: self.from_access_key.as_ref(),
            secret_key: self.from_secret_key.as_ref(),
            access_key_file: self.from_access_key_file.as_ref(),
            secret_key_file: self.from_secret_key_file.as_ref(),
            secret_dir: self.from_secret_dir.as_ref(),
            ca: self.from_ca.as_ref(),
            insecure: self.from_insecure,
            addressing: self.from_addressing,
            region: self.from_region.as_ref(),
        };
        side.endpoint(location)
    }
}

/// How to reach the target.
#[expect(clippy::struct_field_names, reason = "the fields are the flags")]
#[derive(clap::Args)]
pub(super) struct ToKeys {
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
    /// File that holds the target's access key.
    #[arg(long, env = "FILESTORE_TO_ACCESS_KEY_FILE", value_name = "FILE")]
    to_access_key_file: Option<PathBuf>,
    /// File that holds the target's secret key.
    #[arg(long, env = "FILESTORE_TO_SECRET_KEY_FILE", value_name = "FILE")]
    to_secret_key_file: Option<PathBuf>,
    /// Directory of a mounted Secret with the target's keys, whatever their names.
    #[arg(long, env = "FILESTORE_TO_SECRET_DIR", value_name = "DIR")]
    to_secret_dir: Option<PathBuf>,
    /// PEM file of an authority to trust for the target.
    #[arg(long, env = "FILESTORE_TO_CA", value_name = "FILE")]
    to_ca: Option<PathBuf>,
    /// Take any certificate of the target, whoever made it and for whom.
    #[arg(long, env = "FILESTORE_TO_INSECURE")]
    to_insecure: bool,
    /// Where requests to the target name their bucket: in the path, or in the host name.
    #[arg(
        long,
        env = "FILESTORE_TO_ADDRESSING",
        value_enum,
        default_value_t,
        value_name = "STYLE"
    )]
    to_addressing: Style,
    /// Region of the target; learned from its answers when it is not us-east-1.
    #[arg(long, env = "FILESTORE_TO_REGION", value_name = "REGION")]
    to_region: Option<String>,
}

impl ToKeys {
    fn endpoint(&self, location: &str) -> Result<Endpoint> {
        let side = Side {
            name: "to",
            access_key: self.to_access_key.as_ref(),
            secret_key: self.to_secret_key.as_ref(),
            access_key_file: self.to_access_key_file.as_ref(),
            secret_key_file: self.to_secret_key_file.as_ref(),
            secret_dir: self.to_secret_dir.as_ref(),
            ca: self.to_ca.as_ref(),
            insecure: self.to_insecure,
            addressing: self.to_addressing,
            region: self.to_region.as_ref(),
        };
        side.endpoint(location)
    }
}

/// `--from` and what belongs to it.
#[derive(clap::Args)]
pub(super) struct FromSide {
    /// Legacy store: http(s)://host:port[/bucket], minio-drive:/path or volume:/path.
    #[arg(long, env = "FILESTORE_FROM", value_name = "LOCATION")]
    from: String,
    #[command(flatten)]
    keys: FromKeys,
}

/// `--to` and what belongs to it.
#[derive(clap::Args)]
pub(super) struct ToSide {
    /// Target: volume:/path or http(s)://host:port[/bucket].
    #[arg(long, env = "FILESTORE_TO", value_name = "LOCATION")]
    to: String,
    #[command(flatten)]
    keys: ToKeys,
    /// Where marker and manifest go when the target is no volume.
    #[arg(long, env = "FILESTORE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl ToSide {
    /// Options without a source.
    pub(super) fn options(&self) -> Result<RunOptions> {
        let to = self.keys.endpoint(&self.to)?;
        let owner = to.credentials.as_ref().map(|keys| keys.access_key.clone());
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

/// Both sides of a way back; to give it up takes the served volume alone.
#[derive(clap::Args)]
pub(super) struct BackSides {
    #[command(flatten)]
    from: FromSide,
    /// Legacy store: http(s)://host:port[/bucket].
    #[arg(
        long,
        env = "FILESTORE_TO",
        required_unless_present = "abandon",
        value_name = "LOCATION"
    )]
    to: Option<String>,
    #[command(flatten)]
    keys: ToKeys,
    /// Where marker and manifest lie when they are not on the volume.
    #[arg(long, env = "FILESTORE_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl BackSides {
    pub(super) fn options(&self) -> Result<RunOptions> {
        let from = self.from.keys.endpoint(&self.from.from)?;
        let to = match &self.to {
            Some(to) => self.keys.endpoint(to)?,
            // Nothing is done with it.
            None => from.clone(),
        };
        let owner = to.credentials.as_ref().map(|keys| keys.access_key.clone());
        let mut options = RunOptions::new(Some(from), to);
        options.state_dir.clone_from(&self.state_dir);
        if let Some(owner) = owner {
            options.owner = owner;
        }
        Ok(options)
    }
}

/// Both sides, where there may be no source.
#[derive(clap::Args)]
pub(super) struct OptionalSides {
    /// Legacy store: http(s)://host:port[/bucket], minio-drive:/path or volume:/path; without it
    /// there is nothing to migrate.
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
hidden_debug!(
    FromSide,
    FromKeys,
    ToSide,
    ToKeys,
    Sides,
    BackSides,
    OptionalSides
);
