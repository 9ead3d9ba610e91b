//! Secret values by Secret name and key. They are looked up where a process is started and
//! nowhere else: no other type of this crate holds one.

use std::collections::BTreeMap;
use std::fmt;

/// Why a reference into the Secrets does not lead to a usable value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// No Secret of that name.
    #[error("Secret {secret:?} is missing; add it as a document of the same file (kind: Secret)")]
    Missing {
        /// Name that was looked for.
        secret: String,
    },
    /// The Secret lacks the key.
    #[error(
        "Secret {secret:?} has no key {key:?} (it has {present}); add it, or name another key or Secret"
    )]
    MissingKey {
        /// The Secret.
        secret: String,
        /// Key that was looked for.
        key: String,
        /// Keys that are there, for people.
        present: String,
    },
    /// The values are no certificate with its key.
    #[error("Secret {secret:?}: {what}; renew it (kubectl create secret tls, or see its issuer)")]
    Certificate {
        /// The Secret.
        secret: String,
        /// What is wrong with which key.
        what: String,
    },
    /// The value is empty or holds what no HTTP header or environment variable can carry.
    #[error("key {key:?} of Secret {secret:?} must be non-empty text without line breaks")]
    Unusable {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
}

/// Secrets by name. Its `Debug` shows names and keys, never values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, BTreeMap<String, Vec<u8>>>);

impl Secrets {
    /// Adds a Secret; returns whether there was none of that name.
    pub fn insert(&mut self, name: String, values: BTreeMap<String, Vec<u8>>) -> bool {
        self.0.insert(name, values).is_none()
    }

    /// Whether there is no Secret at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes under `key` of Secret `secret`.
    ///
    /// # Errors
    /// [`SecretError`] saying what is missing.
    pub fn bytes(&self, secret: &str, key: &str) -> Result<&[u8], SecretError> {
        let values = self.0.get(secret).ok_or_else(|| SecretError::Missing {
            secret: secret.to_owned(),
        })?;
        let bytes = values.get(key);
        bytes
            .map(Vec::as_slice)
            .ok_or_else(|| SecretError::MissingKey {
                secret: secret.to_owned(),
                key: key.to_owned(),
                present: if values.is_empty() {
                    "none".to_owned()
                } else {
                    let keys: Vec<_> = values.keys().map(String::as_str).collect();
                    keys.join(", ")
                },
            })
    }

    /// The text under `key` of Secret `secret`.
    ///
    /// # Errors
    /// [`SecretError`] saying what is missing or wrong.
    pub fn value(&self, secret: &str, key: &str) -> Result<&str, SecretError> {
        let bytes = self.bytes(secret, key)?;
        std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty() && !text.chars().any(char::is_control))
            .ok_or_else(|| SecretError::Unusable {
                secret: secret.to_owned(),
                key: key.to_owned(),
            })
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.0
                    .iter()
                    .map(|(name, values)| (name, values.keys().collect::<Vec<_>>())),
            )
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        let values = [
            ("user", "ryax"),
            ("password", "hunter2222"),
            ("broken", "a\nb"),
            ("empty", ""),
        ];
        let values = values.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        secrets.insert("root".to_owned(), values.into());
        secrets
    }

    #[test]
    fn values_are_found_by_name_and_key() {
        assert_eq!(secrets().value("root", "user"), Ok("ryax"));
    }

    #[test]
    fn each_miss_says_what_is_there() {
        let secrets = secrets();

        let missing = secrets.value("other", "user").unwrap_err().to_string();
        assert!(
            missing.contains("\"other\"") && missing.contains("kind: Secret"),
            "{missing}"
        );

        let key = secrets.value("root", "pass").unwrap_err().to_string();
        assert!(key.contains("broken, empty, password, user"), "{key}");

        for key in ["broken", "empty"] {
            assert!(
                matches!(
                    secrets.value("root", key),
                    Err(SecretError::Unusable { .. })
                ),
                "{key}"
            );
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let text = format!("{:?}", secrets());
        assert!(
            text.contains("password") && !text.contains("hunter2222"),
            "{text}"
        );
    }
}
