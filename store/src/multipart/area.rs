//! Where uploads lie: `<bucket>/.sgwtmp/multipart/<hex sha256(key)>/<upload id>/`, as versitygw
//! has it. The directory of a key is named after its hash and carries the key as attribute, where
//! attributes lie on the directory; each upload carries it in any case.

use std::time::SystemTime;

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::attributes::{self, AttributeSet};
use crate::dir::{self, Dir, is_absent};
use crate::layout::{self, attribute};
use crate::path::hash_name;
use crate::query::{MetadataMode, UploadSpec};
use crate::volume::Volume;
use crate::{Error, Result};

/// Ends the name that versitygw gives an upload directory while it completes it:
/// `<upload id>.<etag>.inprogress`. A crash leaves it behind.
const IN_PROGRESS: &str = ".inprogress";
/// Ours, on an upload: when it was initiated, nanoseconds since 1970 in decimal.
pub(super) const INITIATED: &str = "filestore.initiated";
/// Longest upload id that is looked for; versitygw's and ours are UUIDs.
const MAX_ID: usize = 64;

/// Directory of all uploads of a bucket, below the data root.
pub(super) fn area_path(bucket: &BucketName) -> String {
    format!("{bucket}/{}/{}", layout::TEMP_DIR, layout::MULTIPART_DIR)
}

/// Directory of the uploads of a key, below the data root.
pub(super) fn key_path(bucket: &BucketName, key: &ObjectKey) -> String {
    format!("{}/{}", area_path(bucket), hash_name(key.as_str()))
}

/// Whether a text can be an upload id; anything else names no upload and never a path.
pub(super) fn is_upload_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// The upload that a directory entry holds: its id, also of one that versitygw did not finish
/// to complete.
pub(super) fn upload_id_of(name: &str) -> Option<&str> {
    let id = match name.strip_suffix(IN_PROGRESS) {
        Some(claimed) => claimed.split_once('.')?.0,
        None => name,
    };
    Some(id).filter(|id| is_upload_id(id))
}

/// An open upload.
#[derive(Debug)]
pub(super) struct Upload {
    /// Directory of the uploads of the key.
    pub(super) parent: Dir,
    /// Directory of the upload.
    pub(super) dir: Dir,
    /// Upload id, the name of `dir` in `parent`.
    pub(super) id: String,
}

impl Upload {
    /// Opens an upload.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchUpload`], [`Error::Io`].
    pub(super) fn open(
        volume: &Volume,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
    ) -> Result<Self> {
        if !is_upload_id(id) {
            volume.bucket_dir(bucket)?;
            return Err(Error::NoSuchUpload);
        }
        let parent = match volume.root.open_dir(&key_path(bucket, key)) {
            Ok(parent) => parent,
            Err(error) if is_absent(error) => {
                volume.bucket_dir(bucket)?;
                return Err(Error::NoSuchUpload);
            }
            Err(error) => return Err(Error::io("open the uploads of a key", error)),
        };
        let dir = match parent.open_dir(id) {
            Err(Errno::NOENT) => {
                recover(&parent, id)?;
                parent.open_dir(id)
            }
            other => other,
        };
        match dir {
            Ok(dir) => Ok(Self {
                parent,
                dir,
                id: id.to_owned(),
            }),
            Err(error) if is_absent(error) => Err(Error::NoSuchUpload),
            Err(error) => Err(Error::io("open an upload", error)),
        }
    }

    /// Whether the upload is still there: not completed and not aborted since it was opened.
    pub(super) fn is_alive(&self) -> Result<bool> {
        let io = |error| Error::io("look at an upload", error);
        let own = self.dir.stat_self().map_err(io)?;
        let named = self.parent.stat(&self.id).map_err(io)?;
        Ok(named.is_some_and(|named| named.st_ino == own.st_ino && named.st_dev == own.st_dev))
    }

    /// What was fixed when the upload was created, and when.
    pub(super) fn describe(&self, mode: MetadataMode) -> Result<(UploadSpec, SystemTime)> {
        let set = attributes::read_directory(mode, &self.dir)?;
        Ok((decode(&set), initiated(&self.dir, &set)?))
    }

