//! From the SDK's errors to ours: kind, status, code, request id and what to do.

use std::time::SystemTime;

use aws_sdk_s3::error::SdkError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ServiceError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::{Error, Kind};

/// Code and message of an answer: from its body, or, as answers to HEAD have none, from MinIO's
/// headers.
fn words<E: ProvideErrorMetadata>(
    service: &ServiceError<E, HttpResponse>,
) -> (Option<&str>, Option<&str>) {
    let headers = service.raw().headers();
    let code = service.err().code().filter(|code| !code.is_empty());
    let message = service.err().message();
    (
        code.filter(|code| *code != "NotFound")
            .or_else(|| headers.get("x-minio-error-code"))
            .or(code),
        message.or_else(|| {
            headers
                .get("x-minio-error-desc")
                .map(|text| text.trim_matches('"'))
        }),
    )
}

/// The region that the server wants, when that is all it complains about.
pub(super) fn expected_region<E>(failure: &SdkError<E, HttpResponse>) -> Option<String>
where
    E: ProvideErrorMetadata,
{
    let SdkError::ServiceError(service) = failure else {
        return None;
    };
    let (code, message) = words(service);
    let bodiless = code.is_none() && matches!(service.raw().status().as_u16(), 301 | 400);
    let complains = code.is_some_and(|code| {
        matches!(
            code,
            "AuthorizationHeaderMalformed" | "PermanentRedirect" | "InvalidRegion"
        )
    });
    if !bodiless && !complains {
        return None;
    }
    if let Some(region) = service.raw().headers().get("x-amz-bucket-region") {
        return Some(region.to_owned());
    }
    region_in(message?)
}

/// `…; the region is wrong; expecting 'eu-paris-1'.` (S3 and MinIO).
fn region_in(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("expecting '")?;
    let (region, _) = rest.split_once('\'')?;
    (!region.is_empty()).then(|| region.to_owned())
}

/// Seconds that the server's clock is ahead of ours, when it refuses for that.
pub(super) fn skew<E>(failure: &SdkError<E, HttpResponse>) -> Option<i64>
where
    E: ProvideErrorMetadata,
{
    let SdkError::ServiceError(service) = failure else {
        return None;
    };
    let (code, _) = words(service);
    if code != Some("RequestTimeTooSkewed") {
        return None;
    }
    ahead(service.raw().headers().get("date")?)
}

/// The error of `operation` on `object`; `date` is the server's clock.
#[expect(clippy::needless_pass_by_value, reason = "stands in map_err")]
pub(super) fn explain<E>(
    operation: &'static str,
    object: &str,
    failure: SdkError<E, HttpResponse>,
    date: Option<&str>,
) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    if let SdkError::ServiceError(service) = &failure {
        let raw = service.raw();
        let status = raw.status().as_u16();
        let (code, message) = words(service);
        let message = message.unwrap_or("no message");
        let kind = classify(operation, status, code, message);
        let mut error = Error::new(kind, operation, object, message);
        error.status = Some(status);
        error.code = code.map(Into::into);
        error.request_id = raw.headers().get("x-amz-request-id").map(Into::into);
        error.cure = cure(code, message, date);
        return error;
    }
    if let SdkError::ResponseError(response) = &failure {
        let status = response.raw().status().as_u16();
        let mut error = Error::new(Kind::Other, operation, object, innermost(&failure));
        // An answer that is cut short or no XML: a proxy's page, or a server going down.
        error.kind = if status >= 400 {
            classify(operation, status, None, "")
        } else {
            Kind::Down
        };
        error.status = (status >= 300).then_some(status);
        return error;
    }
    let kind = match &failure {
        SdkError::ConstructionFailure(_) => Kind::Unnameable,
        SdkError::DispatchFailure(dispatch) if dispatch.is_user() => Kind::Other,
        _ => Kind::Down,
    };
    let text = timeout(&failure).unwrap_or_else(|| innermost(&failure));
    let mut error = Error::new(kind, operation, object, text.clone());
    if let Some(cure) = certificate_cure(&text) {
        error.kind = Kind::Usage;
        error.cure = Some(cure.into());
    }
    error
}

/// What an answer means, by S3's code first (API reference, "Error responses"), then by status.
fn classify(operation: &str, status: u16, code: Option<&str>, message: &str) -> Kind {
    let on_object = matches!(
        operation,
        "get" | "head" | "put" | "delete" | "tags" | "parts"
    );
    match code.unwrap_or_default() {
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "RequestTimeTooSkewed"
        | "AuthorizationHeaderMalformed"
        | "ExpiredToken"
        | "InvalidToken" => Kind::Auth,
        "SlowDown" | "SlowDownRead" | "SlowDownWrite" | "RequestTimeout" | "InternalError"
        | "ServiceUnavailable" | "TooManyRequests" => Kind::Down,
        "KeyTooLongError"
        | "XMinioInvalidObjectName"
        | "InvalidObjectName"
        | "InvalidURI"
        | "MetadataTooLarge"
        | "EntityTooLarge"
        | "DirectoryObjectContainsDataPayload" => Kind::Unnameable,
        "XMinioStorageFull"
        | "QuotaExceeded"
        | "XMinioAdminBucketQuotaExceeded"
        | "InsufficientCapacity" => Kind::NoSpace,
        "InvalidObjectState" => Kind::Unsupported,
        _ if status == 400 && message.contains("ncrypt") => Kind::Unsupported,
        "BadDigest" | "XAmzContentSHA256Mismatch" | "InvalidDigest" => Kind::Damaged,
        _ => match status {
            403 | 501 if on_object => Kind::Unsupported,
            401 | 403 => Kind::Auth,
            404 => Kind::NotFound,
            409 | 412 if operation == "put" || operation == "delete" => Kind::Conflict,
            412 => Kind::Changed,
            400 if operation == "get" || operation == "head" => Kind::Unsupported,
            501 => Kind::Unsupported,
            507 => Kind::NoSpace,
            408 | 429 | 500.. => Kind::Down,
            _ => Kind::Other,
        },
    }
}

