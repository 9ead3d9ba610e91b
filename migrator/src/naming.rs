//! Which keys a target can hold: known before anything is written. Pure.
//!
//! A store that keeps a key as a path (versitygw, MinIO, and our volume for all but a few) has
//! file system rules: names of at most 255 bytes, no empty, `.` or `..` segment, and no file that
//! is a directory too.

use std::fmt;

/// Longest name of a directory entry in bytes (`NAME_MAX` of Linux file systems).
const MAX_NAME: usize = 255;

/// How a target takes keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Any key (S3 itself, or a server that we do not know better).
    Any,
    /// Any key; those that are no path are kept apart from the tree (our volume and gateway).
    Overflow,
    /// Only what is a path.
    Tree {
        /// Whose rules these are, for people.
        server: &'static str,
        /// An object `dir/` may have a body.
        directory_bodies: bool,
    },
}

impl Naming {
    /// The rules of a server by its `Server` header.
    pub fn of_server(server: Option<&str>) -> Self {
        match server {
            Some(server) if server.starts_with("Filestore") => Self::Overflow,
            Some(server) if server.eq_ignore_ascii_case("VERSITYGW") => Self::Tree {
                server: "versitygw",
                directory_bodies: false,
            },
            Some(server) if server.contains("MinIO") => Self::Tree {
                server: "MinIO",
                directory_bodies: true,
            },
            _ => Self::Any,
        }
    }

    /// Whether no key like this fits, whatever else is there.
    pub(crate) fn refuses(self, key: &str, size: u64) -> bool {
        let Self::Tree {
            directory_bodies, ..
        } = self
        else {
            return false;
        };
        segments(key).is_some() || (key.ends_with('/') && size > 0 && !directory_bodies)
    }
}

/// Why a key is no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A segment of this many bytes.
    LongSegment(usize),
    /// `//`, or a slash at the beginning.
    EmptySegment,
    /// `.` or `..`.
    DotSegment,
    /// A name that versitygw and our volume keep to themselves.
    ReservedSegment,
    /// `dir/` with a body.
    DirectoryBody,
    /// Below this key, which is an object itself.
    Below(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongSegment(bytes) => write!(f, "KeyTooLong, a segment has {bytes} bytes of 255"),
            Self::EmptySegment => f.write_str("has an empty segment"),
            Self::DotSegment => f.write_str("has a segment `.` or `..`"),
            Self::ReservedSegment => f.write_str("has a reserved segment"),
            Self::DirectoryBody => f.write_str("ends in `/` and has a body"),
            Self::Below(key) => write!(f, "lies below the object {key}"),
        }
    }
}

/// Looks at the keys of one bucket in their order and tells those that are no path beside the
/// ones before. Remembers only keys that the next one begins with, at most one for each byte of a
/// key.
#[derive(Debug, Default)]
pub struct Tree {
    above: Vec<String>,
}

impl Tree {
    /// Why `key` with a body of `size` bytes has no place in the tree; keys ascend.
    pub fn obstacle(&mut self, key: &str, size: u64) -> Option<Obstacle> {
        while self.above.last().is_some_and(|last| !key.starts_with(last)) {
            self.above.pop();
        }
        if let Some(obstacle) = segments(key) {
            return Some(obstacle);
        }
        // All keys between `k` and `k/…` begin with `k`, so that `k` is still here.
        let file = self
            .above
            .iter()
            .find(|above| key.as_bytes().get(above.len()) == Some(&b'/'));
        if let Some(file) = file {
            return Some(Obstacle::Below(file.clone()));
        }
        if key.ends_with('/') {
            return (size > 0).then_some(Obstacle::DirectoryBody);
        }
        self.above.push(key.to_owned());
        None
    }
}

fn segments(key: &str) -> Option<Obstacle> {
    let path = key.strip_suffix('/').unwrap_or(key);
    path.split('/').find_map(|segment| match segment {
        "" => Some(Obstacle::EmptySegment),
        "." | ".." => Some(Obstacle::DotSegment),
        ".sgwtmp" => Some(Obstacle::ReservedSegment),
        _ if segment.len() > MAX_NAME => Some(Obstacle::LongSegment(segment.len())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn obstacles(keys: &[(&str, u64)]) -> Vec<Option<Obstacle>> {
        let mut tree = Tree::default();
        keys.iter()
            .map(|(key, size)| tree.obstacle(key, *size))
            .collect()
    }

    #[test]
    fn what_is_no_path_is_named() {
        let (fits, long) = ("é".repeat(127), "é".repeat(128));
        for (key, size, expected) in [
            ("a/b", 1, None),
            ("dir/", 0, None),
            ("dir/", 12, Some(Obstacle::DirectoryBody)),
            ("a//b", 1, Some(Obstacle::EmptySegment)),
            ("/a", 1, Some(Obstacle::EmptySegment)),
            ("a//", 1, Some(Obstacle::EmptySegment)),
            ("a/../b", 1, Some(Obstacle::DotSegment)),
            ("./a", 1, Some(Obstacle::DotSegment)),
            ("a/...", 1, None),
            (".sgwtmp/x", 1, Some(Obstacle::ReservedSegment)),
            (&fits, 1, None),
            (&long, 1, Some(Obstacle::LongSegment(256))),
        ] {
            assert_eq!(obstacles(&[(key, size)]), [expected], "{key}");
        }
    }

    #[test]
    fn what_a_server_refuses_by_the_name_alone_is_known() {
        let minio = Naming::of_server(Some("MinIO"));
        let versitygw = Naming::of_server(Some("VERSITYGW"));
        for (key, size, expected) in [
            ("a//b", 1, [true, true]),
            ("a/../b", 1, [true, true]),
            ("dir/", 1, [false, true]),
            ("dir/", 0, [false, false]),
            ("a/b", 1, [false, false]),
        ] {
            let refused = [minio, versitygw].map(|naming| naming.refuses(key, size));
            assert_eq!(refused, expected, "{key}");
            assert!(!Naming::Any.refuses(key, size) && !Naming::Overflow.refuses(key, size));
        }
    }

    #[test]
    fn an_object_below_another_is_found_with_keys_between() {
        let below = |key: &str| Some(Obstacle::Below(key.to_owned()));
        let keys = [
            ("a", 1),
            ("a!", 1),
            ("a-b", 1),
            ("a-b/c", 1),
            ("a.b", 1),
            ("a/", 0),
            ("a/b", 1),
            ("a0", 1),
            ("b/c", 1),
        ];
        assert_eq!(
            obstacles(&keys),
            [
                None,
                None,
                None,
                below("a-b"),
                None,
                below("a"),
                below("a"),
                None,
                None
            ]
        );
    }

    proptest! {
        /// The same pairs that comparing every key with every other one finds.
        #[test]
        fn streaming_finds_what_a_whole_list_shows(
            keys in proptest::collection::btree_set("[ab/.-]{1,6}", 0..40)
        ) {
            let mut tree = Tree::default();
            let mut placed: Vec<&String> = Vec::new();
            for key in &keys {
                let found = tree.obstacle(key, 0);
                let file = placed.iter().any(|file| {
                    !file.ends_with('/') && key.starts_with(&format!("{file}/"))
                });
                if segments(key).is_some() {
                    prop_assert!(found.is_some());
                } else {
                    prop_assert_eq!(matches!(found, Some(Obstacle::Below(_))), file, "{}", key);
                    if found.is_none() {
                        placed.push(key);
                    }
                }
            }
        }
    }
}
