//! `Range` of GET and HEAD (RFC 9110, section 14) as S3 answers it: one byte range, anything it
//! does not understand is ignored and the whole object is sent.

/// What part of an object a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// No usable range: the whole body, status 200.
    Whole,
    /// `length` bytes from `offset`, status 206.
    Span {
        /// First byte.
        offset: u64,
        /// Bytes, at least one.
        length: u64,
    },
    /// A well-formed range that lies outside the object: status 416.
    Unsatisfiable,
}

/// A range as written, before the object's size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spec {
    From(u64, Option<u64>),
    Suffix(u64),
}

/// Applies a `Range` header to an object of `size` bytes.
pub(crate) fn select(header: &str, size: u64) -> Selection {
    match parse(header) {
        None => Selection::Whole,
        // The last bytes of an empty object are all of it; there is no 206 without a byte.
        Some(Spec::Suffix(1..)) if size == 0 => Selection::Whole,
        Some(Spec::Suffix(length)) => span(size.saturating_sub(length), size, size),
        Some(Spec::From(first, last)) => {
            let end = last.map_or(size, |last| last.saturating_add(1).min(size));
            span(first, end, size)
        }
    }
}

fn span(offset: u64, end: u64, size: u64) -> Selection {
    if offset < end && end <= size {
        Selection::Span {
            offset,
            length: end - offset,
        }
    } else {
        Selection::Unsatisfiable
    }
}

fn parse(header: &str) -> Option<Spec> {
    let spec = header.trim().strip_prefix("bytes=")?;
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        return Some(Spec::Suffix(number(last)?));
    }
    let first = number(first)?;
    if last.is_empty() {
        return Some(Spec::From(first, None));
    }
    let last = number(last)?;
    (first <= last).then_some(Spec::From(first, Some(last)))
}

/// Digits only; numbers beyond `u64` mean "as far as it goes".
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// Parses `x-amz-copy-source-range`: `bytes=first-last`, both given (UploadPartCopy).
/// `None` when it does not have this form.
pub(crate) fn parse_copy_range(header: &str) -> Option<(u64, u64)> {
    match parse(header)? {
        Spec::From(first, Some(last)) => Some((first, last)),
        Spec::From(_, None) | Spec::Suffix(_) => None,
    }
}

/// `Content-Range` of a 206 answer.
pub(crate) fn content_range(offset: u64, length: u64, size: u64) -> String {
    format!("bytes {offset}-{}/{size}", offset + length - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spanned(offset: u64, length: u64) -> Selection {
        Selection::Span { offset, length }
    }

    #[test]
    fn satisfiable_ranges_are_cut_to_the_object() {
        for (header, size, offset, length) in [
            ("bytes=0-0", 10, 0, 1),
            ("bytes=5-15", 10, 5, 5),
            ("bytes=00-01", 10, 0, 2),
            ("bytes=9-", 10, 9, 1),
            ("bytes=-20", 100, 80, 20),
            ("bytes=-150", 100, 0, 100),
            ("bytes=0-99999999999999999999999", 10, 0, 10),
        ] {
            assert_eq!(select(header, size), spanned(offset, length), "{header}");
        }
    }

    #[test]
    fn ranges_outside_the_object_are_not_satisfiable() {
        for (header, size) in [
            ("bytes=9999-", 10),
            ("bytes=10-10", 10),
            ("bytes=-0", 10),
            ("bytes=0-", 0),
            ("bytes=-0", 0),
            ("bytes=99999999999999999999999-", 10),
        ] {
            assert_eq!(select(header, size), Selection::Unsatisfiable, "{header}");
        }
    }

    #[test]
    fn anything_else_is_ignored() {
        for header in [
            "bytes=,",
            "bytes= -1",
            "bytes=--1",
            "bytes=0 -1",
            "bytes=0--1",
            "bytes=10-5",
            "bytes=abc",
            "foo=0-1",
            "bytes=100-x",
            "bytes=0-0,1-2",
            "bytes=",
            "bytes=-",
            "",
        ] {
            assert_eq!(select(header, 100), Selection::Whole, "{header}");
        }
        assert_eq!(select("bytes=-5", 0), Selection::Whole);
    }

    #[test]
    fn copy_ranges_name_both_ends() {
        assert_eq!(parse_copy_range("bytes=0-9"), Some((0, 9)));
        for header in [
            "bytes=0-",
            "bytes=-9",
            "bytes=9-0",
            "0-9",
            "bytes=0-9,11-12",
        ] {
            assert_eq!(parse_copy_range(header), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn a_span_never_leaves_the_object(first in 0u64..200, last in 0u64..200, size in 0u64..150) {
            for header in [
                format!("bytes={first}-{last}"),
                format!("bytes={first}-"),
                format!("bytes=-{last}"),
            ] {
                if let Selection::Span { offset, length } = select(&header, size) {
                    prop_assert!(length > 0 && offset + length <= size, "{header} of {size}");
                    prop_assert_eq!(
                        content_range(offset, length, size),
                        format!("bytes {offset}-{}/{size}", offset + length - 1)
                    );
                }
            }
        }
    }
}
