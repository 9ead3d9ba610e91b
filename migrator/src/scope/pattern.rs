//! Which keys: patterns to include and to exclude.
//!
//! - Without a wildcard a pattern is a prefix: `logs/` takes every key that begins so.
//! - With one it is a glob that must fit the whole key: `*` any characters, `/` among them (keys
//!   have no directories), `?` one byte, `[a-z]` one of a set, `{a,b}` one or the other, `\` takes
//!   the next character literally.
//!
//! A key is taken when some include fits (or none is given) and no exclude does.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

use crate::{Error, Kind, Result};

/// Characters that make a glob of a pattern.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];

/// A prefix or a glob.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    /// What every key that fits begins with.
    literal: String,
    /// `None` = a prefix.
    glob: Option<GlobMatcher>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`Kind::Usage`] when it is empty, or no glob.
    pub fn new(text: &str) -> Result<Self> {
        let refused = |message: String| Error::new(Kind::Usage, "read", text, message);
        if text.is_empty() {
            return Err(refused("an empty pattern fits every key".into())
                .with_cure("leave it out, or give a prefix or a glob"));
        }
        if !text.contains(WILDCARDS) {
            return Ok(Self {
                text: text.to_owned(),
                literal: text.to_owned(),
                glob: None,
            });
        }
        let glob = GlobBuilder::new(text)
            .literal_separator(false)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| {
                refused(format!("is no glob: {}", error.kind()))
                    .with_cure("put \\ before a character that is meant literally")
            })?;
        Ok(Self {
            text: text.to_owned(),
            literal: literal_of(text),
            glob: Some(glob.compile_matcher()),
        })
    }

    /// Whether it fits `key`.
    pub fn fits(&self, key: &str) -> bool {
        match &self.glob {
            None => key.starts_with(&self.literal),
            Some(glob) => key.starts_with(&self.literal) && glob.is_match(key),
        }
    }

    /// What every key that fits begins with; may be empty.
    pub fn literal(&self) -> &str {
        &self.literal
    }

    /// The prefix that it is, when it is one.
    pub fn as_prefix(&self) -> Option<&str> {
        self.glob.is_none().then_some(&*self.literal)
    }

    /// Whether it provably fits everything that `other` fits.
    pub fn covers(&self, other: &Self) -> bool {
        self == other
            || self
                .as_prefix()
                .is_some_and(|prefix| other.literal.starts_with(prefix))
    }
}

/// A glob's text before its first wildcard.
fn literal_of(glob: &str) -> String {
    let mut literal = String::new();
    let mut characters = glob.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => literal.extend(characters.next()),
            wildcard if WILDCARDS.contains(&wildcard) => break,
            plain => literal.push(plain),
        }
    }
    literal
}

/// Patterns to include and to exclude.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFilter {
    /// Fit some of these; none = all keys.
    pub include: Vec<Pattern>,
    /// Fit none of these.
    pub exclude: Vec<Pattern>,
}

impl KeyFilter {
    /// Whether a key is taken.
    pub fn takes(&self, key: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|pattern| pattern.fits(key)))
            && !self.exclude.iter().any(|pattern| pattern.fits(key))
    }

    /// Whether every key is taken.
    pub fn is_everything(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether this provably takes every key that `other` takes.
    pub fn covers(&self, other: &Self) -> bool {
        let included = self.include.is_empty()
            || (!other.include.is_empty()
                && other
                    .include
                    .iter()
                    .all(|theirs| self.include.iter().any(|ours| ours.covers(theirs))));
        // What is excluded here is excluded there as well, or was never included there.
        let excluded = self.exclude.iter().all(|ours| {
            other.exclude.iter().any(|theirs| theirs.covers(ours))
                || (!other.include.is_empty()
                    && other
                        .include
                        .iter()
                        .all(|theirs| apart(ours.literal(), theirs.literal())))
        });
        included && excluded
    }
}

