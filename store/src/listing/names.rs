//! The names of one directory in listing order.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, RawDir, RawDirEntry};
use rustix::io::Errno;

use crate::layout;

/// Bytes asked for per `getdents64`. Small directories fit into one call, which is then atomic;
/// 100 000 names take some 15 calls.
const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    length: u32,
}

/// Names of a directory's regular files and directories, sorted as the keys that they lead to:
/// a directory's name ends in `/`. Names that no key can have are left out.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: Box<[u8]>,
    order: Box<[Span]>,
}

impl Names {
    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The name at `index` in listing order.
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        self.order.get(index).map(|span| slice(&self.text, *span))
    }

    /// Index of the first name at or after `from` that is, or leads to, a key not below `bound`,
    /// where `bound` is relative to this directory.
    pub(super) fn seek(&self, from: usize, bound: &[u8]) -> usize {
        let rest = self.order.get(from..).unwrap_or_default();
        from + rest.partition_point(|span| {
            let name = slice(&self.text, *span);
            name < bound && !(name.ends_with(b"/") && bound.starts_with(name))
        })
    }

    /// Memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.order)
    }

    /// All names of both, once each.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut builder = Builder::default();
        for names in [self, other] {
            for span in &names.order {
                builder.push_entry(slice(&names.text, *span));
            }
        }
        builder.finish()
    }

    /// Reads a directory that was just opened, or rewound.
    pub(super) fn read(directory: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Result<Self, Errno> {
        buffer.clear();
        buffer.reserve(BUFFER_BYTES);
        let mut builder = Builder::default();
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => {
                    if let Some(kind) = classify(directory, &entry)? {
                        let name = entry.file_name().to_bytes();
                        builder.push(name, kind == Kind::Directory);
                    }
                }
                // The directory was removed while it was read: it has no names any more.
                Err(Errno::NOENT) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(builder.finish())
    }
}

fn slice(text: &[u8], span: Span) -> &[u8] {
    text.get(span.start as usize..)
        .and_then(|rest| rest.get(..span.length as usize))
        .unwrap_or_default()
}

/// What a directory entry can be to a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// What an entry just read is to a listing: `None` for what leads to no object (the temporary
/// area, leftovers, names that are not UTF-8, links, FIFOs, devices, sockets).
pub(super) fn classify(
    directory: BorrowedFd<'_>,
    entry: &RawDirEntry<'_>,
) -> Result<Option<Kind>, Errno> {
    let name = entry.file_name();
    if is_hidden(name.to_bytes()) {
        return Ok(None);
    }
    let file_type = match entry.file_type() {
        FileType::Unknown => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        },
        known => known,
    };
    Ok(match file_type {
        FileType::RegularFile => Some(Kind::File),
        FileType::Directory => Some(Kind::Directory),
        _ => None,
    })
}

/// Whether no key has a segment of this name.
pub(super) fn is_hidden(name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || layout::is_hidden(name) || std::str::from_utf8(name).is_err()
}

#[derive(Debug, Default)]
struct Builder {
    text: Vec<u8>,
    order: Vec<Span>,
}

impl Builder {
    fn push(&mut self, name: &[u8], is_directory: bool) {
        let start = self.text.len();
        self.text.extend_from_slice(name);
        if is_directory {
            self.text.push(b'/');
        }
        self.close(start);
    }

    fn push_entry(&mut self, entry: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(entry);
        self.close(start);
    }

    fn close(&mut self, start: usize) {
        // 4 GiB of names in one directory are beyond what ext4 and xfs index.
        if let (Ok(start), Ok(length)) =
            (u32::try_from(start), u32::try_from(self.text.len() - start))
        {
            self.order.push(Span { start, length });
        }
    }

    fn finish(mut self) -> Names {
        let text = self.text.into_boxed_slice();
        self.order
            .sort_unstable_by(|a, b| slice(&text, *a).cmp(slice(&text, *b)));
        // A directory that is rehashed while it is read may return a name twice.
        self.order
            .dedup_by(|a, b| slice(&text, *a) == slice(&text, *b));
        Names {
            text,
            order: self.order.into_boxed_slice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names_of(path: &std::path::Path) -> Vec<String> {
        let directory = File::open(path).unwrap();
        let names = Names::read(directory.as_fd(), &mut Vec::new()).unwrap();
        (0..names.len())
            .map(|index| String::from_utf8(names.get(index).unwrap().to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn directories_sort_as_if_their_name_ended_in_a_slash() {
        let root = tempfile::tempdir().unwrap();
        for file in ["a!", "a-b", "a.b", "a0", "z"] {
            File::create(root.path().join(file)).unwrap();
        }
        fs::create_dir(root.path().join("a")).unwrap();

        assert_eq!(names_of(root.path()), ["a!", "a-b", "a.b", "a/", "a0", "z"]);
    }

    #[test]
    fn names_that_lead_to_no_object_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".sgwtmp")).unwrap();
        File::create(root.path().join(".x.sgwtmp.1764500000000000000")).unwrap();
        File::create(root.path().join("x")).unwrap();
        symlink("x", root.path().join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.path().join("fifo"),
            FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let not_utf8: &std::ffi::OsStr =
            std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe".as_slice());
        File::create(root.path().join(not_utf8)).unwrap();

        assert_eq!(names_of(root.path()), ["x"]);
    }

    #[test]
    fn seek_finds_the_directory_that_holds_the_bound() {
        let mut builder = Builder::default();
        for (name, is_directory) in [("a", true), ("a!", false), ("b", false), ("c", true)] {
            builder.push(name.as_bytes(), is_directory);
        }
        let names = builder.finish();
        let at = |bound: &str| names.get(names.seek(0, bound.as_bytes()));

        assert_eq!(at(""), Some(b"a!".as_slice()));
        assert_eq!(at("a/"), Some(b"a/".as_slice()));
        assert_eq!(at("a/zzz"), Some(b"a/".as_slice()));
        assert_eq!(at("a0"), Some(b"b".as_slice()));
        assert_eq!(at("b\0"), Some(b"c/".as_slice()));
        assert_eq!(at("d"), None);
        assert_eq!(names.seek(2, b""), 2, "never goes back");
    }

    #[test]
    fn union_keeps_each_name_once() {
        let mut left = Builder::default();
        left.push(b"a", false);
        left.push(b"b", false);
        let mut right = Builder::default();
        right.push(b"b", false);
        right.push(b"c", true);

        let both = left.finish().union(&right.finish());

        let all: Vec<_> = (0..both.len()).filter_map(|i| both.get(i)).collect();
        assert_eq!(all, [b"a".as_slice(), b"b", b"c/"]);
    }
}
