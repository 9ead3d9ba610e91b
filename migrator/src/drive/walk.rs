//! All keys of a bucket in byte order, from the directory tree.
//!
//! A directory `n` may hold the object `n` and, beside its `xl.meta`, further keys `n/…`; the
//! object `n/` lies in a sibling `n__XLDIR__`. In S3's order other keys can come between `n` and
//! `n/…` (`n!x`, `n.txt`), so a directory's names are sorted by the key of their object, and the
//! subtree of each waits until the next name's key is beyond it.
//!
//! ```text
//! names sorted by object key:   a    a!b    a.c    b/ (b__XLDIR__)
//! waiting subtrees:             a/   a!b/ → taken before a.c is looked at
//! ```
//!
//! Memory: the names of the directories on the way down, once each.

mod entry;
mod names;

use std::sync::Arc;

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::error::{Error, Result, Unreadable};
use super::fs::Root;
use super::object::{DriveObject, Place};
use super::xl_meta::{Current, Metadata, Summary, summarize, uuid_text};

pub use entry::{Content, Stray, WalkItem, WalkedKey};
pub(super) use names::object_dir;
use names::{Names, key_of};

/// A directory whose names are being gone through.
#[derive(Debug)]
struct Level {
    /// Path below the bucket with a final `/`; empty for the bucket itself. Also the prefix of
    /// the keys below.
    prefix: String,
    /// The key of the nearest object directory above, which hides what is below.
    hidden_by: Option<Arc<str>>,
    names: Names,
    /// Subtrees that wait for their turn; the last is the first in order.
    waiting: Vec<Subtree>,
}

/// A directory below a [`Level`] that was looked at for its object but not gone into.
#[derive(Debug)]
struct Subtree {
    /// Path below the bucket with a final `/`.
    prefix: String,
    hidden_by: Option<Arc<str>>,
    /// Data directories of the object there, sorted.
    data_dirs: Vec<[u8; 16]>,
}

/// Iterator over a bucket. Ends after the first error: what was listed then is incomplete.
#[derive(Debug)]
pub struct Walk {
    root: Arc<Root>,
    bucket: String,
    start_after: Option<String>,
    levels: Vec<Level>,
    /// Strays of the directory that was opened last.
    strays: Vec<Stray>,
    buffer: Vec<u8>,
    failed: bool,
}

impl Walk {
    /// Starts at the first key after `start_after`.
    pub(super) fn new(
        root: Arc<Root>,
        bucket: &BucketName,
        start_after: Option<&ObjectKey>,
    ) -> Result<Self> {
        let mut walk = Self {
            root,
            bucket: bucket.as_str().to_owned(),
            start_after: start_after.map(|key| key.as_str().to_owned()),
            levels: Vec::new(),
            strays: Vec::new(),
            buffer: Vec::new(),
            failed: false,
        };
        walk.descend(Subtree {
            prefix: String::new(),
            hidden_by: None,
            data_dirs: Vec::new(),
        })?;
        Ok(walk)
    }

    fn path(&self, below: &str) -> String {
        format!("{}/{}", self.bucket, below.trim_end_matches('/'))
    }