fn cure(code: Option<&str>, message: &str, date: Option<&str>) -> Option<Box<str>> {
    let text: Box<str> = match code? {
        "SignatureDoesNotMatch" => {
            "the secret key is wrong, or something on the way (an ingress, a proxy) changed the \
             Host header: then give the address that the server itself knows"
                .into()
        }
        "InvalidAccessKeyId" => "the access key is not known there".into(),
        "AccessDenied" => "give a key that may do this".into(),
        "InternalError" => "look for the request id in the server's log".into(),
        "SlowDown" | "SlowDownRead" | "SlowDownWrite" | "TooManyRequests" => {
            "the server is busy; lower --parallel or --rate".into()
        }
        "RequestTimeTooSkewed" => apart(date)?,
        _ if message.contains("ncrypt") => {
            "encrypted with a key that only its owner has; copy it with that key, or leave it"
                .into()
        }
        _ => return None,
    };
    Some(text)
}

/// Seconds that a server's clock is ahead of ours, by its `Date` header as it arrives.
pub(super) fn ahead(date: &str) -> Option<i64> {
    let theirs = jiff::fmt::rfc2822::parse(date)
        .ok()?
        .timestamp()
        .as_second();
    let ours = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?
        .as_secs();
    Some(theirs - i64::try_from(ours).ok()?)
}

/// What to do when a server's certificate (X.509) is not accepted, by the words of rustls.
fn certificate_cure(text: &str) -> Option<&'static str> {
    let cure = if text.contains("UnknownIssuer") {
        "its authority is not known here: name the authority's certificate with --from-ca or --to-ca"
    } else if text.contains("not valid for name") || text.contains("NotValidForName") {
        "it is for another name: use that name in --from or --to"
    } else if text.contains("expired") || text.contains("Expired") {
        "renew it, or set this machine's clock"
    } else if text.contains("certificate") {
        "name the authority's certificate with --from-ca or --to-ca"
    } else {
        return None;
    };
    Some(cure)
}

/// How far the clocks are apart, and which one is ahead.
fn apart(date: Option<&str>) -> Option<Box<str>> {
    let ahead = ahead(date?)?;
    let side = if ahead < 0 { "ahead of" } else { "behind" };
    Some(
        format!(
            "this machine's clock is {} s {side} the server's; set both by NTP",
            ahead.abs()
        )
        .into(),
    )
}

/// What ran out of time, which the last cause does not say.
fn timeout(error: &dyn std::error::Error) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        for (words, what) in [
            ("HTTP connect timeout", "no connection came about"),
            ("HTTP read timeout", "no answer came"),
        ] {
            if let Some((_, after)) = text.split_once(words) {
                let within = after.trim_start_matches(" occurred after ");
                return Some(format!("timeout: {what} within {within}"));
            }
        }
        cause = error.source();
    }
    None
}

/// The last cause says what happened; the ones around it only where.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_read_from_the_complaint() {
        let message =
            "The authorization header is malformed; the region is wrong; expecting 'eu-paris-1'.";
        assert_eq!(region_in(message).as_deref(), Some("eu-paris-1"));
        assert_eq!(region_in("The authorization header is malformed"), None);
    }

    #[test]
    fn kinds_follow_code_then_status() {
        for (operation, status, code, message, kind) in [
            ("list", 403, Some("AccessDenied"), "", Kind::Auth),
            ("get", 403, Some("AccessDenied"), "", Kind::Unsupported),
            ("get", 403, Some("SignatureDoesNotMatch"), "", Kind::Auth),
            ("get", 503, Some("SlowDown"), "", Kind::Down),
            ("get", 502, None, "", Kind::Down),
            ("get", 404, Some("NoSuchKey"), "", Kind::NotFound),
            ("get", 412, Some("PreconditionFailed"), "", Kind::Changed),
            ("put", 412, Some("PreconditionFailed"), "", Kind::Conflict),
            (
                "get",
                400,
                Some("InvalidRequest"),
                "The object was stored using a form of Server Side Encryption.",
                Kind::Unsupported,
            ),
        ] {
            assert_eq!(
                classify(operation, status, code, message),
                kind,
                "{operation} {status}"
            );
        }
    }
}
