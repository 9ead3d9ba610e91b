//! Where in a bucket the wanted keys lie: stretches of the order of keys, so that listings read
//! little else.

use std::ops::Bound;
use std::sync::Arc;

use filestore_common::ObjectKey;

use super::pattern::KeyFilter;

/// The greatest character: nearly every key with a prefix sorts before the prefix with this after
/// it; the few others are filtered out one by one.
const LAST: char = '\u{10FFFF}';

/// A stretch of keys in byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Keys begin with this.
    pub prefix: String,
    /// Keys come after this one. When given, it begins with the prefix: MinIO answers a marker
    /// outside of the prefix with nothing.
    pub after: Option<String>,
    /// Where the stretch ends.
    pub end: Bound<String>,
}

impl Span {
    /// All keys.
    pub fn all() -> Self {
        Self {
            prefix: String::new(),
            after: None,
            end: Bound::Unbounded,
        }
    }

    /// Whether a key lies in it.
    pub fn contains(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
            && self.after.as_deref().is_none_or(|after| key > after)
            && !self.ends_before(key)
    }

    /// Whether neither `key` nor any after it can lie in it.
    pub fn ends_before(&self, key: &str) -> bool {
        let beyond = match &self.end {
            Bound::Unbounded => false,
            Bound::Included(last) => key > last.as_str(),
            Bound::Excluded(end) => key >= end.as_str(),
        };
        beyond || (key > self.prefix.as_str() && !key.starts_with(&self.prefix))
    }

    /// What of it comes after `after` and before `end`; `None` when that is nothing.
    pub fn within(&self, after: Option<&str>, end: Bound<&str>) -> Option<Self> {
        let mut span = self.clone();
        if let Some(after) = after
            && span.after.as_deref().is_none_or(|own| own < after)
        {
            span.after = Some(after.to_owned());
        }
        let (given, inclusive) = match end {
            Bound::Unbounded => (None, false),
            Bound::Included(last) => (Some(last), true),
            Bound::Excluded(end) => (Some(end), false),
        };
        if let Some(given) = given {
            let nearer = match &span.end {
                Bound::Unbounded => true,
                Bound::Included(own) => given < own.as_str() || (given == own && !inclusive),
                Bound::Excluded(own) => given < own.as_str(),
            };
            if nearer {
                span.end = end.map(str::to_owned);
            }
        }
        span.normal()
    }

    /// The same keys with `after` inside the prefix, or nothing.
    fn normal(mut self) -> Option<Self> {
        if let Some(after) = &self.after
            && !after.starts_with(&self.prefix)
        {
            if after.as_str() > self.prefix.as_str() {
                return None;
            }
            self.after = None;
        }
        let floor = self.after.as_deref().unwrap_or(&self.prefix);
        let empty = match &self.end {
            Bound::Unbounded => false,
            Bound::Included(last) => {
                last.as_str() < floor || (self.after.is_some() && last.as_str() == floor)
            }
            Bound::Excluded(end) => end.as_str() <= floor,
        };
        (!empty).then_some(self)
    }
}

/// The wanted keys of a bucket that lie in one stretch.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The stretch.
    pub span: Span,
    /// Which keys of it.
    pub filter: Arc<KeyFilter>,
    /// With the metadata of every object, where that costs no request for each.
    pub full: bool,
}

impl Keys {
    /// All keys of a bucket.
    pub fn all() -> Self {
        Self {
            span: Span::all(),
            filter: Arc::default(),
            full: false,
        }
    }

    /// The same keys with their metadata.
    #[must_use]
    pub fn full(self) -> Self {
        Self { full: true, ..self }
    }

    /// A key shortly before the first wanted one, to begin a walk after; `None` = at the begin.
    pub(crate) fn start_after(&self) -> Option<ObjectKey> {
        if let Some(after) = &self.span.after {
            return ObjectKey::new(after.as_str()).ok();
        }
        let mut prefix = self.span.prefix.clone();
        let last = prefix.pop()?;
        let before = u32::from(last).checked_sub(1).and_then(char::from_u32);
        if let Some(before) = before.filter(|before| *before != '\0') {
            prefix.extend([before, LAST]);
        }
        ObjectKey::new(prefix).ok()
    }

    /// Whether a key is wanted.
    pub fn takes(&self, key: &str) -> bool {
        self.span.contains(key) && self.filter.takes(key)
    }
}

