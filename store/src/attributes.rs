//! Attributes: named values on a file or directory that carry what S3 keeps beside the bytes.
//!
//! [`codec`] turns metadata into the attributes that versitygw writes, and back. Where they are
//! kept depends on the volume's metadata mode: [`xattr`] on the file itself, or [`json`] files
//! beside it, holding the same attributes.

pub(crate) mod codec;
pub(crate) mod json;
pub(crate) mod xattr;

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use filestore_common::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::dir::Dir;
use crate::query::MetadataMode;

/// File that holds the attributes of the directory it lies in, sidecar mode.
pub(crate) const DIRECTORY_FILE: &str = ".attributes.json";

/// Attributes by name, without the `user.` of Linux.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    from = "BTreeMap<String, JsonValue>",
    into = "BTreeMap<String, JsonValue>"
)]
pub(crate) struct AttributeSet(Vec<(Cow<'static, str>, Vec<u8>)>);

impl AttributeSet {
    /// Value of an attribute.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_slice())
    }

    /// Value of an attribute as text; `None` when it is not UTF-8.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Sets or replaces an attribute.
    pub(crate) fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Vec<u8>>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some(entry) => entry.1 = value,
            None => self.0.push((name, value)),
        }
    }

    /// Removes an attribute; `false` when there was none.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(n, _)| n != name);
        self.0.len() < before
    }

    /// The same attributes without those whose names `keep` refuses.
    pub(crate) fn filtered(mut self, keep: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|(name, _)| keep(name));
        self
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All attributes, in the order they were set.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(n, v)| (n.as_ref(), v.as_slice()))
    }
}

/// A value in JSON: text where it is UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum JsonValue {
    Text(String),
    Binary { base64: String },
}

impl From<BTreeMap<String, JsonValue>> for AttributeSet {
    fn from(map: BTreeMap<String, JsonValue>) -> Self {
        let value = |value| match value {
            JsonValue::Text(text) => text.into_bytes(),
            // What no longer is base64 was damaged from outside; the codec reports empty values.
            JsonValue::Binary { base64 } => STANDARD.decode(base64).unwrap_or_default(),
        };
        Self(
            map.into_iter()
                .map(|(n, v)| (Cow::Owned(n), value(v)))
                .collect(),
        )
    }
}

impl From<AttributeSet> for BTreeMap<String, JsonValue> {
    fn from(set: AttributeSet) -> Self {
        let value = |value: Vec<u8>| match String::from_utf8(value) {
            Ok(text) => JsonValue::Text(text),
            Err(binary) => JsonValue::Binary {
                base64: STANDARD.encode(binary.as_bytes()),
            },
        };
        set.0
            .into_iter()
            .map(|(n, v)| (n.into_owned(), value(v)))
            .collect()
    }
}

/// Bytes that the metadata of an object takes in the attribute block of ext4: an entry of 16
/// bytes, name and value, each rounded up to 4 (fs/ext4/xattr.h).
pub fn attribute_bytes(meta: &ObjectMeta) -> u64 {
    let padded = |length: usize| length.next_multiple_of(4) as u64;
    let set = codec::encode(meta, None);
    set.iter()
        .map(|(name, value)| 16 + padded(name.len()) + padded(value.len()))
        .sum()
}

/// Writes the attributes of a directory of our own making (a multipart upload): on it, or in a
/// file inside it. Attributes not in `set` stay in xattr mode and go in sidecar mode.
///
/// # Errors
/// [`crate::Error::MetadataTooLarge`], [`crate::Error::NoSpace`], [`crate::Error::Io`].
pub(crate) fn write_directory(mode: MetadataMode, dir: &Dir, set: &AttributeSet) -> Result<()> {
    match mode {
        MetadataMode::Xattr => xattr::write(dir, set),
        MetadataMode::Sidecar => json::write(dir, DIRECTORY_FILE, set, true),
    }
}

/// Reads what [`write_directory`] wrote; empty when there is nothing.
///
/// # Errors
/// [`crate::Error::Damaged`], [`crate::Error::Io`].
pub(crate) fn read_directory(mode: MetadataMode, dir: &Dir) -> Result<AttributeSet> {
    match mode {
        MetadataMode::Xattr => xattr::read(dir),
        MetadataMode::Sidecar => Ok(json::read(dir, DIRECTORY_FILE)?.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
