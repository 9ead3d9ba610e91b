//! A position in the tree of a bucket's directories that moves in key order.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::cache::{Loaded, NameCache};
use super::names::Kind;
use crate::dir::{Dir, is_absent};
use crate::path::is_plain_segment;

/// Directories of a path that are held open at once; those above are opened again when the
/// cursor returns to them. Keys can be 512 directories deep.
const OPEN_LEVELS: usize = 32;

/// One directory on the way to the current entry.
#[derive(Debug)]
struct Level {
    directory: Option<Dir>,
    loaded: Loaded,
    next: usize,
    /// Length of the directory's own key, its `/` included.
    key_length: usize,
}

/// Where a [`Cursor`] is.
#[derive(Debug)]
pub(super) enum Position<'c> {
    /// At an entry: its full key (a directory's ends in `/`) and kind.
    At(&'c [u8], Kind),
    /// Behind the last entry of a directory.
    LevelEnd,
    /// Behind the last entry of all.
    End,
}

/// Depth-first walk over files and directories in byte order of full keys.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bucket: &'a Dir,
    cache: &'a NameCache,
    buffer: Vec<u8>,
    levels: Vec<Level>,
    /// Key of the current entry; of its directory when there is none.
    key: Vec<u8>,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first entry in `directory` (a key ending in `/`, or empty for the bucket)
    /// that is not below `bound`. At its end when there is no such directory.
    pub(super) fn new(
        bucket: &'a Dir,
        cache: &'a NameCache,
        directory: &[u8],
        bound: &[u8],
    ) -> Result<Self, Errno> {
        let mut cursor = Self {
            bucket,
            cache,
            buffer: Vec::new(),
            levels: Vec::new(),
            key: directory.to_vec(),
        };
        if let Some(opened) = open_path(bucket, directory)? {
            cursor.push(opened, bound)?;
        }
        Ok(cursor)
    }

    /// Where the cursor is.
    pub(super) fn position(&mut self) -> Position<'_> {
        let Some(level) = self.levels.last() else {
            return Position::End;
        };
        self.key.truncate(level.key_length);
        let Some(name) = level.loaded.names.get(level.next) else {
            return Position::LevelEnd;
        };
        self.key.extend_from_slice(name);
        let kind = if name.ends_with(b"/") {
            Kind::Directory
        } else {
            Kind::File
        };
        Position::At(&self.key, kind)
    }

    /// Leaves the current entry behind, with all below it.
    pub(super) fn skip(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.next += 1;
        }
    }

    /// Goes on after the directory whose end was reached.
    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Moves to the end.
    pub(super) fn finish(&mut self) {
        self.levels.clear();
    }

    /// Moves forward to the first entry not below `bound`.
    pub(super) fn seek(&mut self, bound: &[u8]) {
        while let Some(level) = self.levels.last_mut() {
            let own = self.key.get(..level.key_length).unwrap_or_default();
            if let Some(relative) = bound.strip_prefix(own) {
                level.next = level.loaded.names.seek(level.next, relative);
                return;
            }
            if bound <= own {
                return;
            }
            self.levels.pop();
        }
    }

    /// Opens the current directory without moving; `None` when it is gone.
    pub(super) fn open_current(&mut self) -> Result<Option<Dir>, Errno> {
        let Some(level) = self.levels.last() else {
            return Ok(None);
        };
        let Some(name) = level.loaded.names.get(level.next) else {
            return Ok(None);
        };
        let name = String::from_utf8_lossy(name.strip_suffix(b"/").unwrap_or(name)).into_owned();
        match self.directory()? {
            Some(parent) => absent_is_none(parent.open_dir(&name)),
            None => Ok(None),
        }
    }

    /// Moves into the directory that [`Self::open_current`] opened, to its first entry not below
    /// `bound`; after its end comes the entry that follows the directory.
    pub(super) fn enter(&mut self, directory: Dir, bound: &[u8]) -> Result<(), Errno> {
        self.skip();
        self.push(directory, bound)
    }

    /// The directory of the current entry, open; `None` when it is gone.
    pub(super) fn directory(&mut self) -> Result<Option<&Dir>, Errno> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(None);
        };
        if level.directory.is_none() {
            let own = self.key.get(..level.key_length).unwrap_or_default();
            level.directory = open_path(self.bucket, own)?;
        }
        Ok(level.directory.as_ref())
    }

    /// What was loaded of the directory of the current entry, and the length of its key.
    pub(super) fn level(&self) -> Option<(&Loaded, usize)> {
        self.levels
            .last()
            .map(|level| (&level.loaded, level.key_length))
    }

    fn push(&mut self, directory: Dir, bound: &[u8]) -> Result<(), Errno> {
        let loaded = match self.cache.load(directory.as_fd(), &mut self.buffer) {
            Ok(loaded) => loaded,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        let own = self.key.as_slice();
        let next = match bound.strip_prefix(own) {
            Some(relative) => loaded.names.seek(0, relative),
            None if bound < own => 0,
            None => loaded.names.len(),
        };
        self.levels.push(Level {
            directory: Some(directory),
            loaded,
            next,
            key_length: self.key.len(),
        });
        if let Some(above) = self.levels.len().checked_sub(OPEN_LEVELS + 1)
            && let Some(level) = self.levels.get_mut(above)
        {
            level.directory = None;
        }
        Ok(())
    }
}

/// Opens the directory of a key that ends in `/`, or the bucket itself for an empty one. `None`
/// when there is none, or the key is not one that the tree can hold.
fn open_path(bucket: &Dir, key: &[u8]) -> Result<Option<Dir>, Errno> {
    let Ok(key) = std::str::from_utf8(key) else {
        return Ok(None);
    };
    let Some(path) = key.strip_suffix('/') else {
        return absent_is_none(bucket.open_dir("."));
    };
    if path.split('/').all(is_plain_segment) {
        absent_is_none(bucket.open_dir(path))
    } else {
        Ok(None)
    }
}

/// Takes "is not there, or not a directory any more" as `None`.
pub(super) fn absent_is_none<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absent(error) => Ok(None),
        Err(error) => Err(error),
    }
}
