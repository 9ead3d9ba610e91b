//! CreateMultipartUpload, CompleteMultipartUpload, AbortMultipartUpload, ListParts,
//! ListMultipartUploads.

mod complete;
mod create;
mod list;

use s3s::dto::{AbortMultipartUploadInput, AbortMultipartUploadOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::s3::{Gateway, request};

pub(super) use complete::complete;
pub(super) use create::create;
pub(super) use list::{list_parts, list_uploads};

pub(super) async fn abort(
    gateway: &Gateway,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let upload_id = input.upload_id;
    gateway
        .long(move |store| store.abort_upload(&bucket, &key, &upload_id))
        .await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}
