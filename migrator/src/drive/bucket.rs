//! Buckets and their settings (`.minio.sys/buckets/<bucket>/.metadata.bin`).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use filestore_common::{BucketName, Tags};
use quick_xml::Reader;
use quick_xml::events::Event;
use sha2::{Digest, Sha256};

use super::error::{Damaged, Result};
use super::msgp::Msgp;

/// A bucket of the drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveBucket {
    /// Name.
    pub name: BucketName,
    /// Creation date; when the settings are gone or unreadable, when its directory last changed.
    pub created: SystemTime,
    /// Tags; empty when there are none.
    pub tags: Tags,
    /// Settings that were made and do not travel, by their S3 name (`policy`, `lifecycle`, …), with
    /// a SHA-256 over what they say; empty where it was not read.
    pub settings: BTreeMap<&'static str, Vec<u8>>,
    /// Why the settings could not be read.
    pub damage: Option<String>,
}

/// Field of `.metadata.bin` and what S3 calls it; `TaggingConfigXML` travels.
const SETTINGS: [(&[u8], &str); 11] = [
    (b"PolicyConfigJSON", "policy"),
    (b"NotificationConfigXML", "notification"),
    (b"LifecycleConfigXML", "lifecycle"),
    (b"ObjectLockConfigXML", "object lock"),
    (b"VersioningConfigXML", "versioning"),
    (b"EncryptionConfigXML", "encryption"),
    (b"QuotaConfigJSON", "quota"),
    (b"ReplicationConfigXML", "replication"),
    (b"BucketTargetsConfigJSON", "replication targets"),
    (b"CorsConfigXML", "CORS"),
    (b"WebsiteConfigXML", "website"),
];

/// Files that releases before `.metadata.bin` kept beside it.
pub(super) const OLD_FILES: [(&str, &str); 8] = [
    ("policy.json", "policy"),
    ("notification.xml", "notification"),
    ("lifecycle.xml", "lifecycle"),
    ("object-lock.xml", "object lock"),
    ("bucket-encryption.xml", "encryption"),
    ("quota.json", "quota"),
    ("replication.xml", "replication"),
    ("tagging.xml", "tagging"),
];

impl DriveBucket {
    pub(super) fn new(name: BucketName, created: SystemTime) -> Self {
        Self {
            name,
            created,
            tags: Tags::new(),
            settings: BTreeMap::new(),
            damage: None,
        }
    }

    /// Adds what the body of `.metadata.bin` says.
    pub(super) fn add_settings(&mut self, body: &[u8]) -> Result<(), Damaged> {
        let Some(map) = body.strip_prefix(&[1, 0, 1, 0]) else {
            return Err(Damaged::new("its settings have an unknown version"));
        };
        Msgp::new(map).map(|field, value| {
            match field {
                b"Created" => self.created = date(value.time()?).unwrap_or(self.created),
                b"LockEnabled" => {
                    if value.bool()? {
                        self.add("object lock", &[]);
                    }
                }
                b"TaggingConfigXML" => self.tags = tags(value.bytes()?)?,
                _ => match SETTINGS.iter().find(|(name, _)| *name == field) {
                    Some((_, setting)) => {
                        let document = value.bytes()?;
                        if is_made(document) {
                            self.add(setting, document);
                        }
                    }
                    None => value.skip()?,
                },
            }
            Ok(())
        })
    }

    pub(super) fn add(&mut self, setting: &'static str, document: &[u8]) {
        let digest = self.settings.entry(setting).or_default();
        if !document.is_empty() {
            *digest = Sha256::digest(document).to_vec();
        }
    }
}

/// Times of year 1 (Go's zero) and before 1970 are no creation dates.
fn date(nanos: i128) -> Option<SystemTime> {
    let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0)?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos))
}

/// Whether a document says anything: a setting that was taken back may leave an empty one.
fn is_made(document: &[u8]) -> bool {
    let document = document.trim_ascii();
    match document.first() {
        None => false,
        Some(b'<') => has_children(document),
        Some(_) => !matches!(document, b"{}" | b"[]" | b"null"),
    }
}

/// Whether the root element has any child element; what is no XML counts as said.
fn has_children(document: &[u8]) -> bool {
    let mut reader = Reader::from_reader(document);
    let mut elements = 0;
    loop {
        match reader.read_event() {
            Ok(Event::Start(_) | Event::Empty(_)) => {
                elements += 1;
                if elements > 1 {
                    return true;
                }
            }
            Ok(Event::Eof) => return false,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
}

/// `Tag` elements of S3's `Tagging` document.
fn tags(document: &[u8]) -> Result<Tags, Damaged> {
    let wrong = |error: &dyn std::fmt::Display| Damaged::new(format!("its tags: {error}"));
    let mut reader = Reader::from_reader(document);
    let mut tags = Tags::new();
    let (mut key, mut value, mut text) = (None, None, String::new());
    loop {
        match reader.read_event().map_err(|error| wrong(&error))? {
            Event::Start(_) => text.clear(),
            Event::Text(more) => {
                text.push_str(&more.xml10_content().map_err(|error| wrong(&error))?);
            }
            Event::CData(more) => {
                text.push_str(&more.xml10_content().map_err(|error| wrong(&error))?);
            }
            Event::GeneralRef(reference) => {
                let name = reference.decode().map_err(|error| wrong(&error))?;
                let entity = format!("&{name};");
                text.push_str(
                    &quick_xml::escape::unescape(&entity).map_err(|error| wrong(&error))?,
                );
            }
            Event::End(end) => match end.local_name().as_ref() {
                b"Key" => key = Some(std::mem::take(&mut text)),
                b"Value" => value = Some(std::mem::take(&mut text)),
                b"Tag" => {
                    if let Some(key) = key.take() {
                        tags.push((key, value.take().unwrap_or_default()));
                    }
                }
                _ => {}
            },
            Event::Eof => return Ok(tags),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_are_read_with_their_entities() {
        let document = br#"<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>
            <Tag><Key>team</Key><Value>a &amp; &#x3c;b&gt;</Value></Tag>
            <Tag><Key>empty</Key><Value></Value></Tag><Tag><Value/><Key>k</Key></Tag>
            </TagSet></Tagging>"#;

        assert_eq!(
            tags(document).unwrap(),
            [
                ("team".into(), "a & <b>".into()),
                ("empty".into(), String::new()),
                ("k".into(), String::new())
            ]
        );
    }

    #[test]
    fn empty_documents_are_no_settings() {
        for empty in [
            "",
            " ",
            "{}",
            "null",
            "<NotificationConfiguration></NotificationConfiguration>",
        ] {
            assert!(!is_made(empty.as_bytes()), "{empty}");
        }
        for made in ["{\"quota\":1}", "<L><Rule/></L>", "<unclosed", "x"] {
            assert!(is_made(made.as_bytes()), "{made}");
        }
    }

    proptest! {
        #[test]
        fn any_settings_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bucket = DriveBucket::new(BucketName::new("abc").unwrap(), SystemTime::UNIX_EPOCH);
            drop(bucket.add_settings(&[&[1, 0, 1, 0], &bytes[..]].concat()));
            drop(tags(&bytes));
        }
    }
}