    /// Reads a directory's names.
    fn descend(&mut self, subtree: Subtree) -> Result<()> {
        let path = if subtree.prefix.is_empty() {
            self.bucket.clone()
        } else {
            self.path(&subtree.prefix)
        };
        let mut names = Names::default();
        let strays = &mut self.strays;
        let stray = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            format!("{path}/{name}")
        };
        let found = self.root.read_dir(&path, |name, kind| match kind {
            FileType::Directory => match std::str::from_utf8(name) {
                Ok(name) if is_used(&subtree.data_dirs, name) => {}
                Ok(name) => names.push(name),
                Err(_) => strays.push(Stray::Name(stray(name))),
            },
            FileType::RegularFile
                if !subtree.prefix.is_empty()
                    && matches!(name, b"xl.meta" | b"xl.meta.bkp" | b"xl.json") => {}
            FileType::RegularFile => strays.push(Stray::File(stray(name))),
            _ => strays.push(Stray::NotFollowed(stray(name))),
        })?;
        if names.overflown() {
            let error = std::io::Error::other("more than 4 GiB of names");
            return Err(self.root.io_error("list", &path, error));
        }
        if found.is_none() && subtree.prefix.is_empty() {
            return Err(self.root.error("list", &path, Errno::NOENT));
        }
        names.sort();
        self.levels.push(Level {
            prefix: subtree.prefix,
            hidden_by: subtree.hidden_by,
            names,
            waiting: Vec::new(),
        });
        Ok(())
    }

    /// The next key, stray, or `None` at the end.
    fn advance(&mut self) -> Result<Option<WalkItem>> {
        loop {
            if let Some(stray) = self.strays.pop() {
                return Ok(Some(WalkItem::Stray(stray)));
            }
            let Some(level) = self.levels.last_mut() else {
                return Ok(None);
            };
            let next = level.names.peek();
            let due = level.waiting.last().is_some_and(|subtree| {
                let below = &subtree.prefix[level.prefix.len()..];
                next.is_none_or(|name| below < key_of(name).as_ref())
            });
            if due {
                let subtree = level.waiting.pop();
                if let Some(subtree) = subtree.filter(|subtree| self.wanted(&subtree.prefix)) {
                    self.descend(subtree)?;
                }
                continue;
            }
            let Some(name) = level.names.next() else {
                self.levels.pop();
                continue;
            };
            let dir = format!("{}{name}", level.prefix);
            let key = format!("{}{}", level.prefix, key_of(name));
            let hidden_by = level.hidden_by.clone();
            if let Some(item) = self.visit(&dir, key, hidden_by)? {
                return Ok(Some(item));
            }
        }
    }

    /// Whether a subtree may hold keys after `start_after`.
    fn wanted(&self, prefix: &str) -> bool {
        self.start_after
            .as_deref()
            .is_none_or(|after| prefix > after || after.starts_with(prefix))
    }

    /// Looks at a directory: the object in it is returned, its subtree waits.
    fn visit(
        &mut self,
        dir: &str,
        key: String,
        hidden_by: Option<Arc<str>>,
    ) -> Result<Option<WalkItem>> {
        let prefix = format!("{dir}/");
        let skipped = self
            .start_after
            .as_deref()
            .is_some_and(|after| key.as_str() <= after);
        if skipped && !self.wanted(&prefix) {
            return Ok(None);
        }
        let path = self.path(dir);
        let found = look(&self.root, &path, &mut self.buffer)?;
        let (content, summary) = match found {
            Some(found) => found,
            None => (Content::Nothing, Summary::default()),
        };
        let below = if matches!(content, Content::Nothing) {
            hidden_by.clone()
        } else {
            Some(Arc::from(key.as_str()))
        };
        if let Some(level) = self.levels.last_mut() {
            let subtree = Subtree {
                prefix,
                hidden_by: below,
                data_dirs: summary.data_dirs,
            };
            // Nearly always the last; `x__XLDIR__` may have to wait for a longer name.
            let at = level
                .waiting
                .partition_point(|waiting| waiting.prefix > subtree.prefix);
            level.waiting.insert(at, subtree);
        }
        if skipped || matches!(content, Content::Nothing) {
            return Ok(None);
        }
        let Ok(key) = ObjectKey::new(key) else {
            return Ok(Some(WalkItem::Stray(Stray::Name(path))));
        };
        Ok(Some(WalkItem::Key(Box::new(WalkedKey {
            key,
            content,
            noncurrent: summary.noncurrent,
            noncurrent_bytes: summary.noncurrent_bytes,
            delete_markers: summary.delete_markers,
            free_versions: summary.free_versions,
            left_identity: summary.left_identity,
            hidden_by: hidden_by.and_then(|key| ObjectKey::new(key.as_ref()).ok()),
        }))))
    }
}

impl Iterator for Walk {
    type Item = Result<WalkItem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.advance();
        self.failed = item.is_err();
        item.transpose()
    }
}

/// Whether `name` is one of the data directories (sorted).
fn is_used(data_dirs: &[[u8; 16]], name: &str) -> bool {
    name.len() == 36
        && uuid::Uuid::try_parse(name).is_ok_and(|uuid| {
            data_dirs.binary_search(uuid.as_bytes()).is_ok() && uuid_text(*uuid.as_bytes()) == name
        })
}

/// Reads the `xl.meta` in the directory `path` (relative to the drive); `None` when there is none.
///
/// # Errors
/// [`Error::Denied`]. Any other failure is the object's own: [`Content::Unreadable`].
pub(super) fn look(
    root: &Root,
    path: &str,
    buffer: &mut Vec<u8>,
) -> Result<Option<(Content, Summary)>> {
    let unreadable = |reason| Ok(Some((Content::Unreadable(reason), Summary::default())));
    let (file, stamp) = match root.open_file(&format!("{path}/xl.meta")) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let legacy = root.open_file(&format!("{path}/xl.json"))?;
            return Ok(
                legacy.map(|_| (Content::Unreadable(Unreadable::Legacy), Summary::default()))
            );
        }
        Err(Error::Io { source, .. }) => return unreadable(io_reason(&source)),
        Err(error) => return Err(error),
    };
    let metadata = match Metadata::read(&file, stamp.len, buffer) {
        Ok(Ok(metadata)) => metadata,
        Ok(Err(damage)) => return unreadable(damage.into()),
        Err(error) => return unreadable(io_reason(&error)),
    };
    let mut summary = match summarize(&metadata) {
        Ok(summary) => summary,
        Err(damage) => return unreadable(damage.into()),
    };
    let content = match std::mem::take(&mut summary.current) {
        Current::None => Content::Gone,
        Current::DeleteMarker => Content::DeleteMarker,
        Current::Legacy => Content::Unreadable(Unreadable::Legacy),
        Current::Object(version) => {
            let place = Place {
                dir: path.to_owned(),
                stamp,
                inline_at: metadata.inline_at,
            };
            let (id, modified_ns) = (version.id, version.modified_ns);
            match DriveObject::new(*version, place) {
                Ok(object) => Content::Object(Box::new(object)),
                Err(reason) => {
                    // It stays behind as well.
                    summary.left_identity.extend(id);
                    summary.left_identity.extend(modified_ns.to_be_bytes());
                    Content::Unreadable(reason)
                }
            }
        }
    };
    Ok(Some((content, summary)))
}

fn io_reason(error: &std::io::Error) -> Unreadable {
    Unreadable::Damaged(format!("xl.meta cannot be read: {error}"))
}

#[cfg(test)]
mod tests;
