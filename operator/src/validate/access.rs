//! Users, grants and quotas.

use std::collections::{BTreeMap, BTreeSet};

use filestore_common::BucketName;

use super::check::{dns_label, dns_subdomain};
use super::{Result, ValidationError};
use crate::api::{AccessSpec, BucketSpec, GrantSpec, UserSpec};
use crate::quantity;

/// Who may do what, with every default filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Users.
    pub users: Vec<User>,
    /// Quotas in bytes by bucket.
    pub quotas: BTreeMap<String, u64>,
    /// Seconds that former keys stay valid.
    pub overlap_seconds: u32,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub grants: Vec<GrantSpec>,
    /// Name of the Secret with its keys.
    pub secret: String,
    /// Names of the Secret's keys.
    pub keys: SecretKeys,
}

/// Names of the keys of a user's Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKeys {
    /// Access key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// URL of the store.
    pub endpoint: String,
    /// Bucket.
    pub bucket: String,
}

impl Access {
    /// Whether the gateway needs to be told anything.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.quotas.is_empty()
    }
}

/// Checks users and quotas. `bundled`: the engine is ours.
///
/// # Errors
/// The first thing that is wrong; marked as a lack of the engine where it is one.
pub(super) fn access(
    filestore: &str,
    root_secret: &str,
    spec: Option<&AccessSpec>,
    buckets: &[BucketSpec],
    bundled: bool,
) -> Result<Access> {
    let spec = spec.cloned().unwrap_or_default();
    if !bundled && spec.overlap_seconds.is_some() {
        return Err(ValidationError::engine_lacks(
            "spec.access.overlapSeconds",
            "rotation without a restart",
        ));
    }
    let mut quotas = BTreeMap::new();
    for (index, bucket) in buckets.iter().enumerate() {
        if let Some(text) = &bucket.quota {
            let field = format!("spec.buckets[{index}].quota");
            if !bundled {
                return Err(ValidationError::engine_lacks(field, "quotas"));
            }
            quotas.insert(bucket.name.clone(), bytes(field, text)?);
        }
    }
    if !bundled && !spec.users.is_empty() {
        return Err(ValidationError::engine_lacks("spec.access.users", "users"));
    }
    let mut names = BTreeSet::new();
    let mut secrets = BTreeSet::from([root_secret.to_owned(), rendered_name(filestore)]);
    let mut users = Vec::with_capacity(spec.users.len());
    for (index, user) in spec.users.iter().enumerate() {
        let field = format!("spec.access.users[{index}]");
        let user = self::user(filestore, &field, user)?;
        if !names.insert(user.name.clone()) {
            return Err(ValidationError::new(
                format!("{field}.name"),
                format!(
                    "{:?} is there twice; give each user its own name",
                    user.name
                ),
            ));
        }
        if !secrets.insert(user.secret.clone()) {
            return Err(ValidationError::new(
                format!("{field}.secretRef.name"),
                format!(
                    "Secret {:?} belongs to root, to another user or to the operator; give each user its own",
                    user.secret
                ),
            ));
        }
        users.push(user);
    }
    Ok(Access {
        users,
        quotas,
        overlap_seconds: spec.overlap_seconds.unwrap_or(3600),
    })
}

/// Name of the Secret that the gateway reads.
pub fn rendered_name(filestore: &str) -> String {
    format!("{filestore}-access")
}

fn user(filestore: &str, field: &str, spec: &UserSpec) -> Result<User> {
    dns_label(&format!("{field}.name"), &spec.name, 63)?;
    if spec.grants.is_empty() {
        return Err(ValidationError::new(
            format!("{field}.grants"),
            "a user without a grant can do nothing; add one, or remove the user",
        ));
    }
    for (index, grant) in spec.grants.iter().enumerate() {
        check_grant(&format!("{field}.grants[{index}]"), grant)?;
    }
    let secret = match &spec.secret_ref {
        Some(secret) => secret.name.clone(),
        None => format!("{filestore}-{}", spec.name),
    };
    dns_subdomain(format!("{field}.secretRef.name"), &secret)?;
    let named = spec.keys.clone().unwrap_or_default();
    let or = |name: Option<String>, default: &str| name.unwrap_or_else(|| default.to_owned());
    let keys = SecretKeys {
        access_key: or(named.access_key, "access-key"),
        secret_key: or(named.secret_key, "secret-key"),
        endpoint: or(named.endpoint, "endpoint"),
        bucket: or(named.bucket, "bucket"),
    };
    let different: BTreeSet<_> = [
        &keys.access_key,
        &keys.secret_key,
        &keys.endpoint,
        &keys.bucket,
    ]
    .into_iter()
    .collect();
    if different.len() < 4 {
        return Err(ValidationError::new(
            format!("{field}.keys"),
            "two values cannot have the same key; give accessKey, secretKey, endpoint and bucket different names",
        ));
    }
    Ok(User {
        name: spec.name.clone(),
        grants: spec.grants.clone(),
        secret,
        keys,
    })
}

fn check_grant(field: &str, grant: &GrantSpec) -> Result<()> {
    if grant.bucket != "*" && BucketName::new(&*grant.bucket).is_err() {
        return Err(ValidationError::new(
            format!("{field}.bucket"),
            format!(
                "{:?} is no bucket name; write one, or \"*\" for every bucket",
                grant.bucket
            ),
        ));
    }
    match &grant.prefix {
        Some(prefix) if prefix.ends_with('*') => Err(ValidationError::new(
            format!("{field}.prefix"),
            format!(
                "{prefix:?}: there are no wildcards; write {:?} for all keys that start so",
                prefix.trim_end_matches('*')
            ),
        )),
        _ => Ok(()),
    }
}

fn bytes(field: String, text: &str) -> Result<u64> {
    let nanos = quantity::nanos(text).filter(|nanos| *nanos > 0);
    let bytes = nanos.and_then(|nanos| u64::try_from(nanos / 1_000_000_000).ok());
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        ValidationError::new(
            field,
            format!("{text:?} is no size; write a quantity such as 20Gi, or omit it for no limit"),
        )
    })
}

#[cfg(test)]
mod tests;
