//! GetObjectTagging, PutObjectTagging, DeleteObjectTagging.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::s3::{Gateway, request, tags};

pub(super) async fn get(
    gateway: &Gateway,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version = request::existing_version(input.version_id.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let info = gateway
        .short(move |store| store.head_object(&bucket, &key))
        .await?;
    Ok(S3Response::new(GetObjectTaggingOutput {
        tag_set: tags::to_set(info.meta.tags),
        version_id: version.echo(),
    }))
}

pub(super) async fn put(
    gateway: &Gateway,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version = request::existing_version(input.version_id.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let tags = tags::of_object(input.tagging.tag_set)?;
    gateway
        .short(move |store| store.set_object_tags(&bucket, &key, &tags))
        .await?;
    Ok(S3Response::new(PutObjectTaggingOutput {
        version_id: version.echo(),
    }))
}

pub(super) async fn delete(
    gateway: &Gateway,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version = request::existing_version(input.version_id.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    gateway
        .short(move |store| store.set_object_tags(&bucket, &key, &Vec::new()))
        .await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput {
        version_id: version.echo(),
    }))
}
