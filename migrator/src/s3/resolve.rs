//! Telling a name that does not exist from a resolver that does not answer.

use crate::{Error, Kind, Result};

/// What the C libraries say (getaddrinfo: `EAI_NONAME`, `EAI_NODATA`) when a name has no address;
/// glibc, then musl. The standard library passes the text on, not the number.
const UNKNOWN_NAME: [&str; 4] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "Name has no usable address",
];

/// Resolves the host of `url`.
///
/// # Errors
/// [`Kind::Absent`] when the name does not exist; [`Kind::Down`] for any other failure.
pub(crate) async fn resolve(url: &str, host: &str, port: u16) -> Result<()> {
    match tokio::net::lookup_host((host, port)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::new(
            kind_of(&error.to_string()),
            "resolve",
            url,
            error.to_string(),
        )),
    }
}

fn kind_of(text: &str) -> Kind {
    let unknown = UNKNOWN_NAME.iter().any(|known| text.contains(known));
    if unknown { Kind::Absent } else { Kind::Down }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_name_counts_as_absent() {
        for (text, kind) in [
            (
                "failed to lookup address information: Name or service not known",
                Kind::Absent,
            ),
            (
                "failed to lookup address information: Name does not resolve",
                Kind::Absent,
            ),
            (
                "failed to lookup address information: Temporary failure in name resolution",
                Kind::Down,
            ),
            (
                "failed to lookup address information: Try again",
                Kind::Down,
            ),
            (
                "failed to lookup address information: Non-recoverable failure in name resolution",
                Kind::Down,
            ),
            (
                "failed to lookup address information: Unrecoverable error",
                Kind::Down,
            ),
        ] {
            assert_eq!(kind_of(text), kind, "{text}");
        }
    }

    #[tokio::test]
    async fn addresses_need_no_resolver() {
        resolve("http://127.0.0.1:1", "127.0.0.1", 1).await.unwrap();
    }
}
