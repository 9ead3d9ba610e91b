//! Reading one object over S3 with everything that belongs to it.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ObjectAttributes;
use filestore_common::{
    BucketName, ContentHeaders, ETag, ObjectInfo, ObjectKey, ObjectMeta, Tags, UserMetadata,
};
use futures::{StreamExt, stream};

use super::known;
use crate::pace::Permit;
use crate::s3::S3;
use crate::source::{Body, Entry, Object};
use crate::{Error, Kind, Result};

/// Longest time between two pieces of a body.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Opens the object, of the generation `etag` where one is given: a body is never a mix of two.
pub(crate) async fn open(
    s3: &S3,
    bucket: &BucketName,
    key: &ObjectKey,
    etag: Option<&ETag>,
) -> Result<Object> {
    let name = format!("{bucket}/{key}");
    let condition = etag.map(ETag::quoted);
    let (answer, permit) = s3
        .get(bucket.as_str(), key.as_str(), condition.as_deref())
        .await?;
    let Some(size) = answer.size else {
        return Err(Error::new(
            Kind::Other,
            "get",
            name,
            "the answer has no length",
        ));
    };
    let mut meta = answer.meta;
    meta.etag = known(meta.etag).unwrap_or_else(|| ETag::new(""));
    if answer.tagged {
        meta.tags = tags(s3, &permit, bucket, key, &name).await?;
    }
    meta.part_sizes = part_sizes(s3, &permit, bucket, key, &meta.etag, size).await?;
    let info = ObjectInfo {
        size,
        last_modified: answer.last_modified.unwrap_or(SystemTime::UNIX_EPOCH),
        meta,
    };
    Ok(Object {
        info,
        body: body(answer.body, name, permit, BODY_TIMEOUT),
    })
}

/// The body, with at most `longest` between two pieces; the request is under way until it ends or
/// is dropped.
fn body(bytes: ByteStream, name: String, permit: Permit, longest: Duration) -> Body {
    let state = (bytes, name, permit);
    stream::try_unfold(state, move |(mut bytes, name, permit)| async move {
        let problem = match tokio::time::timeout(longest, bytes.next()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(chunk))) => return Ok(Some((chunk, (bytes, name, permit)))),
            Ok(Some(Err(error))) => {
                let mut cause: &dyn std::error::Error = &error;
                while let Some(inner) = cause.source() {
                    cause = inner;
                }
                cause.to_string()
            }
            Err(_) => format!("no byte came for {} s", longest.as_secs()),
        };
        permit.broke();
        Err(Error::new(Kind::Down, "read", name, problem))
    })
    .boxed()
}

async fn tags(
    s3: &S3,
    permit: &Permit,
    bucket: &BucketName,
    key: &ObjectKey,
    name: &str,
) -> Result<Tags> {
    let answer = s3
        .call_within(permit, "tags", name, |client| {
            client
                .get_object_tagging()
                .bucket(bucket.as_str())
                .key(key.as_str())
                .send()
        })
        .await?;
    Ok(answer
        .tag_set
        .into_iter()
        .map(|tag| (tag.key, tag.value))
        .collect())
}

