//! UploadPart.

use filestore_common::{ChecksumAlgorithm, ChecksumKind};
use s3s::dto::{UploadPartInput, UploadPartOutput};
use s3s::{S3Request, S3Response, S3Result};

use super::receive::{MAX_PUT, Promise, Received};
use crate::io;
use crate::s3::checksum::{Announced, name, put_checksum};
use crate::s3::error::invalid_request;
use crate::s3::{Gateway, request};

pub(super) async fn upload_part(
    gateway: &Gateway,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let headers = request::headers(&request);
    request::refuse_encryption(headers)?;
    let number = request::part_number(request.input.part_number)?;
    let promise = Promise::of(headers, request.input.content_length, MAX_PUT)?;
    let trailers = request::trailers(&request);
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let upload_id = input.upload_id;
    let length = promise.length;
    let (staged, declared) = gateway
        .short(move |store| {
            let upload = store.upload(&bucket, &key, &upload_id)?;
            let staged = store.stage_part(&bucket, &key, &upload_id, number, Some(length))?;
            Ok((staged, upload.spec.checksum))
        })
        .await?;
    check_declared(declared, promise.checksum.as_ref())?;
    let declared = declared.map(|(algorithm, _)| algorithm);
    let Received {
        staged,
        digests,
        checksum,
    } = promise
        .receive(staged, input.body, trailers.as_ref(), declared)
        .await?;
    // A part of an upload with a checksum gets it whether the client sent it or not.
    let kept = declared.and_then(|algorithm| digests.checksum(algorithm));
    let etag = digests.etag();
    let publish =
        move |store: &filestore_store::Store| store.publish_part(staged, &etag, kept.as_ref());
    let info = if length <= io::INLINE_BYTES {
        gateway.short(publish).await?
    } else {
        gateway.long(publish).await?
    };
    let mut output = UploadPartOutput {
        e_tag: Some(s3s::dto::ETag::Strong(info.etag.as_str().to_owned())),
        ..UploadPartOutput::default()
    };
    if let Some(checksum) = info.checksum.as_ref().or(checksum.as_ref()) {
        put_checksum!(output, checksum);
    }
    Ok(S3Response::new(output))
}

/// A part carries the checksum that its upload declared. The checksum of the whole can be computed
/// from what the server computes for parts without one, a composite one is made of the client's.
fn check_declared(
    declared: Option<(ChecksumAlgorithm, ChecksumKind)>,
    sent: Option<&Announced>,
) -> S3Result<()> {
    let (expected, actual) = match (declared, sent) {
        (Some((declared, _)), Some(sent)) if declared != sent.algorithm => {
            (declared, name(sent.algorithm))
        }
        (Some((declared, ChecksumKind::Composite)), None) => (declared, "null"),
        _ => return Ok(()),
    };
    Err(invalid_request(format!(
        "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {actual}",
        name(expected)
    )))
}
