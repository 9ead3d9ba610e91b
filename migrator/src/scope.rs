//! Which objects a migration is about: buckets with their names on the target, keys, times.
//!
//! [`ScopedSource`] and [`ScopedTarget`] show the engine nothing else of either side, so that what
//! lies outside is never copied, never deleted and never counted. Between them buckets have the
//! names that they have on the target.

mod buckets;
mod pattern;
mod range;
mod shard;
mod source;
mod span;
mod target;
mod time;
mod view;
pub(crate) mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use filestore_common::marker::MarkerScope;

pub use buckets::Buckets;
pub use pattern::{KeyFilter, Pattern};
pub use range::{Place, Range};
pub use shard::{Cuts, Shard};
pub use source::ScopedSource;
pub use span::{Keys, Span};
pub use target::ScopedTarget;
pub use time::Window;
pub use view::View;

use crate::{Error, Kind, Location, Result};

/// Objects that a migration is about. The default is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Buckets.
    pub buckets: Buckets,
    /// Keys, in every bucket.
    pub keys: Arc<KeyFilter>,
    /// Last-Modified at the source.
    pub window: Window,
}

impl Scope {
    /// Reads a scope as it is given on the command line or recorded in a marker. Ages count back
    /// from `now`; without it they are refused.
    ///
    /// # Errors
    /// [`Kind::Usage`] naming the part that cannot be read.
    pub fn read(given: &MarkerScope, now: Option<SystemTime>) -> Result<Self> {
        let patterns = |texts: &[String]| -> Result<Vec<Pattern>> {
            texts.iter().map(|text| Pattern::new(text)).collect()
        };
        let instant = |text: &Option<String>| {
            text.as_deref()
                .map(|text| time::instant(text, now))
                .transpose()
        };
        let window = Window {
            newer: instant(&given.newer)?,
            older: instant(&given.older)?,
        };
        if let (Some(newer), Some(older)) = (window.newer, window.older)
            && newer >= older
        {
            let object = format!("{} to {}", time::text(newer), time::text(older));
            return Err(
                Error::new(Kind::Usage, "read", object, "no time lies between them")
                    .with_cure("--newer must be before --older"),
            );
        }
        Ok(Self {
            buckets: Buckets::new(&given.buckets, &given.exclude_buckets)?,
            keys: Arc::new(KeyFilter {
                include: patterns(&given.include)?,
                exclude: patterns(&given.exclude)?,
            }),
            window,
        })
    }

    /// The form in which a marker keeps it; `None` for everything.
    pub fn record(&self) -> Option<MarkerScope> {
        if self.is_everything() {
            return None;
        }
        let texts = |patterns: &[Pattern]| patterns.iter().map(ToString::to_string).collect();
        let mut record = MarkerScope {
            buckets: Vec::new(),
            exclude_buckets: Vec::new(),
            include: texts(&self.keys.include),
            exclude: texts(&self.keys.exclude),
            newer: self.window.newer.map(time::text),
            older: self.window.older.map(time::text),
        };
        match &self.buckets {
            Buckets::AllBut(excluded) => record.exclude_buckets.extend(excluded.iter().cloned()),
            Buckets::Only(chosen) => {
                let named = chosen.iter().map(|(old, new)| {
                    if old == new {
                        old.to_string()
                    } else {
                        format!("{old}={new}")
                    }
                });
                record.buckets.extend(named);
            }
        }
        Some(record)
    }

    /// The recorded scope of a marker, everything when it has none.
    ///
    /// # Errors
    /// [`Kind::Damaged`] when it cannot be read.
    pub fn recorded(record: Option<&MarkerScope>) -> Result<Self> {
        match record {
            None => Ok(Self::default()),
            Some(record) => Self::read(record, None).map_err(|error| Error {
                kind: Kind::Damaged,
                ..error
            }),
        }
    }

    /// Narrows the scope to the buckets that the URLs of both sides name.
    ///
    /// # Errors
    /// [`Kind::Usage`] when they contradict the scope.
    pub fn with_locations(self, from: Option<&Location>, to: &Location) -> Result<Self> {
        Ok(Self {
            buckets: self.buckets.with_locations(from, to)?,
            ..self
        })
    }

    /// Whether nothing is left out or renamed.
    pub fn is_everything(&self) -> bool {
        self.buckets.is_everything() && self.keys.is_everything() && self.window.is_everything()
    }

    /// Whether this provably holds every object that `other` holds, under the same names.
    pub fn covers(&self, other: &Self) -> bool {
        self.buckets.covers(&other.buckets)
            && self.keys.covers(&other.keys)
            && self.window.covers(&other.window)
    }

    /// Whether this provably selects every object of the source that `other` selects, whatever
    /// their buckets are called on the target.
    pub fn selects_all_of(&self, other: &Self) -> bool {
        self.buckets.selects_all_of(&other.buckets)
            && self.keys.covers(&other.keys)
            && self.window.covers(&other.window)
    }

    /// The scope that a migration has from now on, which was begun with `recorded`. A pass that
    /// deletes nothing may look at a part of it; any other must hold all that was copied before,
    /// or the marker would vouch for objects that nobody compared.
    ///
    /// # Errors
    /// [`Kind::Refused`].
    pub fn continued(&self, recorded: &Self, deletes: bool) -> Result<Self> {
        if self.covers(recorded) {
            Ok(self.clone())
        } else if !deletes && recorded.covers(self) {
            Ok(recorded.clone())
        } else {
            let problem = format!("a migration of {recorded} was begun on this target");
            Err(
                Error::new(Kind::Refused, "migrate", self.to_string(), problem).with_cure(
                    "give the scope that it was begun with, or one that holds all of it; or use \
                     another target",
                ),
            )
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(record) = self.record() else {
            return f.write_str("everything");
        };
        let lists = [
            ("--bucket", &record.buckets),
            ("--exclude-bucket", &record.exclude_buckets),
            ("--include", &record.include),
            ("--exclude", &record.exclude),
        ];
        let times = [("--newer", &record.newer), ("--older", &record.older)];
        let lists = lists
            .into_iter()
            .flat_map(|(flag, texts)| texts.iter().map(move |text| (flag, text)));
        let times = times
            .into_iter()
            .filter_map(|(flag, text)| text.as_ref().map(|text| (flag, text)));
        let shown: Vec<String> = lists
            .chain(times)
            .map(|(flag, text)| format!("{flag} {text}"))
            .collect();
        f.write_str(&shown.join(" "))
    }
}

#[cfg(test)]
mod tests;
