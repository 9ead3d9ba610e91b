//! PutObject.

use filestore_common::{ChecksumAlgorithm, ContentHeaders, ObjectMeta, Tags, UserMetadata};
use filestore_store::{Precondition, Staged};
use http::HeaderMap;
use s3s::dto::{PutObjectInput, PutObjectOutput, StreamingBlob};
use s3s::{S3Request, S3Response, S3Result, TrailingHeaders};

use super::receive::{MAX_PUT, Promise, Received};
use crate::io;
use crate::s3::checksum::{kind_dto, put_checksum};
use crate::s3::conditions::write_precondition;
use crate::s3::import::Import;
use crate::s3::{Gateway, error, metadata, request, tags};

/// Largest object (S3 user guide, "Uploading objects"); the limit of a trusted import.
const MAX_OBJECT: u64 = 5 * 1024 * 1024 * 1024 * 1024;

/// An object as a request describes it, apart from its name and body.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) headers: ContentHeaders,
    pub(super) user: UserMetadata,
    pub(super) tags: Tags,
    pub(super) precondition: Precondition,
    pub(super) import: Option<Import>,
    pub(super) promise: Promise,
}

impl Description {
    /// Reads the request's headers.
    ///
    /// # Errors
    /// The first thing that S3 refuses.
    pub(super) fn of(headers: &HeaderMap, length: Option<i64>) -> S3Result<Self> {
        request::check_new_object(headers)?;
        let import = Import::of_request(headers)?;
        let limit = if import.is_some() {
            MAX_OBJECT
        } else {
            MAX_PUT
        };
        Ok(Self {
            headers: metadata::content_headers(headers)?,
            user: metadata::user_metadata(headers)?,
            tags: tag_header(headers)?,
            precondition: write_precondition(headers)?,
            promise: Promise::of(headers, length, limit)?,
            import,
        })
    }
}

/// Tags of `x-amz-tagging`.
pub(super) fn tag_header(headers: &HeaderMap) -> S3Result<Tags> {
    match headers.get("x-amz-tagging") {
        Some(header) => tags::parse_header(&metadata::text(header)),
        None => Ok(Tags::new()),
    }
}

pub(super) async fn put_object(
    gateway: &Gateway,
    request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let description = Description::of(request::headers(&request), request.input.content_length)?;
    let trailers = request::trailers(&request);
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    store(
        gateway,
        (&input.bucket, input.key),
        description,
        input.body,
        trailers,
    )
    .await
}

/// Receives and publishes an object.
///
/// # Errors
/// Whatever keeps it from being published; nothing is left behind then.
pub(super) async fn store(
    gateway: &Gateway,
    (bucket, key): (&str, String),
    description: Description,
    body: Option<StreamingBlob>,
    trailers: Option<TrailingHeaders>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let Description {
        headers,
        user,
        tags,
        precondition,
        import,
        promise,
    } = description;
    let bucket = request::bucket(bucket)?;
    let key = request::key(key)?;
    let length = promise.length;
    // S3's default where the client announces none: told, but not stored.
    let default_checksum = match promise.checksum {
        None => Some(ChecksumAlgorithm::Crc64nvme),
        Some(_) => None,
    };
    let staged = gateway
        .short(move |store| store.stage(&bucket, &key, Some(length)))
        .await?;
    let Received {
        mut staged,
        digests,
        checksum,
    } = promise
        .receive(staged, body, trailers.as_ref(), default_checksum)
        .await?;
    let mut meta = ObjectMeta::new(digests.etag());
    meta.headers = headers;
    meta.user = user;
    meta.tags = tags;
    meta.checksum = checksum;
    let mut last_modified = None;
    if let Some(import) = import {
        last_modified = import.last_modified;
        (staged, meta) = check_import(staged, meta, import, length).await?;
    }
    let publish = move |store: &filestore_store::Store| {
        store.publish(staged, &meta, &precondition, last_modified)
    };
    let info = if length <= io::INLINE_BYTES {
        gateway.short(publish).await?
    } else {
        gateway.long(publish).await?
    };
    let mut output = PutObjectOutput {
        e_tag: Some(s3s::dto::ETag::Strong(info.meta.etag.as_str().to_owned())),
        size: i64::try_from(info.size).ok(),
        ..PutObjectOutput::default()
    };
    let told = default_checksum.and_then(|algorithm| digests.checksum(algorithm));
    if let Some(checksum) = info.meta.checksum.as_ref().or(told.as_ref()) {
        put_checksum!(output, checksum);
        output.checksum_type = Some(kind_dto(checksum.kind));
    }
    Ok(S3Response::new(output))
}

/// Compares an imported ETag with the staged bytes.
async fn check_import(
    staged: Staged,
    mut meta: ObjectMeta,
    import: Import,
    length: u64,
) -> S3Result<(Staged, ObjectMeta)> {
    io::long(move || {
        import.apply(&mut meta, length, |offset, length| {
            super::copy_object::digest(&staged, offset, length, &[])
                .map(|digests| digests.md5)
                .map_err(error::from_store)
        })?;
        Ok((staged, meta))
    })
    .await
}
