//! Rules for single values.

use filestore_common::BucketName;

use super::{Result, ValidationError};

fn refuse<T>(field: impl Into<String>, message: String) -> Result<T> {
    Err(ValidationError::new(field, message))
}

fn is_label(text: &str, extra: &[u8]) -> bool {
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-' || extra.contains(b)
        })
}

/// A name of up to `max` characters by RFC 1123, as Services need it.
pub(super) fn dns_label(field: &str, name: &str, max: usize) -> Result<()> {
    if name.len() <= max && is_label(name, b"") {
        return Ok(());
    }
    refuse(
        field,
        format!(
            "{name:?} is no name; use up to {max} of a-z, 0-9 and '-', starting and ending with a letter or digit"
        ),
    )
}

/// A name that may have dots, as claims and Secrets have.
pub(super) fn dns_subdomain(field: impl Into<String>, name: &str) -> Result<()> {
    if name.len() <= 253 && name.split('.').all(|label| is_label(label, b"")) {
        return Ok(());
    }
    refuse(
        field,
        format!(
            "{name:?} is no name; use up to 253 of a-z, 0-9, '-' and '.', starting and ending with a letter or digit"
        ),
    )
}

/// A bucket name by S3's rules.
pub(super) fn bucket_name(field: impl Into<String>, name: &str) -> Result<BucketName> {
    BucketName::new(name).or_else(|error| refuse(field, error.to_string()))
}

/// An image with a tag or digest that says which version it is.
pub(super) fn image(field: &str, image: &str) -> Result<String> {
    let valid = !image.is_empty()
        && image.len() <= 512
        && !image.contains(char::is_whitespace)
        && !image.ends_with(":latest");
    if valid {
        return Ok(image.to_owned());
    }
    refuse(
        field,
        format!(
            "{image:?} does not say which version; use repository:tag or repository@sha256:…, not latest"
        ),
    )
}

/// A positive size such as `20Gi` (Kubernetes, "Quantity").
pub(super) fn quantity(field: &str, text: &str) -> Result<()> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = text.strip_prefix(digits).unwrap_or_default();
    let known = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "k", "M", "G", "T", "P"].contains(&suffix);
    let positive = digits
        .parse::<f64>()
        .is_ok_and(|number| number > 0.0 && number.is_finite());
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if known && positive && plain {
        return Ok(());
    }
    refuse(
        field,
        format!("{text:?} is no size; write for example 20Gi or 500M"),
    )
}

/// Bytes a second such as `20Mi`: a whole number and a unit that Kubernetes and the migrator know.
pub(super) fn bandwidth(field: &str, text: &str) -> Result<()> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let number = digits.parse::<u64>().unwrap_or_default();
    if number > 0 && ["", "k", "M", "G", "Ki", "Mi", "Gi"].contains(&unit) {
        return Ok(());
    }
    refuse(
        field,
        format!("{text:?} is no number of bytes a second; write for example 20Mi or 500k"),
    )
}

/// A time such as `1h30m`, units in this order.
pub(super) fn duration(field: &str, text: &str) -> Result<()> {
    let mut rest = text;
    for unit in ['h', 'm', 's'] {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, more) = rest.split_at(end);
        let positive = number.parse::<u32>().is_ok_and(|number| number > 0);
        if let Some(more) = more.strip_prefix(unit).filter(|_| positive) {
            rest = more;
        }
    }
    if rest.is_empty() && !text.is_empty() {
        return Ok(());
    }
    refuse(
        field,
        format!("{text:?} is no time; write for example 90s, 6h or 1h30m"),
    )
}

/// `http(s)://host[:port]` without credentials, path or query; returned without trailing slash.
pub(super) fn endpoint(field: impl Into<String>, url: &str) -> Result<String> {
    let trimmed = url.trim_end_matches('/');
    let authority = trimmed
        .strip_prefix("http://")
        .or_else(|| trimmed.strip_prefix("https://"));
    match authority {
        Some(authority) if authority.contains('@') => refuse(
            field,
            "holds credentials, which would end up in logs; put them in a Secret and name it under source.credentials".to_owned(),
        ),
        Some(authority)
            if !authority.is_empty()
                && !authority.contains(['/', '?', '#'])
                && !authority.contains(char::is_whitespace) =>
        {
            Ok(trimmed.to_owned())
        }
        _ => refuse(
            field,
            format!("{url:?} is no endpoint; write http://host:port or https://host:port, without a path"),
        ),
    }
}
