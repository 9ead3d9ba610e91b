//! What each operation answers when nothing goes wrong.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use quick_xml::escape::escape;

use crate::{Bucket, Object, Op, World, listing};

/// A request, taken apart.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) op: Op,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) range: Option<String>,
    /// Body of a PUT, with the headers that describe it.
    pub(crate) object: Option<Object>,
}

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// `Content-Length` where there is no body, as HEAD has it.
    pub(crate) length: Option<usize>,
}

impl Answer {
    fn new(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn xml(text: String) -> Self {
        Self {
            body: text.into(),
            ..Self::new(200).with("content-type", "application/xml")
        }
    }

    /// An error as S3 words it.
    pub(crate) fn error(status: u16, code: &str, message: &str, id: &str) -> Self {
        let parts =
            element("Code", code) + &element("Message", message) + &element("RequestId", id);
        Self {
            status,
            ..Self::xml(format!("<Error>{parts}</Error>"))
        }
    }
}

/// `<name>text</name>`.
pub(crate) fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

/// A date as listings have it.
pub(crate) fn date(time: SystemTime) -> String {
    format_time(time, "%Y-%m-%dT%H:%M:%S.000Z")
}

/// A date as headers have it (RFC 9110).
pub(crate) fn http_date(time: SystemTime) -> String {
    format_time(time, "%a, %d %b %Y %H:%M:%S GMT")
}

fn format_time(time: SystemTime, format: &str) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime(format).to_string()
}

/// Answers `asked`; `id` goes into errors.
pub(crate) fn answer(world: &mut World, asked: &Asked, id: &str) -> Answer {
    if asked.op == Op::ListBuckets {
        return buckets(world);
    }
    if asked.op == Op::CreateBucket {
        world.bucket(&asked.bucket);
        return Answer::new(200);
    }
    let Some(bucket) = world.buckets.get_mut(&asked.bucket) else {
        return Answer::error(404, "NoSuchBucket", "There is no such bucket.", id);
    };
    match asked.op {
        Op::HeadBucket => Answer::new(200),
        Op::ListObjects => Answer::xml(listing::page(&asked.bucket, bucket, &asked.query)),
        Op::PutObject => put(bucket, asked, id),
        Op::DeleteObject => {
            bucket.remove(&asked.key);
            Answer::new(204)
        }
        Op::Other => settings(asked, id),
        _ => match bucket.get(&asked.key) {
            Some(object) => read(asked, &object, id),
            None => Answer::error(404, "NoSuchKey", "The key does not exist.", id),
        },
    }
}

fn buckets(world: &World) -> Answer {
    let mut entries = String::new();
    for name in world.buckets.keys() {
        let created = element("CreationDate", "2024-05-31T00:00:00.000Z");
        entries = entries + "<Bucket>" + &element("Name", name) + &created + "</Bucket>";
    }
    Answer::xml(format!(
        "<ListAllMyBucketsResult><Owner><ID>stub</ID></Owner><Buckets>{entries}</Buckets></ListAllMyBucketsResult>"
    ))
}

/// None of them is set.
fn settings(asked: &Asked, id: &str) -> Answer {
    let asks = |name: &str| asked.query.contains_key(name);
    if asks("versioning") {
        Answer::xml("<VersioningConfiguration/>".into())
    } else if asks("notification") {
        Answer::xml("<NotificationConfiguration/>".into())
    } else if asks("uploads") {
        Answer::xml("<ListMultipartUploadsResult/>".into())
    } else if asks("location") {
        Answer::xml("<LocationConstraint/>".into())
    } else if asks("tagging") {
        Answer::error(404, "NoSuchTagSet", "There are no tags.", id)
    } else if asks("policy") {
        Answer::error(404, "NoSuchBucketPolicy", "There is no policy.", id)
    } else {
        Answer::error(404, "NoSuchConfiguration", "It is not set.", id)
    }
}

