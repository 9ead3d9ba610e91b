//! ListObjectVersions on buckets that were never versioned: every object is its `null` version.

use filestore_store::{ListEntry, ListedObject};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use super::list_objects::{Question, non_empty};
use crate::s3::Gateway;
use crate::s3::checksum::{algorithm_dto, kind_dto};
use crate::s3::error::invalid_argument;
use crate::s3::listing::{Encoding, page_size};

const NULL_VERSION: &str = "null";

pub(super) async fn list_object_versions(
    gateway: &Gateway,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let version_id_marker = non_empty(input.version_id_marker);
    let key_marker = non_empty(input.key_marker);
    if let (Some(version), None) = (&version_id_marker, &key_marker) {
        return Err(invalid_argument(
            "version-id-marker",
            version,
            "A version-id marker cannot be specified without a key marker.",
        ));
    }
    let question = Question {
        bucket: input.bucket,
        prefix: input.prefix.unwrap_or_default(),
        delimiter: non_empty(input.delimiter),
        after: key_marker,
        max_keys: page_size("max-keys", input.max_keys)
            .map_err(|_| invalid_argument("maxKeys", "", "max-keys cannot be negative"))?,
    };
    let page = question.ask(gateway).await?;
    let encoding = question.encoding(input.encoding_type.as_ref(), &page)?;
    let owner = gateway.owner();
    let next = page.next.clone();
    let mut versions = Vec::new();
    let mut prefixes = Vec::new();
    for entry in page.entries {
        match entry {
            ListEntry::Object(object) => versions.push(version(object, encoding, &owner)),
            ListEntry::Prefix(prefix) => prefixes.push(CommonPrefix {
                prefix: Some(encoding.apply(prefix)),
            }),
        }
    }
    Ok(S3Response::new(ListObjectVersionsOutput {
        common_prefixes: Some(prefixes),
        delete_markers: None,
        delimiter: question
            .delimiter
            .map(|delimiter| encoding.apply(delimiter)),
        encoding_type: encoding.dto(),
        is_truncated: Some(next.is_some()),
        key_marker: Some(encoding.apply(question.after.unwrap_or_default())),
        max_keys: i32::try_from(question.max_keys).ok(),
        name: Some(question.bucket),
        next_version_id_marker: next.as_ref().map(|_| NULL_VERSION.to_owned()),
        next_key_marker: next.map(|next| encoding.apply(next)),
        prefix: Some(encoding.apply(question.prefix)),
        request_charged: None,
        version_id_marker: Some(version_id_marker.unwrap_or_default()),
        versions: Some(versions),
    }))
}

fn version(object: ListedObject, encoding: Encoding, owner: &Owner) -> ObjectVersion {
    ObjectVersion {
        checksum_algorithm: object
            .checksum
            .map(|(algorithm, _)| vec![algorithm_dto(algorithm)]),
        checksum_type: object.checksum.map(|(_, kind)| kind_dto(kind)),
        e_tag: Some(ETag::Strong(object.etag.as_str().to_owned())),
        is_latest: Some(true),
        key: Some(encoding.apply(object.key)),
        last_modified: Some(object.last_modified.into()),
        owner: Some(owner.clone()),
        restore_status: None,
        size: i64::try_from(object.size).ok(),
        storage_class: Some(ObjectVersionStorageClass::from_static(
            ObjectVersionStorageClass::STANDARD,
        )),
        version_id: Some(NULL_VERSION.to_owned()),
    }
}
