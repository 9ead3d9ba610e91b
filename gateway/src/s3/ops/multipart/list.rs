//! ListParts and ListMultipartUploads.

use filestore_store::{PartInfo, UploadInfo, UploadQuery};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::access::Action;
use crate::auth;
use crate::s3::checksum::{algorithm_dto, kind_dto, put_checksum};
use crate::s3::listing::{self, Encoding, page_size};
use crate::s3::ops::list_objects::non_empty;
use crate::s3::{Gateway, request};

fn initiator(gateway: &Gateway) -> Initiator {
    let Owner { display_name, id } = gateway.owner();
    Initiator { display_name, id }
}

pub(in crate::s3::ops) async fn list_parts(
    gateway: &Gateway,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let max_parts = page_size("max-parts", input.max_parts)?;
    let marker = input.part_number_marker.unwrap_or(0);
    if marker < 0 {
        page_size("part-number-marker", Some(marker))?;
    }
    let after = u32::try_from(marker).unwrap_or(0);
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let name = key.as_str().to_owned();
    let upload_id = input.upload_id.clone();
    let (upload, parts, more) = gateway
        .long(move |store| {
            let upload = store.upload(&bucket, &key, &upload_id)?;
            let (parts, more) = store.list_parts(&bucket, &key, &upload_id, after, max_parts)?;
            Ok((upload, parts, more && max_parts > 0))
        })
        .await?;
    let next = parts
        .last()
        .and_then(|part| i32::try_from(part.number).ok())
        .unwrap_or(0);
    let checksum = upload.spec.checksum;
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        checksum_algorithm: checksum.map(|(algorithm, _)| algorithm_dto(algorithm)),
        checksum_type: checksum.map(|(_, kind)| kind_dto(kind)),
        initiator: Some(initiator(gateway)),
        is_truncated: Some(more),
        key: Some(listing::xml_name(name)),
        max_parts: i32::try_from(max_parts).ok(),
        next_part_number_marker: Some(next),
        owner: Some(gateway.owner()),
        part_number_marker: Some(marker),
        parts: Some(parts.iter().map(part).collect()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        upload_id: Some(input.upload_id),
        ..ListPartsOutput::default()
    }))
}

fn part(info: &PartInfo) -> Part {
    let mut part = Part {
        e_tag: Some(ETag::Strong(info.etag.as_str().to_owned())),
        last_modified: Some(info.last_modified.into()),
        part_number: i32::try_from(info.number).ok(),
        size: i64::try_from(info.size).ok(),
        ..Part::default()
    };
    if let Some(checksum) = &info.checksum {
        put_checksum!(part, checksum);
    }
    part
}

pub(in crate::s3::ops) async fn list_uploads(
    gateway: &Gateway,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key_marker = non_empty(input.key_marker);
    let query = UploadQuery {
        prefix: input.prefix.unwrap_or_default(),
        delimiter: non_empty(input.delimiter),
        // An upload id without a key is ignored (ListMultipartUploads, upload-id-marker).
        upload_id_marker: key_marker
            .as_ref()
            .and_then(|_| non_empty(input.upload_id_marker)),
        key_marker,
        max_uploads: page_size("max-uploads", input.max_uploads)?,
    };
    auth::check(Action::Write, &input.bucket, &query.prefix)?;
    let asked = query.clone();
    let page = gateway
        .long(move |store| store.list_uploads(&bucket, &query))
        .await?;
    let names = page
        .uploads
        .iter()
        .map(|upload| upload.key.as_str())
        .chain(page.prefixes.iter().map(String::as_str))
        .chain([asked.prefix.as_str()])
        .chain(asked.delimiter.as_deref())
        .chain(asked.key_marker.as_deref());
    let encoding = Encoding::choose(input.encoding_type.as_ref(), names)?;
    let next = page.next.filter(|_| asked.max_uploads > 0);
    let truncated = next.is_some();
    let (next_key, next_id) = next.unwrap_or_default();
    let uploads = page
        .uploads
        .into_iter()
        .map(|info| upload(gateway, info, encoding))
        .collect();
    let prefixes = page.prefixes.into_iter().map(|prefix| CommonPrefix {
        prefix: Some(encoding.apply(prefix)),
    });
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: Some(prefixes.collect()),
        delimiter: asked.delimiter.map(|delimiter| encoding.apply(delimiter)),
        encoding_type: encoding.dto(),
        is_truncated: Some(truncated),
        key_marker: Some(encoding.apply(asked.key_marker.unwrap_or_default())),
        max_uploads: i32::try_from(asked.max_uploads).ok(),
        next_key_marker: Some(encoding.apply(next_key)),
        next_upload_id_marker: Some(next_id),
        prefix: Some(encoding.apply(asked.prefix)),
        request_charged: None,
        upload_id_marker: Some(asked.upload_id_marker.unwrap_or_default()),
        uploads: Some(uploads),
    }))
}

fn upload(gateway: &Gateway, info: UploadInfo, encoding: Encoding) -> MultipartUpload {
    let checksum = info.spec.checksum;
    MultipartUpload {
        checksum_algorithm: checksum.map(|(algorithm, _)| algorithm_dto(algorithm)),
        checksum_type: checksum.map(|(_, kind)| kind_dto(kind)),
        initiated: Some(info.initiated.into()),
        initiator: Some(initiator(gateway)),
        key: Some(encoding.apply(info.key.into())),
        owner: Some(gateway.owner()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        upload_id: Some(info.upload_id),
    }
}
