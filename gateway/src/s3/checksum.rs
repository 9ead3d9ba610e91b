//! Checksums that clients announce (`Content-MD5`, `x-amz-checksum-*`, trailers) and their
//! verification (S3 user guide, "Checking object integrity").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use filestore_common::digest::BodyDigests;
use filestore_common::{Checksum, ChecksumAlgorithm, ChecksumKind};
use http::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders};

use super::error::{self, reply};

/// Algorithms with their header and the name that S3 has for them.
pub(crate) const ALGORITHMS: [(ChecksumAlgorithm, &str, &str); 5] = [
    (ChecksumAlgorithm::Crc32, "x-amz-checksum-crc32", "CRC32"),
    (ChecksumAlgorithm::Crc32c, "x-amz-checksum-crc32c", "CRC32C"),
    (
        ChecksumAlgorithm::Crc64nvme,
        "x-amz-checksum-crc64nvme",
        "CRC64NVME",
    ),
    (ChecksumAlgorithm::Sha1, "x-amz-checksum-sha1", "SHA1"),
    (ChecksumAlgorithm::Sha256, "x-amz-checksum-sha256", "SHA256"),
];

const UNSUPPORTED: &str = "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]";
const MULTIPLE: &str =
    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";

/// S3's name of an algorithm.
pub(crate) fn name(algorithm: ChecksumAlgorithm) -> &'static str {
    entry(algorithm).2
}

fn entry(algorithm: ChecksumAlgorithm) -> (ChecksumAlgorithm, &'static str, &'static str) {
    match algorithm {
        ChecksumAlgorithm::Crc32 => ALGORITHMS[0],
        ChecksumAlgorithm::Crc32c => ALGORITHMS[1],
        ChecksumAlgorithm::Crc64nvme => ALGORITHMS[2],
        ChecksumAlgorithm::Sha1 => ALGORITHMS[3],
        ChecksumAlgorithm::Sha256 => ALGORITHMS[4],
    }
}

/// S3's name of a checksum kind.
pub(crate) fn kind_name(kind: ChecksumKind) -> &'static str {
    match kind {
        ChecksumKind::FullObject => "FULL_OBJECT",
        ChecksumKind::Composite => "COMPOSITE",
    }
}

/// Reads an algorithm's name.
///
/// # Errors
/// `InvalidRequest` for an algorithm that is not supported.
pub(crate) fn parse_algorithm(text: &str) -> S3Result<ChecksumAlgorithm> {
    ALGORITHMS
        .iter()
        .find(|(_, _, name)| name.eq_ignore_ascii_case(text))
        .map(|(algorithm, _, _)| *algorithm)
        .ok_or_else(|| error::invalid_request(UNSUPPORTED))
}

/// Where the value of an announced checksum is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In the header.
    Header(String),
    /// In the trailer that follows the body.
    Trailer,
}

/// The checksum that a request announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Algorithm.
    pub(crate) algorithm: ChecksumAlgorithm,
    place: Place,
}

/// Reads `x-amz-checksum-*`, `x-amz-trailer` and `x-amz-sdk-checksum-algorithm`.
///
/// # Errors
/// `InvalidRequest` for more than one checksum, a malformed value, an unknown algorithm, or an
/// algorithm without a checksum.
pub(crate) fn announced(headers: &HeaderMap) -> S3Result<Option<Announced>> {
    let mut found: Option<Announced> = None;
    for (header, value) in headers {
        let header = header.as_str();
        let Some(rest) = header.strip_prefix("x-amz-checksum-") else {
            continue;
        };
        if matches!(rest, "algorithm" | "type" | "mode") {
            continue;
        }
        let Some((algorithm, ..)) = ALGORITHMS.iter().find(|(_, name, _)| *name == header) else {
            return Err(error::invalid_request(
                "The algorithm type you specified in x-amz-checksum- header is invalid.",
            ));
        };
        if found.is_some() {
            return Err(error::invalid_request(MULTIPLE));
        }
        let value = value.to_str().unwrap_or_default().to_owned();
        found = Some(Announced {
            algorithm: *algorithm,
            place: Place::Header(value),
        });
    }
    if let Some(Announced {
        algorithm,
        place: Place::Header(value),
    }) = &found
    {
        check_value(*algorithm, value, "header")?;
    }
    if let Some(trailer) = headers
        .get("x-amz-trailer")
        .filter(|value| !value.is_empty())
    {
        let algorithm = trailer_algorithm(trailer.to_str().unwrap_or_default())?;
        if found.is_some() {
            return Err(error::invalid_request(MULTIPLE));
        }
        found = Some(Announced {
            algorithm,
            place: Place::Trailer,
        });
    }
    check_sdk_algorithm(headers, found.as_ref())?;
    Ok(found)
}

