//! Two ordered listings become one ordered stream of pairs. An unordered, repeated or broken
//! listing ends it with an error, so that nothing is ever concluded from it.

use std::cmp::Ordering;

use filestore_common::ObjectKey;
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::guard::is_probe;
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
    peeked: Option<Listed>,
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
        if let Some(item) = self.peeked.take() {
            return Ok(Some(item));
        }
        loop {
            let item = self.checked().await?;
            match &item {
                // Not an object of either store.
                Some(Listed::Object(entry) | Listed::Outside(entry)) if is_probe(entry) => {}
                _ => return Ok(item),
            }
        }
    }

    async fn checked(&mut self) -> Result<Option<Listed>> {
        if self.ended {
            return Ok(None);
        }
        match self.items.recv().await {
            Some(Ok(item @ (Listed::Object(_) | Listed::Outside(_)))) => {
                let (Listed::Object(entry) | Listed::Outside(entry)) = &item else {
                    return Ok(Some(item));
                };
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
                Ok(Some(item))
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
        loop {
            let ours = match self.source.next().await? {
                Some(Listed::Left(left)) => return Ok(Some(Merged::Left(left))),
                other => other.and_then(Side::of),
            };
            let theirs = loop {
                match self.target.next().await? {
                    // What a target reports on the side is no business of a migration into it.
                    Some(Listed::Left(_)) => {}
                    other => break other.and_then(Side::of),
                }
            };
            let order = match (&ours, &theirs) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(ours), Some(theirs)) => ours.entry.key.cmp(&theirs.entry.key),
            };
            let (ours, theirs) = match order {
                Ordering::Less => {
                    self.target.peeked = theirs.map(Side::back);
                    (ours, None)
                }
                Ordering::Greater => {
                    self.source.peeked = ours.map(Side::back);
                    (None, theirs)
                }
                Ordering::Equal => (ours, theirs),
            };
            let pair = match (ours, theirs) {
                (Some(ours), _) if ours.outside => continue,
                (Some(ours), Some(theirs)) => Pair::Both(ours.entry, theirs.entry),
                (Some(ours), None) => Pair::Source(ours.entry),
                (None, Some(theirs)) if !theirs.outside => Pair::Target(theirs.entry),
                (None, _) => continue,
            };
            return Ok(Some(Merged::Pair(pair)));
        }
    }
}

/// An object of one side, and whether it lies outside of the window of time.
struct Side {
    entry: Entry,
    outside: bool,
}

impl Side {
    fn of(item: Listed) -> Option<Self> {
        let outside = matches!(item, Listed::Outside(_));
        match item {
            Listed::Object(entry) | Listed::Outside(entry) => Some(Self { entry, outside }),
            Listed::Left(_) => None,
        }
    }

    fn back(self) -> Listed {
        if self.outside {
            Listed::Outside(self.entry)
        } else {
            Listed::Object(self.entry)
        }
    }
}

#[cfg(test)]
mod tests;
