//! Writing one object over S3 with everything that belongs to it.

use std::sync::Arc;

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Tag, Tagging};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use bytes::Bytes;
use filestore_common::{BucketName, ContentHeaders, ETag, ObjectInfo, ObjectKey, Tags};
use futures::{StreamExt, stream};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::Mutex;

use crate::s3::{S3, patient};
use crate::source::{Body, Bucket, Object};
use crate::target::Expect;
use crate::{Error, Kind, Result};

/// Largest body of one PutObject (S3 user guide, "Amazon S3 multipart upload limits").
const MAX_PUT_BYTES: u64 = 5 << 30;
/// Part size where the source does not dictate one.
const OWN_PART_BYTES: u64 = 64 << 20;
/// What stays as it is in a query string (RFC 3986, unreserved).
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// One object to write.
pub(super) struct Put<'a> {
    pub(super) s3: &'a S3,
    pub(super) bucket: &'a BucketName,
    pub(super) key: &'a ObjectKey,
    pub(super) name: &'a str,
    pub(super) expect: &'a Expect,
}

/// Makes the bucket's tags equal.
pub(super) async fn bucket_tags(s3: &S3, bucket: &Bucket) -> Result<()> {
    if bucket.tags.is_empty() {
        return Ok(());
    }
    let name = bucket.name.as_str();
    let tags: Result<Vec<Tag>, _> = bucket
        .tags
        .iter()
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect();
    let tagging = tags.and_then(|tags| Tagging::builder().set_tag_set(Some(tags)).build());
    let tagging = tagging
        .map_err(|error| Error::new(Kind::Unnameable, "tag bucket", name, error.to_string()))?;
    s3.call("tag bucket", name, |client| {
        client
            .put_bucket_tagging()
            .bucket(name)
            .tagging(tagging.clone())
            .send()
    })
    .await
    .map(drop)
}

