//! What goes wrong, as S3 says it: the only place that knows error codes and their texts
//! (S3 API reference, "Error responses"). Nothing of the file system reaches a client.

use filestore_common::key::NameError;
use filestore_store::Error as StoreError;
use http::StatusCode;
use s3s::{S3Error, S3ErrorCode, StdError};

use crate::context::RequestContext;

pub(crate) mod reply;

/// An error with S3's own text for its code.
pub(crate) fn code(code: S3ErrorCode) -> S3Error {
    match standard_message(code.as_str()) {
        Some(message) => S3Error::with_message(code, message),
        None => S3Error::new(code),
    }
}

/// `InvalidArgument` with S3's text, naming the argument.
pub(crate) fn invalid_argument(name: &str, value: &str, message: impl Into<String>) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::InvalidArgument, message.into());
    reply::add_detail(&mut error, "ArgumentName", name);
    reply::add_detail(&mut error, "ArgumentValue", value);
    error
}

/// `InvalidRequest` with a text of its own.
pub(crate) fn invalid_request(message: impl Into<String>) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidRequest, message.into())
}

/// A code that the protocol library does not list.
pub(crate) fn custom(name: &'static str, status: StatusCode) -> S3Error {
    let mut error = code(S3ErrorCode::Custom(name.into()));
    error.set_status_code(status);
    error
}

/// `NotImplemented`, naming the header that asks for it.
pub(crate) fn header_not_implemented(header: &str) -> S3Error {
    let mut error = code(S3ErrorCode::NotImplemented);
    reply::add_detail(&mut error, "Header", header);
    error
}

/// A failure inside the gateway: logged with its cause, answered without it.
pub(crate) fn internal(source: impl Into<StdError>) -> S3Error {
    let source = source.into();
    let kind = match source.downcast_ref() {
        Some(StoreError::Io { .. }) => "io",
        Some(StoreError::Damaged(_)) => "damaged",
        Some(StoreError::Volume(_)) => "volume",
        _ => "internal",
    };
    RequestContext::failed(kind, &*source);
    let mut error = code(S3ErrorCode::InternalError);
    error.set_source(source);
    error
}

/// Maps a store error to its S3 code.
pub(crate) fn from_store(error: StoreError) -> S3Error {
    match error {
        StoreError::NoSuchBucket => code(S3ErrorCode::NoSuchBucket),
        StoreError::BucketExists => code(S3ErrorCode::BucketAlreadyOwnedByYou),
        StoreError::BucketNotEmpty => code(S3ErrorCode::BucketNotEmpty),
        StoreError::NoSuchKey => code(S3ErrorCode::NoSuchKey),
        StoreError::NoSuchUpload => code(S3ErrorCode::NoSuchUpload),
        StoreError::InvalidPart(number) => {
            let mut error = code(S3ErrorCode::InvalidPart);
            reply::add_detail(&mut error, "PartNumber", &number.to_string());
            error
        }
        StoreError::InvalidPartOrder => code(S3ErrorCode::InvalidPartOrder),
        StoreError::PartTooSmall { number, size } => {
            let mut error = code(S3ErrorCode::EntityTooSmall);
            reply::add_detail(&mut error, "PartNumber", &number.to_string());
            reply::add_detail(&mut error, "ProposedSize", &size.to_string());
            reply::add_detail(&mut error, "MinSizeAllowed", "5242880");
            error
        }
        StoreError::BadDigest(what) => S3Error::with_message(S3ErrorCode::BadDigest, what),
        StoreError::PreconditionFailed => code(S3ErrorCode::PreconditionFailed),
        StoreError::Conflict => code(S3ErrorCode::ConditionalRequestConflict),
        StoreError::ReservedKey => invalid_argument(
            "key",
            "",
            "The key is reserved for the gateway's own files.",
        ),
        StoreError::MetadataTooLarge(_) => code(S3ErrorCode::MetadataTooLarge),
        // As MinIO says it: clients know the code, and by its status none of them tries again.
        StoreError::QuotaExceeded => {
            let mut error = custom("XMinioAdminBucketQuotaExceeded", StatusCode::BAD_REQUEST);
            error.set_message("Bucket quota exceeded");
            error
        }
        StoreError::NoSpace { .. } => {
            RequestContext::failed("no_space", &error);
            let mut answer = custom("InsufficientStorage", StatusCode::INSUFFICIENT_STORAGE);
            answer.set_source(Box::new(error));
            answer
        }
        StoreError::Volume(_) | StoreError::Damaged(_) | StoreError::Io { .. } => internal(error),
    }
}

/// Maps a refused name.
pub(crate) fn from_name(error: &NameError) -> S3Error {
    match error {
        NameError::Bucket(_) => code(S3ErrorCode::InvalidBucketName),
        NameError::EmptyKey => code(S3ErrorCode::UserKeyMustBeSpecified),
        NameError::KeyTooLong(size) => {
            let mut error = code(S3ErrorCode::KeyTooLongError);
            reply::add_detail(&mut error, "Size", &size.to_string());
            reply::add_detail(&mut error, "MaxSizeAllowed", "1024");
            error
        }
        NameError::NulInKey => code(S3ErrorCode::InvalidURI),
    }
}

