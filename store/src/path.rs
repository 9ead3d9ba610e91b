//! Key → place on the volume. The only code that turns a key into a path.

use filestore_common::{BucketName, ObjectKey};
use sha2::{Digest, Sha256};

use crate::layout;

/// Longest name of a directory entry in bytes (`NAME_MAX` of Linux file systems).
const MAX_NAME: usize = 255;

/// Where a key belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// In the bucket's tree.
    Tree {
        /// Path below the bucket, without trailing slash.
        path: String,
        /// The key ends in `/`: the object is the directory itself.
        directory_object: bool,
    },
    /// A file tree cannot hold the key as it is.
    Overflow,
}

impl Location {
    /// Place of `key`. Bodies of keys ending in `/`, and keys whose path is taken (`a` beside
    /// `a/b`), go to overflow as well: that only the volume knows.
    pub(crate) fn of(key: &ObjectKey) -> Self {
        let key = key.as_str();
        let path = key.strip_suffix('/').unwrap_or(key);
        if path.split('/').all(is_plain_segment) {
            Self::Tree {
                path: path.to_owned(),
                directory_object: path.len() < key.len(),
            }
        } else {
            Self::Overflow
        }
    }
}

/// Whether a segment may be the name of a directory entry that listings show.
pub(crate) fn is_plain_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.len() <= MAX_NAME
        && !layout::is_hidden(segment.as_bytes())
}

/// Splits a path into its directory (empty = the start) and its last name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// `<bucket>/<path>`, or the bucket itself for an empty path.
pub(crate) fn below(bucket: &BucketName, path: &str) -> String {
    let bucket = bucket.as_str();
    if path.is_empty() {
        return bucket.to_owned();
    }
    let mut whole = String::with_capacity(bucket.len() + 1 + path.len());
    whole.push_str(bucket);
    whole.push('/');
    whole.push_str(path);
    whole
}

/// Hex SHA-256 of a text, as versitygw and we name things after keys and buckets.
pub(crate) fn hash_name(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// `<bucket>/<2 hex>`: the directory that holds what is named after the hash `name`.
pub(crate) fn hash_dir(bucket: &BucketName, name: &str) -> String {
    format!("{bucket}/{}", &name[..2])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn location(key: &str) -> Location {
        Location::of(&ObjectKey::new(key).unwrap())
    }

    #[test]
    fn representable_keys_lie_in_the_tree_as_they_are() {
        for key in [
            "a",
            "a/b/c.txt",
            " ",
            "a b",
            "é\u{7}\n",
            "...",
            ".hidden",
            "a/.b",
        ] {
            let expected = Location::Tree {
                path: key.to_owned(),
                directory_object: false,
            };
            assert_eq!(location(key), expected, "{key:?}");
        }
        let expected = Location::Tree {
            path: "a/b".to_owned(),
            directory_object: true,
        };
        assert_eq!(location("a/b/"), expected);
    }

    #[test]
    fn everything_else_overflows() {
        let long = "x".repeat(256);
        for key in [
            "/",
            "//",
            "/a",
            "a//b",
            "a//",
            ".",
            "..",
            "./a",
            "a/..",
            "a/./b",
            "a/../b",
            "../",
            ".sgwtmp/evil",
            ".sgwtmp",
            "a/.sgwtmp/",
            "a/.b.sgwtmp.12",
            &long,
            &format!("a/{long}/b"),
        ] {
            assert_eq!(location(key), Location::Overflow, "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn tree_paths_never_leave_the_bucket(key in "[a./é]{1,40}") {
            if let Location::Tree { path, directory_object } = location(&key) {
                prop_assert!(path.split('/').all(|s| !s.is_empty() && s != "." && s != ".."));
                let back = if directory_object { format!("{path}/") } else { path };
                prop_assert_eq!(back, key);
            }
        }
    }
}
