//! Who may do what: users, their grants, and the one function that decides.
//!
//! ```text
//! files ─▶ document (form, checks) ─▶ accounts (in force, followed) ─▶ principal of a request
//!                                      rules (S3 operation ─▶ action) ─▶ Principal::may
//! ```

mod accounts;
mod document;
mod rules;

use std::sync::Arc;

use serde::Deserialize;

pub use accounts::AccessSources;
pub(crate) use accounts::{Accounts, Reload};
pub use document::AccessError;
pub(crate) use rules::{Rule, rule};

/// What a request wants to do with a name in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Know that the bucket is there, and its settings.
    See,
    /// Read objects and their metadata, list them.
    Read,
    /// Write, change and delete objects, and uploads on their way to be objects.
    Write,
    /// Change what belongs to the store: remove buckets, set what all their users share, import.
    Administer,
}

/// What a grant allows. The names are those of MinIO's canned policies without their `only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// [`Action::Read`].
    Read,
    /// [`Action::Write`].
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    fn includes(self, action: Action) -> bool {
        match action {
            Action::See => true,
            Action::Read => matches!(self, Self::Read | Self::ReadWrite),
            Action::Write => matches!(self, Self::Write | Self::ReadWrite),
            Action::Administer => false,
        }
    }
}

/// Access to the keys of a bucket that start with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// A bucket's name; `None` = every bucket.
    pub(crate) bucket: Option<String>,
    /// Compared byte by byte with the start of keys; empty = the whole bucket.
    pub(crate) prefix: String,
    /// What is allowed.
    pub(crate) access: Access,
}

impl Grant {
    fn allows(&self, action: Action, bucket: &str, name: &str) -> bool {
        let here = self.bucket.as_deref().is_none_or(|own| own == bucket);
        // Any grant shows the bucket, whatever its prefix.
        let within = action == Action::See || name.starts_with(&self.prefix);
        here && within && self.access.includes(action)
    }
}

/// A user: a name for people, and grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// Shown in logs.
    pub(crate) name: String,
    /// What the user may do; without any, nothing.
    pub(crate) grants: Vec<Grant>,
}

/// Who signed a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    /// The holder of a root key.
    Root,
    /// A user.
    User(Arc<User>),
}

impl Principal {
    /// Whether the principal may do `action` with `name` in `bucket`: a key, or the prefix of a
    /// listing, which has to lie within a granted one. An empty name is the whole bucket.
    pub(crate) fn may(&self, action: Action, bucket: &str, name: &str) -> bool {
        match self {
            Self::Root => true,
            Self::User(user) => user
                .grants
                .iter()
                .any(|grant| grant.allows(action, bucket, name)),
        }
    }
}

#[cfg(test)]
mod tests;
