//! Listings: objects and common prefixes of a bucket in byte order of full keys.
//!
//! A [`cursor`] walks the directories in that order over sorted [`names`], which a [`cache`]
//! keeps for large ones. [`page`] merges the keys that lie outside the tree in, groups by
//! delimiter with the arithmetic of [`group`], and describes what it lists with [`objects`]. A
//! directory that is a common prefix is not walked: [`visible`] finds one object in it.
//!
//! Listings run beside writers without locks. What exists throughout is listed; what is added or
//! removed meanwhile may be or not; no entry mixes two objects.

mod cache;
mod cursor;
mod group;
mod names;
mod objects;
mod page;
mod visible;

pub(crate) use cache::NameCache;

use crate::dir::Dir;
use crate::query::{ListPage, ListQuery, MetadataMode};
use crate::{Error, Result};

/// Keys with this prefix that lie outside the tree, sorted, none below the bound. Those that the
/// tree has as well are listed once.
pub(crate) type Outside<'a> = dyn Fn(&str, &[u8]) -> Result<Vec<String>> + 'a;

/// What a listing reads.
pub(crate) struct Source<'a> {
    /// The bucket's directory.
    pub(crate) bucket: &'a Dir,
    /// Metadata mode of the volume.
    pub(crate) mode: MetadataMode,
    /// Names of directories seen before.
    pub(crate) cache: &'a NameCache,
    /// Reads one object of the tree consistently; `None` when there is none.
    pub(crate) head: &'a objects::Head<'a>,
    /// The same of a key outside the tree; `None` also when the tree has it.
    pub(crate) head_overflow: &'a objects::Head<'a>,
    /// Keys outside the tree.
    pub(crate) overflow: &'a Outside<'a>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// A page of a bucket.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn list(source: &Source<'_>, query: &ListQuery) -> Result<ListPage> {
    if query.max_keys == 0 {
        return Ok(ListPage::default());
    }
    let grouping = group::Grouping::new(
        &query.prefix,
        query.delimiter.as_deref(),
        query.after.as_deref(),
    );
    let bound = grouping.first_bound();
    let cursor = cursor::Cursor::new(source.bucket, source.cache, grouping.directory(), &bound)
        .map_err(|error| Error::io("open a directory", error))?;
    let overflow = (source.overflow)(&query.prefix, &bound)?;
    let pager = page::Pager {
        cursor,
        objects: objects::Objects {
            mode: source.mode,
            head: source.head,
            head_overflow: source.head_overflow,
        },
        grouping,
        overflow: overflow.into_iter().peekable(),
        bound,
        limit: query.max_keys.saturating_add(1),
        entries: Vec::new(),
        pending: Vec::new(),
    };
    pager.run()
}

#[cfg(test)]
mod tests;
