//! DeleteObjects.

use filestore_common::BucketName;
use filestore_store::{Precondition, Store};
use s3s::dto::{DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error, ObjectIdentifier};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::delete_object::{Expected, delete};
use crate::access::{Action, Principal};
use crate::auth;
use crate::s3::conditions::http_date;
use crate::s3::request::Version;
use crate::s3::{Gateway, error, listing, request};

/// Most keys of one request (DeleteObjects API reference).
const MAX_OBJECTS: usize = 1000;

pub(super) async fn delete_objects(
    gateway: &Gateway,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = request.input;
    let quiet = input.delete.quiet.unwrap_or(false);
    let objects = input.delete.objects;
    if objects.is_empty() || objects.len() > MAX_OBJECTS {
        return Err(error::code(S3ErrorCode::MalformedXML));
    }
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    let bucket = request::bucket(&input.bucket)?;
    let caller = auth::principal().ok_or_else(auth::denied)?;
    let results = gateway
        .long(move |store| {
            let delete = |object| delete_one(store, &bucket, object, &caller);
            Ok(objects.into_iter().map(delete).collect::<Vec<_>>())
        })
        .await?;
    let mut deleted = Vec::new();
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(_) if quiet => {}
            Ok(object) => deleted.push(object),
            Err(error) => errors.push(error),
        }
    }
    Ok(S3Response::new(DeleteObjectsOutput {
        deleted: Some(deleted),
        errors: Some(errors),
        request_charged: None,
    }))
}

fn delete_one(
    store: &Store,
    bucket: &BucketName,
    object: ObjectIdentifier,
    caller: &Principal,
) -> Result<DeletedObject, Error> {
    let name = listing::xml_name(object.key.clone());
    let version_id = object.version_id.clone();
    let allowed = caller.may(Action::Write, bucket.as_str(), &object.key);
    let done = if allowed {
        try_delete(store, bucket, object)
    } else {
        Err(auth::denied())
    };
    match done {
        Ok(()) => Ok(DeletedObject {
            key: Some(name),
            version_id,
            ..DeletedObject::default()
        }),
        Err(error) => Err(Error {
            code: Some(error.code().as_str().to_owned()),
            key: Some(name),
            message: error.message().map(str::to_owned),
            version_id,
        }),
    }
}

fn try_delete(store: &Store, bucket: &BucketName, object: ObjectIdentifier) -> S3Result<()> {
    let version = request::version(object.version_id.as_deref())?;
    let key = request::key(object.key)?;
    if version == Version::Other {
        return Ok(());
    }
    let precondition = match object.e_tag {
        None => Precondition::None,
        Some(etag) if etag.value() == "*" => Precondition::Present,
        Some(etag) => Precondition::Matches(filestore_common::ETag::new(etag.value())),
    };
    let expected = Expected {
        precondition,
        size: object
            .size
            .map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
        last_modified: object
            .last_modified_time
            .as_ref()
            .and_then(http_date)
            .and_then(|date| httpdate::parse_http_date(&date).ok()),
    };
    delete(store, bucket, &key, &expected)
        .map(|_| ())
        .map_err(error::from_store)
        .map_err(log_internal)
}

/// Errors of single keys do not pass through the service, which logs those of whole requests.
fn log_internal(error: S3Error) -> S3Error {
    if *error.code() == S3ErrorCode::InternalError {
        tracing::error!(%error, "Object could not be deleted");
    }
    error
}
