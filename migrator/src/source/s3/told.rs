//! What MinIO tells in a listing beyond S3: with `metadata=true` ListObjectsV2 shows headers, user
//! metadata and tags of every object (MinIO's `ListObjectsV2M`), as far as the credentials may read
//! them. The SDK does not know these elements, so they are read from the answer beside it.
//!
//! `Expires` is missing there, and an element is called as a client called its metadata, which XML does
//! not always allow: the SDK then sees a part of the page only. So this only ever says which objects to
//! look at, and a page that is no XML is asked for again without.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::AfterDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use filestore_common::{ETag, ObjectMeta, Tags};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::listing::decode;
use crate::s3::S3;

/// Metadata by key, as the key is written in the answer.
type Page = HashMap<String, Box<ObjectMeta>>;

#[derive(Debug, Default)]
struct State {
    page: Page,
    /// An answer was no XML.
    unreadable: bool,
}

impl State {
    fn spoil(&mut self) {
        if !self.unreadable {
            tracing::warn!(
                "The source writes a listing with metadata that is no XML; tags that changed on it without the object are not noticed"
            );
        }
        self.unreadable = true;
    }
}

/// Reads it from each answer that it is given to. Clones share what was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(Arc<Mutex<State>>);

impl Told {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the answers made sense so far; else the listing is asked for without.
    pub(super) fn is_readable(&self) -> bool {
        !self.state().unreadable
    }

    /// What the last answer told of this key.
    pub(super) fn take(&self, key: &str) -> Option<Box<ObjectMeta>> {
        self.state().page.remove(key)
    }
}

/// Whether the server, as far as it has said what it is, tells these.
pub(super) fn by(s3: &S3) -> bool {
    s3.server().is_some_and(|server| server.contains("MinIO"))
}

/// Asks for it.
pub(super) fn ask(request: &mut HttpRequest) {
    let uri = format!("{}&metadata=true", request.uri());
    // What was valid stays so.
    drop(request.set_uri(uri));
}

impl Intercept for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        match response.status().as_u16() {
            200 => {}
            // It could not write its own answer.
            500 => {
                self.state().spoil();
                return Ok(());
            }
            _ => return Ok(()),
        }
        let page = response.body().bytes().and_then(read);
        let mut state = self.state();
        if let (Some(page), Ok(_)) = (page, context.output_or_error()) {
            state.page = page;
        } else {
            state.page.clear();
            state.spoil();
        }
        Ok(())
    }
}

/// Whether XML allows an element of this name (its ASCII part; headers have no other).
fn is_name(name: &[u8]) -> bool {
    let begins = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    name.first().is_some_and(begins) && name.iter().all(goes_on)
}

/// Takes a page apart; `None` when it is no XML.
fn read(page: &[u8]) -> Option<Page> {
    let mut reader = Reader::from_reader(page);
    let mut objects = Page::new();
    // Names of the elements around, without the root.
    let mut path: Vec<String> = Vec::new();
    let mut text = String::new();
    let (mut key, mut meta, mut told) = (String::new(), ObjectMeta::new(ETag::new("")), false);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                if !is_name(start.local_name().as_ref()) {
                    return None;
                }
                path.push(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                text.clear();
            }
            Event::Empty(empty) => {
                let name = empty.local_name();
                if !is_name(name.as_ref()) {
                    return None;
                }
                told |= path.len() == 2 && is_told(name.as_ref());
            }
            Event::Text(more) => text.push_str(&more.xml10_content().ok()?),
            Event::CData(more) => text.push_str(&more.xml10_content().ok()?),
            Event::GeneralRef(reference) => {
                let entity = format!("&{};", reference.decode().ok()?);
                text.push_str(&quick_xml::escape::unescape(&entity).ok()?);
            }
            Event::End(_) => {
                let names: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
                match names.as_slice() {
                    ["Contents"] => {
                        let meta = std::mem::replace(&mut meta, ObjectMeta::new(ETag::new("")));
                        let key = std::mem::take(&mut key);
                        if std::mem::take(&mut told) {
                            objects.insert(key, Box::new(meta));
                        }
                    }
                    ["Contents", "Key"] => key = std::mem::take(&mut text),
                    ["Contents", "UserTags"] => meta.tags = tags(&text),
                    ["Contents", "UserMetadata", name] => field(&mut meta, name, &text),
                    _ => {}
                }
                told |= names.len() == 2 && is_told(names[1].as_bytes());
                text.clear();
                path.pop();
            }
            Event::Eof => return Some(objects),
            _ => {}
        }
    }
}

/// Whether an element is one of those that a plain listing does not have.
fn is_told(element: &[u8]) -> bool {
    matches!(element, b"UserTags" | b"UserMetadata" | b"Internal")
}

fn tags(query: &str) -> Tags {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        })
        .collect()
}

fn field(meta: &mut ObjectMeta, name: &str, value: &str) {
    let name = name.to_ascii_lowercase();
    let headers = &mut meta.headers;
    let header = match name.as_str() {
        "content-type" => &mut headers.content_type,
        "content-encoding" => &mut headers.content_encoding,
        "content-language" => &mut headers.content_language,
        "content-disposition" => &mut headers.content_disposition,
        "cache-control" => &mut headers.cache_control,
        "x-amz-website-redirect-location" => &mut headers.website_redirect_location,
        _ => {
            if let Some(name) = name.strip_prefix("x-amz-meta-") {
                meta.user.insert(name.to_owned(), value.to_owned());
            }
            return;
        }
    };
    *header = Some(value.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_tags_are_read_beside_the_keys() {
        let page = br#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
<Contents><Key>a%2Bb</Key><Size>3</Size><UserMetadata><content-type>text/plain</content-type>
<X-Amz-Meta-Who>Ada &amp; Bob</X-Amz-Meta-Who></UserMetadata>
<UserTags>team=a+b&amp;x=%26</UserTags><Internal><K>1</K><M>0</M></Internal></Contents>
<Contents><Key>plain</Key><Size>1</Size></Contents>
<Contents><Key>bare</Key><Internal><K>1</K><M>0</M></Internal></Contents>
</ListBucketResult>"#;
        let mut read = read(page).unwrap();
        let meta = read.remove("a%2Bb").unwrap();
        assert_eq!(meta.headers.content_type.as_deref(), Some("text/plain"));
        assert_eq!(meta.user.get("who").map(String::as_str), Some("Ada & Bob"));
        let tags = [("team", "a b"), ("x", "&")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(meta.tags, tags);
        let bare = read.remove("bare").unwrap();
        assert!(bare.tags.is_empty() && bare.user.is_empty());
        // Not told is not the same as none.
        assert!(read.is_empty(), "{read:?}");
    }

    #[test]
    fn a_name_that_no_element_may_have_spoils_the_page() {
        for name in ["X-Amz-Meta-a!b", "X-Amz-Meta-a&b", "1", "X-Amz-Meta-a+b"] {
            let page = format!(
                "<ListBucketResult><Contents><Key>k</Key><UserMetadata><{name}>v</{name}>\
                 </UserMetadata></Contents></ListBucketResult>"
            );
            assert!(read(page.as_bytes()).is_none(), "{name}");
        }
    }
}
