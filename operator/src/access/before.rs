//! What the gateway's Secret says of keys: what was in force at the last look.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::{Held, Pair};
use super::{ACCESS_FILE, FORMER_FILE, ROOT_FILES};
use crate::drift::{Path, holder_of};
use crate::plan::FIELD_MANAGER;
use crate::validate::User;

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) users: Vec<DocumentUser>,
    pub(super) buckets: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DocumentUser {
    pub(super) name: String,
    pub(super) keys: Vec<Pair>,
    pub(super) grants: Vec<Value>,
}

/// Ends of the keys of root and of each user, in their order; none for the present ones.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Ends {
    pub(super) root: Vec<Option<Timestamp>>,
    pub(super) users: BTreeMap<String, Vec<Option<Timestamp>>>,
}

/// What was in force at the last look, as the gateway's Secret says.
pub(super) struct Before {
    pub(super) root: Vec<Held>,
    pub(super) users: BTreeMap<String, Vec<Held>>,
}

impl Before {
    pub(super) fn read(live: Option<&Secret>) -> Self {
        let live = live.filter(|live| is_as_written(live));
        let document: Document = file(live, ACCESS_FILE).unwrap_or_default();
        let ends: Ends = file(live, FORMER_FILE).unwrap_or_default();
        let lines = |name| text(live, name).unwrap_or_default().lines();
        let root = lines(ROOT_FILES.0).zip(lines(ROOT_FILES.1));
        let root = root.map(|(access_key, secret_key)| Pair {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
        });
        let users = document.users.into_iter().map(|user| {
            let ends = ends.users.get(&user.name).map_or(&[][..], Vec::as_slice);
            (user.name, Held::all(user.keys, ends))
        });
        Self {
            root: Held::all(root.collect(), &ends.root),
            users: users.collect(),
        }
    }
}

/// The pair that a user has now, as far as the gateway's Secret tells.
pub(crate) fn present(live: Option<&Secret>, user: &User) -> Option<Pair> {
    let held = Before::read(live).users.remove(&user.name)?;
    let present = held.into_iter().find(|held| held.end.is_none());
    present.map(|held| held.pair)
}

/// Whether the Secret has every value as it was written by us. What somebody else wrote there was
/// never in force by right, and would stay valid as a former key; then the Secrets of root and of
/// the users alone say what is.
fn is_as_written(live: &Secret) -> bool {
    let names = [ACCESS_FILE, FORMER_FILE, ROOT_FILES.0, ROOT_FILES.1];
    names.into_iter().all(|name| {
        let path = Path::fields(&["data", name]);
        let other = holder_of(&path, live.managed_fields(), &[FIELD_MANAGER]);
        text(Some(live), name).is_some() && other.is_none()
    })
}

pub(super) fn text<'a>(secret: Option<&'a Secret>, name: &str) -> Option<&'a str> {
    let bytes = secret?.data.as_ref()?.get(name)?;
    std::str::from_utf8(&bytes.0).ok()
}

pub(super) fn file<T: for<'de> Deserialize<'de>>(secret: Option<&Secret>, name: &str) -> Option<T> {
    serde_json::from_str(text(secret, name)?).ok()
}
