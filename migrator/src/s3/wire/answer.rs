//! What a server answers to a GET: the object as it begins to arrive, or why there is none.

use std::time::SystemTime;

use aws_sdk_s3::error::{ErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::{GetObjectError, GetObjectOutput};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::DateTime;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::date_time::Format;
use filestore_common::{ContentHeaders, ETag, ObjectMeta};
use http_body_util::{BodyExt as _, Limited};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::Failure;
use crate::s3::client::READ_TIMEOUT;
use crate::s3::gunzip;

/// Largest answer, in bytes, that is read for what it says of a failure.
const MOST_OF_AN_ERROR: usize = 1 << 20;

/// An object as it begins to arrive.
#[derive(Debug)]
pub(crate) struct Received {
    /// Length of the body, when the answer tells.
    pub(crate) size: Option<u64>,
    pub(crate) last_modified: Option<SystemTime>,
    /// `ETag`, headers and user metadata.
    pub(crate) meta: ObjectMeta,
    /// Whether the answer says that there are tags.
    pub(crate) tagged: bool,
    pub(crate) body: ByteStream,
}

impl From<GetObjectOutput> for Received {
    fn from(answer: GetObjectOutput) -> Self {
        let mut meta = ObjectMeta::new(ETag::new(answer.e_tag.as_deref().unwrap_or_default()));
        meta.headers = ContentHeaders {
            content_type: answer.content_type,
            content_encoding: answer.content_encoding,
            content_language: answer.content_language,
            content_disposition: answer.content_disposition,
            cache_control: answer.cache_control,
            expires: answer.expires_string,
            website_redirect_location: answer.website_redirect_location,
        };
        let named = answer.metadata.unwrap_or_default().into_iter();
        meta.user = named
            .map(|(name, value)| (name.to_lowercase(), value))
            .collect();
        Self {
            size: answer
                .content_length
                .and_then(|length| u64::try_from(length).ok()),
            last_modified: answer
                .last_modified
                .and_then(|date| SystemTime::try_from(date).ok()),
            meta,
            tagged: answer.tag_count.is_some_and(|count| count > 0),
            body: answer.body,
        }
    }
}

/// Takes over what the headers say.
pub(super) fn received(mut response: HttpResponse) -> Received {
    let body = ByteStream::new(response.take_body());
    let mut meta = ObjectMeta::new(ETag::new(""));
    let (mut size, mut last_modified, mut tagged) = (None, None, false);
    for (name, value) in response.headers() {
        let text = || Some(value.to_owned());
        match name {
            "content-length" => size = value.parse().ok(),
            "last-modified" => {
                let date = DateTime::from_str(value, Format::HttpDate).ok();
                last_modified = date.and_then(|date| SystemTime::try_from(date).ok());
            }
            "etag" => meta.etag = ETag::new(value),
            "content-type" => meta.headers.content_type = text(),
            "content-encoding" => meta.headers.content_encoding = text(),
            "content-language" => meta.headers.content_language = text(),
            "content-disposition" => meta.headers.content_disposition = text(),
            "cache-control" => meta.headers.cache_control = text(),
            "expires" => meta.headers.expires = text(),
            "x-amz-website-redirect-location" => {
                meta.headers.website_redirect_location = text();
            }
            "x-amz-tagging-count" => tagged = value.parse::<u64>().is_ok_and(|count| count > 0),
            _ => {
                if let Some(user) = name.strip_prefix("x-amz-meta-") {
                    meta.user.insert(user.to_owned(), value.to_owned());
                }
            }
        }
    }
    Received {
        size,
        last_modified,
        meta,
        tagged,
        body,
    }
}

/// An answer that is no success, with what its body says.
pub(super) async fn failure(mut response: HttpResponse) -> Failure {
    let compressed = response.headers().get("content-encoding") == Some("gzip");
    let mut body = response.take_body();
    if compressed {
        body = gunzip::plain(body);
    }
    let whole = Limited::new(body, MOST_OF_AN_ERROR).collect();
    match tokio::time::timeout(READ_TIMEOUT, whole).await {
        Ok(Ok(whole)) => {
            let bytes = whole.to_bytes();
            let said = words(&bytes);
            *response.body_mut() = SdkBody::from(bytes);
            SdkError::service_error(GetObjectError::generic(said), response)
        }
        Ok(Err(error)) => SdkError::response_error(error, response),
        Err(late) => SdkError::timeout_error(late),
    }
}

/// Code and message of S3's `Error` document; neither of what is none.
fn words(document: &[u8]) -> ErrorMetadata {
    let (mut code, mut message, mut text) = (None, None, String::new());
    let mut reader = Reader::from_reader(document);
    loop {
        match reader.read_event() {
            Ok(Event::Start(_)) => text.clear(),
            Ok(Event::Text(more)) => match more.xml10_content() {
                Ok(more) => text.push_str(&more),
                Err(_) => break,
            },
            Ok(Event::CData(more)) => match more.xml10_content() {
                Ok(more) => text.push_str(&more),
                Err(_) => break,
            },
            Ok(Event::GeneralRef(reference)) => {
                let name = reference.decode().unwrap_or_default();
                if let Ok(character) = quick_xml::escape::unescape(&format!("&{name};")) {
                    text.push_str(&character);
                }
            }
            Ok(Event::End(end)) => match end.local_name().as_ref() {
                b"Code" if code.is_none() => code = Some(std::mem::take(&mut text)),
                b"Message" if message.is_none() => message = Some(std::mem::take(&mut text)),
                _ => {}
            },
            Ok(Event::Eof) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let mut said = ErrorMetadata::builder();
    if let Some(code) = code {
        said = said.code(code);
    }
    if let Some(message) = message {
        said = said.message(message);
    }
    said.build()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_says_its_code_and_message() {
        let said = words(
            b"<?xml version=\"1.0\"?>\n<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is \
              wrong; expecting &#39;eu-paris-1&#39; &amp; so</Message><Resource>/b/k</Resource></Error>",
        );
        assert_eq!(said.code(), Some("AuthorizationHeaderMalformed"));
        assert_eq!(
            said.message(),
            Some("the region is wrong; expecting 'eu-paris-1' & so")
        );
        for page in ["", "<html><body>Bad Gateway", "Bad Gateway", "<Error>"] {
            let said = words(page.as_bytes());
            assert_eq!((said.code(), said.message()), (None, None), "{page}");
        }
    }

    #[test]
    fn what_an_answer_says_of_an_object_is_taken_over() {
        let mut response = HttpResponse::new(200.try_into().unwrap(), SdkBody::from("hello"));
        for (name, value) in [
            ("content-length", "5"),
            ("last-modified", "Fri, 24 May 2013 00:00:00 GMT"),
            ("etag", "\"5d41402abc4b2a76b9719d911017c592\""),
            ("content-type", "text/plain"),
            ("expires", "soon"),
            ("x-amz-meta-origin", "bench"),
            ("x-amz-tagging-count", "2"),
        ] {
            response.headers_mut().insert(name, value);
        }
        let received = received(response);
        assert_eq!(received.size, Some(5));
        let time = SystemTime::UNIX_EPOCH + Duration::from_hours(380_376);
        assert_eq!(received.last_modified, Some(time));
        assert_eq!(
            received.meta.etag.as_str(),
            "5d41402abc4b2a76b9719d911017c592"
        );
        assert_eq!(received.meta.headers.expires.as_deref(), Some("soon"));
        assert_eq!(received.meta.user["origin"], "bench");
        assert!(received.tagged);
    }
}