/// Whether no key begins with both.
fn apart(one: &str, other: &str) -> bool {
    !one.starts_with(other) && !other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> KeyFilter {
        let read = |texts: &[&str]| texts.iter().map(|t| Pattern::new(t).unwrap()).collect();
        KeyFilter {
            include: read(include),
            exclude: read(exclude),
        }
    }

    #[test]
    fn patterns_mean_what_the_reference_says() {
        for (pattern, key, fits) in [
            ("logs/", "logs/a", true),
            ("logs/", "logs", false),
            ("log", "logs/a", true),
            ("back\\slash", "back\\slash/x", true),
            // A glob fits the whole key, and a star does not stop at a slash.
            ("*.csv", "a.csv", true),
            ("*.csv", "deep/down/a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("logs/*", "logs/a/b/c", true),
            ("logs/*", "logs/", true),
            ("logs/*.gz", "logs/2024/x.gz", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", true),
            ("a?c", "abbc", false),
            ("x[0-9]", "x7", true),
            ("x[!0-9]", "x7", false),
            ("{a,b}/*", "b/1", true),
            ("{a,b}/*", "c/1", false),
            ("data\\[1\\]*", "data[1]/x", true),
            ("data[1]*", "data[1]/x", false),
            ("*", "line\nbreak", true),
            ("*.txt", ".txt", true),
            ("caf*", "cafe\u{301}", true),
            ("//*", "//x", true),
            ("/*", "//x", true),
            ("*", "../x", true),
            ("A*", "a", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).unwrap().fits(key),
                fits,
                "{pattern:?} {key:?}"
            );
        }
        for bad in ["", "x[", "{a", "a{b,{c}"] {
            assert_eq!(Pattern::new(bad).unwrap_err().kind, Kind::Usage, "{bad}");
        }
    }

    #[test]
    fn a_wider_filter_is_known_as_such() {
        for (wide, narrow, covers) in [
            (filter(&[], &[]), filter(&["a/"], &[]), true),
            (filter(&["a/"], &[]), filter(&[], &[]), false),
            (filter(&["a/"], &[]), filter(&["a/b/", "a/*.c"], &[]), true),
            (filter(&["a/"], &[]), filter(&["a/", "b/"], &[]), false),
            (filter(&["b/", "a/"], &[]), filter(&["a/"], &[]), true),
            (filter(&[], &["t/"]), filter(&[], &[]), false),
            (filter(&[], &["t/x"]), filter(&[], &["t/"]), true),
            (filter(&[], &["t/"]), filter(&["a/"], &[]), true),
            (filter(&[], &["a/t/"]), filter(&["a/"], &[]), false),
            (filter(&["*.csv"], &[]), filter(&["*.csv"], &["x/"]), true),
        ] {
            assert_eq!(wide.covers(&narrow), covers, "{wide:?} {narrow:?}");
        }
    }

    fn pattern() -> impl Strategy<Value = Pattern> {
        "[ab/*?]{1,4}".prop_map(|text| Pattern::new(&text).unwrap())
    }

    pub(crate) fn filters() -> impl Strategy<Value = KeyFilter> {
        let some = || proptest::collection::vec(pattern(), 0..3);
        (some(), some()).prop_map(|(include, exclude)| KeyFilter { include, exclude })
    }

    proptest! {
        #[test]
        fn what_covers_takes_all_that_is_covered(one in filters(), other in filters(), key in "[ab/]{1,6}") {
            if one.covers(&other) && other.takes(&key) {
                prop_assert!(one.takes(&key));
            }
            prop_assert!(one.covers(&one));
            prop_assert!(KeyFilter::default().covers(&one));
        }

        #[test]
        fn excludes_win_and_every_fitting_key_begins_with_the_literal(
            filter in filters(), extra in pattern(), key in "[ab/]{1,6}",
        ) {
            if extra.fits(&key) {
                prop_assert!(key.starts_with(extra.literal()));
            }
            let mut narrower = filter.clone();
            narrower.exclude.push(extra.clone());
            prop_assert_eq!(narrower.takes(&key), filter.takes(&key) && !extra.fits(&key));
            let mut wider = filter.clone();
            wider.include.push(extra);
            if !filter.include.is_empty() && filter.takes(&key) {
                prop_assert!(wider.takes(&key));
            }
        }
    }
}
