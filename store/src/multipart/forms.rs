//! Uploads in progress for a conversion: found whatever the metadata mode, their parts read in
//! the form of one mode and written in that of the other. Nobody else has the volume open.

use std::collections::HashSet;

use filestore_common::BucketName;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::area::{self, area_path, is_upload_id, upload_id_of};
use super::parts::{DATA_FILE, RECORD, number_of};
use crate::attributes::{AttributeSet, DIRECTORY_FILE, json, xattr};
use crate::dir::{Dir, is_absent};
use crate::layout::{self, attribute};
use crate::query::MetadataMode;
use crate::{Error, Result};

/// An upload in progress.
#[derive(Debug)]
pub(crate) struct UploadDir {
    /// Name of the directory of the key: the hash of the key.
    pub(crate) hash: String,
    /// Upload id, the name of `dir` in `parent` unless versitygw had claimed it.
    pub(crate) id: String,
    /// Directory of the uploads of the key.
    pub(crate) parent: Dir,
    /// Directory of the upload.
    pub(crate) dir: Dir,
}

/// A part of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartFile {
    /// Its number.
    pub(crate) number: u32,
    /// The file that holds its bytes.
    pub(crate) data: String,
    /// Its attributes.
    pub(crate) attributes: AttributeSet,
}

/// What becomes of uploads that versitygw had claimed to complete them when it crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// They keep the name that it gave them: nothing is changed.
    Keep,
    /// They get their name back, as when they are used next.
    Recover,
}

