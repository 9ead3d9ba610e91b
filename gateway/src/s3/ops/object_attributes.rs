//! GetObjectAttributes.

use filestore_common::ObjectInfo;
use http::HeaderMap;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::s3::checksum::{kind_dto, put_checksum};
use crate::s3::error::{invalid_argument, invalid_request, reply};
use crate::s3::listing::page_size;
use crate::s3::{Gateway, request};

const HEADER: &str = "x-amz-object-attributes";

/// Which attributes are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of names")]
struct Asked {
    etag: bool,
    checksum: bool,
    parts: bool,
    storage_class: bool,
    size: bool,
}

impl Asked {
    fn of(headers: &HeaderMap) -> S3Result<Self> {
        let mut asked = Self::default();
        let mut any = false;
        for line in headers.get_all(HEADER) {
            for name in line.to_str().unwrap_or_default().split(',') {
                let name = name.trim();
                if name.is_empty() {
                    continue;
                }
                any = true;
                match name {
                    "ETag" => asked.etag = true,
                    "Checksum" => asked.checksum = true,
                    "ObjectParts" => asked.parts = true,
                    "StorageClass" => asked.storage_class = true,
                    "ObjectSize" => asked.size = true,
                    other => {
                        return Err(invalid_argument(
                            HEADER,
                            other,
                            "Invalid attribute name specified.",
                        ));
                    }
                }
            }
        }
        if any {
            Ok(asked)
        } else {
            Err(missing_attributes())
        }
    }
}

/// `InvalidRequest` when no attribute is asked for.
fn missing_attributes() -> s3s::S3Error {
    invalid_request(
        "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty",
    )
}

pub(super) async fn get_object_attributes(
    gateway: &Gateway,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let headers = request::headers(&request);
    request::refuse_encryption(headers)?;
    let asked = Asked::of(headers);
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    let asked = asked?;
    let version = request::existing_version(input.version_id.as_deref())?;
    let max_parts = page_size("max-parts", input.max_parts)?;
    let marker = input.part_number_marker.unwrap_or(0);
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let info = gateway
        .short(move |store| store.head_object(&bucket, &key))
        .await?;
    let mut output = GetObjectAttributesOutput {
        last_modified: Some(info.last_modified.into()),
        version_id: version.echo(),
        ..GetObjectAttributesOutput::default()
    };
    if asked.etag {
        output.e_tag = Some(ETag::Strong(info.meta.etag.as_str().to_owned()));
    }
    if asked.checksum
        && let Some(stored) = &info.meta.checksum
    {
        let mut checksum = Checksum::default();
        put_checksum!(checksum, stored);
        checksum.checksum_type = Some(kind_dto(stored.kind));
        output.checksum = Some(checksum);
    }
    if asked.parts && !info.meta.part_sizes.is_empty() {
        output.object_parts = Some(parts(&info, marker, max_parts));
    }
    if asked.storage_class {
        output.storage_class = Some(StorageClass::from_static(StorageClass::STANDARD));
    }
    if asked.size {
        output.object_size = i64::try_from(info.size).ok();
    }
    Ok(reply::with_bare_etag(S3Response::new(output)))
}

fn parts(info: &ObjectInfo, marker: i32, max_parts: usize) -> GetObjectAttributesParts {
    let sizes = &info.meta.part_sizes;
    let skipped = usize::try_from(marker).unwrap_or(0);
    let parts: Vec<ObjectPart> = sizes
        .iter()
        .zip(1_i32..)
        .skip(skipped)
        .take(max_parts)
        .map(|(size, number)| ObjectPart {
            part_number: Some(number),
            size: i64::try_from(*size).ok(),
            ..ObjectPart::default()
        })
        .collect();
    let last = parts.last().and_then(|part| part.part_number);
    GetObjectAttributesParts {
        is_truncated: Some(skipped + parts.len() < sizes.len()),
        max_parts: i32::try_from(max_parts).ok(),
        next_part_number_marker: Some(last.unwrap_or(marker)),
        part_number_marker: Some(marker),
        parts: Some(parts),
        total_parts_count: i32::try_from(sizes.len()).ok(),
    }
}
