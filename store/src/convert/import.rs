//! Taking over what versitygw 1.8.0 kept beside the data (`versitygw posix --sidecar DIR`): a file
//! `<DIR>/<bucket>/<key>/meta/<attribute>` with the bytes of each attribute, and
//! `<DIR>/<bucket>/meta/<attribute>` for the bucket. The directory is only read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use filestore_common::BucketName;
use rustix::fs::FileType;

use super::form::{self, Metadata};
use super::walk::{self, Item};
use super::{Conversion, Outcome, Phase, Progress, alone, survey};
use crate::attributes::AttributeSet;
use crate::dir::{Dir, is_absent};
use crate::layout::{self, attribute};
use crate::multipart::forms::{Claimed, UploadDir};
use crate::query::{MetadataMode, StoreOptions};
use crate::volume::{Volume, is_new};
use crate::{Error, Result};

/// The directory that holds the attributes of what its parent is named after.
const META: &str = "meta";
/// Longest attribute value (`XATTR_SIZE_MAX` of Linux); versitygw's are the same in both modes.
const MAX_VALUE: u64 = 64 * 1024;

/// What to import, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// versitygw's sidecar directory.
    pub sidecar: PathBuf,
    /// The mode of the volume, if it is none yet; `None` = what the file system can.
    pub metadata: Option<MetadataMode>,
    /// Only look.
    pub dry_run: bool,
}

/// Gives the objects below `path` (a volume, or the directory that versitygw served) the metadata
/// that versitygw kept in a sidecar directory. Metadata that is there already stays.
///
/// While it is under way nobody can open the volume. It may be killed and repeated at any time.
///
/// # Errors
/// As [`super::convert`]; [`Error::Volume`] also when the directories do not belong together.
pub fn import_sidecar(
    path: &Path,
    options: &ImportOptions,
    progress: &mut Progress<'_>,
) -> Result<Conversion> {
    let mut sidecar = Sidecar::open(&options.sidecar)?;
    let data_root = if is_new(path)? {
        Some(sidecar.data_root(path)?)
    } else {
        None
    };
    let asked = StoreOptions {
        metadata: options.metadata,
        data_root,
        ..alone()
    };
    let volume = Volume::open_to_import(path, &asked)?;
    sidecar.resumed = volume.is_half_imported()?;
    let outcome = prove(&volume, &sidecar, options.dry_run, progress);
    let goes_on = !options.dry_run && matches!(&outcome, Ok(survey) if survey.unfit.is_empty());
    if !goes_on
        && volume.is_fresh()?
        && let Err(error) = volume.unmake()
    {
        if outcome.is_ok() {
            return Err(error);
        }
        tracing::warn!(%error, "remove a new .filestore");
    }
    let survey = outcome?;
    let mut conversion = Conversion {
        from: volume.mode,
        counts: survey.counts,
        unfit: survey.unfit,
        outcome: match goes_on {
            true => Outcome::Converted,
            false if options.dry_run => Outcome::DryRun,
            false => Outcome::Refused,
        },
    };
    if !conversion.unfit.is_empty() {
        conversion.outcome = Outcome::Refused;
    }
    if goes_on {
        volume.begin_import()?;
        conversion.unfit = write_all(&volume, &sidecar, progress)?;
        if conversion.unfit.is_empty() {
            volume.end_import()?;
        } else {
            conversion.outcome = Outcome::Refused;
        }
    }
    Ok(conversion)
}

/// All that can be said before anything is written.
fn prove(
    volume: &Volume,
    sidecar: &Sidecar,
    dry_run: bool,
    progress: &mut Progress<'_>,
) -> Result<survey::Survey> {
    sidecar.check_belongs(volume)?;
    let survey = survey::survey(volume, volume.mode, Some(sidecar), progress)?;
    if !dry_run && survey.unfit.is_empty() {
        survey::check_room(volume, volume.mode, &survey.counts)?;
    }
    Ok(survey)
}

fn write_all(
    volume: &Volume,
    sidecar: &Sidecar,
    progress: &mut Progress<'_>,
) -> Result<Vec<survey::Unfit>> {
    let mut unfit = Vec::new();
    let devices = walk::walk(volume, Claimed::Recover, &mut |item| {
        let own = sidecar.own(volume, item)?;
        let complete = sidecar.complete(item, own.clone())?;
        // What is complete stays untouched: a power failure cannot take it then.
        if complete != own {
            match form::write(volume, volume.mode, item, &complete) {
                Ok(()) => {}
                Err(error) => unfit.push(survey::Unfit::of(item, error)?),
            }
        }
        progress(Phase::Writing);
        Ok(())
    })?;
    devices.sync(&volume.flush)?;
    Ok(unfit)
}

/// versitygw's sidecar directory.
#[derive(Debug)]
pub(super) struct Sidecar {
    dir: Dir,
    path: PathBuf,
    buckets: Vec<BucketName>,
    /// An earlier import had begun to write.
    resumed: bool,
}

impl Sidecar {
    /// The metadata that an item has itself. Records are not flushed one by one: what a power
    /// failure left of those of an earlier import counts as none.
    pub(super) fn own(&self, volume: &Volume, item: &Item<'_>) -> Result<Metadata> {
        match form::read(volume, volume.mode, item) {
            Err(Error::Damaged(reason)) if self.resumed => {
                tracing::debug!(reason, item = item.name(), "written again");
                Ok(Metadata::default())
            }
            other => other,
        }
    }

