//! Access keys and their secrets: given at start, or read from mounted directories again and again.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// File names that a mounted Secret may use when none are given, as (access key, secret key).
pub const DEFAULT_KEY_NAMES: [(&str, &str); 6] = [
    ("accesskey", "secretkey"),
    ("access-key", "secret-key"),
    ("root-user", "root-password"),
    ("rootUser", "rootPassword"),
    ("ROOT_ACCESS_KEY_ID", "ROOT_SECRET_ACCESS_KEY"),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
];

/// A secret that does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An access key and its secret, of any length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: Secret,
}

impl KeyPair {
    /// A pair.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self {
            access_key: access_key.into(),
            secret_key: Secret::new(secret_key),
        }
    }
}

/// A mounted Secret. Each file holds one key per line; line *n* of one belongs to line *n* of the
/// other. An access key on a single line takes every line of the secrets' file, which is how a
/// secret is rotated without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialDir {
    /// The directory.
    pub path: PathBuf,
    /// File names (access key, secret key); `None` = the first pair of [`DEFAULT_KEY_NAMES`]
    /// that is there.
    pub names: Option<(String, String)>,
}

impl CredentialDir {
    fn read(&self) -> Result<Vec<KeyPair>, CredentialError> {
        let read = |name: &str| {
            let path = self.path.join(name);
            std::fs::read_to_string(&path).map_err(|source| CredentialError::Read { path, source })
        };
        let (access, secret) = if let Some((access, secret)) = &self.names {
            (read(access)?, read(secret)?)
        } else {
            let there = |name: &str| self.path.join(name).is_file();
            let (access, secret) = DEFAULT_KEY_NAMES
                .into_iter()
                .find(|(access, secret)| there(access) && there(secret))
                .ok_or_else(|| CredentialError::NoKnownNames(self.path.clone()))?;
            (read(access)?, read(secret)?)
        };
        pairs(&self.path, &access, &secret)
    }
}

fn pairs(path: &Path, access: &str, secret: &str) -> Result<Vec<KeyPair>, CredentialError> {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let (access, secret) = (lines(access), lines(secret));
    match (access.as_slice(), secret.as_slice()) {
        ([], _) | (_, []) => Err(CredentialError::Empty(path.to_owned())),
        ([access], secrets) => Ok(secrets
            .iter()
            .map(|secret| KeyPair::new(access, secret))
            .collect()),
        (access, secret) if access.len() == secret.len() => Ok(access
            .iter()
            .zip(secret)
            .map(|(access, secret)| KeyPair::new(access, secret))
            .collect()),
        _ => Err(CredentialError::Uneven(path.to_owned())),
    }
}

/// Where access keys come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialSources {
    /// Given at start; stay as they are.
    pub fixed: Vec<KeyPair>,
    /// Read at start and again whenever they change.
    pub directories: Vec<CredentialDir>,
}

impl CredentialSources {
    /// One fixed pair.
    pub fn single(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self {
            fixed: vec![KeyPair::new(access_key, secret_key)],
            directories: Vec::new(),
        }
    }

    fn read(&self) -> Result<Keys, CredentialError> {
        let mut keys = Keys::new();
        let mut add = |pair: &KeyPair| {
            if pair.access_key.is_empty() || pair.secret_key.expose().is_empty() {
                return Err(CredentialError::EmptyPair);
            }
            let secrets = keys.entry(pair.access_key.clone()).or_default();
            if !secrets.contains(&pair.secret_key) {
                secrets.push(pair.secret_key.clone());
            }
            Ok(())
        };
        self.fixed.iter().try_for_each(&mut add)?;
        for directory in &self.directories {
            directory.read()?.iter().try_for_each(&mut add)?;
        }
        if keys.is_empty() {
            return Err(CredentialError::None);
        }
        Ok(keys)
    }
}

/// Why there are no usable keys.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// No source has any.
    #[error(
        "no credentials: set ROOT_ACCESS_KEY_ID and ROOT_SECRET_ACCESS_KEY, or give --credentials-dir"
    )]
    None,
    /// Half a pair.
    #[error("access key and secret key must both be given and not be empty")]
    EmptyPair,
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// None of the well-known pairs of files.
    #[error(
        "{} holds no pair of files such as accesskey and secretkey: name them with --access-key-file and --secret-key-file",
        .0.display()
    )]
    NoKnownNames(PathBuf),
    /// A file without a line.
    #[error("{}: a key file is empty", .0.display())]
    Empty(PathBuf),
    /// Several access keys, another number of secrets.
    #[error("{}: access keys and secret keys differ in number", .0.display())]
    Uneven(PathBuf),
}

type Keys = HashMap<String, Vec<Secret>>;