fn query_form(tags: &Tags) -> Option<String> {
    let encode = |text: &str| utf8_percent_encode(text, QUERY).to_string();
    let pairs: Vec<String> = tags
        .iter()
        .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

fn length(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Headers that the SDK has no field for, or whose text it would change.
fn raw_headers(info: &ObjectInfo, import: bool) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if let Some(expires) = &info.meta.headers.expires {
        headers.push(("expires", expires.clone()));
    }
    if import {
        headers.push(("x-filestore-import-etag", info.meta.etag.quoted()));
        let modified = jiff::Timestamp::try_from(info.last_modified).unwrap_or_default();
        headers.push(("x-filestore-import-last-modified", modified.to_string()));
        if !info.meta.part_sizes.is_empty() {
            let sizes: Vec<String> = info.meta.part_sizes.iter().map(u64::to_string).collect();
            headers.push(("x-filestore-import-part-sizes", sizes.join(",")));
        }
    }
    headers
}

fn add_headers(request: &mut HttpRequest, headers: &[(&'static str, String)]) {
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.clone());
    }
}

impl Put<'_> {
    fn conditions(&self) -> (Option<String>, Option<String>) {
        match self.expect {
            Expect::Any => (None, None),
            Expect::Absent => (None, Some("*".into())),
            Expect::Same(etag) => (
                Some(etag.as_ref().map_or_else(|| "*".into(), ETag::quoted)),
                None,
            ),
        }
    }

    /// To our own gateway.
    pub(super) async fn import(&self, object: Object) -> Result<()> {
        self.single(object, true).await.map(drop)
    }

    /// To any other server.
    pub(super) async fn foreign(&self, object: Object) -> Result<()> {
        let expected = object.info.meta.etag.clone();
        let layout = layout(&object.info);
        let found = match layout {
            None => self.single(object, false).await?,
            Some(sizes) => self.parts(object, &sizes).await?,
        };
        match found {
            // The server computed another digest from what arrived there.
            Some(found) if expected.is_md5() && found.is_md5() && found != expected => {
                let problem = format!("arrived with ETag {found}, sent was {expected}");
                Err(Error::new(Kind::Damaged, "put", self.name, problem))
            }
            _ => Ok(()),
        }
    }

    async fn single(&self, object: Object, import: bool) -> Result<Option<ETag>> {
        let info = object.info;
        let headers = raw_headers(&info, import);
        let (if_match, if_none_match) = self.conditions();
        let ContentHeaders {
            content_type,
            content_encoding,
            content_language,
            content_disposition,
            cache_control,
            expires: _,
            website_redirect_location,
        } = info.meta.headers.clone();
        let user = info.meta.user.clone().into_iter().collect();
        let answer = self
            .s3
            .upload("put", self.name, object.body, |client, body| {
                client
                    .put_object()
                    .bucket(self.bucket.as_str())
                    .key(self.key.as_str())
                    .set_content_type(content_type)
                    .set_content_encoding(content_encoding)
                    .set_content_language(content_language)
                    .set_content_disposition(content_disposition)
                    .set_cache_control(cache_control)
                    .set_website_redirect_location(website_redirect_location)
                    .set_metadata(Some(user))
                    .set_tagging(query_form(&info.meta.tags))
                    .set_if_match(if_match)
                    .set_if_none_match(if_none_match)
                    .content_length(length(info.size))
                    .body(body)
                    .customize()
                    .config_override(patient())
                    .disable_payload_signing()
                    .mutate_request(move |request| add_headers(request, &headers))
                    .send()
            })
            .await?;
        Ok(answer.e_tag().map(ETag::new))
    }

    async fn parts(&self, object: Object, sizes: &[u64]) -> Result<Option<ETag>> {
        let upload = self.create_upload(&object.info).await?;
        let body = Arc::new(Mutex::new(Splitter {
            body: object.body,
            rest: Bytes::new(),
        }));
        match self.upload(&upload, body, sizes).await {
            Ok(etag) => Ok(etag),
            Err(error) => {
                let aborted = self
                    .s3
                    .attempt("abort upload", self.name, |client| {
                        client
                            .abort_multipart_upload()
                            .bucket(self.bucket.as_str())
                            .key(self.key.as_str())
                            .upload_id(&upload)
                            .send()
                    })
                    .await;
                if let Err(error) = aborted {
                    tracing::warn!(%error, "An unfinished upload stays on the target");
                }
                Err(error)
            }
        }
    }

    async fn create_upload(&self, info: &ObjectInfo) -> Result<String> {
        let headers = raw_headers(info, false);
        let fields = &info.meta.headers;
        let answer = self
            .s3
            .call("put", self.name, |client| {
                let headers = headers.clone();
                client
                    .create_multipart_upload()
                    .bucket(self.bucket.as_str())
                    .key(self.key.as_str())
                    .set_content_type(fields.content_type.clone())
                    .set_content_encoding(fields.content_encoding.clone())
                    .set_content_language(fields.content_language.clone())
                    .set_content_disposition(fields.content_disposition.clone())
                    .set_cache_control(fields.cache_control.clone())
                    .set_website_redirect_location(fields.website_redirect_location.clone())
                    .set_metadata(Some(info.meta.user.clone().into_iter().collect()))
                    .set_tagging(query_form(&info.meta.tags))
                    .customize()
                    .mutate_request(move |request| add_headers(request, &headers))
                    .send()
            })
            .await?;
        answer
            .upload_id
            .ok_or_else(|| Error::new(Kind::Other, "put", self.name, "the answer has no upload id"))
    }

    async fn upload(
        &self,
        upload: &str,
        body: Arc<Mutex<Splitter>>,
        sizes: &[u64],
    ) -> Result<Option<ETag>> {
        let mut done = Vec::with_capacity(sizes.len());
        for (number, size) in (1_i32..).zip(sizes) {
            let part = Splitter::take(body.clone(), *size);
            let answer = self
                .s3
                .upload("put", self.name, part, |client, part| {
                    client
                        .upload_part()
                        .bucket(self.bucket.as_str())
                        .key(self.key.as_str())
                        .upload_id(upload)
                        .part_number(number)
                        .content_length(length(*size))
                        .body(part)
                        .customize()
                        .config_override(patient())
                        .disable_payload_signing()
                        .send()
                })
                .await?;
            let part = CompletedPart::builder()
                .part_number(number)
                .set_e_tag(answer.e_tag)
                .build();
            done.push(part);
        }
        Splitter::finish(&body, self.name).await?;
        let (if_match, if_none_match) = self.conditions();
        let completed = CompletedMultipartUpload::builder()
            .set_parts(Some(done))
            .build();
        let answer = self
            .s3
            .call("put", self.name, |client| {
                client
                    .complete_multipart_upload()
                    .bucket(self.bucket.as_str())
                    .key(self.key.as_str())
                    .upload_id(upload)
                    .set_if_match(if_match.clone())
                    .set_if_none_match(if_none_match.clone())
                    .multipart_upload(completed.clone())
                    .send()
            })
            .await?;
        Ok(answer.e_tag().map(ETag::new))
    }
}