    fn open(path: &Path) -> Result<Self> {
        let text = path.display();
        let dir = Dir::open_root(path).map_err(|error| {
            Error::Volume(format!("sidecar directory {text} cannot be read: {error}"))
        })?;
        let entries = dir.entries();
        let entries = entries.map_err(|error| Error::io(format!("list {text}"), error))?;
        let names = entries.into_iter().map(|(name, _)| name);
        let buckets: Vec<_> = names
            .filter_map(|name| BucketName::new(name).ok())
            .filter(|bucket| dir.open_dir(&format!("{bucket}/{META}")).is_ok())
            .collect();
        if buckets.is_empty() {
            return Err(Error::Volume(format!(
                "{text} is no sidecar directory of versitygw (no <bucket>/meta in it): name what `versitygw posix --sidecar` named"
            )));
        }
        Ok(Self {
            dir,
            path: path.to_owned(),
            buckets,
            resumed: false,
        })
    }

    /// Where the buckets lie below a directory that is no volume yet.
    fn data_root(&self, path: &Path) -> Result<PathBuf> {
        let candidates = [path.join(layout::DATA_DIR), path.to_owned()];
        let holds = |root: &PathBuf| {
            let mut buckets = self.buckets.iter();
            buckets.any(|bucket| root.join(bucket.as_str()).is_dir())
        };
        candidates
            .into_iter()
            .find(holds)
            .ok_or_else(|| self.does_not_belong(path))
    }

    fn check_belongs(&self, volume: &Volume) -> Result<()> {
        let mut buckets = self.buckets.iter();
        if buckets.any(|bucket| volume.bucket_dir(bucket).is_ok()) {
            Ok(())
        } else {
            Err(self.does_not_belong(&volume.path))
        }
    }

    fn does_not_belong(&self, path: &Path) -> Error {
        Error::Volume(format!(
            "{} does not belong to {}: none of its buckets is there",
            self.path.display(),
            path.display()
        ))
    }

    /// Adds to the metadata that an item has itself what this directory says of it.
    pub(super) fn complete(&self, item: &Item<'_>, own: Metadata) -> Result<Metadata> {
        let is_settled = |set: &AttributeSet| set.get(attribute::ETAG).is_some();
        let mut metadata = own;
        let set = &mut metadata.attributes;
        match item {
            Item::Bucket { bucket, .. } => {
                let told = self.read(bucket.as_str(), attribute::is_bucket_metadata)?;
                add(set, &told);
            }
            Item::Object { bucket, key, .. } if !is_settled(set) => {
                let path = key.as_str().trim_end_matches('/');
                let told = self.read(&format!("{bucket}/{path}"), attribute::is_metadata)?;
                // A directory without an ETag is no object.
                if is_settled(&told) || !item.is_directory() {
                    add(set, &told);
                }
            }
            Item::Upload { bucket, upload } => {
                let area = format!("{bucket}/{}/{}", layout::TEMP_DIR, layout::MULTIPART_DIR);
                let key = format!("{area}/{}", upload.hash);
                let place = format!("{key}/{}", upload.id);
                add(set, &self.read(&key, |name| name == attribute::UPLOAD_KEY)?);
                add(set, &self.read(&place, attribute::is_metadata)?);
                self.complete_parts(&place, upload, &mut metadata)?;
            }
            _ => {}
        }
        Ok(metadata)
    }

    fn complete_parts(
        &self,
        place: &str,
        upload: &UploadDir,
        metadata: &mut Metadata,
    ) -> Result<()> {
        // Parts of versitygw are plain files, whatever the mode of the volume.
        for part in upload.parts(MetadataMode::Xattr)? {
            let told = self.read(&format!("{place}/{}", part.number), attribute::is_metadata)?;
            let known = metadata.parts.iter_mut().find(|p| p.number == part.number);
            match known {
                Some(known) => add(&mut known.attributes, &told),
                None if !told.is_empty() => {
                    let attributes = told;
                    metadata
                        .parts
                        .push(crate::multipart::forms::PartFile { attributes, ..part });
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Attributes at `path`; none when there is nothing. Files that versitygw left unfinished have
    /// other names than attributes do.
    fn read(&self, path: &str, is_wanted: impl Fn(&str) -> bool) -> Result<AttributeSet> {
        let shown = || self.path.join(path).join(META).display().to_string();
        let io = |error: std::io::Error| Error::io(format!("read {}", shown()), error);
        let dir = match self.dir.open_dir(&format!("{path}/{META}")) {
            Ok(dir) => dir,
            Err(error) if is_absent(error) => return Ok(AttributeSet::default()),
            Err(error) => return Err(io(error.into())),
        };
        let mut set = AttributeSet::default();
        for (name, kind) in dir.entries().map_err(|error| io(error.into()))? {
            if kind != FileType::RegularFile || !is_wanted(&name) {
                continue;
            }
            let Some((file, stat)) = dir.open_file(&name).map_err(|error| io(error.into()))? else {
                continue;
            };
            if crate::dir::size(&stat) > MAX_VALUE {
                return Err(Error::Damaged(format!("{}/{name} is too long", shown())));
            }
            let mut value = Vec::new();
            file.take(MAX_VALUE).read_to_end(&mut value).map_err(io)?;
            set.set(name, value);
        }
        Ok(set)
    }
}

/// Adds what `set` does not have.
fn add(set: &mut AttributeSet, told: &AttributeSet) {
    for (name, value) in told.iter() {
        if set.get(name).is_none() {
            set.set(name.to_owned(), value);
        }
    }
}