/// The keys in force.
#[derive(Debug)]
pub(crate) struct Credentials {
    sources: CredentialSources,
    keys: RwLock<Arc<Keys>>,
}

impl Credentials {
    /// Reads the sources for the first time.
    pub(crate) fn open(sources: CredentialSources) -> Result<Self, CredentialError> {
        let keys = RwLock::new(Arc::new(sources.read()?));
        Ok(Self { sources, keys })
    }

    /// Whether anything may change while running.
    pub(crate) fn are_mounted(&self) -> bool {
        !self.sources.directories.is_empty()
    }

    /// Reads the sources again; returns whether the keys changed. The keys in force stay when
    /// that fails: a Secret being rewritten never locks everybody out.
    pub(crate) fn reload(&self) -> Result<bool, CredentialError> {
        let new = self.sources.read()?;
        if *self.current() == new {
            return Ok(false);
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(true)
    }

    fn current(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The secret number `attempt` (from 0) of an access key, and whether there is another one.
    pub(crate) fn secret(&self, access_key: &str, attempt: usize) -> Option<(Secret, bool)> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let secrets = keys.get(access_key)?;
        let secret = secrets.get(attempt)?.clone();
        Some((secret, attempt + 1 < secrets.len()))
    }

    /// Whether an access key is one of these.
    pub(crate) fn holds(&self, access_key: &str) -> bool {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.contains_key(access_key)
    }

    /// The access key that owns all buckets: the first of those given at start, else the first in
    /// order of the mounted ones.
    pub(crate) fn owner(&self) -> String {
        let fixed = self.sources.fixed.first().map(|pair| &pair.access_key);
        let keys = self.current();
        let owner = fixed.or_else(|| keys.keys().min());
        owner.cloned().unwrap_or_default()
    }

    /// Whether some access key has several secrets.
    pub(crate) fn overlap(&self) -> bool {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.values().any(|secrets| secrets.len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(access: &str, secret: &str) -> (tempfile::TempDir, CredentialSources) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("root-user"), access).unwrap();
        std::fs::write(dir.path().join("root-password"), secret).unwrap();
        let sources = CredentialSources {
            fixed: Vec::new(),
            directories: vec![CredentialDir {
                path: dir.path().to_owned(),
                names: None,
            }],
        };
        (dir, sources)
    }

    fn exposed(credentials: &Credentials, key: &str, attempt: usize) -> Option<(String, bool)> {
        let (secret, more) = credentials.secret(key, attempt)?;
        Some((secret.expose().to_owned(), more))
    }

    #[test]
    fn secrets_stay_out_of_debug_output() {
        let credentials = Credentials::open(CredentialSources::single("k", "hush")).unwrap();

        let shown = format!("{credentials:?}");

        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn mounted_keys_follow_their_files_and_survive_a_broken_write() {
        let (dir, sources) = mounted("ryax\n", "old-secret\n");
        let credentials = Credentials::open(sources).unwrap();
        assert_eq!(
            exposed(&credentials, "ryax", 0),
            Some(("old-secret".to_owned(), false))
        );
        assert!(!credentials.reload().unwrap());

        std::fs::write(dir.path().join("root-password"), "").unwrap();
        assert!(credentials.reload().is_err());
        assert!(exposed(&credentials, "ryax", 0).is_some());

        std::fs::write(dir.path().join("root-password"), "new-secret\nold-secret").unwrap();
        assert!(credentials.reload().unwrap());
        assert!(credentials.overlap());
        assert_eq!(
            exposed(&credentials, "ryax", 0),
            Some(("new-secret".to_owned(), true))
        );
        assert_eq!(
            exposed(&credentials, "ryax", 1),
            Some(("old-secret".to_owned(), false))
        );
        assert_eq!(exposed(&credentials, "ryax", 2), None);
    }

    #[test]
    fn several_access_keys_pair_up_by_line() {
        let (_dir, sources) = mounted("a\nb\n", "secret-a\nsecret-b\n");
        let credentials = Credentials::open(sources).unwrap();
        assert_eq!(
            exposed(&credentials, "b", 0),
            Some(("secret-b".to_owned(), false))
        );

        let (_dir, sources) = mounted("a\nb\n", "1\n2\n3\n");
        assert!(matches!(
            Credentials::open(sources),
            Err(CredentialError::Uneven(_))
        ));
    }

    #[test]
    fn refuses_to_start_without_a_usable_pair() {
        assert!(matches!(
            Credentials::open(CredentialSources::default()),
            Err(CredentialError::None)
        ));
        assert!(matches!(
            Credentials::open(CredentialSources::single("k", "")),
            Err(CredentialError::EmptyPair)
        ));
        // One character is enough.
        assert!(Credentials::open(CredentialSources::single("k", "s")).is_ok());
    }
}
