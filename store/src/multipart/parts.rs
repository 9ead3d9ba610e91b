//! Parts of an upload.
//!
//! In xattr mode part N is the file `N` with its ETag and checksum as attributes, as versitygw
//! has it. In sidecar mode it is `N.json`, which names the file with the bytes: renaming that
//! one file publishes both, and a crash leaves the old part or the new.

use std::fs::File;
use std::time::SystemTime;

use filestore_common::{Checksum, ChecksumAlgorithm, ETag, ObjectMeta};
use rustix::io::Errno;
use uuid::Uuid;

use super::area::Upload;
use crate::attributes::{AttributeSet, codec, json, xattr};
use crate::dir;
use crate::layout::attribute;
use crate::query::{MetadataMode, PartInfo};
use crate::staged::{Linked, StagedFile};
use crate::volume::Volume;
use crate::{Error, Result};

/// Highest part number (S3 user guide, "Multipart upload limits").
pub(super) const MAX_PART: u32 = 10_000;
/// Ours: checksum that came with a part although the upload declares none.
const EXTRA_CHECKSUM: &str = "filestore.checksums";
/// Ours: ETag of a part whose file already carries the attributes of the object that it becomes.
const OWN_ETAG: &str = "filestore.part-etag";
/// Ours, sidecar mode: the file that holds the bytes.
pub(super) const DATA_FILE: &str = "filestore.file";
/// Ends the name of a part's record, sidecar mode.
pub(super) const RECORD: &str = ".json";
/// How often a part that is replaced while it is read is tried again.
const ATTEMPTS: usize = 100;

/// An open part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) number: u32,
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) etag: ETag,
    /// Declared by the upload, or sent with the part.
    pub(super) checksum: Option<Checksum>,
    /// CRC-64/NVME in base64.
    pub(super) crc64: Option<String>,
    last_modified: SystemTime,
}

impl Part {
    /// Opens a part; `None` when there is none of that number.
    pub(super) fn open(mode: MetadataMode, upload: &Upload, number: u32) -> Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            let record = match mode {
                MetadataMode::Xattr => None,
                MetadataMode::Sidecar => {
                    let name = format!("{number}{RECORD}");
                    match json::read::<AttributeSet>(&upload.dir, &name)? {
                        Some(record) => Some(record),
                        None => return Ok(None),
                    }
                }
            };
            let name = match &record {
                None => number.to_string(),
                Some(record) => record.text(DATA_FILE).unwrap_or_default().to_owned(),
            };
            let opened = upload
                .dir
                .open_file(&name)
                .map_err(|error| Error::io(format!("open part {number}"), error))?;
            let Some((file, stat)) = opened else {
                if record.is_some() {
                    continue;
                }
                return Ok(None);
            };
            let set = match record {
                Some(record) => record,
                None => xattr::read(&file)?,
            };
            return Ok(Some(Self {
                number,
                size: dir::size(&stat),
                last_modified: dir::mtime(&stat),
                etag: ETag::new(
                    set.text(OWN_ETAG)
                        .or_else(|| set.text(attribute::ETAG))
                        .unwrap_or_default(),
                ),
                checksum: checksum_of(&set),
                crc64: set.text(attribute::PART_CRC64).map(str::to_owned),
                file,
            }));
        }
        Ok(None)
    }

    /// The part as listed.
    pub(super) fn info(&self) -> PartInfo {
        PartInfo {
            number: self.number,
            size: self.size,
            etag: self.etag.clone(),
            checksum: self.checksum.clone(),
            last_modified: self.last_modified,
        }
    }

    /// The checksum of that algorithm, if it is known.
    pub(super) fn checksum_value(&self, algorithm: ChecksumAlgorithm) -> Option<&str> {
        match &self.checksum {
            Some(checksum) if checksum.algorithm == algorithm => Some(&checksum.value),
            _ if algorithm == ChecksumAlgorithm::Crc64nvme => self.crc64.as_deref(),
            _ => None,
        }
    }
}

/// Attributes of a part. `is_declared`: the upload declares the algorithm of `checksum`.
pub(super) fn encode(
    etag: &ETag,
    checksum: Option<&Checksum>,
    is_declared: bool,
    crc64: Option<&str>,
) -> AttributeSet {
    let mut set = AttributeSet::default();
    set.set(attribute::ETAG, etag.quoted());
    if let Some(checksum) = checksum {
        let value = codec::encode_checksum(checksum.algorithm, None, Some(&checksum.value));
        let name = if is_declared {
            attribute::CHECKSUMS
        } else {
            EXTRA_CHECKSUM
        };
        set.set(name, value);
    }
    if let Some(crc64) = crc64 {
        set.set(attribute::PART_CRC64, crc64);
    }
    set
}

