//! CopyObject.

use filestore_common::digest::{BodyDigests, BodyHasher};
use filestore_common::{BucketName, ChecksumAlgorithm, ChecksumKind, ObjectKey, ObjectMeta, Tags};
use filestore_store::{ObjectReader, Precondition, Result as StoreResult, Staged};
use http::HeaderMap;
use s3s::dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::put_object::tag_header;
use super::receive::MAX_PUT;
use crate::access::Action;
use crate::auth;
use crate::s3::checksum::{kind_dto, parse_algorithm, put_checksum};
use crate::s3::conditions::{Conditions, Outcome, write_precondition};
use crate::s3::copy_source::CopySource;
use crate::s3::error::{self, invalid_argument, invalid_request};
use crate::s3::{Gateway, metadata, request};

/// Bytes hashed at a time.
const CHUNK: u64 = 1024 * 1024;

/// `x-amz-metadata-directive`, `x-amz-tagging-directive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    Copy,
    Replace,
}

impl Directive {
    fn of(headers: &HeaderMap, name: &'static str, unknown: &'static str) -> S3Result<Self> {
        match headers.get(name).map(http::HeaderValue::as_bytes) {
            None | Some(b"" | b"COPY") => Ok(Self::Copy),
            Some(b"REPLACE") => Ok(Self::Replace),
            Some(other) => Err(invalid_argument(
                name,
                &String::from_utf8_lossy(other),
                unknown,
            )),
        }
    }
}

/// What a copy changes.
#[derive(Debug)]
struct Changes {
    /// Replaces headers and user metadata.
    described: Option<ObjectMeta>,
    /// Replaces the tags.
    tags: Option<Tags>,
    /// Website redirect of the copy; it is never copied.
    redirect: Option<String>,
    /// Checksum to compute.
    checksum: Option<ChecksumAlgorithm>,
    precondition: Precondition,
}

impl Changes {
    fn of(headers: &HeaderMap) -> S3Result<Self> {
        let directive = Directive::of(
            headers,
            "x-amz-metadata-directive",
            "Unknown metadata directive.",
        )?;
        let tagging = Directive::of(
            headers,
            "x-amz-tagging-directive",
            "Unknown tagging directive.",
        )?;
        // Too much metadata is refused even where it would not be used.
        let user = metadata::user_metadata(headers)?;
        let described = if directive == Directive::Replace {
            // The ETag is set once the copy is there.
            let mut meta = ObjectMeta::new(filestore_common::ETag::new(""));
            meta.headers = metadata::content_headers(headers)?;
            meta.user = user;
            Some(meta)
        } else {
            None
        };
        let tags = match tagging {
            Directive::Replace => Some(tag_header(headers)?),
            Directive::Copy => None,
        };
        let checksum = headers
            .get("x-amz-checksum-algorithm")
            .map(|name| parse_algorithm(name.to_str().unwrap_or_default()))
            .transpose()?;
        Ok(Self {
            described,
            tags,
            redirect: metadata::redirect_location(headers)?,
            checksum,
            precondition: write_precondition(headers)?,
        })
    }

    /// Whether a copy of an object onto itself would change anything that S3 lets it change.
    fn changes_itself(&self, headers: &HeaderMap) -> bool {
        self.described.is_some()
            || self.redirect.is_some()
            || headers.contains_key("x-amz-storage-class")
    }
}

pub(super) async fn copy_object(
    gateway: &Gateway,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let headers = request::headers(&request);
    request::check_new_object(headers)?;
    let source = CopySource::of(headers)?;
    let source_version = request::existing_version(source.version_id.as_deref())?;
    let conditions = Conditions::of_copy_source(headers);
    let changes = Changes::of(headers)?;
    let input = &request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    gateway.check_owner(input.expected_source_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key.clone())?;
    let itself = source.bucket == bucket && source.key == key;
    if itself && !changes.changes_itself(headers) {
        return Err(invalid_request(
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.",
        ));
    }
    let reader = open_source(gateway, source, &conditions).await?;
    check_source_size(reader.info.size)?;
    let info = gateway
        .long(move |store| copy(store, &bucket, &key, &reader, changes))
        .await?;
    let mut result = CopyObjectResult {
        e_tag: Some(s3s::dto::ETag::Strong(info.meta.etag.as_str().to_owned())),
        last_modified: Some(info.last_modified.into()),
        ..CopyObjectResult::default()
    };
    if let Some(checksum) = &info.meta.checksum {
        put_checksum!(result, checksum);
        result.checksum_type = Some(kind_dto(checksum.kind));
    }
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: source_version.echo(),
        ..CopyObjectOutput::default()
    }))
}

