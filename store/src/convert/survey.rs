//! The look before a conversion: how much there is, and whether the new form can hold it.

use std::collections::HashSet;
use std::fs::File;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::form::{self, Metadata};
use super::import::Sidecar;
use super::walk::{self, Item};
use super::{Phase, Progress};
use crate::attributes::{AttributeSet, xattr};
use crate::layout::{self, FILE_MODE, attribute};
use crate::multipart::forms::Claimed;
use crate::query::MetadataMode;
use crate::volume::Volume;
use crate::volume::probe::{self, XattrSupport};
use crate::{Error, Result, dir};

/// Bytes that a small file takes on disk.
const RECORD_BYTES: u64 = 4096;
/// Shapes of metadata that are remembered as fitting.
const REMEMBERED: usize = 100_000;

/// How much metadata there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Buckets.
    pub buckets: u64,
    /// Objects with metadata of their own.
    pub objects: u64,
    /// Files that were put there by hand: objects without metadata.
    pub without_metadata: u64,
    /// Multipart uploads in progress.
    pub uploads: u64,
    /// Their parts.
    pub parts: u64,
}

/// Something whose metadata does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// `bucket/key`, or what it is in words.
    pub name: String,
    /// Why it does not fit.
    pub reason: String,
}

impl Unfit {
    /// The item, if `error` says that the file system does not take its metadata.
    ///
    /// # Errors
    /// `error`, when it says anything else.
    pub(super) fn of(item: &Item<'_>, error: Error) -> Result<Self> {
        let reason = match error {
            Error::MetadataTooLarge(reason) => {
                format!("the file system does not take its {reason}")
            }
            Error::Io { source, .. } if is_unsupported(&source) => {
                "the file system that it lies on has no extended attributes".to_owned()
            }
            other => return Err(other),
        };
        Ok(Self {
            name: item.name(),
            reason,
        })
    }
}

fn is_unsupported(error: &std::io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::OPNOTSUPP)
}

/// What the look found.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) counts: Counts,
    pub(super) unfit: Vec<Unfit>,
}

/// Reads all metadata, of the volume or, where it has none, of `sidecar`; and tries what is to
/// become extended attributes on a file of its own.
pub(super) fn survey(
    volume: &Volume,
    to: MetadataMode,
    sidecar: Option<&Sidecar>,
    progress: &mut Progress<'_>,
) -> Result<Survey> {
    let mut trial = match to {
        MetadataMode::Xattr => Some(Trial::start(volume)?),
        MetadataMode::Sidecar => None,
    };
    let (mut counts, mut unfit) = (Counts::default(), Vec::new());
    walk::walk(volume, Claimed::Keep, &mut |item| {
        let metadata = match sidecar {
            Some(sidecar) => sidecar.complete(item, sidecar.own(volume, item)?)?,
            None => form::read(volume, volume.mode, item)?,
        };
        count(&mut counts, item, &metadata);
        if let Some(trial) = &mut trial {
            match trial.fits(item, &metadata) {
                Ok(()) => {}
                Err(error) => unfit.push(Unfit::of(item, error)?),
            }
        }
        progress(Phase::Surveying);
        Ok(())
    })?;
    Ok(Survey { counts, unfit })
}

fn count(counts: &mut Counts, item: &Item<'_>, metadata: &Metadata) {
    let has_own = !metadata.attributes.is_empty();
    match item {
        Item::Bucket { .. } => counts.buckets += 1,
        Item::Upload { .. } => {
            counts.uploads += 1;
            counts.parts += metadata.parts.len() as u64;
        }
        _ if has_own => counts.objects += 1,
        Item::Object { stat, .. } if dir::file_type(stat) == FileType::RegularFile => {
            counts.without_metadata += 1;
        }
        _ => {}
    }
}

/// Fails when there is no room for a record per object.
pub(super) fn check_room(volume: &Volume, to: MetadataMode, counts: &Counts) -> Result<()> {
    if to == MetadataMode::Xattr {
        return Ok(());
    }
    let space = volume.space()?;
    let files = counts.objects + counts.buckets + counts.uploads + counts.parts;
    let bytes = files * RECORD_BYTES;
    if space.total_inodes > 0 && space.available_inodes < files {
        return Err(Error::Volume(format!(
            "{} has {} inodes left, the conversion needs {files}: free some",
            volume.path.display(),
            space.available_inodes
        )));
    }
    if space.available_bytes < bytes {
        return Err(Error::Volume(format!(
            "{} has {} bytes left, the conversion needs {bytes}: free some",
            volume.path.display(),
            space.available_bytes
        )));
    }
    Ok(())
}

/// A file that takes metadata for a moment, to see whether the file system does.
struct Trial<'a> {
    volume: &'a Volume,
    file: File,
    name: String,
    /// Names and lengths of what fitted.
    seen: HashSet<Vec<(String, usize)>>,
}

impl<'a> Trial<'a> {
    fn start(volume: &'a Volume) -> Result<Self> {
        let io = |error| Error::io("try out extended attributes", error);
        if probe::xattr_support(&volume.control).map_err(io)? == XattrSupport::Missing {
            return Err(Error::Volume(format!(
                "the file system of {} has no extended attributes: the volume must stay in sidecar mode, or move to another file system",
                volume.path.display()
            )));
        }
        let name = layout::temp_name();
        let file = volume.control.create_file(&name, FILE_MODE).map_err(io)?;
        Ok(Self {
            volume,
            file,
            name,
            seen: HashSet::new(),
        })
    }

    fn fits(&mut self, item: &Item<'_>, metadata: &Metadata) -> Result<()> {
        match item {
            Item::Bucket { dir, .. } => {
                self.fits_beside(dir, &metadata.attributes, attribute::is_bucket_metadata)
            }
            Item::Object { file, .. } | Item::Overflow { file, .. } => {
                self.fits_beside(file, &metadata.attributes, attribute::is_metadata)
            }
            Item::Upload { upload, .. } => {
                for part in &metadata.parts {
                    if let Some(file) = upload.open(&part.data)? {
                        self.fits_beside(&file, &part.attributes, attribute::is_metadata)?;
                    }
                }
                self.fits_beside(&upload.dir, &metadata.attributes, attribute::is_metadata)
            }
        }
    }

    /// Whether `set` fits beside those attributes of `file` that are not ours and stay.
    fn fits_beside(
        &mut self,
        file: impl std::os::fd::AsFd,
        set: &AttributeSet,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<()> {
        if set.is_empty() {
            return Ok(());
        }
        let mut all = xattr::read(file)?.filtered(|name| !is_own(name));
        for (name, value) in set.iter() {
            all.set(name.to_owned(), value);
        }
        let mut shape: Vec<_> = all
            .iter()
            .map(|(name, value)| (name.to_owned(), value.len()))
            .collect();
        shape.sort_unstable();
        if self.seen.contains(&shape) {
            return Ok(());
        }
        let outcome = xattr::write(&self.file, &all);
        xattr::strip(&self.file, |_| true)?;
        outcome?;
        if self.seen.len() == REMEMBERED {
            self.seen.clear();
        }
        self.seen.insert(shape);
        Ok(())
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.volume.control.remove_file(&self.name) {
            tracing::warn!(%error, "remove a temporary file");
        }
    }
}
