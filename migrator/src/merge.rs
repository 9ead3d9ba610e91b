//! Two ordered listings become one ordered stream of pairs. An unordered, repeated or broken
//! listing ends it with an error, so that nothing is ever concluded from it.

use std::cmp::Ordering;

use filestore_common::ObjectKey;
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::source::{Entry, Left, Listed, Listing};
use crate::{Error, Kind, Result};

/// Entries read ahead on each side: about one page of a listing.
const READ_AHEAD: usize = 1000;

/// What the two sides hold under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pair {
    /// Only the source.
    Source(Entry),
    /// Only the target.
    Target(Entry),
    /// Both: source, target.
    Both(Entry, Entry),
}

/// An item of the merged stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// A key; keys ascend.
    Pair(Pair),
    /// Something that the source's listing reports as not travelling.
    Left(Left),
}

/// A listing that is checked for order and read ahead by a task of its own.
#[derive(Debug)]
pub struct Ordered {
    items: mpsc::Receiver<Result<Listed>>,
    name: String,
    last: Option<ObjectKey>,
    peeked: Option<Entry>,
    ended: bool,
}

impl Ordered {
    /// Starts reading `listing`; `name` names it in errors (`bucket on http://…`).
    pub fn new(name: impl Into<String>, mut listing: Listing) -> Self {
        let (sender, items) = mpsc::channel(READ_AHEAD);
        tokio::spawn(async move {
            while let Some(item) = listing.next().await {
                let failed = item.is_err();
                if sender.send(item).await.is_err() || failed {
                    return;
                }
            }
            // Tells a proper end from a reader that died.
            drop(sender.send(Err(end())).await);
        });
        Self {
            items,
            name: name.into(),
            last: None,
            peeked: None,
            ended: false,
        }
    }

    /// The next item, `None` at the proper end.
    ///
    /// # Errors
    /// What the listing met; [`Kind::Listing`] when keys do not ascend.
    pub async fn next(&mut self) -> Result<Option<Listed>> {
        if let Some(entry) = self.peeked.take() {
            return Ok(Some(Listed::Object(entry)));
        }
        if self.ended {
            return Ok(None);
        }
        match self.items.recv().await {
            Some(Ok(Listed::Object(entry))) => {
                if let Some(last) = &self.last
                    && *last >= entry.key
                {
                    let problem = if *last == entry.key {
                        "is repeated"
                    } else {
                        "is out of order"
                    };
                    return Err(self.broken(format!(
                        "{:?} {problem} after {:?}",
                        entry.key.as_str(),
                        last.as_str()
                    )));
                }
                self.last = Some(entry.key.clone());
                Ok(Some(Listed::Object(entry)))
            }
            Some(Ok(left)) => Ok(Some(left)),
            Some(Err(error)) if is_end(&error) => {
                self.ended = true;
                Ok(None)
            }
            Some(Err(error)) => Err(error),
            None => Err(self.broken("did not come to its end".into())),
        }
    }

    fn broken(&self, message: String) -> Error {
        Error::new(Kind::Listing, "list", self.name.clone(), message)
            .with_cure("nothing was deleted; look at what answers there, a proxy or an old server")
    }
}

/// The mark that a reader leaves when its listing ended properly; never leaves this module.
fn end() -> Error {
    Error::new(Kind::Other, "", "", "")
}

fn is_end(error: &Error) -> bool {
    error.operation.is_empty()
}

/// Both listings of one bucket.
#[derive(Debug)]
pub struct Merge {
    source: Ordered,
    target: Ordered,
}

impl Merge {
    /// Merges `source` with `target`.
    pub fn new(source: Ordered, target: Ordered) -> Self {
        Self { source, target }
    }

    /// The next item, `None` when both sides came to their end.
    ///
    /// # Errors
    /// Of [`Ordered::next`].
    pub async fn next(&mut self) -> Result<Option<Merged>> {
        let ours = match self.source.next().await? {
            Some(Listed::Left(left)) => return Ok(Some(Merged::Left(left))),
            Some(Listed::Object(entry)) => Some(entry),
            None => None,
        };
        let theirs = loop {
            match self.target.next().await? {
                // What a target reports on the side is no business of a migration into it.
                Some(Listed::Left(_)) => {}
                Some(Listed::Object(entry)) => break Some(entry),
                None => break None,
            }
        };
        Ok(match (ours, theirs) {
            (None, None) => None,
            (Some(ours), None) => Some(Merged::Pair(Pair::Source(ours))),
            (None, Some(theirs)) => Some(Merged::Pair(Pair::Target(theirs))),
            (Some(ours), Some(theirs)) => Some(Merged::Pair(match ours.key.cmp(&theirs.key) {
                Ordering::Less => {
                    self.target.peeked = Some(theirs);
                    Pair::Source(ours)
                }
                Ordering::Greater => {
                    self.source.peeked = Some(ours);
                    Pair::Target(theirs)
                }
                Ordering::Equal => Pair::Both(ours, theirs),
            })),
        })
    }
}

#[cfg(test)]
mod tests;
