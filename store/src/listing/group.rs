//! Which common prefix a key belongs to, and where a listing goes on after it.

use std::ops::ControlFlow;

/// Text arithmetic of one listing; all of it on bytes, as S3 orders keys.
#[derive(Debug)]
pub(super) struct Grouping<'a> {
    prefix: &'a [u8],
    delimiter: Option<&'a [u8]>,
    after: Option<&'a [u8]>,
}

impl<'a> Grouping<'a> {
    /// An empty delimiter groups nothing, an empty `after` excludes nothing.
    pub(super) fn new(prefix: &'a str, delimiter: Option<&'a str>, after: Option<&'a str>) -> Self {
        Self {
            prefix: prefix.as_bytes(),
            delimiter: delimiter.filter(|text| !text.is_empty()).map(str::as_bytes),
            after: after.filter(|text| !text.is_empty()).map(str::as_bytes),
        }
    }

    /// The common prefix of `key`, which starts with the listing's prefix.
    pub(super) fn common_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let delimiter = self.delimiter?;
        let rest = key.get(self.prefix.len()..)?;
        let at = find(rest, delimiter)?;
        key.get(..self.prefix.len() + at + delimiter.len())
    }

    /// Smallest key that may be listed.
    pub(super) fn first_bound(&self) -> Vec<u8> {
        let Some(after) = self.after.filter(|after| *after >= self.prefix) else {
            return self.prefix.to_vec();
        };
        if after.starts_with(self.prefix)
            && let Some(group) = self.common_prefix(after)
            && let Some(bound) = past(group)
        {
            // The marker lies in a group that is not greater than it: all of it is done with.
            return bound;
        }
        let mut bound = after.to_vec();
        bound.push(0);
        bound
    }

    /// Whether `key` is among, before (`Continue`) or past (`Break`) the keys with the prefix.
    pub(super) fn place(&self, key: &[u8]) -> ControlFlow<(), bool> {
        if key.starts_with(self.prefix) {
            ControlFlow::Continue(true)
        } else if key > self.prefix {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(false)
        }
    }

    /// The directories that the prefix leads through: up to its last `/`.
    pub(super) fn directory(&self) -> &'a [u8] {
        let end = self
            .prefix
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        self.prefix.get(..end).unwrap_or_default()
    }
}

/// The smallest text greater than all that start with `group`; `None` when there is none.
pub(super) fn past(group: &[u8]) -> Option<Vec<u8>> {
    let mut bound = group.to_vec();
    while let Some(last) = bound.pop() {
        if last < u8::MAX {
            bound.push(last + 1);
            return Some(bound);
        }
    }
    None
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len())
        .position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_delimiter_after_the_prefix_groups() {
        let grouping = Grouping::new("a/", Some("/"), None);

        assert_eq!(grouping.common_prefix(b"a/b/c/d"), Some(b"a/b/".as_slice()));
        assert_eq!(grouping.common_prefix(b"a/b"), None);
        assert_eq!(
            Grouping::new("", Some("ab"), None).common_prefix(b"xaab"),
            Some(b"xaab".as_slice())
        );
        assert_eq!(Grouping::new("", Some(""), None).common_prefix(b"x"), None);
    }

    #[test]
    fn a_marker_inside_a_group_leaves_the_group_behind() {
        // versitygw issue 1845: keys f3..f6, delimiter 5, start-after f3.
        let grouping = Grouping::new("", Some("5"), Some("f3"));
        assert_eq!(grouping.first_bound(), b"f3\0");

        let inside = Grouping::new("", Some("/"), Some("a/b"));
        assert_eq!(inside.first_bound(), b"a0");
        let whole = Grouping::new("", Some("/"), Some("a/"));
        assert_eq!(whole.first_bound(), b"a0");
    }

    #[test]
    fn a_marker_before_the_prefix_changes_nothing() {
        let grouping = Grouping::new("m/", None, Some("b"));

        assert_eq!(grouping.first_bound(), b"m/");
        assert_eq!(grouping.directory(), b"m/");
    }

    proptest! {
        #[test]
        fn past_is_the_least_upper_bound_of_a_group(
            group in proptest::collection::vec(any::<u8>(), 1..4),
            other in proptest::collection::vec(any::<u8>(), 0..5),
        ) {
            let bound = past(&group);
            let is_past = bound.is_some_and(|bound| other >= bound);
            prop_assert_eq!(is_past, other > group && !other.starts_with(&group));
        }
    }
}
