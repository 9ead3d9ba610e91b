//! CreateMultipartUpload.

use filestore_common::{ChecksumAlgorithm, ChecksumKind};
use filestore_store::UploadSpec;
use http::HeaderMap;
use s3s::dto::{CreateMultipartUploadInput, CreateMultipartUploadOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::s3::checksum::{algorithm_dto, kind_dto, kind_name, name, parse_algorithm};
use crate::s3::error::invalid_request;
use crate::s3::ops::put_object::tag_header;
use crate::s3::{Gateway, listing, metadata, request};

pub(in crate::s3::ops) async fn create(
    gateway: &Gateway,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let headers = request::headers(&request);
    request::check_new_object(headers)?;
    let spec = UploadSpec {
        headers: metadata::content_headers(headers)?,
        user: metadata::user_metadata(headers)?,
        tags: tag_header(headers)?,
        checksum: checksum(headers)?,
    };
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let name = key.as_str().to_owned();
    let announced = spec.checksum;
    let upload_id = gateway
        .short(move |store| store.create_upload(&bucket, &key, &spec))
        .await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        checksum_algorithm: announced.map(|(algorithm, _)| algorithm_dto(algorithm)),
        checksum_type: announced.map(|(_, kind)| kind_dto(kind)),
        key: Some(listing::xml_name(name)),
        upload_id: Some(upload_id),
        ..CreateMultipartUploadOutput::default()
    }))
}

/// Checksum that the parts will carry (S3 user guide, "Checking object integrity": which
/// algorithm goes with which type).
fn checksum(headers: &HeaderMap) -> S3Result<Option<(ChecksumAlgorithm, ChecksumKind)>> {
    let text = |name| {
        let value = headers.get(name)?.to_str().unwrap_or_default();
        (!value.is_empty()).then_some(value)
    };
    let kind = match text("x-amz-checksum-type")
        .map(str::to_ascii_uppercase)
        .as_deref()
    {
        None => None,
        Some("COMPOSITE") => Some(ChecksumKind::Composite),
        Some("FULL_OBJECT") => Some(ChecksumKind::FullObject),
        Some(_) => {
            return Err(invalid_request(
                "Value for x-amz-checksum-type header is invalid.",
            ));
        }
    };
    let Some(algorithm) = text("x-amz-checksum-algorithm") else {
        if kind.is_some() {
            return Err(invalid_request(
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
            ));
        }
        return Ok(None);
    };
    let algorithm = parse_algorithm(algorithm)?;
    let only = match algorithm {
        ChecksumAlgorithm::Crc64nvme => Some(ChecksumKind::FullObject),
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => Some(ChecksumKind::Composite),
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => None,
    };
    match (kind, only) {
        (Some(kind), Some(only)) if kind != only => Err(invalid_request(format!(
            "The {} checksum type cannot be used with the {} checksum algorithm.",
            kind_name(kind),
            name(algorithm).to_lowercase()
        ))),
        (kind, only) => Ok(Some((
            algorithm,
            kind.or(only).unwrap_or(ChecksumKind::Composite),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(
        algorithm: &'static str,
        kind: &'static str,
    ) -> Result<Option<(ChecksumAlgorithm, ChecksumKind)>, ()> {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-amz-checksum-algorithm", algorithm),
            ("x-amz-checksum-type", kind),
        ] {
            if !value.is_empty() {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        checksum(&headers).map_err(|_| ())
    }

    #[test]
    fn algorithms_have_the_types_that_s3_gives_them() {
        use ChecksumAlgorithm::{Crc32, Crc64nvme, Sha256};
        use ChecksumKind::{Composite, FullObject};
        for (algorithm, kind, expected) in [
            ("", "", Ok(None)),
            ("CRC32", "", Ok(Some((Crc32, Composite)))),
            ("crc32", "FULL_OBJECT", Ok(Some((Crc32, FullObject)))),
            ("CRC64NVME", "", Ok(Some((Crc64nvme, FullObject)))),
            ("SHA256", "", Ok(Some((Sha256, Composite)))),
            ("SHA256", "FULL_OBJECT", Err(())),
            ("CRC64NVME", "COMPOSITE", Err(())),
            ("", "COMPOSITE", Err(())),
            ("CRC32", "OTHER", Err(())),
            ("MD4", "", Err(())),
        ] {
            assert_eq!(of(algorithm, kind), expected, "{algorithm} {kind}");
        }
    }
}