/// Calls `each` for every upload of a bucket, once.
///
/// # Errors
/// [`Error::Io`], and those of `each`.
pub(crate) fn for_each_upload(
    root: &Dir,
    bucket: &BucketName,
    claimed: Claimed,
    each: &mut dyn FnMut(&UploadDir) -> Result<()>,
) -> Result<()> {
    let io = |error| Error::io(format!("look at the uploads of {bucket}"), error);
    let area = match root.open_dir(&area_path(bucket)) {
        Ok(area) => area,
        Err(error) if is_absent(error) => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    for hash in directories(&area).map_err(io)? {
        let parent = area.open_dir(&hash).map_err(io)?;
        let mut names = directories(&parent).map_err(io)?;
        // Where both are there, the one with the name of an upload is the upload.
        names.sort_by_key(|name| !is_upload_id(name));
        let mut seen = HashSet::new();
        for name in names {
            let Some(id) = upload_id_of(&name).map(str::to_owned) else {
                continue;
            };
            if !seen.insert(id.clone()) {
                continue;
            }
            let mut place = name.as_str();
            if claimed == Claimed::Recover && !is_upload_id(place) {
                area::recover(&parent, &id)?;
                place = &id;
            }
            let dir = parent.open_dir(place).map_err(io)?;
            each(&UploadDir {
                hash: hash.clone(),
                id,
                parent: parent.try_clone().map_err(|error| {
                    Error::io(format!("look at the uploads of {bucket}"), error)
                })?,
                dir,
            })?;
        }
    }
    Ok(())
}

fn directories(dir: &Dir) -> rustix::io::Result<Vec<String>> {
    let entries = dir.entries()?.into_iter();
    Ok(entries
        .filter(|(_, kind)| *kind == FileType::Directory)
        .map(|(name, _)| name)
        .collect())
}

impl UploadDir {
    /// Attributes of the upload, with its key and the time when it was initiated.
    pub(crate) fn attributes(&self, mode: MetadataMode) -> Result<AttributeSet> {
        let mut set =
            crate::attributes::read_directory(mode, &self.dir)?.filtered(attribute::is_metadata);
        if mode == MetadataMode::Xattr
            && set.get(attribute::UPLOAD_KEY).is_none()
            && let Some(key) = xattr::get(&self.parent, attribute::UPLOAD_KEY)?
        {
            set.set(attribute::UPLOAD_KEY, key);
        }
        self.add_time(&mut set)?;
        Ok(set)
    }

    /// Adds when the upload was initiated, unless it says so.
    pub(crate) fn add_time(&self, set: &mut AttributeSet) -> Result<()> {
        let initiated = area::initiated(&self.dir, set)?;
        set.set(area::INITIATED, crate::dir::ns_of(initiated).to_string());
        Ok(())
    }

    /// Gives the upload exactly these attributes.
    pub(crate) fn put_attributes(&self, mode: MetadataMode, set: &AttributeSet) -> Result<()> {
        match mode {
            MetadataMode::Xattr => {
                if let Some(key) = set.get(attribute::UPLOAD_KEY) {
                    xattr::put(&self.parent, attribute::UPLOAD_KEY, key)?;
                }
                xattr::make_exact(&self.dir, set, attribute::is_metadata)
            }
            MetadataMode::Sidecar => json::write(&self.dir, DIRECTORY_FILE, set, false),
        }
    }

    /// The parts, as `mode` has them.
    pub(crate) fn parts(&self, mode: MetadataMode) -> Result<Vec<PartFile>> {
        let mut parts = Vec::new();
        for name in self.names()? {
            let part = match mode {
                MetadataMode::Xattr => number_of(&name)
                    .map(|number| self.part_of_file(number))
                    .transpose()?,
                MetadataMode::Sidecar => match name.strip_suffix(RECORD).and_then(number_of) {
                    Some(number) => self.part_of_record(number, &name)?,
                    None => None,
                },
            };
            parts.extend(part);
        }
        Ok(parts)
    }

    fn part_of_file(&self, number: u32) -> Result<PartFile> {
        let data = number.to_string();
        let attributes = match self.open(&data)? {
            Some(file) => xattr::read(file)?.filtered(attribute::is_metadata),
            None => AttributeSet::default(),
        };
        Ok(PartFile {
            number,
            data,
            attributes,
        })
    }

    fn part_of_record(&self, number: u32, name: &str) -> Result<Option<PartFile>> {
        let Some(mut attributes) = json::read::<AttributeSet>(&self.dir, name)? else {
            return Ok(None);
        };
        let data = attributes.text(DATA_FILE).unwrap_or_default().to_owned();
        attributes.remove(DATA_FILE);
        Ok(Some(PartFile {
            number,
            data,
            attributes,
        }))
    }

    /// Writes a part as `mode` has it; its bytes stay where they are, or get a second name.
    pub(crate) fn put_part(&self, mode: MetadataMode, part: &PartFile) -> Result<()> {
        match mode {
            MetadataMode::Xattr => {
                if let Some(file) = self.open(&part.data)? {
                    xattr::make_exact(&file, &part.attributes, attribute::is_metadata)?;
                    self.name_part(part)?;
                }
                Ok(())
            }
            MetadataMode::Sidecar => {
                let mut set = part.attributes.clone();
                set.set(DATA_FILE, part.data.as_str());
                json::write(&self.dir, &format!("{}{RECORD}", part.number), &set, false)
            }
        }
    }

    fn name_part(&self, part: &PartFile) -> Result<()> {
        let number = part.number.to_string();
        let io = |error| Error::io(format!("name part {number} of upload {}", self.id), error);
        if part.data == number {
            return Ok(());
        }
        let temp = layout::temp_name();
        match rustix::fs::linkat(&self.dir, &part.data, &self.dir, &temp, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                return Err(Error::Volume(format!(
                    "upload {} cannot be converted, the file system has no hard links: complete or abort it first",
                    self.id
                )));
            }
            Err(error) => return Err(io(error)),
        }
        self.dir.rename(&temp, &self.dir, &number).map_err(io)?;
        // Where both were one file already, rename leaves the temporary name.
        self.dir.remove_file(&temp).map_err(io)?;
        Ok(())
    }

    /// Removes what `mode`, which is not the one in use, keeps of the upload.
    pub(crate) fn clear(&self, mode: MetadataMode) -> Result<()> {
        let io = |error| Error::io(format!("clear upload {}", self.id), error);
        let other = match mode {
            MetadataMode::Xattr => MetadataMode::Sidecar,
            MetadataMode::Sidecar => MetadataMode::Xattr,
        };
        let in_use: Vec<String> = self.parts(other)?.into_iter().map(|p| p.data).collect();
        for name in self.names()? {
            let number = name.split('.').next().and_then(number_of);
            let is_stale = match mode {
                MetadataMode::Xattr => {
                    if let Some(file) = self.open(&name)?.filter(|_| number.is_some()) {
                        xattr::strip(&file, attribute::is_metadata)?;
                    }
                    number_of(&name).is_some() && !in_use.contains(&name)
                }
                MetadataMode::Sidecar => {
                    name == DIRECTORY_FILE || (number.is_some() && !in_use.contains(&name))
                }
            };
            let is_temporary =
                name.starts_with(layout::TEMP_PREFIX) && name != super::lock::LOCK_FILE;
            if is_stale || is_temporary {
                self.dir.remove_file(&name).map_err(io)?;
            }
        }
        if mode == MetadataMode::Xattr {
            xattr::strip(&self.dir, attribute::is_metadata)?;
            xattr::strip(&self.parent, attribute::is_metadata)?;
        }
        Ok(())
    }

    /// Opens a file of the upload.
    pub(crate) fn open(&self, name: &str) -> Result<Option<std::fs::File>> {
        let opened = self.dir.open_file(name);
        let opened =
            opened.map_err(|error| Error::io(format!("open {name} of an upload"), error))?;
        Ok(opened.map(|(file, _)| file))
    }

    fn names(&self) -> Result<Vec<String>> {
        let entries = self.dir.entries();
        let entries = entries.map_err(|error| Error::io("list an upload", error))?;
        let files = entries
            .into_iter()
            .filter(|(_, kind)| *kind == FileType::RegularFile);
        Ok(files.map(|(name, _)| name).collect())
    }
}
