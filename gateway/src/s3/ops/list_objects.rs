//! ListObjects and ListObjectsV2.

use filestore_store::{ListEntry, ListPage, ListQuery, ListedObject};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::access::Action;
use crate::auth;
use crate::s3::checksum::{algorithm_dto, kind_dto};
use crate::s3::listing::{Encoding, page_size, parse_token, token};
use crate::s3::{Gateway, request};

/// A page, as both forms need it.
#[derive(Debug, Default)]
struct Listed {
    contents: Vec<Object>,
    prefixes: Vec<CommonPrefix>,
    next: Option<String>,
}

/// One question to the store.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) bucket: String,
    pub(super) prefix: String,
    pub(super) delimiter: Option<String>,
    pub(super) after: Option<String>,
    pub(super) max_keys: usize,
}

impl Question {
    /// Asks the store.
    ///
    /// # Errors
    /// `AccessDenied`, `NoSuchBucket`.
    pub(super) async fn ask(&self, gateway: &Gateway) -> S3Result<ListPage> {
        auth::check(Action::Read, &self.bucket, &self.prefix)?;
        let bucket = request::bucket(&self.bucket)?;
        let query = ListQuery {
            prefix: self.prefix.clone(),
            delimiter: self.delimiter.clone(),
            after: self.after.clone(),
            max_keys: self.max_keys,
        };
        gateway
            .long(move |store| {
                if query.max_keys == 0 {
                    store.head_bucket(&bucket)?;
                    return Ok(ListPage::default());
                }
                store.list(&bucket, &query)
            })
            .await
    }

    /// Names that the answer repeats.
    fn names(&self) -> impl Iterator<Item = &str> {
        [
            Some(self.prefix.as_str()),
            self.delimiter.as_deref(),
            self.after.as_deref(),
        ]
        .into_iter()
        .flatten()
    }

    /// How the answer writes names.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn encoding(
        &self,
        asked: Option<&EncodingType>,
        page: &ListPage,
    ) -> S3Result<Encoding> {
        let listed = page.entries.iter().map(|entry| match entry {
            ListEntry::Object(object) => object.key.as_str(),
            ListEntry::Prefix(prefix) => prefix.as_str(),
        });
        Encoding::choose(asked, self.names().chain(listed))
    }
}

/// An absent and an empty delimiter are the same.
pub(super) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn listed(page: ListPage, encoding: Encoding, owner: Option<&Owner>) -> Listed {
    let mut listed = Listed {
        next: page.next,
        ..Listed::default()
    };
    for entry in page.entries {
        match entry {
            ListEntry::Object(object) => listed.contents.push(content(object, encoding, owner)),
            ListEntry::Prefix(prefix) => listed.prefixes.push(CommonPrefix {
                prefix: Some(encoding.apply(prefix)),
            }),
        }
    }
    listed
}

fn content(object: ListedObject, encoding: Encoding, owner: Option<&Owner>) -> Object {
    Object {
        checksum_algorithm: object
            .checksum
            .map(|(algorithm, _)| vec![algorithm_dto(algorithm)]),
        checksum_type: object.checksum.map(|(_, kind)| kind_dto(kind)),
        e_tag: Some(ETag::Strong(object.etag.as_str().to_owned())),
        key: Some(encoding.apply(object.key)),
        last_modified: Some(object.last_modified.into()),
        owner: owner.cloned(),
        restore_status: None,
        size: i64::try_from(object.size).ok(),
        storage_class: Some(ObjectStorageClass::from_static(
            ObjectStorageClass::STANDARD,
        )),
    }
}

pub(super) async fn list_objects(
    gateway: &Gateway,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let question = Question {
        bucket: input.bucket,
        prefix: input.prefix.unwrap_or_default(),
        delimiter: non_empty(input.delimiter),
        after: non_empty(input.marker),
        max_keys: page_size("max-keys", input.max_keys)?,
    };
    let page = question.ask(gateway).await?;
    let encoding = question.encoding(input.encoding_type.as_ref(), &page)?;
    let owner = gateway.owner();
    let listed = listed(page, encoding, Some(&owner));
    // Without a delimiter the last key is the next marker (ListObjects API reference, NextMarker).
    let next_marker = listed
        .next
        .clone()
        .filter(|_| question.delimiter.is_some())
        .map(|next| encoding.apply(next));
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(question.bucket),
        prefix: Some(encoding.apply(question.prefix)),
        marker: Some(encoding.apply(question.after.unwrap_or_default())),
        max_keys: i32::try_from(question.max_keys).ok(),
        is_truncated: Some(listed.next.is_some()),
        contents: Some(listed.contents),
        common_prefixes: Some(listed.prefixes),
        delimiter: question
            .delimiter
            .map(|delimiter| encoding.apply(delimiter)),
        next_marker,
        encoding_type: encoding.dto(),
        request_charged: None,
    }))
}

pub(super) async fn list_objects_v2(
    gateway: &Gateway,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let start_after = non_empty(input.start_after);
    let continued = match input.continuation_token.as_deref() {
        Some(token) => Some(parse_token(token)?),
        None => None,
    };
    let question = Question {
        bucket: input.bucket,
        prefix: input.prefix.unwrap_or_default(),
        delimiter: non_empty(input.delimiter),
        after: continued.or_else(|| start_after.clone()),
        max_keys: page_size("max-keys", input.max_keys)?,
    };
    let page = question.ask(gateway).await?;
    let encoding = question.encoding(input.encoding_type.as_ref(), &page)?;
    let owner = input.fetch_owner.unwrap_or(false).then(|| gateway.owner());
    let listed = listed(page, encoding, owner.as_ref());
    let key_count = listed.contents.len() + listed.prefixes.len();
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(question.bucket),
        prefix: Some(encoding.apply(question.prefix)),
        max_keys: i32::try_from(question.max_keys).ok(),
        key_count: i32::try_from(key_count).ok(),
        continuation_token: input.continuation_token,
        is_truncated: Some(listed.next.is_some()),
        next_continuation_token: listed.next.as_deref().map(token),
        contents: Some(listed.contents),
        common_prefixes: Some(listed.prefixes),
        delimiter: question
            .delimiter
            .map(|delimiter| encoding.apply(delimiter)),
        encoding_type: encoding.dto(),
        start_after: start_after.map(|name| encoding.apply(name)),
        request_charged: None,
    }))
}
