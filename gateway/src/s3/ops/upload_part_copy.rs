//! UploadPartCopy.

use filestore_common::{BucketName, ObjectKey};
use filestore_store::{ObjectReader, PartInfo, Result as StoreResult, Store};
use http::HeaderMap;
use s3s::dto::{CopyPartResult, UploadPartCopyInput, UploadPartCopyOutput};
use s3s::{S3Error, S3Request, S3Response, S3Result};

use super::copy_object::{digest, open_source};
use super::receive::MAX_PUT;
use crate::s3::checksum::put_checksum;
use crate::s3::conditions::Conditions;
use crate::s3::copy_source::CopySource;
use crate::s3::error::{invalid_argument, invalid_request};
use crate::s3::range::parse_copy_range;
use crate::s3::{Gateway, metadata, request};

const RANGE: &str = "x-amz-copy-source-range";

pub(super) async fn upload_part_copy(
    gateway: &Gateway,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let headers = request::headers(&request);
    request::refuse_encryption(headers)?;
    let number = request::part_number(request.input.part_number)?;
    gateway.check_bucket(&request.input.bucket, None).await?;
    let source = CopySource::of(headers)?;
    let source_version = request::existing_version(source.version_id.as_deref())?;
    let conditions = Conditions::of_copy_source(headers);
    let range = range(headers)?;
    let input = &request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    gateway.check_owner(input.expected_source_bucket_owner.as_deref())?;
    let target = Target {
        bucket: request::bucket(&input.bucket)?,
        key: request::key(input.key.clone())?,
        upload_id: input.upload_id.clone(),
        number,
    };
    let looked_up = target.clone();
    gateway
        .short(move |store| store.upload(&looked_up.bucket, &looked_up.key, &looked_up.upload_id))
        .await?;
    let reader = open_source(gateway, source, &conditions).await?;
    let (offset, length) = span(range, reader.info.size)?;
    let info = gateway
        .long(move |store| target.copy(store, &reader, offset, length))
        .await?;
    let mut result = CopyPartResult {
        e_tag: Some(s3s::dto::ETag::Strong(info.etag.as_str().to_owned())),
        last_modified: Some(info.last_modified.into()),
        ..CopyPartResult::default()
    };
    if let Some(checksum) = &info.checksum {
        put_checksum!(result, checksum);
    }
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: source_version.echo(),
        ..UploadPartCopyOutput::default()
    }))
}

/// The part to make.
#[derive(Debug, Clone)]
struct Target {
    bucket: BucketName,
    key: ObjectKey,
    upload_id: String,
    number: u32,
}

impl Target {
    fn copy(
        &self,
        store: &Store,
        source: &ObjectReader,
        offset: u64,
        length: u64,
    ) -> StoreResult<PartInfo> {
        let upload = store.upload(&self.bucket, &self.key, &self.upload_id)?;
        let declared = upload.spec.checksum.map(|(algorithm, _)| algorithm);
        let mut staged = store.stage_part(
            &self.bucket,
            &self.key,
            &self.upload_id,
            self.number,
            Some(length),
        )?;
        staged.copy_from(source, offset, length)?;
        let info = &source.info;
        let whole = offset == 0 && length == info.size;
        if whole && info.meta.etag.is_md5() && declared.is_none() {
            return store.publish_part(staged, &info.meta.etag, None);
        }
        let algorithms: Vec<_> = declared.into_iter().collect();
        let digests = digest(&staged, 0, length, &algorithms)?;
        let checksum = declared.and_then(|algorithm| digests.checksum(algorithm));
        store.publish_part(staged, &digests.etag(), checksum.as_ref())
    }
}

fn range(headers: &HeaderMap) -> S3Result<Option<(u64, u64)>> {
    let Some(value) = headers.get(RANGE) else {
        return Ok(None);
    };
    let text = metadata::text(value);
    if text.is_empty() {
        return Ok(None);
    }
    parse_copy_range(&text).map(Some).ok_or_else(|| {
        invalid_argument(
            RANGE,
            &text,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
        )
    })
}

/// Offset and length to copy.
fn span(range: Option<(u64, u64)>, size: u64) -> S3Result<(u64, u64)> {
    let (offset, length) = match range {
        None => (0, size),
        Some((first, last)) if last < size => (first, last - first + 1),
        Some(_) => return Err(beyond(size)),
    };
    if length > MAX_PUT {
        return Err(invalid_request(format!(
            "The specified copy source is larger than the maximum allowable size for a copy source: {MAX_PUT}"
        )));
    }
    Ok((offset, length))
}

fn beyond(size: u64) -> S3Error {
    invalid_argument(
        RANGE,
        &size.to_string(),
        format!("Range specified is not valid for source object of size: {size}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_within_the_source() {
        assert_eq!(span(None, 10).unwrap(), (0, 10));
        assert_eq!(span(Some((2, 9)), 10).unwrap(), (2, 8));
        assert!(span(Some((2, 10)), 10).is_err());
        assert!(span(None, MAX_PUT + 1).is_err());
        assert_eq!(span(None, 0).unwrap(), (0, 0));
    }
}