fn checksum_of(set: &AttributeSet) -> Option<Checksum> {
    let stored = set
        .get(OWN_ETAG)
        .is_none()
        .then(|| codec::decode_checksum(set));
    stored.flatten().or_else(|| {
        let mut extra = AttributeSet::default();
        extra.set(attribute::CHECKSUMS, set.get(EXTRA_CHECKSUM)?);
        codec::decode_checksum(&extra)
    })
}

/// Prepares a part to become the object itself: its ETag and checksum stay readable when the file
/// gets the attributes of the object, so that a completion that is interrupted can be repeated.
pub(super) fn keep_own(mode: MetadataMode, part: &Part) -> Result<()> {
    match mode {
        MetadataMode::Xattr => {
            if let Some(sum) = &part.checksum {
                let value = codec::encode_checksum(sum.algorithm, Some(sum.kind), Some(&sum.value));
                xattr::put(&part.file, EXTRA_CHECKSUM, &value)?;
            }
            // Last: from here on the part is read by what is kept.
            xattr::put(&part.file, OWN_ETAG, part.etag.quoted().as_bytes())
        }
        // Attributes lie beside the file.
        MetadataMode::Sidecar => Ok(()),
    }
}

/// Removes from a file that has become an object what belonged to the part.
pub(super) fn forget_part(mode: MetadataMode, file: &File, meta: &ObjectMeta) -> Result<()> {
    if mode == MetadataMode::Sidecar {
        return Ok(());
    }
    for name in [OWN_ETAG, attribute::PART_CRC64, EXTRA_CHECKSUM] {
        xattr::remove(file, name)?;
    }
    if meta.checksum.is_none() {
        xattr::remove(file, attribute::CHECKSUMS)?;
    }
    Ok(())
}

/// Numbers of all parts, ascending.
pub(super) fn numbers(mode: MetadataMode, upload: &Upload) -> Result<Vec<u32>> {
    let entries = upload.dir.entries().map_err(|error| match error {
        Errno::NOENT => Error::NoSuchUpload,
        error => Error::io("list parts", error),
    })?;
    let mut numbers: Vec<u32> = entries
        .iter()
        .filter_map(|(name, _)| match mode {
            MetadataMode::Xattr => number_of(name),
            MetadataMode::Sidecar => number_of(name.strip_suffix(RECORD)?),
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number in the name of a part: decimal, no padding.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let number: u32 = name.parse().ok()?;
    (is_part_number(number) && number.to_string() == name).then_some(number)
}

/// Whether S3 allows this part number.
pub(super) fn is_part_number(number: u32) -> bool {
    (1..=MAX_PART).contains(&number)
}

/// Makes a staged file the part `number` and returns the name of its file.
///
/// # Errors
/// [`Error::NoSuchUpload`] when the upload is gone, [`Error::NoSpace`], [`Error::Io`].
pub(super) fn publish(
    volume: &Volume,
    upload: &Upload,
    staged: &mut StagedFile,
    number: u32,
    mut set: AttributeSet,
) -> Result<String> {
    let gone = |error| match error {
        Errno::NOENT => Error::NoSuchUpload,
        error => Error::io("give a part its name", error),
    };
    let name = match volume.mode {
        MetadataMode::Xattr => {
            xattr::write(&staged.file, &set)?;
            number.to_string()
        }
        MetadataMode::Sidecar => format!("{number}.{}", Uuid::new_v4().simple()),
    };
    volume.flush.file(&staged.file)?;
    if staged.link_new(&upload.dir, &name).map_err(gone)? == Linked::Taken {
        let temp = || upload.dir.open_dir(".");
        staged.replace(&upload.dir, &name, temp).map_err(gone)?;
    }
    if volume.mode == MetadataMode::Sidecar {
        let record = format!("{number}{RECORD}");
        let old = json::read::<AttributeSet>(&upload.dir, &record)?;
        set.set(DATA_FILE, name.as_str());
        volume.flush.directory(&upload.dir)?;
        match json::write(&upload.dir, &record, &set, volume.flush.is_durable()) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoSuchUpload);
            }
            other => other?,
        }
        let old = old.as_ref().and_then(|old| old.text(DATA_FILE));
        if let Some(old) = old.filter(|old| *old != name)
            && let Err(error) = upload.dir.remove_file(old)
        {
            tracing::warn!(%error, "remove a replaced part");
        }
    }
    volume.flush.directory(&upload.dir)?;
    Ok(name)
}
