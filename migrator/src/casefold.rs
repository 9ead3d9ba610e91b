//! Whether a directory takes names that differ by case only for one (ext4 with casefold, vfat,
//! some network file systems). Looked at without writing anything.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `FS_CASEFOLD_FL` of linux/fs.h.
const CASEFOLD: u32 = 0x4000_0000;
/// Names looked at before giving up.
const LOOKS: usize = 1000;
/// Keys remembered for finding pairs; beyond that a folding target is only refused as such.
const REMEMBERED: usize = 200_000;
/// Pairs named.
const PAIRS: usize = 10;

/// Whether `directory` folds case: by its flag, or because a name that is not in it leads to one
/// that is.
pub(crate) fn folds(directory: &Path) -> bool {
    let flagged = File::open(directory)
        .ok()
        .and_then(|file| rustix::fs::ioctl_getflags(&file).ok())
        .is_some_and(|flags| flags.bits() & CASEFOLD != 0);
    flagged || resolves_other_case(directory)
}

fn resolves_other_case(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    let names: HashSet<String> = entries
        .take(LOOKS)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let other = |name: &String| {
        let swapped = swap_case(name);
        (!names.contains(&swapped)).then_some(swapped)
    };
    let inode = |name: &str| {
        let stat = std::fs::symlink_metadata(directory.join(name)).ok()?;
        Some((stat.dev(), stat.ino()))
    };
    names.iter().any(|name| {
        other(name).is_some_and(|swapped| {
            let found = inode(&swapped);
            found.is_some() && found == inode(name)
        })
    })
}

fn swap_case(name: &str) -> String {
    let swap = |c: char| {
        if c.is_ascii_lowercase() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        }
    };
    name.chars().map(swap).collect()
}

/// Keys that would be one on a folding target.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    seen: HashMap<String, String>,
    /// How many keys meet another one.
    pub(crate) count: u64,
    /// The first pairs.
    pub(crate) examples: Vec<String>,
}

impl Pairs {
    /// Adds `bucket/key`.
    pub(crate) fn add(&mut self, name: &str) {
        let folded = name.to_lowercase();
        if let Some(other) = self.seen.get(&folded) {
            self.count += 1;
            if self.examples.len() < PAIRS {
                self.examples.push(format!("{other} and {name}"));
            }
        } else if self.seen.len() < REMEMBERED {
            self.seen.insert(folded, name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No file system of this kernel folds case: only the answer "no" can be had from a real one.
    #[test]
    fn a_directory_that_tells_case_apart_is_not_taken_for_a_folding_one() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!folds(directory.path()));
        std::fs::write(directory.path().join("name"), "").unwrap();
        assert!(!folds(directory.path()));
        // One file under two names is two entries, not one name in two ways.
        std::fs::hard_link(directory.path().join("name"), directory.path().join("NAME")).unwrap();
        assert!(!folds(directory.path()));
    }

    #[test]
    fn keys_that_differ_by_case_only_are_paired() {
        let mut pairs = Pairs::default();
        for name in ["b/A.txt", "b/a.txt", "b/É", "b/é", "c/a.txt", "b/B.txt"] {
            pairs.add(name);
        }
        assert_eq!(pairs.count, 2);
        assert_eq!(pairs.examples, ["b/A.txt and b/a.txt", "b/É and b/é"]);
    }
}
