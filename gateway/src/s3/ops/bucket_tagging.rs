//! GetBucketTagging, PutBucketTagging, DeleteBucketTagging.

use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::s3::error::reply;
use crate::s3::{Gateway, error, request, tags};

pub(super) async fn get(
    gateway: &Gateway,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let tags = gateway
        .short(move |store| store.bucket_tags(&bucket))
        .await?
        .ok_or_else(|| error::code(S3ErrorCode::NoSuchTagSet))?;
    Ok(S3Response::new(GetBucketTaggingOutput {
        tag_set: tags::to_set(tags),
    }))
}

pub(super) async fn put(
    gateway: &Gateway,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let tags = tags::of_bucket(input.tagging.tag_set)?;
    gateway
        .short(move |store| store.set_bucket_tags(&bucket, Some(&tags)))
        .await?;
    Ok(reply::with_status(
        S3Response::new(PutBucketTaggingOutput {}),
        http::StatusCode::NO_CONTENT,
    ))
}

pub(super) async fn delete(
    gateway: &Gateway,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    gateway
        .short(move |store| store.set_bucket_tags(&bucket, None))
        .await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput {}))
}
