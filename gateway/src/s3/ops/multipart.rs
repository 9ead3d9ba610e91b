//! CreateMultipartUpload, CompleteMultipartUpload, AbortMultipartUpload, ListParts,
//! ListMultipartUploads.

mod complete;
mod create;
mod list;

use std::time::SystemTime;

use s3s::dto::{AbortMultipartUploadInput, AbortMultipartUploadOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::s3::conditions::whole_seconds;
use crate::s3::{Gateway, metadata, request};

pub(super) use complete::complete;
pub(super) use create::create;
pub(super) use list::{list_parts, list_uploads};

pub(super) async fn abort(
    gateway: &Gateway,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let initiated = request::headers(&request)
        .get("x-amz-if-match-initiated-time")
        .and_then(|date| httpdate::parse_http_date(&metadata::text(date)).ok());
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let upload_id = input.upload_id;
    gateway
        .long(move |store| {
            if let Some(expected) = initiated {
                let upload = store.upload(&bucket, &key, &upload_id)?;
                let initiated = whole_seconds(upload.initiated);
                // A time that has not come yet is ignored, as S3 does.
                if initiated != expected && expected <= SystemTime::now() {
                    return Err(filestore_store::Error::PreconditionFailed);
                }
            }
            store.abort_upload(&bucket, &key, &upload_id)
        })
        .await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}