/// What the key holds now.
pub(crate) async fn head(s3: &S3, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
    let name = format!("{bucket}/{key}");
    let answer = s3
        .start("head", &name, |client| {
            client
                .head_object()
                .bucket(bucket.as_str())
                .key(key.as_str())
                .send()
        })
        .await;
    let (answer, permit) = match answer {
        Ok(answered) => answered,
        Err(error) if error.kind == Kind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let meta = head_metadata(s3, &permit, bucket, key, &answer).await?;
    Ok(Some(Entry {
        key: key.clone(),
        size: answer
            .content_length
            .and_then(|length| u64::try_from(length).ok())
            .unwrap_or(0),
        etag: etag(answer.e_tag()),
        last_modified: answer
            .last_modified
            .and_then(|date| SystemTime::try_from(date).ok())
            .unwrap_or(SystemTime::UNIX_EPOCH),
        meta,
        hidden: false,
    }))
}

/// Metadata and tags, from servers that say in the answer to HEAD whether there are tags.
async fn head_metadata(
    s3: &S3,
    permit: &Permit,
    bucket: &BucketName,
    key: &ObjectKey,
    answer: &HeadObjectOutput,
) -> Result<Option<Box<ObjectMeta>>> {
    let counts_tags = |server: String| server.contains("MinIO") || server.starts_with("Filestore");
    if !s3.server().is_some_and(counts_tags) {
        return Ok(None);
    }
    let mut meta = ObjectMeta::new(etag(answer.e_tag()).unwrap_or_else(|| ETag::new("")));
    meta.headers = ContentHeaders {
        content_type: answer.content_type.clone(),
        content_encoding: answer.content_encoding.clone(),
        content_language: answer.content_language.clone(),
        content_disposition: answer.content_disposition.clone(),
        cache_control: answer.cache_control.clone(),
        expires: answer.expires_string.clone(),
        website_redirect_location: answer.website_redirect_location.clone(),
    };
    meta.user = user_metadata(answer.metadata.clone());
    if answer.tag_count.is_some_and(|count| count > 0) {
        match tags(s3, permit, bucket, key, &format!("{bucket}/{key}")).await {
            Ok(tags) => meta.tags = tags,
            // Gone in between.
            Err(error) if error.kind == Kind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(Box::new(meta)))
}

fn user_metadata(told: Option<HashMap<String, String>>) -> UserMetadata {
    let named = told.unwrap_or_default().into_iter();
    named
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect()
}

/// An ETag that says something.
fn etag(text: Option<&str>) -> Option<ETag> {
    text.and_then(|text| known(ETag::new(text)))
}

/// Sizes of the parts behind a `-N` ETag; empty for any other, or when the server does not tell.
async fn part_sizes(
    s3: &S3,
    permit: &Permit,
    bucket: &BucketName,
    key: &ObjectKey,
    etag: &ETag,
    size: u64,
) -> Result<Vec<u64>> {
    let count = match etag.part_count() {
        None => return Ok(Vec::new()),
        Some(1) => return Ok(vec![size]),
        Some(count) => count,
    };
    if let Some(sizes) = sizes_by_attributes(s3, permit, bucket, key, etag).await?
        && usize::try_from(count) == Ok(sizes.len())
        && sizes.iter().sum::<u64>() == size
    {
        return Ok(sizes);
    }
    sizes_by_head(s3, permit, bucket, key, etag, count, size).await
}

/// GetObjectAttributes lists them (MinIO: always; AWS: for parts with checksums).
async fn sizes_by_attributes(
    s3: &S3,
    permit: &Permit,
    bucket: &BucketName,
    key: &ObjectKey,
    etag: &ETag,
) -> Result<Option<Vec<u64>>> {
    let name = format!("{bucket}/{key}");
    let mut sizes = Vec::new();
    let mut marker: Option<String> = None;
    loop {
        let answer = s3
            .call_within(permit, "parts", &name, |client| {
                client
                    .get_object_attributes()
                    .bucket(bucket.as_str())
                    .key(key.as_str())
                    .object_attributes(ObjectAttributes::ObjectParts)
                    .object_attributes(ObjectAttributes::Etag)
                    .set_part_number_marker(marker.clone())
                    .send()
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if matches!(error.kind, Kind::Down | Kind::Outage | Kind::Interrupted) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        if answer.e_tag().is_some_and(|now| ETag::new(now) != *etag) {
            return Err(Error::new(
                Kind::Changed,
                "parts",
                name,
                "the object changed meanwhile",
            ));
        }
        let Some(parts) = answer.object_parts else {
            return Ok(None);
        };
        let page = parts
            .parts()
            .iter()
            .map(|part| part.size.and_then(|s| u64::try_from(s).ok()));
        let Some(page) = page.collect::<Option<Vec<u64>>>() else {
            return Ok(None);
        };
        let empty = page.is_empty();
        sizes.extend(page);
        let next = parts.next_part_number_marker;
        if parts.is_truncated != Some(true) || empty || next == marker {
            return Ok(Some(sizes));
        }
        marker = next;
    }
}

/// HEAD of each part but the last; all but the last are asked, since sizes need not be equal.
async fn sizes_by_head(
    s3: &S3,
    permit: &Permit,
    bucket: &BucketName,
    key: &ObjectKey,
    etag: &ETag,
    count: u32,
    size: u64,
) -> Result<Vec<u64>> {
    let name = format!("{bucket}/{key}");
    let mut sizes = Vec::new();
    for number in 1..count {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let answer = s3
            .call_within(permit, "parts", &name, |client| {
                client
                    .head_object()
                    .bucket(bucket.as_str())
                    .key(key.as_str())
                    .part_number(number)
                    .if_match(etag.quoted())
                    .send()
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error)
                if matches!(
                    error.kind,
                    Kind::Down | Kind::Outage | Kind::Interrupted | Kind::Changed
                ) =>
            {
                return Err(error);
            }
            Err(_) => return Ok(Vec::new()),
        };
        let told = answer
            .parts_count
            .and_then(|parts| u32::try_from(parts).ok());
        let length = answer
            .content_length
            .and_then(|length| u64::try_from(length).ok());
        match length {
            // Servers that do not know partNumber answer with the whole object.
            Some(length) if told == Some(count) => sizes.push(length),
            _ => return Ok(Vec::new()),
        }
    }
    match size.checked_sub(sizes.iter().sum()) {
        Some(last) => {
            sizes.push(last);
            Ok(sizes)
        }
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::primitives::SdkBody;
    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;
    use crate::pace::Gate;

    /// A server that sends the head of an answer, a piece of its body, and no more.
    #[tokio::test]
    async fn a_body_that_stalls_is_an_error_and_the_gate_hears_of_it() {
        let first = Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"first")));
        let frames = stream::iter([first]).chain(stream::pending());
        let bytes = ByteStream::new(SdkBody::from_body_1_x(StreamBody::new(frames)));
        let gate = Gate::new(1, None, Duration::ZERO);
        let permit = gate.enter().await.unwrap();

        let mut body = body(bytes, "b/k".into(), permit, Duration::from_millis(1));

        assert_eq!(body.next().await.unwrap().unwrap(), "first");
        let error = body.next().await.unwrap().unwrap_err();
        assert_eq!((error.kind, &*error.object), (Kind::Down, "b/k"));
        assert!(error.message.contains("no byte came for"), "{error}");
        assert_eq!(gate.unanswered(), 1);
    }
}
