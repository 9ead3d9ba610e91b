//! ListObjectsV2 as an ordered stream. Every page is cross-checked: a listing that may be
//! incomplete must end in an error, because absence in it can lead to a delete.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::EncodingType;
use filestore_common::{BucketName, ETag, ObjectKey};
use futures::{StreamExt, stream};
use percent_encoding::percent_decode_str;

use super::known;
use super::told::{self, Told};
use crate::s3::S3;
use crate::scope::Keys;
use crate::source::{Entry, Left, Listed, Listing, Reason};
use crate::{Error, Kind, Result};

struct State {
    s3: Arc<S3>,
    bucket: BucketName,
    keys: Keys,
    token: Option<String>,
    ready: VecDeque<Listed>,
    ended: bool,
    /// Reads metadata from the answers of a server that tells it.
    told: Option<Told>,
}

/// The current objects of `bucket` that `keys` takes.
pub(crate) fn list(s3: Arc<S3>, bucket: BucketName, keys: Keys) -> Listing {
    let state = State {
        told: (keys.full && told::by(&s3)).then(Told::default),
        s3,
        bucket,
        keys,
        token: None,
        ready: VecDeque::new(),
        ended: false,
    };
    stream::try_unfold(state, |mut state| async move {
        loop {
            if let Some(item) = state.ready.pop_front() {
                return Ok(Some((item, state)));
            }
            if state.ended {
                return Ok(None);
            }
            state.page().await?;
        }
    })
    .boxed()
}

impl State {
    /// Asks for the next page.
    async fn fetch(&self) -> Result<ListObjectsV2Output> {
        let bucket = self.bucket.as_str();
        let token = &self.token;
        let prefix = Some(&self.keys.span.prefix).filter(|prefix| !prefix.is_empty());
        let after = self.keys.span.after.as_ref().filter(|_| token.is_none());
        loop {
            let told = self.told.clone().filter(Told::is_readable);
            let page = self
                .s3
                .call("list", bucket, |client| {
                    let request = client
                        .list_objects_v2()
                        .bucket(bucket)
                        .encoding_type(EncodingType::Url)
                        .set_prefix(prefix.cloned())
                        .set_start_after(after.cloned())
                        .set_continuation_token(token.clone());
                    let told = told.clone().filter(Told::is_readable);
                    async move {
                        match told {
                            Some(told) => {
                                let request = request.customize().interceptor(told);
                                request.mutate_request(told::ask).send().await
                            }
                            None => request.send().await,
                        }
                    }
                })
                .await?;
            // Of a page that is no XML the SDK may have seen a part.
            if told.is_none_or(|told| told.is_readable()) {
                return Ok(page);
            }
        }
    }

    async fn page(&mut self) -> Result<()> {
        let page = self.fetch().await?;
        let bucket = self.bucket.as_str();
        let next = next_token(&page, self.token.as_deref())
            .map_err(|problem| Error::new(Kind::Listing, "list", bucket, problem))?;
        self.ended = next.is_none();
        self.token = next;
        let encoded = page.encoding_type == Some(EncodingType::Url);
        for object in page.contents.unwrap_or_default() {
            let raw = object.key.unwrap_or_default();
            let size = object.size.and_then(|size| u64::try_from(size).ok());
            let modified = object
                .last_modified
                .and_then(|date| SystemTime::try_from(date).ok());
            let (Some(size), Some(last_modified)) = (size, modified) else {
                let problem = format!("{raw:?} has no size or date");
                return Err(Error::new(Kind::Listing, "list", bucket, problem));
            };
            let key = if encoded {
                decode(&raw)
            } else {
                Some(raw.clone())
            };
            let Some(key) = key.and_then(|key| ObjectKey::new(key).ok()) else {
                let name = format!("{bucket}/{raw}");
                let left = Left::new(Reason::Unnameable, name, 1);
                self.ready.push_back(Listed::Left(left));
                continue;
            };
            if self.keys.span.ends_before(key.as_str()) {
                self.ended = true;
                continue;
            }
            if !self.keys.takes(key.as_str()) {
                continue;
            }
            if self.ended && self.token.is_some() {
                // Reading on would be in vain in an ordered listing, and this one is not.
                let problem = format!("{:?} is out of order", key.as_str());
                return Err(Error::new(Kind::Listing, "list", bucket, problem));
            }
            self.ready.push_back(Listed::Object(Entry {
                key,
                size,
                etag: object.e_tag.and_then(|etag| known(ETag::new(etag))),
                last_modified,
                meta: self.told.as_ref().and_then(|told| told.take(&raw)),
                hidden: false,
            }));
        }
        Ok(())
    }
}

/// The token of the next page, `None` at the proper end.
fn next_token(page: &ListObjectsV2Output, current: Option<&str>) -> Result<Option<String>, String> {
    let received = page.contents().len();
    if let Some(count) = page.key_count
        && usize::try_from(count) != Ok(received + page.common_prefixes().len())
    {
        return Err(format!("a page of {count} keys came with {received}"));
    }
    match (page.is_truncated, page.next_continuation_token()) {
        (None, _) => Err("the answer does not say whether more follows".into()),
        (Some(false), _) => Ok(None),
        (Some(true), None | Some("")) => Err("more follows but there is no token".into()),
        (Some(true), Some(next)) if Some(next) == current => {
            Err("the same page would come again".into())
        }
        (Some(true), Some(next)) => Ok(Some(next.to_owned())),
    }
}

/// Undoes `encoding-type=url`: percent encoding with `+` for a space (S3 API, ListObjectsV2).
pub(super) fn decode(raw: &str) -> Option<String> {
    let spaced = raw.replace('+', " ");
    percent_decode_str(&spaced)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded_once() {
        for (raw, key) in [
            ("a%2Bb", "a+b"),
            ("a+b", "a b"),
            ("a%20b", "a b"),
            ("a%2520b", "a%20b"),
            ("a%252Fb", "a%2Fb"),
            ("dir/100%25", "dir/100%"),
            ("ctl%08%0D", "ctl\u{8}\r"),
            ("caf%C3%A9", "café"),
        ] {
            assert_eq!(decode(raw).as_deref(), Some(key), "{raw}");
        }
        assert_eq!(decode("%FF"), None);
    }

    #[test]
    fn pages_that_may_hide_keys_are_refused() {
        let page = || ListObjectsV2Output::builder().is_truncated(true);
        let more = page().next_continuation_token("t2").build();
        assert_eq!(next_token(&more, Some("t1")), Ok(Some("t2".into())));
        let last = ListObjectsV2Output::builder().is_truncated(false).build();
        assert_eq!(next_token(&last, Some("t1")), Ok(None));
        for broken in [
            page().build(),
            page().next_continuation_token("t1").build(),
            ListObjectsV2Output::builder().build(),
            ListObjectsV2Output::builder()
                .is_truncated(false)
                .key_count(3)
                .build(),
        ] {
            assert!(next_token(&broken, Some("t1")).is_err(), "{broken:?}");
        }
    }
}
