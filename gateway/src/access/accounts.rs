//! Users and quotas in force: read at start, followed while the gateway runs.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use filestore_store::Quota;

use super::document::{AccessError, Policy, parse};
use super::{Principal, User};
use crate::credentials::{Credentials, Secret};

/// Endings of the files that count in a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Where users and quotas come from. All files together are one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSources {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Directories (mounted Secrets); of these the files `*.yaml`, `*.yml` and `*.json`.
    pub directories: Vec<PathBuf>,
}

impl AccessSources {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }

    fn read(&self, is_root: impl Fn(&str) -> bool) -> Result<Policy, AccessError> {
        let mut files = self.files.clone();
        for directory in &self.directories {
            files.extend(in_directory(directory)?);
        }
        let mut policy = Policy::default();
        for path in files {
            let text = std::fs::read_to_string(&path).map_err(|source| AccessError::Read {
                path: path.clone(),
                source,
            })?;
            policy.add(&path, parse(&path, &text)?, &is_root)?;
        }
        Ok(policy)
    }
}

/// The access files of a directory, in order of their names.
fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, AccessError> {
    let failed = |source| AccessError::Read {
        path: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let ending = path.extension().and_then(OsStr::to_str);
        if !hidden && ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What a reading led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    /// The files say what is in force.
    Same,
    /// They changed, and are taken over if the next look finds the same.
    Pending,
    /// What they say is in force now.
    Changed,
}

/// An access key's holder.
#[derive(Debug)]
struct Holder {
    user: Arc<User>,
    secrets: Vec<Secret>,
}

#[derive(Debug, Default)]
struct InForce {
    policy: Policy,
    keys: HashMap<String, Holder>,
}

impl InForce {
    fn new(policy: Policy) -> Self {
        let mut keys: HashMap<String, Holder> = HashMap::new();
        for (user, pairs) in &policy.users {
            let user = Arc::new(user.clone());
            for (access_key, secret) in pairs {
                let holder = keys.entry(access_key.clone()).or_insert_with(|| Holder {
                    user: Arc::clone(&user),
                    secrets: Vec::new(),
                });
                if !holder.secrets.contains(secret) {
                    holder.secrets.push(secret.clone());
                }
            }
        }
        Self { policy, keys }
    }
}

/// The accounts of a gateway: root's keys, and users.
#[derive(Debug)]
pub(crate) struct Accounts {
    root: Arc<Credentials>,
    sources: AccessSources,
    in_force: RwLock<Arc<InForce>>,
    pending: Mutex<Option<Policy>>,
}

impl Accounts {
    /// Reads the sources for the first time.
    pub(crate) fn open(
        root: Arc<Credentials>,
        sources: AccessSources,
    ) -> Result<Self, AccessError> {
        let policy = sources.read(|key| root.holds(key))?;
        Ok(Self {
            root,
            sources,
            in_force: RwLock::new(Arc::new(InForce::new(policy))),
            pending: Mutex::new(None),
        })
    }

    /// Whether anything may change while running.
    pub(crate) fn are_followed(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Reads the sources again. What is in force stays when that fails, and until two looks in
    /// turn find the same: a file cut off in the middle of being written may well parse.
    pub(crate) fn reload(&self) -> Result<Reload, AccessError> {
        let policy = self.sources.read(|key| self.root.holds(key))?;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if self.current().policy == policy {
            *pending = None;
            return Ok(Reload::Same);
        }
        if pending.as_ref() != Some(&policy) {
            *pending = Some(policy);
            return Ok(Reload::Pending);
        }
        *pending = None;
        let new = Arc::new(InForce::new(policy));
        *self
            .in_force
            .write()
            .unwrap_or_else(PoisonError::into_inner) = new;
        Ok(Reload::Changed)
    }

    fn current(&self) -> Arc<InForce> {
        let in_force = self.in_force.read();
        Arc::clone(&in_force.unwrap_or_else(PoisonError::into_inner))
    }

    /// The secret number `attempt` (from 0) of an access key, whether there is another one, and
    /// whose key it is.
    pub(crate) fn secret(
        &self,
        access_key: &str,
        attempt: usize,
    ) -> Option<(Secret, bool, Principal)> {
        if let Some((secret, more)) = self.root.secret(access_key, attempt) {
            return Some((secret, more, Principal::Root));
        }
        if !self.are_followed() || self.root.holds(access_key) {
            return None;
        }
        let current = self.current();
        let holder = current.keys.get(access_key)?;
        let secret = holder.secrets.get(attempt)?.clone();
        let more = attempt + 1 < holder.secrets.len();
        Some((secret, more, Principal::User(Arc::clone(&holder.user))))
    }

    /// Whether some access key has several secrets.
    pub(crate) fn overlap(&self) -> bool {
        let several = |holder: &Holder| holder.secrets.len() > 1;
        self.root.overlap() || self.are_followed() && self.current().keys.values().any(several)
    }

    /// Quotas of buckets, by name.
    pub(crate) fn quotas(&self) -> BTreeMap<String, Quota> {
        self.current().policy.quotas.clone()
    }

    /// Number of users.
    pub(crate) fn users(&self) -> usize {
        self.current().policy.users.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;
    use crate::credentials::CredentialSources;

    const ONE: &str = r#"{"users":[{"name":"a","keys":[{"accessKey":"ka","secretKey":"sa"}],"grants":[{"bucket":"abc","access":"read"}]}]}"#;

    fn root() -> Arc<Credentials> {
        Arc::new(Credentials::open(CredentialSources::single("root", "hush")).unwrap())
    }

    fn open(directory: &Path) -> Result<Accounts, AccessError> {
        let sources = AccessSources {
            files: Vec::new(),
            directories: vec![directory.to_owned()],
        };
        Accounts::open(root(), sources)
    }

    fn may_read(accounts: &Accounts, key: &str) -> Option<bool> {
        let (_, _, principal) = accounts.secret(key, 0)?;
        Some(principal.may(Action::Read, "abc", "k"))
    }

    #[test]
    fn files_of_a_directory_are_one_policy() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.json"), ONE).unwrap();
        let other = ONE.replace("ka", "kb").replace("\"a\"", "\"b\"");
        std::fs::write(dir.path().join("b.yaml"), other).unwrap();
        std::fs::write(dir.path().join(".hidden.yaml"), "nonsense").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "nonsense").unwrap();
        let accounts = open(dir.path()).unwrap();

        assert_eq!(accounts.users(), 2);
        assert_eq!(may_read(&accounts, "ka"), Some(true));
        assert_eq!(may_read(&accounts, "kb"), Some(true));
        assert_eq!(may_read(&accounts, "kc"), None);
        let (_, _, root) = accounts.secret("root", 0).unwrap();
        assert_eq!(root, Principal::Root);
        // The next secret of root's key is never a user's.
        assert!(accounts.secret("root", 1).is_none());

        std::fs::copy(dir.path().join("a.json"), dir.path().join("c.json")).unwrap();
        let error = open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("c.json: user a is there twice"), "{error}");
    }

    #[test]
    fn a_change_is_taken_when_it_stays_and_a_broken_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("access.json");
        std::fs::write(&file, ONE).unwrap();
        let accounts = open(dir.path()).unwrap();
        assert_eq!(accounts.reload().unwrap(), Reload::Same);

        for broken in ["", "{", &ONE[..ONE.len() - 3], "users: 1"] {
            std::fs::write(&file, broken).unwrap();
            assert!(accounts.reload().is_err(), "{broken}");
            assert_eq!(may_read(&accounts, "ka"), Some(true));
        }
        std::fs::remove_file(&file).unwrap();
        // A directory without files is a policy without users, once it stays so.
        assert_eq!(accounts.reload().unwrap(), Reload::Pending);
        let rotated = ONE.replace(
            r#"[{"accessKey""#,
            r#"[{"accessKey":"kn","secretKey":"sn"},{"accessKey""#,
        );
        std::fs::write(&file, &rotated).unwrap();
        assert_eq!(accounts.reload().unwrap(), Reload::Pending);
        assert_eq!(may_read(&accounts, "kn"), None);
        assert_eq!(accounts.reload().unwrap(), Reload::Changed);
        assert_eq!(may_read(&accounts, "kn"), Some(true));
        assert_eq!(may_read(&accounts, "ka"), Some(true));
        assert_eq!(accounts.reload().unwrap(), Reload::Same);
    }

    #[test]
    fn one_access_key_may_have_two_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let two = ONE.replace(
            r#"[{"accessKey""#,
            r#"[{"accessKey":"ka","secretKey":"new"},{"accessKey""#,
        );
        std::fs::write(dir.path().join("a.json"), two).unwrap();
        let accounts = open(dir.path()).unwrap();

        let secret = |attempt| {
            let (secret, more, _) = accounts.secret("ka", attempt)?;
            Some((secret.expose().to_owned(), more))
        };
        assert_eq!(secret(0), Some(("new".to_owned(), true)));
        assert_eq!(secret(1), Some(("sa".to_owned(), false)));
        assert_eq!(secret(2), None);
        assert!(accounts.overlap());
    }
}
