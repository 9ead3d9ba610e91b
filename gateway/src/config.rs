//! What a gateway is started with.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use filestore_store::{Durability, MetadataMode};

use crate::access::AccessSources;
use crate::credentials::CredentialSources;
use crate::tls::TlsFiles;

/// Region of a gateway that was given none.
pub const DEFAULT_REGION: &str = "us-east-1";

/// Everything that [`crate::Gateway::start`] needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The volume.
    pub volume: PathBuf,
    /// The directory with the buckets where that was given instead of the volume (versitygw's
    /// root); `volume` says the same then and the store finds the volume from it.
    pub data_root: Option<PathBuf>,
    /// Where S3 clients connect.
    pub listen: Vec<Listen>,
    /// Where `/metrics`, `/healthz` and `/readyz` are; `None` = nowhere.
    pub admin_listen: Option<Listen>,
    /// Region in answers. Requests signed for another one are accepted.
    pub region: String,
    /// Flush rule.
    pub durability: Durability,
    /// Asked-for metadata mode; `None` = what the volume has or can.
    pub metadata: Option<MetadataMode>,
    /// Not ready before the volume's marker of this run says `cutover`.
    pub require_marker: Option<String>,
    /// Access keys.
    pub credentials: CredentialSources,
    /// Users and quotas.
    pub access: AccessSources,
    /// Certificate and key of the S3 port; `None` = plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How often mounted access keys, users, quotas and the certificate are looked at.
    pub credentials_period: Duration,
    /// Domains below which `<bucket>.<domain>` names a bucket.
    pub virtual_domains: Vec<String>,
    /// Path on the S3 port that always answers 200 (versitygw's `VGW_HEALTH`).
    pub health_path: Option<String>,
    /// Threads that serve; `None` = one per core.
    pub threads: Option<NonZeroUsize>,
    /// Puts even short file work on other threads (slow network file systems).
    pub blocking_io: bool,
    /// Sends large bodies by sendfile where it can.
    pub sendfile: bool,
    /// A connection without a request, or without a whole request head, is closed after this.
    pub idle_timeout: Duration,
    /// How long requests in flight may go on after a shutdown was asked for.
    pub grace: Duration,
}

impl Config {
    /// Defaults for a volume and its keys: loopback, any free port, no admin port.
    pub fn new(volume: impl Into<PathBuf>, credentials: CredentialSources) -> Self {
        Self {
            volume: volume.into(),
            data_root: None,
            listen: vec![Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))],
            admin_listen: None,
            region: DEFAULT_REGION.to_owned(),
            durability: Durability::default(),
            metadata: None,
            require_marker: None,
            credentials,
            access: AccessSources::default(),
            tls: None,
            // The kubelet itself takes about a minute.
            credentials_period: Duration::from_secs(5),
            virtual_domains: Vec::new(),
            health_path: None,
            threads: None,
            blocking_io: false,
            sendfile: true,
            idle_timeout: Duration::from_secs(75),
            grace: Duration::from_secs(25),
        }
    }
}

/// A TCP address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// All interfaces, IPv6 and IPv4 (`:9000`).
    Any(u16),
    /// One address (`127.0.0.1:9000`, `[::1]:9000`, `localhost:9000`).
    At(SocketAddr),
}

impl Listen {
    /// Addresses to try in turn; the second is for machines without IPv6.
    pub(crate) fn candidates(self) -> Vec<SocketAddr> {
        match self {
            Self::At(address) => vec![address],
            Self::Any(port) => vec![
                SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
                SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
            ],
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}

/// Text that is no [`Listen`].
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no address to listen on: use HOST:PORT, or :PORT for all interfaces")]
pub struct ListenError(String);

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let refused = || ListenError(text.to_owned());
        if let Some(port) = text.strip_prefix(':') {
            return Ok(Self::Any(port.parse().map_err(|_| refused())?));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address));
        }
        let address = text.to_socket_addrs().map_err(|_| refused())?.next();
        address.map(Self::At).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_takes_the_forms_of_versitygw_and_minio() {
        assert_eq!(":9000".parse::<Listen>().unwrap(), Listen::Any(9000));
        assert_eq!(
            "127.0.0.1:0".parse::<Listen>().unwrap(),
            Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        );
        assert_eq!(
            "[::1]:7070".parse::<Listen>().unwrap(),
            Listen::At(SocketAddr::from((Ipv6Addr::LOCALHOST, 7070)))
        );
        for bad in ["", "9000", ":", ":x", "/run/filestore.sock", "127.0.0.1"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad}");
        }
    }
}