fn put(bucket: &mut Bucket, asked: &Asked, id: &str) -> Answer {
    let now = bucket.get(&asked.key);
    let refused = asked.if_none_match.is_some() && now.is_some()
        || asked
            .if_match
            .as_deref()
            .is_some_and(|wanted| !now.as_ref().is_some_and(|now| matches(wanted, now)));
    if refused {
        return Answer::error(412, "PreconditionFailed", "A condition failed.", id);
    }
    let Some(object) = &asked.object else {
        return Answer::error(501, "NotImplemented", "Only plain bodies are taken.", id);
    };
    let etag = object.etag.clone().unwrap_or_default();
    bucket.put(&asked.key, object.clone());
    Answer::new(200).with("etag", format!("\"{etag}\""))
}

fn matches(wanted: &str, object: &Object) -> bool {
    wanted == "*" || object.etag.as_deref() == Some(wanted.trim_matches('"'))
}

fn read(asked: &Asked, object: &Object, id: &str) -> Answer {
    if asked
        .if_match
        .as_deref()
        .is_some_and(|wanted| !matches(wanted, object))
    {
        return Answer::error(412, "PreconditionFailed", "A condition failed.", id);
    }
    match asked.op {
        Op::ObjectTags => {
            let tags: String = object.tags.iter().map(tag).collect();
            Answer::xml(format!("<Tagging><TagSet>{tags}</TagSet></Tagging>"))
        }
        Op::ObjectAttributes => attributes(object),
        Op::HeadObject => head(asked, object),
        _ => get(asked, object),
    }
}

fn tag((key, value): &(String, String)) -> String {
    format!(
        "<Tag>{}{}</Tag>",
        element("Key", key),
        element("Value", value)
    )
}

fn attributes(object: &Object) -> Answer {
    let etag = object.etag.as_deref().map(|etag| element("ETag", etag));
    let mut parts = String::new();
    for (number, size) in (1_u32..).zip(&object.parts) {
        let both = element("PartNumber", &number.to_string()) + &element("Size", &size.to_string());
        parts = parts + "<Part>" + &both + "</Part>";
    }
    if !parts.is_empty() {
        parts = format!("<ObjectParts><IsTruncated>false</IsTruncated>{parts}</ObjectParts>");
    }
    Answer::xml(format!(
        "<GetObjectAttributesResponse>{}{parts}</GetObjectAttributesResponse>",
        etag.unwrap_or_default()
    ))
}

fn described(status: u16, object: &Object) -> Answer {
    let mut answer = Answer::new(status).with("last-modified", http_date(object.modified));
    if let Some(etag) = &object.etag {
        answer = answer.with("etag", format!("\"{etag}\""));
    }
    if let Some(kind) = &object.content_type {
        answer = answer.with("content-type", kind);
    }
    if !object.tags.is_empty() {
        answer = answer.with("x-amz-tagging-count", object.tags.len().to_string());
    }
    for (name, value) in &object.user {
        answer = answer.with(&format!("x-amz-meta-{name}"), value);
    }
    answer
}

fn head(asked: &Asked, object: &Object) -> Answer {
    let number = asked.query.get("partNumber");
    let part = number
        .and_then(|number| number.parse::<usize>().ok())
        .and_then(|number| object.parts.get(number.checked_sub(1)?));
    let mut answer = described(200, object);
    answer.length = Some(object.body.len());
    if let Some(size) = part.and_then(|size| usize::try_from(*size).ok()) {
        answer.length = Some(size);
        answer.status = 206;
        answer = answer.with("x-amz-mp-parts-count", object.parts.len().to_string());
    }
    answer
}

fn get(asked: &Asked, object: &Object) -> Answer {
    let whole = object.body.len();
    let range = asked.range.as_deref().and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first = first.parse::<usize>().ok()?;
        let last = last
            .parse()
            .unwrap_or(usize::MAX)
            .min(whole.checked_sub(1)?);
        (first <= last).then_some((first, last))
    });
    match range {
        None => Answer {
            body: object.body.clone(),
            ..described(200, object)
        },
        Some((first, last)) => Answer {
            body: object.body.slice(first..=last),
            ..described(206, object).with("content-range", format!("bytes {first}-{last}/{whole}"))
        },
    }
}