/// As [`announced`], for XML bodies: SDKs name the algorithm although they send `Content-MD5`.
///
/// # Errors
/// As [`announced`].
pub(crate) fn announced_of_xml(headers: &HeaderMap) -> S3Result<Option<Announced>> {
    if headers.contains_key("x-amz-sdk-checksum-algorithm") {
        let mut headers = headers.clone();
        headers.remove("x-amz-sdk-checksum-algorithm");
        return announced(&headers);
    }
    announced(headers)
}

fn trailer_algorithm(trailer: &str) -> S3Result<ChecksumAlgorithm> {
    ALGORITHMS
        .iter()
        .find(|(_, header, _)| header.eq_ignore_ascii_case(trailer.trim()))
        .map(|(algorithm, ..)| *algorithm)
        .ok_or_else(|| {
            error::invalid_request(
                "The value specified in the x-amz-trailer header is not supported",
            )
        })
}

fn check_sdk_algorithm(headers: &HeaderMap, found: Option<&Announced>) -> S3Result<()> {
    let Some(sdk) = headers.get("x-amz-sdk-checksum-algorithm") else {
        return Ok(());
    };
    let sdk = sdk.to_str().unwrap_or_default();
    if sdk.is_empty() {
        return Ok(());
    }
    let algorithm = parse_algorithm(sdk)?;
    match found {
        None => Err(error::invalid_request(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
        )),
        Some(found) if found.algorithm != algorithm => Err(error::invalid_request(
            "Value for x-amz-sdk-checksum-algorithm header is invalid.",
        )),
        Some(_) => Ok(()),
    }
}

/// Bytes of an algorithm's value.
fn width(algorithm: ChecksumAlgorithm) -> usize {
    match algorithm {
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
        ChecksumAlgorithm::Crc64nvme => 8,
        ChecksumAlgorithm::Sha1 => 20,
        ChecksumAlgorithm::Sha256 => 32,
    }
}

/// Whether `value` is base64 of the right length.
pub(crate) fn well_formed(algorithm: ChecksumAlgorithm, value: &str) -> bool {
    BASE64
        .decode(value)
        .is_ok_and(|bytes| bytes.len() == width(algorithm))
}

fn check_value(algorithm: ChecksumAlgorithm, value: &str, place: &str) -> S3Result<()> {
    if well_formed(algorithm, value) {
        return Ok(());
    }
    let header = entry(algorithm).1;
    Err(error::invalid_request(format!(
        "Value for {header} {place} is invalid."
    )))
}

/// `BadDigest` for a checksum.
pub(crate) fn mismatch(algorithm: ChecksumAlgorithm) -> S3Error {
    S3Error::with_message(
        S3ErrorCode::BadDigest,
        format!(
            "The {} you specified did not match the calculated checksum.",
            name(algorithm)
        ),
    )
}

