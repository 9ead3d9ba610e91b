//! CompleteMultipartUpload.

use filestore_common::digest::multipart_etag_of;
use filestore_common::{BucketName, Checksum, ChecksumAlgorithm, ChecksumKind, ETag, ObjectKey};
use filestore_store::{CompleteOptions, CompletedPart};
use http::HeaderMap;
use http::header::HOST;
use s3s::dto::{self, CompleteMultipartUploadInput, CompleteMultipartUploadOutput};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::s3::checksum::{
    kind_dto, kind_name, mismatch, name, parse_algorithm, put_checksum, well_formed,
};
use crate::s3::conditions::write_precondition;
use crate::s3::error::{self, invalid_argument, invalid_request};
use crate::s3::import::{Import, different};
use crate::s3::{Gateway, listing, metadata, request};

/// Most parts of an upload.
const MAX_PARTS: usize = 10_000;

pub(in crate::s3::ops) async fn complete(
    gateway: &Gateway,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let headers = request::headers(&request);
    request::refuse_encryption(headers)?;
    let import = Import::of_request(headers)?;
    let announced = object_checksum(headers)?;
    let kind = checksum_kind(headers)?;
    let options = CompleteOptions {
        precondition: write_precondition(headers)?,
        object_size: object_size(headers)?,
        checksum: None,
        last_modified: import.as_ref().and_then(|import| import.last_modified),
        allow_small_parts: import.is_some(),
    };
    let host = headers.get(HOST).map(metadata::text).unwrap_or_default();
    let location = gateway.url(&host, request.uri.path());
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let parts = parts(input.multipart_upload)?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    let key_name = key.as_str().to_owned();
    let upload_id = input.upload_id;
    let completion = Completion {
        bucket,
        key,
        upload_id,
        parts,
        options,
        announced,
        kind,
        imported: import.and_then(|import| import.etag),
    };
    let info = completion.run(gateway).await?;
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket),
        e_tag: Some(dto::ETag::Strong(info.meta.etag.as_str().to_owned())),
        key: Some(listing::xml_name(key_name)),
        location: Some(location),
        ..CompleteMultipartUploadOutput::default()
    };
    if let Some(checksum) = &info.meta.checksum {
        put_checksum!(output, checksum);
        output.checksum_type = Some(kind_dto(checksum.kind));
    }
    Ok(S3Response::new(output))
}

/// A completion, ready to be done.
struct Completion {
    bucket: BucketName,
    key: ObjectKey,
    upload_id: String,
    parts: Vec<CompletedPart>,
    options: CompleteOptions,
    /// Algorithm and value of the whole object's checksum.
    announced: Option<(ChecksumAlgorithm, String)>,
    kind: Option<ChecksumKind>,
    imported: Option<ETag>,
}

impl Completion {
    async fn run(mut self, gateway: &Gateway) -> S3Result<filestore_common::ObjectInfo> {
        self.check_checksums(gateway).await?;
        if let Some(imported) = &self.imported
            && multipart_etag_of(self.parts.iter().map(|part| &part.etag)).as_ref()
                != Some(imported)
        {
            // The parts' ETags are compared with their bytes' by the store.
            return Err(different());
        }
        let asked = self.options.object_size;
        let algorithm = self.options.checksum.as_ref().map(|sum| sum.algorithm);
        let Self {
            bucket,
            key,
            upload_id,
            parts,
            options,
            ..
        } = self;
        let done = gateway
            .long(move |store| store.complete_upload(&bucket, &key, &upload_id, &parts, &options))
            .await;
        done.map_err(|error| match (error.code(), asked, algorithm) {
            (S3ErrorCode::BadDigest, Some(asked), _) if is_size(&error) => invalid_request(format!(
                "The provided 'x-amz-mp-object-size' header value {asked} does not match what was computed"
            )),
            (S3ErrorCode::BadDigest, _, Some(algorithm)) => mismatch(algorithm),
            _ => error,
        })
    }

    /// The request must use the checksums that the upload declared.
    async fn check_checksums(&mut self, gateway: &Gateway) -> S3Result<()> {
        let (bucket, key, id) = (
            self.bucket.clone(),
            self.key.clone(),
            self.upload_id.clone(),
        );
        let looked_up = gateway
            .short(move |store| store.upload(&bucket, &key, &id))
            .await;
        let declared = match looked_up {
            Ok(upload) => upload.spec.checksum,
            // Completed before: whether this is a repetition is the store's to say.
            Err(error) if *error.code() == S3ErrorCode::NoSuchUpload => None,
            Err(error) => return Err(error),
        };
        let Some((algorithm, kind)) = declared else {
            for part in &mut self.parts {
                part.checksum = None;
            }
            return Ok(());
        };
        if self.kind.is_some_and(|asked| asked != kind) {
            return Err(invalid_request(format!(
                "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
                kind_name(kind)
            )));
        }
        for part in &self.parts {
            check_part(part, algorithm, kind)?;
        }
        if let Some((announced, value)) = self.announced.take()
            && announced == algorithm
        {
            self.options.checksum = Some(Checksum {
                algorithm,
                kind,
                value,
            });
        }
        Ok(())
    }
}

/// Whether the store says that the size is not the announced one.
fn is_size(error: &S3Error) -> bool {
    error
        .message()
        .is_some_and(|text| text.contains("bytes announced"))
}

