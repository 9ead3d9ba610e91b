//! Query strings: which s3s reads as S3 does, what S3 says of the others.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use s3s::{S3ErrorCode, S3Result};

use crate::s3::error::{self, invalid_argument, invalid_request, reply};
use crate::s3::request::bad_part_number;

/// Parameters that are numbers.
const NUMBERS: [&str; 5] = [
    "max-keys",
    "max-uploads",
    "max-parts",
    "max-buckets",
    "part-number-marker",
];

/// Names of the parameters, as sent.
pub(crate) fn names(query: &str) -> impl Iterator<Item = &str> {
    pairs(query).map(|(name, _)| name)
}

/// Names and values of the parameters, as sent.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// A listing whose numbers are numbers.
pub(super) fn is_plain_listing(query: &str) -> bool {
    pairs(query).all(|(name, value)| name != "max-keys" || is_number(value))
        && !query.contains("X-Amz-")
}

/// `partNumber=N&uploadId=ID`, in any order and nothing else.
pub(super) fn is_plain_part(query: &str) -> bool {
    pairs(query).all(|(name, value)| match name {
        "partNumber" => is_number(value),
        "uploadId" => !value.is_empty(),
        "x-id" => true,
        _ => false,
    }) && query.contains("partNumber=")
        && query.contains("uploadId=")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Refuses numbers that are none, in S3's words.
///
/// # Errors
/// `InvalidArgument`.
pub(super) fn check(query: &str) -> S3Result<()> {
    for (name, value) in pairs(query) {
        let value = percent_decode_str(value).decode_utf8_lossy();
        if name == "partNumber" {
            if value.parse::<i32>().is_err() {
                return Err(bad_part_number(&value));
            }
        } else if NUMBERS.contains(&name) {
            check_number(name, &value)?;
        }
    }
    Ok(())
}

/// Refuses queries that S3 refuses and s3s takes for another operation.
///
/// # Errors
/// `InvalidArgument`, `InvalidRequest`, `MethodNotAllowed`.
pub(crate) fn check_operation(method: &Method, names_object: bool, query: &str) -> S3Result<()> {
    if !names_object {
        return Ok(());
    }
    let has = |wanted: &str| names(query).any(|name| name == wanted);
    match *method {
        Method::PUT if has("partNumber") && !has("uploadId") => Err(invalid_argument(
            "partNumber",
            "partNumber",
            "This operation does not accept partNumber without uploadId",
        )),
        Method::PUT if has("uploadId") && !has("partNumber") => {
            let mut error = error::code(S3ErrorCode::MethodNotAllowed);
            reply::add_detail(&mut error, "Method", "PUT");
            reply::add_detail(&mut error, "ResourceType", "UPLOAD");
            Err(error)
        }
        Method::GET if has("uploads") => Err(invalid_request(
            "Key is not expected for the GET method ?uploads subresource",
        )),
        Method::GET if has("versions") => Err(invalid_request(
            "There is no such thing as the ?versions sub-resource for a key",
        )),
        _ => Ok(()),
    }
}

fn check_number(name: &str, value: &str) -> S3Result<()> {
    if name == "max-buckets" {
        return match value.parse::<i32>() {
            Ok(1..=10_000) => Ok(()),
            _ => Err(invalid_argument(
                name,
                value,
                "Argument max-buckets must be an integer between 1 and 10000.",
            )),
        };
    }
    match value.parse::<i32>() {
        Ok(0..) => Ok(()),
        Ok(_) => Err(invalid_argument(
            name,
            value,
            format!("Argument {value} must be an integer between 0 and 2147483647"),
        )),
        Err(_) => Err(invalid_argument(
            name,
            value,
            format!("Provided {value} not an integer or within integer range"),
        )),
    }
}

/// The URI without the signature of a presigned URL, which was checked, and without what has no
/// place in the reply's headers: the operations read `response-*` from the original.
///
/// # Errors
/// `InvalidURI`.
pub(super) fn without_signature(uri: Uri) -> S3Result<Uri> {
    let Some(query) = uri.query() else {
        return Ok(uri);
    };
    let drops = |name: &str| {
        let name = percent_decode_str(name).decode_utf8_lossy();
        name.to_ascii_lowercase().starts_with("x-amz-") || name == "response-expires"
    };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !drops(pair.split('=').next().unwrap_or_default()))
        .collect();
    let kept = kept.join("&");
    let path = uri.path();
    let rebuilt = if kept.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{kept}")
    };
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(
        rebuilt
            .parse()
            .map_err(|_| error::code(S3ErrorCode::InvalidURI))?,
    );
    Uri::from_parts(parts).map_err(|_| error::code(S3ErrorCode::InvalidURI))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked_in_the_words_of_s3() {
        for (query, message) in [
            (
                "max-keys=-1",
                "Argument -1 must be an integer between 0 and 2147483647",
            ),
            (
                "max-keys=x",
                "Provided x not an integer or within integer range",
            ),
            (
                "max-parts=99999999999",
                "Provided 99999999999 not an integer or within integer range",
            ),
            (
                "partNumber=x",
                "Part number must be an integer between 1 and 10000, inclusive.",
            ),
            (
                "max-buckets=0",
                "Argument max-buckets must be an integer between 1 and 10000.",
            ),
        ] {
            assert_eq!(
                check(query).unwrap_err().message(),
                Some(message),
                "{query}"
            );
        }
        assert!(check("max-keys=0&prefix=max-keys&partNumber=3").is_ok());
    }

    #[test]
    fn the_signature_is_taken_out() {
        let uri = "/b/k%20?uploadId=1&X-Amz-Signature=2&x-amz-date=3&partNumber=4";
        let bare = without_signature(uri.parse().unwrap()).unwrap();
        assert_eq!(bare, "/b/k%20?uploadId=1&partNumber=4");
        let only = without_signature("/b/k?X-Amz-Signature=2".parse().unwrap()).unwrap();
        assert_eq!(only, "/b/k");
    }

    #[test]
    fn plain_parts_and_listings() {
        assert!(is_plain_part("partNumber=1&uploadId=a"));
        assert!(is_plain_part("uploadId=a&partNumber=1&x-id=UploadPart"));
        assert!(!is_plain_part("partNumber=x&uploadId=a"));
        assert!(!is_plain_part("partNumber=1&uploadId="));
        assert!(!is_plain_part("partNumber=1&uploadId=a&X-Amz-Signature=b"));
        assert!(is_plain_listing("list-type=2&max-keys=5&prefix=a"));
        assert!(!is_plain_listing("list-type=2&max-keys=-5"));
    }
}
