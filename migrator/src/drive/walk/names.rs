//! Names of one directory, packed: a million names of 40 bytes take about 60 MB.

use std::borrow::Cow;

/// Suffix that stands for the final `/` of a key.
const DIR_SUFFIX: &str = "__XLDIR__";

/// The last segment of the key of the object in directory `name`. A directory that is called
/// exactly `__XLDIR__` can only come from that key, as no key has an empty segment.
pub(super) fn key_of(name: &str) -> Cow<'_, str> {
    match name.strip_suffix(DIR_SUFFIX) {
        Some(stem) if !stem.is_empty() => Cow::Owned(format!("{stem}/")),
        _ => Cow::Borrowed(name),
    }
}

/// Path below the bucket of the directory of the object `key`.
pub(in super::super) fn object_dir(key: &str) -> Cow<'_, str> {
    match key.strip_suffix('/') {
        Some(stem) => Cow::Owned(format!("{stem}{DIR_SUFFIX}")),
        None => Cow::Borrowed(key),
    }
}

/// Names in the order of their object keys, given out one by one.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: String,
    /// Start and length in `text`.
    spans: Vec<(u32, u16)>,
    next: usize,
    overflown: bool,
}

impl Names {
    pub(super) fn push(&mut self, name: &str) {
        match (u32::try_from(self.text.len()), u16::try_from(name.len())) {
            (Ok(start), Ok(len)) => {
                self.text.push_str(name);
                self.spans.push((start, len));
            }
            _ => self.overflown = true,
        }
    }

    /// Whether a name found no room: beyond 4 GiB of them in one directory.
    pub(super) fn overflown(&self) -> bool {
        self.overflown
    }

    pub(super) fn sort(&mut self) {
        let Self { text, spans, .. } = self;
        spans.sort_unstable_by(|left, right| compare(at(text, *left), at(text, *right)));
    }

    pub(super) fn peek(&self) -> Option<&str> {
        self.spans.get(self.next).map(|span| at(&self.text, *span))
    }

    pub(super) fn next(&mut self) -> Option<&str> {
        let span = self.spans.get(self.next)?;
        self.next += 1;
        Some(at(&self.text, *span))
    }
}

fn at(text: &str, (start, len): (u32, u16)) -> &str {
    let start = start as usize;
    &text[start..start + usize::from(len)]
}

/// Orders two names by the keys of their objects, without building them.
fn compare(left: &str, right: &str) -> std::cmp::Ordering {
    if left.ends_with(DIR_SUFFIX) || right.ends_with(DIR_SUFFIX) {
        key_of(left).cmp(&key_of(right))
    } else {
        left.cmp(right)
    }
}
