//! The access file: its form, and what makes one wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use filestore_common::BucketName;
use filestore_store::Quota;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Access, Grant, User};
use crate::credentials::Secret;

/// Why an access file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file or directory cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// It is no access file. The text never holds a secret.
    #[error("{}: line {line}: {message}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: u64,
        /// What.
        message: String,
    },
    /// Its parts do not go together.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What, and what to do.
        message: String,
    },
}

/// A file as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default)]
    users: Vec<UserEntry>,
    #[serde(default)]
    buckets: Vec<BucketEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UserEntry {
    name: String,
    keys: Vec<KeyEntry>,
    grants: Vec<GrantEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyEntry {
    access_key: String,
    #[serde(deserialize_with = "secret")]
    secret_key: Secret,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantEntry {
    bucket: String,
    #[serde(default)]
    prefix: String,
    access: Access,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BucketEntry {
    name: String,
    #[serde(default, deserialize_with = "size")]
    quota: Option<u64>,
    #[serde(default)]
    max_objects: Option<u64>,
}

/// All that the files say, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Users with the keys that are theirs, in order; secrets of one access key stay in order.
    pub(crate) users: Vec<(User, Vec<(String, Secret)>)>,
    /// Quotas of buckets.
    pub(crate) quotas: BTreeMap<String, Quota>,
}

/// Reads a secret without ever quoting it.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    struct Quiet;
    impl Visitor<'_> for Quiet {
        type Value = Secret;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
            Ok(Secret::new(text))
        }
        fn visit_bool<E: de::Error>(self, _: bool) -> Result<Secret, E> {
            Err(E::custom("a secret must be a text: put it in quotes"))
        }
        fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
            self.visit_bool(true)
        }
        fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
            self.visit_bool(true)
        }
        fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
            self.visit_bool(true)
        }
    }
    deserializer.deserialize_str(Quiet)
}

/// Reads a number of bytes, `1048576` or `1Mi`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(u64),
        Text(String),
    }
    match Option::<Form>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Form::Number(bytes)) => Ok(Some(bytes)),
        Some(Form::Text(text)) => match text.parse::<ByteSize>() {
            Ok(size) => Ok(Some(size.as_u64())),
            Err(_) => Err(de::Error::custom(format!(
                "{text:?} is no size: write bytes, or a number with Ki, Mi, Gi, Ti, k, M, G or T"
            ))),
        },
    }
}

/// Reads the text of a file.
///
/// # Errors
/// [`AccessError::Form`] with the line.
pub(super) fn parse(path: &Path, text: &str) -> Result<Document, AccessError> {
    let form = |line, message| AccessError::Form {
        path: path.to_owned(),
        line,
        message,
    };
    // To YAML an empty file is a null; here it is one that is being written.
    if text.trim().is_empty() {
        return Err(form(1, "the file is empty".to_owned()));
    }
    let mut track = serde_path_to_error::Track::new();
    let result: Result<Document, serde_saphyr::Error> =
        serde_saphyr::with_deserializer_from_str(text, |deserializer| {
            Document::deserialize(serde_path_to_error::Deserializer::new(
                deserializer,
                &mut track,
            ))
        });
    result.map_err(|error| {
        let line = error.location().map_or(1, |at| at.line().max(1));
        let message = error.render_with_options(serde_saphyr::render_options! {
            formatter: &PLAIN,
            snippets: serde_saphyr::SnippetMode::Off,
        });
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(text, _)| text);
        match track.path().to_string().as_str() {
            "" | "." => form(line, message.to_owned()),
            field => form(line, format!("{field}: {message}")),
        }
    })
}

static PLAIN: serde_saphyr::UserMessageFormatter = serde_saphyr::UserMessageFormatter;

impl Policy {
    /// Adds what a file says. `is_root` knows the access keys that no user may have.
    ///
    /// # Errors
    /// [`AccessError::Content`].
    pub(super) fn add(
        &mut self,
        path: &Path,
        document: Document,
        is_root: impl Fn(&str) -> bool,
    ) -> Result<(), AccessError> {
        let wrong = |message: String| AccessError::Content {
            path: path.to_owned(),
            message,
        };
        for entry in document.users {
            let user = self.user(entry, &is_root).map_err(wrong)?;
            self.users.push(user);
        }
        for entry in document.buckets {
            let name = entry.name;
            if let Err(error) = BucketName::new(&*name) {
                return Err(wrong(error.to_string()));
            }
            let quota = Quota {
                bytes: entry.quota,
                objects: entry.max_objects,
            };
            if self.quotas.insert(name.clone(), quota).is_some() {
                return Err(wrong(format!("bucket {name} is there twice")));
            }
        }
        Ok(())
    }

    fn user(
        &self,
        entry: UserEntry,
        is_root: impl Fn(&str) -> bool,
    ) -> Result<(User, Vec<(String, Secret)>), String> {
        let name = entry.name;
        if name.is_empty() {
            return Err("a user has an empty name".to_owned());
        }
        if self.users.iter().any(|(user, _)| user.name == name) {
            return Err(format!("user {name} is there twice"));
        }
        let taken: BTreeSet<&str> = self
            .users
            .iter()
            .flat_map(|(_, keys)| keys.iter().map(|(access_key, _)| access_key.as_str()))
            .collect();
        let mut keys = Vec::with_capacity(entry.keys.len());
        for (index, key) in entry.keys.into_iter().enumerate() {
            let access_key = key.access_key;
            if access_key.is_empty() || key.secret_key.expose().is_empty() {
                return Err(format!("user {name}: keys[{index}] has an empty half"));
            }
            if taken.contains(access_key.as_str()) {
                return Err(format!(
                    "user {name}: access key {access_key} belongs to another user"
                ));
            }
            if is_root(&access_key) {
                return Err(format!(
                    "user {name}: access key {access_key} is the root's; give the user one of its own"
                ));
            }
            keys.push((access_key, key.secret_key));
        }
        let grants: Result<_, String> = entry.grants.into_iter().map(grant).collect();
        let grants = grants.map_err(|error| format!("user {name}: {error}"))?;
        Ok((User { name, grants }, keys))
    }
}

fn grant(entry: GrantEntry) -> Result<Grant, String> {
    let bucket = match entry.bucket.as_str() {
        "*" => None,
        name => Some(
            BucketName::new(name)
                .map_err(|error| format!("{error} (or \"*\" for every bucket)"))?
                .into(),
        ),
    };
    if let Some(prefix) = entry.prefix.strip_suffix('*') {
        return Err(format!(
            "prefix {:?}: there are no wildcards, write {prefix:?} for all keys that start so",
            entry.prefix
        ));
    }
    Ok(Grant {
        bucket,
        prefix: entry.prefix,
        access: entry.access,
    })
}

#[cfg(test)]
mod tests;