    /// Removes the upload with its parts at once; the space is freed behind.
    pub(super) fn discard(&self, volume: &Volume) -> Result<()> {
        let io = |error| Error::io("remove an upload", error);
        match volume.trash.take(&self.parent, &self.id) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // The bucket lies on another file system than the trash.
            Err(Errno::ISDIR | Errno::PERM | Errno::XDEV) => {
                let temp = layout::temp_name();
                self.parent
                    .rename(&self.id, &self.parent, &temp)
                    .map_err(io)?;
                self.parent
                    .remove_tree(&temp)
                    .map_err(|error| Error::io("remove an upload", error))?;
            }
            Err(error) => return Err(io(error)),
        }
        volume.flush.directory(&self.parent)
    }
}

/// Removes the directory of a key's uploads if it has no more.
pub(super) fn tidy(volume: &Volume, bucket: &BucketName, key: &ObjectKey) -> Result<()> {
    let io = |error| Error::io("remove the directory of a key's uploads", error);
    match volume.root.open_dir(&area_path(bucket)) {
        // Comes back after a crash without harm: nothing to flush.
        Ok(area) => {
            area.remove_dir(&hash_name(key.as_str())).map_err(io)?;
            Ok(())
        }
        Err(error) if is_absent(error) => Ok(()),
        Err(error) => Err(io(error)),
    }
}

/// Gives an upload back its name that versitygw claimed for a completion and then crashed.
pub(super) fn recover(parent: &Dir, id: &str) -> Result<()> {
    let io = |error| Error::io("recover an upload", error);
    let entries = match parent.entries() {
        Ok(entries) => entries,
        // Removed with its last upload.
        Err(error) if is_absent(error) => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    let claimed = entries
        .into_iter()
        .find(|(name, _)| name != id && upload_id_of(name) == Some(id));
    let Some((name, _)) = claimed else {
        return Ok(());
    };
    match parent.rename_new(&name, parent, id) {
        Err(Errno::INVAL) => parent.rename(&name, parent, id).map_err(io),
        Ok(()) | Err(Errno::NOENT | Errno::EXIST) => Ok(()),
        Err(error) => Err(io(error)),
    }
}

/// Attributes of an upload begun now.
pub(super) fn encode(key: &ObjectKey, spec: &UploadSpec, initiated: SystemTime) -> AttributeSet {
    use crate::attributes::codec;

    let mut set = AttributeSet::default();
    codec::encode_headers(&mut set, &spec.headers);
    codec::encode_user(&mut set, &spec.user);
    codec::encode_tags(&mut set, &spec.tags);
    if let Some((algorithm, kind)) = spec.checksum {
        let value = codec::encode_checksum(algorithm, Some(kind), None);
        set.set(attribute::CHECKSUMS, value);
    }
    set.set(attribute::UPLOAD_KEY, key.as_str());
    set.set(INITIATED, dir::ns_of(initiated).to_string());
    set
}

fn decode(set: &AttributeSet) -> UploadSpec {
    use crate::attributes::codec;

    UploadSpec {
        headers: codec::decode_headers(set),
        user: codec::decode_user(set),
        tags: codec::decode_tags(set).unwrap_or_default(),
        checksum: codec::decode_checksum_spec(set).map(|(algorithm, kind, _)| (algorithm, kind)),
    }
}

/// When an upload was initiated: as written down, else when its directory was made, else (no
/// such time on this file system) when it last changed, which is what versitygw says.
pub(super) fn initiated(upload: &Dir, set: &AttributeSet) -> Result<SystemTime> {
    if let Some(ns) = set.text(INITIATED).and_then(|text| text.parse().ok()) {
        return Ok(dir::time_from_ns(ns));
    }
    directory_born(upload)
}

/// When a directory was made, or else last changed.
pub(super) fn directory_born(directory: &Dir) -> Result<SystemTime> {
    let wanted = StatxFlags::BTIME | StatxFlags::MTIME;
    let stat = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, wanted)
        .map_err(|error| Error::io("look at an upload", error))?;
    let time = if stat.stx_mask & StatxFlags::BTIME.bits() != 0 {
        stat.stx_btime
    } else {
        stat.stx_mtime
    };
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Ok(dir::time_from_ns(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_name_uploads() {
        for good in ["a", "0191d9c5-9c2e-7bb0-8000-000000000000"] {
            assert!(is_upload_id(good), "{good}");
            assert_eq!(upload_id_of(good), Some(good));
        }
        for bad in [
            "",
            "../x",
            "a/b",
            ".",
            "..",
            "a.b",
            "a b",
            "é",
            &"x".repeat(65),
        ] {
            assert!(!is_upload_id(bad), "{bad}");
        }
        assert_eq!(upload_id_of("u-1.d41d8cd9-2.inprogress"), Some("u-1"));
        assert_eq!(upload_id_of(".inprogress"), None);
    }
}
