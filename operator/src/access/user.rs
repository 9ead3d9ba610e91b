//! The Secret of a user: made when there is none, and what one that we made may lack later.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;

use super::keys::Pair;
use super::{MANAGED_BY, metadata};
use crate::render::{self, NAME_LABEL};
use crate::validate::{User, ValidatedFilestore};

type Values = BTreeMap<String, ByteString>;

/// Hexadecimal digits of a new access key behind the user's name, and of a new secret key.
const DIGITS: (usize, usize) = (12, 40);

/// A new pair for a user. `random` are at least 52 hexadecimal digits that nobody can guess.
pub(crate) fn new_pair(user: &User, random: &str) -> Pair {
    let (access, secret) = random.split_at(random.len().min(DIGITS.0));
    Pair {
        access_key: format!("{}-{access}", user.name),
        secret_key: secret.chars().take(DIGITS.1).collect(),
    }
}

/// A new Secret for a user. It has no owner: programs may use it longer than the Filestore exists,
/// and a Filestore that is made again finds its users' keys.
pub(crate) fn user_secret(filestore: &ValidatedFilestore, user: &User, pair: &Pair) -> Secret {
    let mut values = about(filestore, user);
    values.insert(user.keys.access_key.clone(), bytes(&pair.access_key));
    values.insert(user.keys.secret_key.clone(), bytes(&pair.secret_key));
    Secret {
        metadata: metadata(filestore, &user.secret),
        data: Some(values),
        ..Secret::default()
    }
}

/// Whether the Secret was made for this Filestore by the operator.
pub(crate) fn is_made_by_us(filestore: &ValidatedFilestore, live: &ObjectMeta) -> bool {
    let label = |name: &str| live.labels.as_ref().and_then(|all| all.get(name));
    label(NAME_LABEL) == Some(&filestore.name)
        && label(MANAGED_BY.0).map(String::as_str) == Some(MANAGED_BY.1)
}

/// What a Secret that we made lacks: the endpoint and the bucket as they are now, and the keys in
/// force under the names that are asked for now. Keys that are there are never changed, and half
/// a pair is completed only where the other half is the one in force, `known`.
pub(crate) fn missing(
    filestore: &ValidatedFilestore,
    user: &User,
    live: &Secret,
    known: Option<&Pair>,
) -> Values {
    let empty = Values::new();
    let has = live.data.as_ref().unwrap_or(&empty);
    let mut missing = about(filestore, user);
    missing.retain(|name, value| has.get(name) != Some(value));
    if let Some(pair) = known {
        let halves = [
            (&user.keys.access_key, bytes(&pair.access_key)),
            (&user.keys.secret_key, bytes(&pair.secret_key)),
        ];
        let fits = |(name, value): &(&String, ByteString)| {
            has.get(*name).is_none_or(|found| found == value)
        };
        if halves.iter().all(fits) {
            let absent = halves
                .into_iter()
                .filter(|(name, _)| !has.contains_key(*name));
            missing.extend(absent.map(|(name, value)| (name.clone(), value)));
        }
    }
    missing
}

/// Where the store is and which bucket is the user's: that of the first grant which names one.
fn about(filestore: &ValidatedFilestore, user: &User) -> Values {
    let mut values = Values::from([(
        user.keys.endpoint.clone(),
        bytes(&render::endpoint(filestore)),
    )]);
    if let Some(grant) = user.grants.iter().find(|grant| grant.bucket != "*") {
        values.insert(user.keys.bucket.clone(), bytes(&grant.bucket));
    }
    values
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}
