//! Bucket names and object keys: checked once at the edge, trusted afterwards.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest object key in bytes of UTF-8 (S3 user guide, "Object key naming guidelines").
pub const MAX_KEY_BYTES: usize = 1024;

/// Why a bucket name or key was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The bucket name breaks S3's naming rules.
    #[error(
        "bucket name {0:?} is not valid: 3 to 63 of a-z, 0-9, '.', '-', starting and ending with a letter or digit, and not an IP address"
    )]
    Bucket(String),
    /// The key is empty.
    #[error("object key is empty")]
    EmptyKey,
    /// The key is longer than [`MAX_KEY_BYTES`].
    #[error("object key is {0} bytes long, the limit is 1024")]
    KeyTooLong(usize),
    /// The key holds a NUL byte, which no file system can store.
    #[error("object key holds a NUL byte")]
    NulInKey,
}

/// A bucket name that obeys S3's rules (user guide, "General purpose bucket naming rules").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BucketName(String);

impl BucketName {
    /// Checks `name` against S3's rules.
    ///
    /// # Errors
    /// [`NameError::Bucket`] when a rule is broken.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        let bytes = name.as_bytes();
        let edge =
            |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let valid = (3..=63).contains(&bytes.len())
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-'))
            && edge(bytes.first())
            && edge(bytes.last())
            && !["..", ".-", "-."].iter().any(|pair| name.contains(pair))
            && name.parse::<std::net::Ipv4Addr>().is_err();
        if valid {
            Ok(Self(name))
        } else {
            Err(NameError::Bucket(name))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for BucketName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<BucketName> for String {
    fn from(name: BucketName) -> Self {
        name.0
    }
}

/// An S3 object key: 1 to 1024 bytes of UTF-8 without NUL. Any other byte is allowed,
/// `//`, leading `/` and `..` segments included; the store finds a place for each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Checks length and NUL.
    ///
    /// # Errors
    /// [`NameError`] naming the broken rule.
    pub fn new(key: impl Into<String>) -> Result<Self, NameError> {
        let key = key.into();
        if key.is_empty() {
            return Err(NameError::EmptyKey);
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(NameError::KeyTooLong(key.len()));
        }
        if key.as_bytes().contains(&0) {
            return Err(NameError::NulInKey);
        }
        Ok(Self(key))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ObjectKey {
    type Error = NameError;
    fn try_from(key: String) -> Result<Self, NameError> {
        Self::new(key)
    }
}

impl From<ObjectKey> for String {
    fn from(key: ObjectKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_follow_the_s3_rules() {
        for good in ["abc", "ryax-filestore", "a.b.c", "0a0", &"x".repeat(63)] {
            assert!(BucketName::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ab",
            "Abc",
            "a_b",
            "-abc",
            "abc-",
            ".abc",
            "a..b",
            "a.-b",
            "a-.b",
            "192.168.1.1",
            "lost+found",
            &"x".repeat(64),
        ] {
            assert!(BucketName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_limited_in_bytes_not_characters() {
        assert!(ObjectKey::new("é".repeat(512)).is_ok());
        assert_eq!(
            ObjectKey::new("é".repeat(513)),
            Err(NameError::KeyTooLong(1026))
        );
        assert_eq!(ObjectKey::new(""), Err(NameError::EmptyKey));
        assert_eq!(ObjectKey::new("a\0b"), Err(NameError::NulInKey));
    }
}
