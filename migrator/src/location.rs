//! The two sides of a migration as the command line names them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use filestore_common::BucketName;

use crate::{Error, Kind, Result};

/// What a location may look like.
const FORMS: &str = "use http(s)://host:port[/bucket], minio-drive:/path or volume:/path";

/// A store: `http(s)://host:port[/bucket]`, `minio-drive:/path` or `volume:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// An S3 endpoint.
    Http {
        /// URL of the endpoint without bucket, trailing slash, user part or query.
        url: String,
        /// Host name or address, for the resolver.
        host: String,
        /// Port, also when it was implied.
        port: u16,
        /// The one bucket that is meant; `None` = all.
        bucket: Option<BucketName>,
    },
    /// The directory of a single-drive MinIO.
    MinioDrive(PathBuf),
    /// A volume in our format (or versitygw's).
    Volume(PathBuf),
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let usage = |message: &str| {
            Error::new(Kind::Usage, "read", without_credentials(text), message).with_cure(FORMS)
        };
        let path = |rest: &str| {
            if rest.is_empty() {
                Err(usage("the path is missing"))
            } else {
                Ok(PathBuf::from(rest))
            }
        };
        if let Some(rest) = text.strip_prefix("minio-drive:") {
            return Ok(Self::MinioDrive(path(rest)?));
        }
        if let Some(rest) = text.strip_prefix("volume:") {
            return Ok(Self::Volume(path(rest)?));
        }
        let uri: http::Uri = text.parse().map_err(|_| usage("is no location"))?;
        let implied = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(usage("is no location")),
        };
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| usage("has no host"))?;
        let authority = uri
            .authority()
            .map(http::uri::Authority::as_str)
            .unwrap_or_default();
        if authority.contains('@') {
            return Err(
                usage("holds credentials, which would end in logs").with_cure(
                    "pass them by FILESTORE_FROM_ACCESS_KEY and FILESTORE_FROM_SECRET_KEY",
                ),
            );
        }
        if uri.query().is_some() {
            return Err(usage("has a query"));
        }
        let bucket = match uri.path().trim_matches('/') {
            "" => None,
            path if path.contains('/') => {
                return Err(usage("has more than a bucket in its path")
                    .with_cure("choose keys with --include PREFIX"));
            }
            name => Some(BucketName::new(name).map_err(|error| usage(&error.to_string()))?),
        };
        Ok(Self::Http {
            url: format!("{}://{authority}", uri.scheme_str().unwrap_or_default()),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(implied),
            bucket,
        })
    }
}

/// A location as it may be shown: the user part of a URL can hold a secret.
fn without_credentials(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    match text.rfind('@').filter(|at| *at >= start) {
        Some(at) => [text.get(..start), Some("***"), text.get(at..)]
            .into_iter()
            .flatten()
            .collect(),
        None => text.to_owned(),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url, bucket, .. } => match bucket {
                Some(bucket) => write!(f, "{url}/{bucket}"),
                None => f.write_str(url),
            },
            Self::MinioDrive(path) => write!(f, "minio-drive:{}", path.display()),
            Self::Volume(path) => write!(f, "volume:{}", path.display()),
        }
    }
}

impl Location {
    /// The one bucket that a URL names.
    pub fn bucket(&self) -> Option<&BucketName> {
        match self {
            Self::Http { bucket, .. } => bucket.as_ref(),
            Self::MinioDrive(_) | Self::Volume(_) => None,
        }
    }
}

/// Where requests name their bucket (S3 user guide, "Virtual hosting of buckets").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Addressing {
    /// `http://host/bucket/key`.
    #[default]
    Path,
    /// `http://bucket.host/key`.
    Virtual,
}

/// An access key and its secret. Debug output hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Access key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

/// Names of the files of a mounted Secret that may hold an access key, the likeliest first
/// (MinIO's chart, Ryax, AWS, versitygw, plain words).
const ACCESS_NAMES: [&str; 9] = [
    "root-user",
    "rootUser",
    "access-key",
    "accessKey",
    "accesskey",
    "AWS_ACCESS_KEY_ID",
    "ROOT_ACCESS_KEY_ID",
    "filestore-access",
    "user",
];
/// The same for the secret key.
const SECRET_NAMES: [&str; 9] = [
    "root-password",
    "rootPassword",
    "secret-key",
    "secretKey",
    "secretkey",
    "AWS_SECRET_ACCESS_KEY",
    "ROOT_SECRET_ACCESS_KEY",
    "filestore-secret",
    "password",
];

impl Credentials {
    /// Reads both from files, whose last line break does not count.
    ///
    /// # Errors
    /// [`Kind::Usage`] when one cannot be read or is empty.
    pub fn from_files(access_key: &Path, secret_key: &Path) -> Result<Self> {
        let read = |path: &Path| {
            let failed = |message: String| {
                Error::new(Kind::Usage, "read", path.display().to_string(), message)
            };
            let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
            match text.trim_end_matches(['\r', '\n']) {
                "" => Err(failed("is empty".into())),
                key => Ok(key.to_owned()),
            }
        };
        Ok(Self {
            access_key: read(access_key)?,
            secret_key: read(secret_key)?,
        })
    }