/// The stretches that hold every key that `filter` takes: in order, apart from each other.
pub(super) fn spans(filter: &KeyFilter) -> Vec<Span> {
    let included: Vec<&str> = if filter.include.is_empty() {
        vec![""]
    } else {
        filter.include.iter().map(super::Pattern::literal).collect()
    };
    let excluded = outermost(
        filter
            .exclude
            .iter()
            .filter_map(super::Pattern::as_prefix)
            .collect(),
    );
    let mut spans = Vec::new();
    for prefix in outermost(included) {
        if excluded.iter().any(|outer| prefix.starts_with(outer)) {
            continue;
        }
        let whole = Span {
            prefix: prefix.to_owned(),
            ..Span::all()
        };
        let mut after = None;
        for inner in excluded.iter().filter(|inner| inner.starts_with(prefix)) {
            spans.extend(whole.within(after.as_deref(), Bound::Excluded(inner)));
            after = Some(format!("{inner}{LAST}"));
        }
        spans.extend(whole.within(after.as_deref(), Bound::Unbounded));
    }
    spans
}

/// Sorted, without the prefixes that another one covers.
fn outermost(mut prefixes: Vec<&str>) -> Vec<&str> {
    prefixes.sort_unstable();
    let mut outer: Vec<&str> = Vec::new();
    for prefix in prefixes {
        // A covering prefix sorts before all that it covers, with nothing uncovered between.
        if !outer.last().is_some_and(|last| prefix.starts_with(last)) {
            outer.push(prefix);
        }
    }
    outer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pattern::Pattern;
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> KeyFilter {
        let read = |texts: &[&str]| texts.iter().map(|t| Pattern::new(t).unwrap()).collect();
        KeyFilter {
            include: read(include),
            exclude: read(exclude),
        }
    }

    #[test]
    fn prefixes_narrow_the_listing() {
        let told = |filter: &KeyFilter| -> Vec<(String, Option<String>, Bound<String>)> {
            spans(filter)
                .into_iter()
                .map(|span| (span.prefix, span.after, span.end))
                .collect()
        };
        let text = str::to_owned;
        assert_eq!(
            told(&filter(&["b/", "a/x", "a/", "c/*.z"], &[])),
            [
                (text("a/"), None, Bound::Unbounded),
                (text("b/"), None, Bound::Unbounded),
                (text("c/"), None, Bound::Unbounded),
            ]
        );
        assert_eq!(
            told(&filter(&[], &["tmp/", "*.o"])),
            [
                (text(""), None, Bound::Excluded(text("tmp/"))),
                (text(""), Some(text("tmp/\u{10FFFF}")), Bound::Unbounded),
            ]
        );
        assert_eq!(told(&filter(&["a/"], &["a/", "b/"])), []);
        assert_eq!(
            told(&filter(&["a/"], &["a/t/"])),
            [
                (text("a/"), None, Bound::Excluded(text("a/t/"))),
                (text("a/"), Some(text("a/t/\u{10FFFF}")), Bound::Unbounded),
            ]
        );
    }

    fn patterns() -> impl Strategy<Value = Vec<Pattern>> {
        proptest::collection::vec("[ab/]{1,3}[*]?", 0..4)
            .prop_map(|texts| texts.iter().map(|t| Pattern::new(t).unwrap()).collect())
    }

    proptest! {
        #[test]
        fn a_walk_begins_before_every_wanted_key(prefix in "[ab/]{0,3}", rest in "[ab/]{1,3}") {
            let span = Span { prefix: prefix.clone(), ..Span::all() };
            let keys = Keys { span, ..Keys::all() };
            let key = format!("{prefix}{rest}");
            prop_assert!(keys.start_after().is_none_or(|after| after.as_str() < key.as_str()));
        }

        #[test]
        fn every_wanted_key_lies_in_exactly_one_span(
            include in patterns(), exclude in patterns(), key in "[ab/\u{10FFFF}]{1,6}",
        ) {
            let filter = KeyFilter { include, exclude };
            let spans = spans(&filter);
            let holding = spans.iter().filter(|span| span.contains(&key)).count();
            prop_assert!(holding <= 1);
            if filter.takes(&key) {
                prop_assert_eq!(holding, 1, "{:?}", spans);
            }
            for pair in spans.windows(2) {
                prop_assert!(pair[0].ends_before(&pair[1].prefix) || pair[0].prefix == pair[1].prefix);
            }
            for span in &spans {
                prop_assert!(span.after.as_ref().is_none_or(|after| after.starts_with(&span.prefix)));
                if span.ends_before(&key) {
                    prop_assert!(!span.contains(&key));
                }
            }
        }

        #[test]
        fn cutting_a_span_keeps_what_lies_between(
            prefix in "[ab]{0,2}", after in proptest::option::of("[abc]{1,3}"), end in "[abc]{1,3}",
            inclusive: bool, key in "[abc]{1,4}",
        ) {
            let span = Span { prefix, ..Span::all() };
            let bound = if inclusive { Bound::Included(&*end) } else { Bound::Excluded(&*end) };
            let cut = span.within(after.as_deref(), bound);
            let wanted = span.contains(&key)
                && after.as_deref().is_none_or(|after| key.as_str() > after)
                && (key < end || (inclusive && key == end));
            prop_assert_eq!(cut.is_some_and(|cut| cut.contains(&key)), wanted);
        }
    }
}