/// In which parts an object goes to a foreign server; `None` = in one PutObject.
fn layout(info: &ObjectInfo) -> Option<Vec<u64>> {
    if info.meta.etag.part_count().is_some() && !info.meta.part_sizes.is_empty() {
        return Some(info.meta.part_sizes.clone());
    }
    if info.size <= MAX_PUT_BYTES {
        return None;
    }
    let full = usize::try_from(info.size / OWN_PART_BYTES).unwrap_or(usize::MAX);
    let rest = info.size % OWN_PART_BYTES;
    let mut sizes = vec![OWN_PART_BYTES; full];
    sizes.extend(Some(rest).filter(|rest| *rest > 0));
    Some(sizes)
}

/// Cuts one body into parts, in order, without holding a part in memory.
struct Splitter {
    body: Body,
    rest: Bytes,
}

impl Splitter {
    async fn next(&mut self, most: u64) -> Result<Option<Bytes>> {
        if self.rest.is_empty() {
            match self.body.next().await.transpose()? {
                Some(chunk) => self.rest = chunk,
                None => return Ok(None),
            }
        }
        let most = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(self.rest.len());
        Ok(Some(self.rest.split_to(most)))
    }

    fn take(shared: Arc<Mutex<Self>>, size: u64) -> Body {
        stream::try_unfold((shared, size), |(shared, left)| async move {
            if left == 0 {
                return Ok(None);
            }
            let chunk = shared.lock().await.next(left).await?;
            Ok(chunk.map(|chunk| {
                let left = left - chunk.len() as u64;
                (chunk, (shared, left))
            }))
        })
        .boxed()
    }

    /// The body must have come to its checked end before the upload is completed.
    async fn finish(shared: &Mutex<Self>, name: &str) -> Result<()> {
        match shared.lock().await.next(1).await? {
            None => Ok(()),
            Some(_) => Err(Error::new(
                Kind::Damaged,
                "put",
                name,
                "body is longer than its parts",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_a_query_string() {
        let tags = vec![
            ("a b".to_owned(), "1&2".to_owned()),
            ("é".to_owned(), String::new()),
        ];
        assert_eq!(query_form(&tags).as_deref(), Some("a%20b=1%262&%C3%A9="));
        assert_eq!(query_form(&Tags::new()), None);
    }

    #[tokio::test]
    async fn a_body_is_cut_into_parts_whatever_its_chunks() {
        let chunks = ["abc", "d", "efgh"].map(|text| Ok(Bytes::from_static(text.as_bytes())));
        let body = stream::iter(chunks).boxed();
        let shared = Arc::new(Mutex::new(Splitter {
            body,
            rest: Bytes::new(),
        }));
        let mut parts = Vec::new();
        for size in [2, 3, 3] {
            let part = Splitter::take(shared.clone(), size);
            let chunks: Vec<_> = part.map(Result::unwrap).collect().await;
            parts.push(String::from_utf8(chunks.concat()).unwrap());
        }
        assert_eq!(parts, ["ab", "cde", "fgh"]);
        Splitter::finish(&shared, "b/k").await.unwrap();
    }
}
