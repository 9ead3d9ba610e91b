//! What listings have in common: `encoding-type`, page sizes, continuation tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::S3Result;
use s3s::dto::EncodingType;

use super::error;

/// Largest page (ListObjects API reference, `max-keys`).
pub(crate) const MAX_PAGE: usize = 1000;

/// S3 escapes all but unreserved characters and the slash.
const URL: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/');

/// How names are written in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As they are.
    Plain,
    /// Percent-encoded.
    Url,
}

impl Encoding {
    /// Takes the request's `encoding-type`. A page with a name that XML 1.0 cannot hold is
    /// percent-encoded in any case and says so in its `EncodingType`.
    ///
    /// # Errors
    /// `InvalidArgument` for any other value than `url`.
    pub(crate) fn choose<'a>(
        asked: Option<&EncodingType>,
        mut names: impl Iterator<Item = &'a str>,
    ) -> S3Result<Self> {
        match asked.map(EncodingType::as_str) {
            Some("url") => Ok(Self::Url),
            Some("") | None => Ok(if names.all(is_xml_text) {
                Self::Plain
            } else {
                Self::Url
            }),
            Some(other) => Err(error::invalid_argument(
                "encoding-type",
                other,
                "Invalid Encoding Method specified in Request",
            )),
        }
    }

    /// Writes a name.
    pub(crate) fn apply(self, name: String) -> String {
        match self {
            Self::Plain => name,
            Self::Url => utf8_percent_encode(&name, &URL).to_string(),
        }
    }

    /// Value of the answer's `EncodingType`.
    pub(crate) fn dto(self) -> Option<EncodingType> {
        match self {
            Self::Plain => None,
            Self::Url => Some(EncodingType::from_static(EncodingType::URL)),
        }
    }
}

/// Whether XML 1.0 can hold the character and a parser gives it back unchanged (a carriage return
/// would come back as a line feed).
pub(crate) fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{20}'..='\u{fffd}' | '\u{10000}'..)
}

fn is_xml_text(text: &str) -> bool {
    text.chars().all(is_xml)
}

/// A name for a reply that has no `encoding-type`: what XML cannot hold becomes U+FFFD.
pub(crate) fn xml_name(name: String) -> String {
    if is_xml_text(&name) {
        return name;
    }
    name.chars()
        .map(|c| {
            if is_xml(c) {
                c
            } else {
                char::REPLACEMENT_CHARACTER
            }
        })
        .collect()
}

/// Checks and clamps `max-keys`, `max-uploads`, `max-parts`.
///
/// # Errors
/// `InvalidArgument` when negative.
pub(crate) fn page_size(name: &str, value: Option<i32>) -> S3Result<usize> {
    let Some(value) = value else {
        return Ok(MAX_PAGE);
    };
    match usize::try_from(value) {
        Ok(size) => Ok(size.min(MAX_PAGE)),
        Err(_) => Err(error::invalid_argument(
            name,
            &value.to_string(),
            format!("Argument {value} must be an integer between 0 and 2147483647"),
        )),
    }
}

/// Token that continues a listing after `last`.
pub(crate) fn token(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(last)
}

/// Reads a token back.
///
/// # Errors
/// `InvalidArgument` for what [`token`] did not make.
pub(crate) fn parse_token(token: &str) -> S3Result<String> {
    let invalid = || {
        error::invalid_argument(
            "continuation-token",
            token,
            "The continuation token provided is incorrect",
        )
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn choose(asked: Option<&'static str>, names: &[&str]) -> S3Result<Encoding> {
        let asked = asked.map(EncodingType::from_static);
        Encoding::choose(asked.as_ref(), names.iter().copied())
    }

    #[test]
    fn names_are_percent_encoded_on_request() {
        let url = choose(Some("url"), &["a"]).unwrap();

        assert_eq!(url.apply("a+b %c/d~é".into()), "a%2Bb%20%25c/d~%C3%A9");
        assert_eq!(url.dto().unwrap().as_str(), "url");
        assert!(choose(Some("base64"), &["a"]).is_err());
    }

    #[test]
    fn names_that_xml_cannot_hold_force_encoding() {
        assert_eq!(choose(None, &["a b", "é\n\t"]).unwrap(), Encoding::Plain);
        for name in ["\u{1}", "a\rb", "\u{fffe}", "\u{b}"] {
            assert_eq!(
                choose(None, &["a", name]).unwrap(),
                Encoding::Url,
                "{name:?}"
            );
        }
        assert_eq!(xml_name("a\u{1}b".into()), "a\u{fffd}b");
    }

    #[test]
    fn page_sizes_are_clamped() {
        assert_eq!(page_size("max-keys", None).unwrap(), 1000);
        assert_eq!(page_size("max-keys", Some(0)).unwrap(), 0);
        assert_eq!(page_size("max-keys", Some(5000)).unwrap(), 1000);
        assert!(page_size("max-keys", Some(-1)).is_err());
    }

    #[test]
    fn foreign_tokens_are_refused() {
        assert!(parse_token("no token!").is_err());
        assert!(parse_token("_w").is_err());
    }

    proptest! {
        #[test]
        fn tokens_round_trip(name in "\\PC{0,40}") {
            prop_assert_eq!(parse_token(&token(&name)).unwrap(), name);
        }

        #[test]
        fn url_encoding_is_legal_xml_and_reversible(name in any::<String>()) {
            let encoded = Encoding::Url.apply(name.clone());
            prop_assert!(encoded.chars().all(is_xml));
            let decoded = percent_encoding::percent_decode_str(&encoded);
            prop_assert_eq!(decoded.decode_utf8().unwrap(), name);
        }
    }
}