/// Maps a failure while reading a request body. The protocol library wraps bodies in streams of
/// private error types, so their texts are all there is to tell them apart.
pub(crate) fn from_body(source: StdError) -> S3Error {
    let text = source.to_string();
    let mut error = if text.contains("Sha256Mismatch") {
        code(S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into()))
    } else if text.contains("SignatureMismatch") {
        code(S3ErrorCode::SignatureDoesNotMatch)
    } else if text.contains("FormatError") || text.contains("Trailer") {
        code(S3ErrorCode::Custom("MalformedTrailerError".into()))
    } else {
        code(S3ErrorCode::IncompleteBody)
    };
    if error.status_code().is_none() {
        error.set_status_code(StatusCode::BAD_REQUEST);
    }
    error.set_source(source);
    error
}

/// S3's text for a code, where it always is the same.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn standard_message(code: &str) -> Option<&'static str> {
    Some(match code {
        "AccessDenied" => "Access Denied.",
        "BadDigest" => "The Content-MD5 you specified did not match what we received.",
        "BucketAlreadyOwnedByYou" => {
            "Your previous request to create the named bucket succeeded and you already own it."
        }
        "BucketNotEmpty" => "The bucket you tried to delete is not empty.",
        "ConditionalRequestConflict" => {
            "The conditional request cannot succeed due to a conflicting operation against this resource."
        }
        "EntityTooLarge" => "Your proposed upload exceeds the maximum allowed object size.",
        "EntityTooSmall" => "Your proposed upload is smaller than the minimum allowed size",
        "IncompleteBody" => {
            "You did not provide the number of bytes specified by the Content-Length HTTP header"
        }
        "InsufficientStorage" => "No space left on device.",
        "InternalError" => "We encountered an internal error, please try again.",
        "InvalidAccessKeyId" => "The AWS Access Key Id you provided does not exist in our records.",
        "InvalidBucketName" => "The specified bucket is not valid.",
        "InvalidDigest" => "The Content-Md5 you specified is not valid.",
        "InvalidLocationConstraint" => "The specified location-constraint is not valid",
        "InvalidPart" => {
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."
        }
        "InvalidPartNumber" => "The requested partnumber is not satisfiable.",
        "InvalidPartOrder" => {
            "The list of parts was not in ascending order. Parts must be ordered by part number."
        }
        "InvalidRange" => "The requested range is not satisfiable",
        "InvalidRedirectLocation" => {
            "The website redirect location must have a prefix of 'http://' or 'https://' or '/'."
        }
        "InvalidStorageClass" => "The storage class you specified is not valid",
        "InvalidURI" => "The specified URI couldn't be parsed.",
        "KeyTooLongError" => "Your key is too long.",
        "MalformedXML" => {
            "The XML you provided was not well-formed or did not validate against our published schema."
        }
        "MalformedTrailerError" => {
            "The request contained trailing data that was not well-formed or did not conform to our published schema."
        }
        "MaxMessageLengthExceeded" => "Your request was too big.",
        "MetadataTooLarge" => "Your metadata headers exceed the maximum allowed metadata size",
        "MethodNotAllowed" => "The specified method is not allowed against this resource.",
        "MissingContentLength" => "You must provide the Content-Length HTTP header.",
        "MissingRequestBodyError" => "Request Body is empty",
        "NoSuchBucket" => "The specified bucket does not exist.",
        "NoSuchBucketPolicy" => "The bucket policy does not exist.",
        "NoSuchCORSConfiguration" => "The CORS configuration does not exist",
        "NoSuchKey" => "The specified key does not exist.",
        "NoSuchLifecycleConfiguration" => "The lifecycle configuration does not exist",
        "NoSuchPublicAccessBlockConfiguration" => {
            "The public access block configuration was not found"
        }
        "NoSuchTagSet" => "The TagSet does not exist.",
        "NoSuchUpload" => {
            "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."
        }
        "NoSuchVersion" => "The specified version does not exist.",
        "NoSuchWebsiteConfiguration" => {
            "The specified bucket does not have a website configuration"
        }
        "NotImplemented" => "A header you provided implies functionality that is not implemented.",
        "NotModified" => "Not Modified",
        "ObjectLockConfigurationNotFoundError" => {
            "Object Lock configuration does not exist for this bucket."
        }
        "OwnershipControlsNotFoundError" => "The bucket ownership controls were not found.",
        "PreconditionFailed" => "At least one of the pre-conditions you specified did not hold.",
        "ReplicationConfigurationNotFoundError" => "The replication configuration was not found",
        "RequestHeaderSectionTooLarge" => {
            "Your request header section exceeds the maximum allowed size."
        }
        "RequestTimeTooSkewed" => {
            "The difference between the request time and the current time is too large."
        }
        "ServerSideEncryptionConfigurationNotFoundError" => {
            "The server side encryption configuration was not found"
        }
        "SignatureDoesNotMatch" => {
            "The request signature we calculated does not match the signature you provided. Check your key and signing method."
        }
        "SlowDown" => "Please reduce your request rate.",
        "XAmzContentSHA256Mismatch" => {
            "The provided 'x-amz-content-sha256' header does not match what was computed."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
