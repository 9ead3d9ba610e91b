//! GetObject and HeadObject.

use s3s::dto::{GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput};
use s3s::{S3Request, S3Response, S3Result};

use super::read;
use crate::body::file_body;
use crate::s3::{Gateway, request};

pub(super) async fn get_object(
    gateway: &Gateway,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let headers = request::headers(&request);
    request::refuse_encryption(headers)?;
    let input = &request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version = request::existing_version(input.version_id.as_deref())?;
    let part_number = input.part_number.map(request::part_number).transpose()?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key.clone())?;
    let reader = gateway
        .short(move |store| store.open_object(&bucket, &key))
        .await?;
    let info = &reader.info;
    read::check_conditions(headers, info)?;
    let view = read::view(headers, part_number, info)?;
    let output = GetObjectOutput {
        version_id: version.echo(),
        ..GetObjectOutput::default()
    };
    let mut reply = read::answer(output, info, view, headers, request::query(&request));
    reply.output.body = Some(file_body(reader.file, view.offset, view.length));
    Ok(reply)
}

pub(super) async fn head_object(
    gateway: &Gateway,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let headers = request::headers(&request);
    request::refuse_encryption(headers)?;
    let input = &request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version = request::existing_version(input.version_id.as_deref())?;
    let part_number = input.part_number.map(request::part_number).transpose()?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key.clone())?;
    let info = gateway
        .short(move |store| store.head_object(&bucket, &key))
        .await?;
    read::check_conditions(headers, &info)?;
    let view = read::view(headers, part_number, &info)?;
    let output = HeadObjectOutput {
        version_id: version.echo(),
        ..HeadObjectOutput::default()
    };
    Ok(read::answer(
        output,
        &info,
        view,
        headers,
        request::query(&request),
    ))
}