/// Opens the source of a copy and evaluates the conditions on it.
///
/// # Errors
/// `AccessDenied` unless the caller may read it, `NoSuchBucket`, `NoSuchKey`,
/// `PreconditionFailed`.
pub(super) async fn open_source(
    gateway: &Gateway,
    source: CopySource,
    conditions: &Conditions,
) -> S3Result<ObjectReader> {
    auth::check(Action::Read, source.bucket.as_str(), source.key.as_str())?;
    let reader = gateway
        .short(move |store| store.open_object(&source.bucket, &source.key))
        .await?;
    let info = &reader.info;
    if conditions.evaluate(&info.meta.etag, info.last_modified) != Outcome::Pass {
        return Err(error::code(S3ErrorCode::PreconditionFailed));
    }
    Ok(reader)
}

fn copy(
    store: &filestore_store::Store,
    bucket: &BucketName,
    key: &ObjectKey,
    source: &ObjectReader,
    changes: Changes,
) -> StoreResult<filestore_common::ObjectInfo> {
    let size = source.info.size;
    let old = &source.info.meta;
    let mut staged = store.stage(bucket, key, Some(size))?;
    staged.copy_from(source, 0, size)?;

    // The copy is one part: neither a multipart ETag nor a composite checksum describe it.
    let kept = old
        .checksum
        .clone()
        .filter(|checksum| checksum.kind == ChecksumKind::FullObject);
    let wanted = changes
        .checksum
        .or_else(|| old.checksum.as_ref().map(|checksum| checksum.algorithm));
    let compute = wanted.filter(|wanted| kept.as_ref().map(|kept| kept.algorithm) != Some(*wanted));
    let mut etag = old.etag.clone();
    let mut checksum = kept;
    if compute.is_some() || !etag.is_md5() {
        let algorithms: Vec<_> = compute.into_iter().collect();
        let digests = digest(&staged, 0, size, &algorithms)?;
        etag = digests.etag();
        if let Some(algorithm) = compute {
            checksum = digests.checksum(algorithm);
        }
    }

    let mut meta = changes.described.unwrap_or_else(|| {
        let mut meta = old.clone();
        meta.headers.website_redirect_location = None;
        meta
    });
    meta.etag = etag;
    meta.checksum = checksum;
    meta.part_sizes = Vec::new();
    meta.tags = changes.tags.unwrap_or_else(|| old.tags.clone());
    if changes.redirect.is_some() {
        meta.headers.website_redirect_location = changes.redirect;
    }
    store.publish(staged, &meta, &changes.precondition, None)
}

/// Digests of a slice of a staged body.
///
/// # Errors
/// What reading it back fails with.
pub(super) fn digest(
    staged: &Staged,
    offset: u64,
    length: u64,
    algorithms: &[ChecksumAlgorithm],
) -> StoreResult<BodyDigests> {
    let mut hasher = BodyHasher::new(algorithms);
    let mut buffer = vec![0; usize::try_from(length.min(CHUNK)).unwrap_or(1)];
    let mut done = 0;
    while done < length {
        let wanted = usize::try_from(length - done).unwrap_or(usize::MAX);
        let wanted = wanted.min(buffer.len());
        let Some(slice) = buffer.get_mut(..wanted) else {
            break;
        };
        let read = staged.read_at(slice, offset + done)?;
        if read == 0 {
            return Err(filestore_store::Error::io(
                "read staged body",
                std::io::Error::from(std::io::ErrorKind::UnexpectedEof),
            ));
        }
        hasher.update(slice.get(..read).unwrap_or_default());
        done += read as u64;
    }
    Ok(hasher.finish())
}

/// Refuses sources that S3 copies by parts only.
///
/// # Errors
/// `InvalidRequest`.
fn check_source_size(size: u64) -> S3Result<()> {
    if size <= MAX_PUT {
        return Ok(());
    }
    Err(invalid_request(format!(
        "The specified copy source is larger than the maximum allowable size for a copy source: {MAX_PUT}"
    )))
}
