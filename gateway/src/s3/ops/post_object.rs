//! PostObject: an upload from an HTML form. The fields are what headers are for PutObject; s3s has
//! checked the policy.

use http::HeaderMap;
use http::header::{ETAG, HOST, HeaderName, HeaderValue, LOCATION};
use s3s::dto::{
    ObjectCannedACL, PostObjectInput, PostObjectOutput, ServerSideEncryption, StorageClass,
};
use s3s::{S3Request, S3Response, S3Result};

use super::put_object::{Description, store};
use crate::access::Action;
use crate::auth::{self, signature_v2};
use crate::s3::conditions::http_date;
use crate::s3::{Gateway, metadata};

pub(super) async fn post_object(
    gateway: &Gateway,
    request: S3Request<PostObjectInput>,
) -> S3Result<S3Response<PostObjectOutput>> {
    // A signature of version 4 names a region, one of version 2 does not; the latter is refused
    // elsewhere before s3s sees it, but in a form only s3s finds it.
    if request.credentials.is_some() && request.region.is_none() {
        return Err(signature_v2());
    }
    let host = request.headers.get(HOST).map(metadata::text);
    let input = request.input;
    auth::check(Action::Write, &input.bucket, &input.key)?;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let headers = headers_of(&input);
    let length = input.content_length.or(Some(0));
    let description = Description::of(&headers, length)?;
    // A form that names a redirect gets its Location from s3s.
    let location = match (&input.success_action_redirect, host) {
        (None, Some(host)) => {
            let path = format!("/{}/{}", input.bucket, input.key);
            Some(gateway.url(&host, &path))
        }
        _ => None,
    };
    let mut stored = store(
        gateway,
        (&input.bucket, input.key),
        description,
        input.body,
        None,
    )
    .await?;
    for (name, value) in [
        (
            ETAG,
            stored
                .output
                .e_tag
                .as_ref()
                .map(|etag| format!("\"{}\"", etag.value())),
        ),
        (LOCATION, location),
    ] {
        if let Some(value) = value.and_then(|value| metadata::value(&value)) {
            stored.headers.entry(name).or_insert(value);
        }
    }
    Ok(stored.map_output(|put| PostObjectOutput {
        checksum_crc32: put.checksum_crc32,
        checksum_crc32c: put.checksum_crc32c,
        checksum_crc64nvme: put.checksum_crc64nvme,
        checksum_sha1: put.checksum_sha1,
        checksum_sha256: put.checksum_sha256,
        checksum_type: put.checksum_type,
        e_tag: put.e_tag,
        ..PostObjectOutput::default()
    }))
}

/// The fields as the headers that they stand for.
fn headers_of(input: &PostObjectInput) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: Option<&str>| {
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok())
        {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    put("x-amz-acl", input.acl.as_ref().map(ObjectCannedACL::as_str));
    put("cache-control", input.cache_control.as_deref());
    put("content-disposition", input.content_disposition.as_deref());
    put("content-encoding", input.content_encoding.as_deref());
    put("content-language", input.content_language.as_deref());
    put("content-type", input.content_type.as_deref());
    put("content-md5", input.content_md5.as_deref());
    put("x-amz-checksum-crc32", input.checksum_crc32.as_deref());
    put("x-amz-checksum-crc32c", input.checksum_crc32c.as_deref());
    put(
        "x-amz-checksum-crc64nvme",
        input.checksum_crc64nvme.as_deref(),
    );
    put("x-amz-checksum-sha1", input.checksum_sha1.as_deref());
    put("x-amz-checksum-sha256", input.checksum_sha256.as_deref());
    put("x-amz-tagging", input.tagging.as_deref());
    put(
        "x-amz-storage-class",
        input.storage_class.as_ref().map(StorageClass::as_str),
    );
    put(
        "x-amz-server-side-encryption",
        input
            .server_side_encryption
            .as_ref()
            .map(ServerSideEncryption::as_str),
    );
    put(
        "x-amz-website-redirect-location",
        input.website_redirect_location.as_deref(),
    );
    let expires = input.expires.as_ref().and_then(http_date);
    put("expires", expires.as_deref());
    for (name, value) in input.metadata.iter().flatten() {
        let name = HeaderName::from_bytes(["x-amz-meta-", name].concat().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            headers.insert(name, value);
        }
    }
    headers
}
