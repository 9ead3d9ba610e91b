//! DeleteObject.

use std::time::SystemTime;

use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey};
use filestore_store::{Error as StoreError, Precondition, Result as StoreResult, Store};
use http::HeaderMap;
use s3s::dto::{DeleteObjectInput, DeleteObjectOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::s3::conditions::{TagSet, present, whole_seconds};
use crate::s3::request::Version;
use crate::s3::{Gateway, metadata, request};

/// Conditions on the object to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// ETag or mere existence.
    pub(super) precondition: Precondition,
    /// Size in bytes.
    pub(super) size: Option<u64>,
    /// Last-Modified, in whole seconds.
    pub(super) last_modified: Option<SystemTime>,
}

impl Expected {
    fn of(headers: &HeaderMap, input: &DeleteObjectInput) -> S3Result<Self> {
        let precondition = match headers.get(http::header::IF_MATCH) {
            Some(tags) => present(&TagSet::parse(&metadata::text(tags)))?,
            None => Precondition::None,
        };
        Ok(Self {
            precondition,
            // A negative size is the size of nothing.
            size: input
                .if_match_size
                .map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
            last_modified: headers
                .get("x-amz-if-match-last-modified-time")
                .and_then(|date| httpdate::parse_http_date(&metadata::text(date)).ok()),
        })
    }

    fn admits(&self, info: &ObjectInfo) -> bool {
        self.size.is_none_or(|size| size == info.size)
            && self
                .last_modified
                .is_none_or(|time| whole_seconds(time) == whole_seconds(info.last_modified))
    }
}

/// Deletes one object. Size and time are compared first and the ETag seen there is held on to, so
/// that a write in between is not deleted.
///
/// # Errors
/// As [`Store::delete_object`].
pub(super) fn delete(
    store: &Store,
    bucket: &BucketName,
    key: &ObjectKey,
    expected: &Expected,
) -> StoreResult<bool> {
    if expected.size.is_none() && expected.last_modified.is_none() {
        return store.delete_object(bucket, key, &expected.precondition);
    }
    let info = store.head_object(bucket, key)?;
    let same_etag = match &expected.precondition {
        Precondition::Matches(etag) => *etag == info.meta.etag,
        _ => true,
    };
    if !same_etag || !expected.admits(&info) {
        return Err(StoreError::PreconditionFailed);
    }
    let seen: ETag = info.meta.etag;
    store.delete_object(bucket, key, &Precondition::Matches(seen))
}

pub(super) async fn delete_object(
    gateway: &Gateway,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let expected = Expected::of(request::headers(&request), &request.input)?;
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version = request::version(input.version_id.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    if version == Version::Other {
        gateway
            .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
            .await?;
        // A version that does not exist is gone already.
        return Ok(S3Response::new(DeleteObjectOutput {
            version_id: input.version_id,
            ..DeleteObjectOutput::default()
        }));
    }
    gateway
        .short(move |store| delete(store, &bucket, &key, &expected))
        .await?;
    Ok(S3Response::new(DeleteObjectOutput {
        version_id: version.echo(),
        ..DeleteObjectOutput::default()
    }))
}
