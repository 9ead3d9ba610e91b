//! One page of a listing: the tree and the overflow keys merged in order, grouped, limited.

use std::iter::Peekable;
use std::ops::ControlFlow;

use filestore_common::MAX_KEY_BYTES;

use super::cursor::{Cursor, Position};
use super::group::{Grouping, past};
use super::names::Kind;
use super::objects::{Objects, exists};
use super::visible::holds_object;
use crate::query::{ListEntry, ListPage};
use crate::{Error, Result};

/// Collects the entries of a page.
#[derive(Debug)]
pub(super) struct Pager<'a, Overflow: Iterator<Item = String>> {
    pub(super) cursor: Cursor<'a>,
    pub(super) objects: Objects<'a>,
    pub(super) grouping: Grouping<'a>,
    /// Keys that lie outside the tree, sorted, with the prefix and not below `bound`.
    pub(super) overflow: Peekable<Overflow>,
    /// No key below this is listed any more.
    pub(super) bound: Vec<u8>,
    /// Entries of the page and, one more, whether there is a next page.
    pub(super) limit: usize,
    pub(super) entries: Vec<ListEntry>,
    /// Keys of files in the cursor's directory that were passed but not looked at yet.
    pub(super) pending: Vec<String>,
}

/// Where the next entry comes from.
enum Next {
    Overflow,
    File(String),
    Directory(String),
    NotListed,
    LevelEnd,
    TreeEnd,
    End,
}

impl<Overflow: Iterator<Item = String>> Pager<'_, Overflow> {
    /// Runs until the page is full or nothing is left; `max_keys` is at least 1.
    pub(super) fn run(mut self) -> Result<ListPage> {
        self.take_start()?;
        while self.entries.len() < self.limit {
            match self.next() {
                Next::Overflow => self.take_overflow()?,
                Next::File(key) => self.take_file(key)?,
                Next::Directory(key) => self.take_directory(&key)?,
                Next::NotListed => self.cursor.skip(),
                Next::LevelEnd => {
                    self.look_at_pending()?;
                    self.cursor.leave();
                }
                Next::TreeEnd => {
                    self.look_at_pending()?;
                    self.cursor.finish();
                }
                Next::End => break,
            }
        }
        let max_keys = self.limit - 1;
        let more = self.entries.len() > max_keys;
        self.entries.truncate(max_keys);
        let next = self
            .entries
            .last()
            .filter(|_| more)
            .map(|entry| match entry {
                ListEntry::Object(object) => object.key.clone(),
                ListEntry::Prefix(prefix) => prefix.clone(),
            });
        Ok(ListPage {
            entries: self.entries,
            next,
        })
    }

    fn next(&mut self) -> Next {
        let outside = self.overflow.peek().map(String::as_bytes);
        let (key, kind) = match self.cursor.position() {
            Position::End if outside.is_some() => return Next::Overflow,
            Position::End => return Next::End,
            Position::LevelEnd => return Next::LevelEnd,
            Position::At(key, kind) => (key, kind),
        };
        match self.grouping.place(key) {
            ControlFlow::Break(()) => return Next::TreeEnd,
            ControlFlow::Continue(false) => return Next::NotListed,
            ControlFlow::Continue(true) => {}
        }
        if outside.is_some_and(|outside| outside < key) {
            return Next::Overflow;
        }
        match (std::str::from_utf8(key), kind) {
            (Ok(key), Kind::File) if key.len() <= MAX_KEY_BYTES => Next::File(key.to_owned()),
            (Ok(key), Kind::Directory) if key.len() <= MAX_KEY_BYTES => {
                Next::Directory(key.to_owned())
            }
            _ => Next::NotListed,
        }
    }

    /// Lists the directory that the prefix names, if it is an object: the cursor starts inside it.
    fn take_start(&mut self) -> Result<()> {
        let key = String::from_utf8_lossy(self.grouping.directory()).into_owned();
        let is_listed = self.grouping.place(key.as_bytes()) == ControlFlow::Continue(true);
        if key.is_empty() || !is_listed || key.as_bytes() < self.bound.as_slice() {
            return Ok(());
        }
        if let Some(directory) = self.cursor.directory().map_err(open_failed)? {
            let object = self.objects.directory_object(directory, &key)?;
            self.entries.extend(object.map(ListEntry::Object));
        }
        Ok(())
    }

    fn take_overflow(&mut self) -> Result<()> {
        self.look_at_pending()?;
        let Some(key) = self.overflow.next() else {
            return Ok(());
        };
        let Some(object) = self.objects.overflow(&key)? else {
            return Ok(());
        };
        match self.grouping.common_prefix(key.as_bytes()) {
            Some(group) => self.push_group(String::from_utf8_lossy(group).into_owned()),
            None => self.entries.push(ListEntry::Object(object)),
        }
        Ok(())
    }

    fn take_file(&mut self, key: String) -> Result<()> {
        let Some(group) = self.grouping.common_prefix(key.as_bytes()) else {
            self.pending.push(key);
            self.cursor.skip();
            if self.entries.len() + self.pending.len() >= self.limit {
                self.look_at_pending()?;
            }
            return Ok(());
        };
        let group = String::from_utf8_lossy(group).into_owned();
        self.look_at_pending()?;
        let Some((_, start)) = self.cursor.level() else {
            return Ok(());
        };
        let exists = match self.cursor.directory().map_err(open_failed)? {
            Some(directory) => exists(directory, &key, start)?,
            None => false,
        };
        if exists {
            self.push_group(group);
        } else {
            self.cursor.skip();
        }
        Ok(())
    }

    fn take_directory(&mut self, key: &str) -> Result<()> {
        self.look_at_pending()?;
        let Some(directory) = self.cursor.open_current().map_err(open_failed)? else {
            self.cursor.skip();
            return Ok(());
        };
        if let Some(group) = self.grouping.common_prefix(key.as_bytes()) {
            let group = String::from_utf8_lossy(group).into_owned();
            let objects = &self.objects;
            let mut is_object =
                |directory: &_, key: &str| Ok(objects.directory_object(directory, key)?.is_some());
            if holds_object(&directory, &mut key.to_owned(), &mut is_object)? {
                self.push_group(group);
            } else {
                self.cursor.skip();
            }
            return Ok(());
        }
        if key.as_bytes() >= self.bound.as_slice()
            && let Some(object) = self.objects.directory_object(&directory, key)?
        {
            self.entries.push(ListEntry::Object(object));
        }
        self.cursor
            .enter(directory, &self.bound)
            .map_err(open_failed)
    }

    /// Lists a common prefix and leaves all that is in it behind.
    fn push_group(&mut self, group: String) {
        if let Some(bound) = past(group.as_bytes()) {
            self.cursor.seek(&bound);
            while self
                .overflow
                .next_if(|key| key.as_bytes() < bound.as_slice())
                .is_some()
            {}
            self.bound = bound;
        }
        self.entries.push(ListEntry::Prefix(group));
    }

    /// Turns the pending keys into entries; those that vanished meanwhile are dropped.
    fn look_at_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let keys = std::mem::take(&mut self.pending);
        let Some((loaded, start)) = self.cursor.level() else {
            return Ok(());
        };
        let trusted = loaded.settled.then_some(loaded.stamp);
        let Some(directory) = self.cursor.directory().map_err(open_failed)? else {
            return Ok(());
        };
        let objects = self.objects.describe(directory, keys, start, trusted)?;
        self.entries
            .extend(objects.into_iter().map(ListEntry::Object));
        Ok(())
    }
}

fn open_failed(error: rustix::io::Errno) -> Error {
    Error::io("open a directory", error)
}