fn check_part(
    part: &CompletedPart,
    algorithm: ChecksumAlgorithm,
    kind: ChecksumKind,
) -> S3Result<()> {
    match &part.checksum {
        Some(checksum) if checksum.algorithm != algorithm => Err(S3Error::with_message(
            S3ErrorCode::BadDigest,
            format!(
                "The {} you specified for part {} did not match what we received.",
                name(checksum.algorithm).to_lowercase(),
                part.number
            ),
        )),
        None if kind == ChecksumKind::Composite => Err(invalid_request(format!(
            "The upload was created using a {} checksum. The complete request must include the checksum for each part. It was missing for part {} in the request.",
            name(algorithm).to_lowercase(),
            part.number
        ))),
        _ => Ok(()),
    }
}

/// `x-amz-checksum-*` of the whole object; composite values end in `-N`.
fn object_checksum(headers: &HeaderMap) -> S3Result<Option<(ChecksumAlgorithm, String)>> {
    let mut found = None;
    for (name, value) in headers {
        let Some(algorithm) = name.as_str().strip_prefix("x-amz-checksum-") else {
            continue;
        };
        if matches!(algorithm, "algorithm" | "type" | "mode") {
            continue;
        }
        let algorithm = parse_algorithm(algorithm).map_err(|_| {
            invalid_request(
                "The algorithm type you specified in x-amz-checksum- header is invalid.",
            )
        })?;
        if found.is_some() {
            return Err(invalid_request(
                "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
            ));
        }
        let value = value.to_str().unwrap_or_default();
        let (digest, count) = value.split_once('-').unwrap_or((value, "1"));
        if !well_formed(algorithm, digest) || count.parse::<u16>().is_err() {
            return Err(invalid_request(format!(
                "Value for {name} header is invalid."
            )));
        }
        found = Some((algorithm, value.to_owned()));
    }
    Ok(found)
}

fn checksum_kind(headers: &HeaderMap) -> S3Result<Option<ChecksumKind>> {
    match headers
        .get("x-amz-checksum-type")
        .map(http::HeaderValue::as_bytes)
    {
        None | Some(b"") => Ok(None),
        Some(b"COMPOSITE") => Ok(Some(ChecksumKind::Composite)),
        Some(b"FULL_OBJECT") => Ok(Some(ChecksumKind::FullObject)),
        Some(_) => Err(invalid_request(
            "Value for x-amz-checksum-type header is invalid.",
        )),
    }
}

fn object_size(headers: &HeaderMap) -> S3Result<Option<u64>> {
    let Some(value) = headers.get("x-amz-mp-object-size") else {
        return Ok(None);
    };
    let text = metadata::text(value);
    match text.parse::<i64>() {
        Ok(size) => u64::try_from(size).map(Some).map_err(|_| {
            invalid_request(format!(
                "Value for x-amz-mp-object-size header is less than zero: '{size}'"
            ))
        }),
        Err(_) => Err(invalid_request(format!(
            "Value for x-amz-mp-object-size header is invalid: '{text}'"
        ))),
    }
}

fn parts(upload: Option<dto::CompletedMultipartUpload>) -> S3Result<Vec<CompletedPart>> {
    let listed = upload.and_then(|upload| upload.parts).unwrap_or_default();
    if listed.is_empty() || listed.len() > MAX_PARTS {
        return Err(error::code(S3ErrorCode::MalformedXML));
    }
    listed.into_iter().map(part).collect()
}

fn part(mut part: dto::CompletedPart) -> S3Result<CompletedPart> {
    let Some(number) = part.part_number else {
        return Err(error::code(S3ErrorCode::MalformedXML));
    };
    let number = u32::try_from(number)
        .ok()
        .filter(|number| *number >= 1)
        .ok_or_else(|| {
            invalid_argument("PartNumber", &number.to_string(), "PartNumber must be >= 1")
        })?;
    let Some(etag) = part.e_tag.take() else {
        return Err(error::code(S3ErrorCode::MalformedXML));
    };
    let checksum = part_checksum(part)?;
    Ok(CompletedPart {
        number,
        etag: ETag::new(etag.value()),
        checksum,
    })
}

/// The checksum that the client says the part has.
fn part_checksum(part: dto::CompletedPart) -> S3Result<Option<Checksum>> {
    let mut sent = [
        (ChecksumAlgorithm::Crc32, part.checksum_crc32),
        (ChecksumAlgorithm::Crc32c, part.checksum_crc32c),
        (ChecksumAlgorithm::Crc64nvme, part.checksum_crc64nvme),
        (ChecksumAlgorithm::Sha1, part.checksum_sha1),
        (ChecksumAlgorithm::Sha256, part.checksum_sha256),
    ]
    .into_iter()
    .filter_map(|(algorithm, value)| Some((algorithm, value?)));
    let Some((algorithm, value)) = sent.next() else {
        return Ok(None);
    };
    if sent.next().is_some() || !well_formed(algorithm, &value) {
        return Err(invalid_argument(
            "Checksum",
            &value,
            "Invalid Base64 or multiple checksums present in request",
        ));
    }
    Ok(Some(Checksum {
        algorithm,
        kind: ChecksumKind::FullObject,
        value,
    }))
}
