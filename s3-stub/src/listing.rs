//! ListObjectsV2, and how it goes wrong.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::answer::{date, element};
use crate::{Bucket, Object};

/// How a listing goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listing {
    /// Not at all.
    #[default]
    Orderly,
    /// The last two keys of every page are swapped.
    Unordered,
    /// Every page but the first begins with the last key of the page before.
    Repeats,
    /// Every page names the token that it was asked with.
    SameToken,
    /// The page behind the second one is the first one again, for ever.
    Loops,
    /// More follows, but there is no token.
    NoToken,
    /// No page says whether more follows.
    Undecided,
    /// Pages hold a key less than they say.
    Short,
    /// The first page says that nothing follows, although something does.
    EndsEarly,
    /// The XML of every page but the first breaks off.
    CutXml,
}

/// What `encoding-type=url` leaves as it is.
const URL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'*')
    .remove(b'/');

/// The token of the first page, which no server would give.
const BEGINNING: &str = "00";

/// The page that `query` asks for, as XML.
pub(crate) fn page(name: &str, bucket: &Bucket, query: &BTreeMap<String, String>) -> String {
    let text = |name: &str| query.get(name).map_or("", String::as_str);
    let most = text("max-keys").parse().unwrap_or(1000).min(1000);
    let token = text("continuation-token");
    // Tokens are the last key in hexadecimal: opaque, and free of anything that XML cannot hold.
    let after = hex::decode(token)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_default();
    let after = if token.is_empty() {
        text("start-after")
    } else {
        &after
    };
    let (mut entries, mut more) = bucket.after(after, text("prefix"), most);
    let mut next = entries.last().map(|(key, _)| hex::encode(key));
    let mut count = entries.len();
    match bucket.listing {
        Listing::Unordered if count >= 2 => entries.swap(count - 1, count - 2),
        Listing::Repeats => {
            if let Some(object) = bucket.get(after).filter(|_| !token.is_empty()) {
                entries.insert(0, (after.to_owned(), object));
                count += 1;
            }
        }
        Listing::SameToken if !token.is_empty() => {
            (more, next) = (true, Some(token.to_owned()));
        }
        Listing::Loops if !token.is_empty() && token != BEGINNING => {
            (more, next) = (true, Some(BEGINNING.to_owned()));
        }
        Listing::NoToken => next = None,
        Listing::Short => drop(entries.pop()),
        Listing::EndsEarly => more = false,
        // What goes wrong with these is not in the keys, or not on this page.
        Listing::Orderly
        | Listing::Undecided
        | Listing::CutXml
        | Listing::Unordered
        | Listing::SameToken
        | Listing::Loops => {}
    }
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    xml.push_str(&element("Name", name));
    xml.push_str(&element("KeyCount", &count.to_string()));
    xml.push_str(&element("MaxKeys", &most.to_string()));
    let encode = text("encoding-type") == "url";
    if encode {
        xml.push_str(&element("EncodingType", "url"));
    }
    if bucket.listing != Listing::Undecided {
        xml.push_str(&element("IsTruncated", if more { "true" } else { "false" }));
    }
    if let Some(next) = next.filter(|_| more) {
        xml.push_str(&element("NextContinuationToken", &next));
    }
    for (key, object) in &entries {
        entry(&mut xml, key, object, encode);
    }
    if bucket.listing == Listing::CutXml && !token.is_empty() {
        xml.push_str("<Contents><Key>brea");
        return xml;
    }
    xml.push_str("</ListBucketResult>");
    xml
}

fn entry(xml: &mut String, key: &str, object: &Object, encode: bool) {
    xml.push_str("<Contents>");
    if encode {
        let key = utf8_percent_encode(key, URL).to_string();
        xml.push_str(&element("Key", &key.replace("%20", "+")));
    } else {
        xml.push_str(&element("Key", key));
    }
    xml.push_str(&element("LastModified", &date(object.modified)));
    if let Some(etag) = &object.etag {
        xml.push_str(&element("ETag", &format!("\"{etag}\"")));
    }
    xml.push_str(&element("Size", &object.body.len().to_string()));
    xml.push_str("<StorageClass>STANDARD</StorageClass></Contents>");
}