impl Announced {
    /// Compares with what was computed over the body.
    ///
    /// # Errors
    /// `BadDigest`; `MalformedTrailerError` when the announced trailer did not come.
    pub(crate) fn verify(
        &self,
        digests: &BodyDigests,
        trailers: Option<&TrailingHeaders>,
    ) -> S3Result<Checksum> {
        let computed = digests
            .checksum(self.algorithm)
            .ok_or_else(|| error::internal("checksum was not computed"))?;
        let sent = match &self.place {
            Place::Header(value) => value.clone(),
            Place::Trailer => self.trailer_value(trailers)?,
        };
        if sent == computed.value {
            Ok(computed)
        } else {
            Err(mismatch(self.algorithm))
        }
    }

    fn trailer_value(&self, trailers: Option<&TrailingHeaders>) -> S3Result<String> {
        let header = entry(self.algorithm).1;
        let value = trailers
            .and_then(|trailers| {
                trailers.read(|trailers| {
                    let value = trailers.get(header)?;
                    Some(value.to_str().unwrap_or_default().to_owned())
                })
            })
            .flatten();
        let Some(value) = value else {
            return Err(error::custom(
                "MalformedTrailerError",
                http::StatusCode::BAD_REQUEST,
            ));
        };
        check_value(self.algorithm, &value, "trailing header")?;
        Ok(value)
    }
}

/// `Content-MD5` (RFC 1864).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentMd5(String);

impl ContentMd5 {
    /// Reads the header.
    ///
    /// # Errors
    /// `InvalidDigest` when it is empty or not base64 of 16 bytes.
    pub(crate) fn of(headers: &HeaderMap) -> S3Result<Option<Self>> {
        let Some(value) = headers.get("content-md5") else {
            return Ok(None);
        };
        let value = value.to_str().unwrap_or_default();
        if BASE64.decode(value).is_ok_and(|bytes| bytes.len() == 16) {
            return Ok(Some(Self(value.to_owned())));
        }
        let mut error = error::code(S3ErrorCode::InvalidDigest);
        reply::add_detail(&mut error, "Content-MD5", value);
        Err(error)
    }

    /// Compares with what was computed (base64).
    ///
    /// # Errors
    /// `BadDigest`.
    pub(crate) fn verify(&self, computed: &str) -> S3Result<()> {
        if self.0 == computed {
            return Ok(());
        }
        let mut error = error::code(S3ErrorCode::BadDigest);
        let expected = BASE64.decode(&self.0).map(hex::encode).unwrap_or_default();
        reply::add_detail(&mut error, "CalculatedDigest", computed);
        reply::add_detail(&mut error, "ExpectedDigest", &expected);
        Err(error)
    }
}

/// Sets the field of a reply or list entry that belongs to the checksum's algorithm.
macro_rules! put_checksum {
    ($target:expr, $checksum:expr) => {{
        let checksum: &::filestore_common::Checksum = $checksum;
        let value = Some(checksum.value.clone());
        match checksum.algorithm {
            ::filestore_common::ChecksumAlgorithm::Crc32 => $target.checksum_crc32 = value,
            ::filestore_common::ChecksumAlgorithm::Crc32c => $target.checksum_crc32c = value,
            ::filestore_common::ChecksumAlgorithm::Crc64nvme => $target.checksum_crc64nvme = value,
            ::filestore_common::ChecksumAlgorithm::Sha1 => $target.checksum_sha1 = value,
            ::filestore_common::ChecksumAlgorithm::Sha256 => $target.checksum_sha256 = value,
        }
    }};
}
pub(crate) use put_checksum;

/// S3's type of a checksum in a reply.
pub(crate) fn kind_dto(kind: ChecksumKind) -> s3s::dto::ChecksumType {
    s3s::dto::ChecksumType::from_static(kind_name(kind))
}

/// S3's algorithm in a reply.
pub(crate) fn algorithm_dto(algorithm: ChecksumAlgorithm) -> s3s::dto::ChecksumAlgorithm {
    s3s::dto::ChecksumAlgorithm::from_static(name(algorithm))
}

#[cfg(test)]
mod tests;
