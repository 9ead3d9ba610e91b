//! The two forms of metadata: read in the one, written in the other, or removed.

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::Stat;

use super::walk::{self, Item};
use super::{Phase, Progress};
use crate::attributes::{AttributeSet, json, xattr};
use crate::dir::Dir;
use crate::layout::attribute::{self, is_bucket_metadata, is_metadata};
use crate::multipart::forms::{Claimed, PartFile};
use crate::path::{hash_dir, hash_name};
use crate::query::MetadataMode;
use crate::sidecar::{self, Record};
use crate::volume::{Devices, Volume};
use crate::{Error, Result, layout};

/// Metadata of an item; of a key beside the tree with the key, of an upload with its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) attributes: AttributeSet,
    pub(super) parts: Vec<PartFile>,
}

/// The mode that is not `mode`.
pub(super) fn other(mode: MetadataMode) -> MetadataMode {
    match mode {
        MetadataMode::Xattr => MetadataMode::Sidecar,
        MetadataMode::Sidecar => MetadataMode::Xattr,
    }
}

/// What the form of `mode` says of an item. Nothing of a directory that is no object, and of what
/// was put there by hand.
pub(super) fn read(volume: &Volume, mode: MetadataMode, item: &Item<'_>) -> Result<Metadata> {
    let mut metadata = Metadata::default();
    metadata.attributes = match (item, mode) {
        (Item::Bucket { dir, .. }, MetadataMode::Xattr) => {
            xattr::read(dir)?.filtered(is_bucket_metadata)
        }
        (Item::Bucket { bucket, .. }, MetadataMode::Sidecar) => {
            sidecar::read_bucket(&volume.meta, bucket)?.unwrap_or_default()
        }
        (Item::Object { file, .. }, MetadataMode::Xattr) => {
            let set = xattr::read(file)?.filtered(is_metadata);
            let is_object = !item.is_directory() || set.get(attribute::ETAG).is_some();
            if is_object {
                set
            } else {
                AttributeSet::default()
            }
        }
        (
            Item::Object {
                bucket, key, stat, ..
            },
            MetadataMode::Sidecar,
        ) => volume
            .record(bucket, key, stat)?
            .map(|record| record.attributes)
            .unwrap_or_default(),
        (Item::Overflow { file, .. }, MetadataMode::Xattr) => {
            xattr::read(file)?.filtered(is_metadata)
        }
        (
            Item::Overflow {
                bucket, hash, stat, ..
            },
            MetadataMode::Sidecar,
        ) => match volume.record_by_name(bucket, hash, stat)? {
            Some(record) => {
                let mut set = record.attributes;
                set.set(attribute::KEY, record.key);
                set
            }
            None => AttributeSet::default(),
        },
        (Item::Upload { upload, .. }, _) => {
            metadata.parts = upload.parts(mode)?;
            upload.attributes(mode)?
        }
    };
    Ok(metadata)
}

/// Writes metadata in the form of `mode`, beside the form in use and in place of what an earlier
/// attempt left.
pub(super) fn write(
    volume: &Volume,
    mode: MetadataMode,
    item: &Item<'_>,
    metadata: &Metadata,
) -> Result<()> {
    let set = &metadata.attributes;
    match (item, mode) {
        (Item::Bucket { dir, .. }, MetadataMode::Xattr) => {
            xattr::make_exact(dir, set, is_bucket_metadata)
        }
        (Item::Bucket { bucket, .. }, MetadataMode::Sidecar) => {
            if set.is_empty() {
                return Ok(());
            }
            let dir = records(volume, bucket, None)?;
            json::write(&dir, layout::BUCKET_META_FILE, set, false)
        }
        (Item::Object { file, .. } | Item::Overflow { file, .. }, MetadataMode::Xattr) => {
            xattr::make_exact(file, set, is_metadata)
        }
        (
            Item::Object {
                bucket, key, stat, ..
            },
            MetadataMode::Sidecar,
        ) => {
            // Put there by hand: no record says the same.
            if set.is_empty() {
                return Ok(());
            }
            put_record(volume, bucket, key, stat, set.clone())
        }
        (Item::Overflow { bucket, stat, .. }, MetadataMode::Sidecar) => {
            let key = set.text(attribute::KEY).map(ObjectKey::new);
            match key {
                Some(Ok(key)) => {
                    let mut set = set.clone();
                    set.remove(attribute::KEY);
                    put_record(volume, bucket, &key, stat, set)
                }
                // Nobody can ask for it in the other mode either.
                _ => Ok(()),
            }
        }
        (Item::Upload { upload, .. }, _) => {
            for part in &metadata.parts {
                upload.put_part(mode, part)?;
            }
            upload.put_attributes(mode, set)
        }
    }
}

fn put_record(
    volume: &Volume,
    bucket: &BucketName,
    key: &ObjectKey,
    stat: &Stat,
    set: AttributeSet,
) -> Result<()> {
    let hash = hash_name(key.as_str());
    let dir = records(volume, bucket, Some(&hash))?;
    let record = Record::new(bucket, key, stat, set);
    json::write(&dir, &format!("{hash}.json"), &record, false)
}

/// The directory of a bucket's records, or of those whose hash begins alike.
fn records(volume: &Volume, bucket: &BucketName, hash: Option<&str>) -> Result<Dir> {
    let io = |error| Error::io("make the directory of records", error);
    if let Some(hash) = hash
        && let Ok(dir) = volume.meta.open_dir(&hash_dir(bucket, hash))
    {
        return Ok(dir);
    }
    let parent = volume.meta.open_or_make_dir(bucket.as_str()).map_err(io)?;
    match hash {
        Some(hash) => parent.open_or_make_dir(&hash[..2]).map_err(io),
        None => Ok(parent),
    }
}

/// Removes all metadata in the form of `mode`, which is not the one in use. Returns the file
/// systems where it was.
pub(super) fn clear(
    volume: &Volume,
    mode: MetadataMode,
    progress: &mut Progress<'_>,
) -> Result<Devices> {
    if mode == MetadataMode::Sidecar {
        for dir in [&volume.meta, &volume.intents] {
            let entries = dir.entries();
            for (name, _) in entries.map_err(|error| Error::io("list records", error))? {
                dir.remove_tree(&name)
                    .map_err(|error| Error::io("remove records", error))?;
                progress(Phase::Clearing);
            }
        }
    }
    walk::walk(volume, Claimed::Recover, &mut |item| {
        match (item, mode) {
            (Item::Upload { upload, .. }, _) => upload.clear(mode)?,
            (_, MetadataMode::Sidecar) => return Ok(()),
            (Item::Bucket { dir, .. }, MetadataMode::Xattr) => {
                xattr::strip(dir, is_bucket_metadata)?;
            }
            (Item::Object { file, .. } | Item::Overflow { file, .. }, MetadataMode::Xattr) => {
                xattr::strip(file, is_metadata)?;
            }
        }
        progress(Phase::Clearing);
        Ok(())
    })
}