    /// Reads a mounted Secret: well-known key names first, then any pair of names of which one
    /// speaks of a user or access key and the other of a password or secret.
    ///
    /// # Errors
    /// [`Kind::Usage`] when the directory cannot be read or no pair is found.
    pub fn from_secret_dir(directory: &Path) -> Result<Self> {
        let object = directory.display().to_string();
        let failed = |message: String| Error::new(Kind::Usage, "read", object.clone(), message);
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .map_err(|error| failed(error.to_string()))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            // Kubernetes keeps generations in `..data` and `..2026_…`.
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable();
        let find = |known: &[&str], words: &[&str], not: &[&str]| {
            let exact = known.iter().find(|name| names.iter().any(|n| n == *name));
            exact.map(|name| (*name).to_owned()).or_else(|| {
                let mut fitting = names.iter().filter(|name| {
                    let name = name.to_lowercase();
                    words.iter().any(|word| name.contains(word))
                        && !not.iter().any(|word| name.contains(word))
                });
                fitting.next().filter(|_| fitting.next().is_none()).cloned()
            })
        };
        let access = find(&ACCESS_NAMES, &["access", "user"], &["secret", "password"]);
        let secret = find(&SECRET_NAMES, &["secret", "password"], &[]);
        let (Some(access), Some(secret)) = (access, secret) else {
            return Err(
                failed(format!("no pair of keys among {}", names.join(", ")))
                    .with_cure("name the files access-key and secret-key"),
            );
        };
        let read = |name: &str| {
            std::fs::read_to_string(directory.join(name))
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|error| failed(format!("{name}: {error}")))
        };
        Ok(Self {
            access_key: read(&access)?,
            secret_key: read(&secret)?,
        })
    }
}

/// One side of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where.
    pub location: Location,
    /// Needed for `http(s)`; ignored for paths.
    pub credentials: Option<Credentials>,
    /// PEM file of an authority to trust beside the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Take any certificate: whoever answers gets the requests and may change what they bring.
    pub insecure: bool,
    /// Where requests name their bucket.
    pub addressing: Addressing,
    /// Region to sign for; `None` = `us-east-1`, and what the server says when it is another one.
    pub region: Option<String>,
    /// A drive: the caller vouches that no process serves it any more, so that nobody has to wait
    /// for a sign of life.
    pub stopped: bool,
}

impl Endpoint {
    /// An endpoint without credentials.
    pub fn new(location: Location) -> Self {
        Self {
            location,
            credentials: None,
            ca_file: None,
            insecure: false,
            addressing: Addressing::Path,
            region: None,
            stopped: false,
        }
    }

    /// Adds credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_three_forms_and_refuses_the_rest() {
        assert_eq!(
            "http://[::1]:9000/".parse::<Location>().unwrap(),
            Location::Http {
                url: "http://[::1]:9000".into(),
                host: "::1".into(),
                port: 9000,
                bucket: None
            }
        );
        let one = "https://s3.example:1/my-bucket/"
            .parse::<Location>()
            .unwrap();
        assert_eq!(one.bucket().map(BucketName::as_str), Some("my-bucket"));
        assert_eq!(one.to_string(), "https://s3.example:1/my-bucket");
        assert!(matches!(one, Location::Http { url, .. } if url == "https://s3.example:1"));
        assert!(matches!(
            "https://minio.example".parse::<Location>().unwrap(),
            Location::Http { port: 443, .. }
        ));
        assert_eq!(
            "minio-drive:/data".parse::<Location>().unwrap(),
            Location::MinioDrive("/data".into())
        );
        assert_eq!(
            "volume:v".parse::<Location>().unwrap(),
            Location::Volume("v".into())
        );
        for bad in [
            "",
            "/data",
            "volume:",
            "ftp://h",
            "http://",
            "http://a:b@h",
            "http://h/bucket/prefix",
            "http://h/B_",
            "http://h/bucket?versions",
        ] {
            let error = bad.parse::<Location>().unwrap_err();
            assert_eq!(error.kind, Kind::Usage, "{bad}");
        }
        let error = "http://ryax:s3cret@h".parse::<Location>().unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert!(error.to_string().contains("http://***@h"), "{error}");
    }

    #[test]
    fn finds_the_keys_of_a_mounted_secret_whatever_their_names() {
        for (access, secret) in [
            ("root-user", "root-password"),
            ("s3-access-id", "s3-secret"),
            ("user", "password"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::create_dir(directory.path().join("..data")).unwrap();
            std::fs::write(directory.path().join(access), "ryax\n").unwrap();
            std::fs::write(directory.path().join(secret), "s3cr et").unwrap();

            let found = Credentials::from_secret_dir(directory.path()).unwrap();

            assert_eq!(
                (found.access_key.as_str(), found.secret_key.as_str()),
                ("ryax", "s3cr et")
            );
            assert!(!format!("{found:?}").contains("s3cr"));
        }
        let empty = tempfile::tempdir().unwrap();
        assert!(Credentials::from_secret_dir(empty.path()).is_err());
    }
}
