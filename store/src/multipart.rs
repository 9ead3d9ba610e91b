//! Multipart uploads, in versitygw's layout where metadata lies in extended attributes: an
//! upload begun there can be completed here and the other way round.
//!
//! ```text
//! create    .sgwtmp/multipart/<hash of key>/<id>/   appears with all its attributes   [area]
//! part      …/<id>/N                                appears with its attributes       [parts]
//! complete  parts checked, assembled, published; then the upload goes                 [complete]
//! abort     the upload goes
//! ```
//! An upload goes by one rename into the trash. Until then a crash leaves it as it was, so that
//! the completion can be repeated; the object tells which upload made it, so that repeating one
//! that had succeeded changes nothing.

mod area;
mod checksum;
mod complete;
pub(crate) mod forms;
mod lock;
mod parts;
mod uploads;

use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use filestore_common::{BucketName, Checksum, ChecksumAlgorithm, ChecksumKind, ETag, ObjectKey};
use rustix::io::Errno;
use uuid::Uuid;

pub(crate) use lock::UploadLocks;

use crate::attributes::{self, AttributeSet, xattr};
use crate::dir::{self, Dir};
use crate::layout::{self, attribute};
use crate::query::{MetadataMode, PartInfo, UploadInfo, UploadSpec};
use crate::staged::{Staged, Target};
use crate::volume::Volume;
use crate::{Error, Result};
use area::Upload;
use checksum::Running;
use parts::Part;

/// Attempts to enter a directory that others keep removing.
const ATTEMPTS: usize = 1000;
/// Buffer for reading a staged part back, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// A new upload id: a UUID whose beginning is the time (version 7), so that ids sort by age.
fn new_upload_id(now: SystemTime) -> String {
    let millis = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
    // Bytes 6 and 8 of a random UUID hold its version and variant.
    let random = Uuid::new_v4().into_bytes();
    let mut tail = [0; 10];
    for (byte, from) in tail.iter_mut().zip([0, 1, 2, 3, 4, 5, 7, 9, 10, 11]) {
        *byte = random[from];
    }
    uuid::Builder::from_unix_timestamp_millis(millis, &tail)
        .into_uuid()
        .to_string()
}

/// When an upload was initiated, from its id, if it is one of ours.
fn time_of_id(id: &str) -> Option<SystemTime> {
    let id = Uuid::parse_str(id)
        .ok()
        .filter(|id| id.get_version_num() == 7)?;
    let millis = id.as_u128() >> 80;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(u64::try_from(millis).ok()?))
}

impl Volume {
    /// See [`crate::Store::create_upload`].
    pub(crate) fn create_upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        spec: &UploadSpec,
    ) -> Result<String> {
        let now = SystemTime::now();
        let id = new_upload_id(now);
        let _gate = self
            .bucket_gate
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let temp = self.open_temp(bucket)?;
        let name = layout::temp_name();
        let outcome = self
            .write_upload(&temp, &name, &area::encode(key, spec, now))
            .and_then(|()| self.place_upload(&temp, &name, bucket, key, &id));
        if outcome.is_err()
            && let Err(error) = temp.remove_tree(&name)
        {
            tracing::warn!(%error, "remove an upload that could not be created");
        }
        outcome.map(|()| id)
    }

    /// Makes a directory with the attributes of an upload.
    fn write_upload(&self, temp: &Dir, name: &str, set: &AttributeSet) -> Result<()> {
        let io = |error| Error::io("make the directory of an upload", error);
        temp.make_dir(name).map_err(io)?;
        let dir = temp.open_dir(name).map_err(io)?;
        attributes::write_directory(self.mode, &dir, set)?;
        self.flush.directory(&dir)
    }

    /// Moves it to where uploads of the key lie.
    fn place_upload(
        &self,
        temp: &Dir,
        name: &str,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
    ) -> Result<()> {
        let io = |error| Error::io("place an upload", error);
        let path = area::key_path(bucket, key);
        for _ in 0..ATTEMPTS {
            let parent = match self.flush.open_or_make(&self.root, &path, 1) {
                Ok(parent) => parent,
                // The last upload of the key went meanwhile; or the bucket did.
                Err(Errno::NOENT) => {
                    self.bucket_dir(bucket)?;
                    continue;
                }
                Err(error) => return Err(io(error)),
            };
            if self.mode == MetadataMode::Xattr {
                xattr::put(&parent, attribute::UPLOAD_KEY, key.as_str().as_bytes())?;
            }
            match temp.rename(name, &parent, id) {
                Ok(()) => {
                    self.flush.directory(&parent)?;
                    return self.flush.ancestors(&self.root, &path);
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(io(error)),
            }
        }
        Err(io(Errno::AGAIN))
    }

    /// See [`crate::Store::upload`].
    pub(crate) fn upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
    ) -> Result<UploadInfo> {
        let (spec, initiated) = Upload::open(self, bucket, key, id)?.describe(self.mode)?;
        Ok(UploadInfo {
            key: key.clone(),
            upload_id: id.to_owned(),
            initiated,
            spec,
        })
    }

    /// See [`crate::Store::stage_part`].
    pub(crate) fn stage_part(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
        number: u32,
        size: Option<u64>,
    ) -> Result<Staged> {
        Upload::open(self, bucket, key, id)?;
        if !parts::is_part_number(number) {
            return Err(Error::InvalidPart(number));
        }
        let target = Target::Part {
            bucket: bucket.clone(),
            key: key.clone(),
            upload_id: id.to_owned(),
            number,
        };
        self.stage(target, size)
    }

    /// See [`crate::Store::publish_part`].
    pub(crate) fn publish_part(
        &self,
        mut staged: Staged,
        etag: &ETag,
        checksum: Option<&Checksum>,
    ) -> Result<PartInfo> {
        let Target::Part {
            bucket,
            key,
            upload_id,
            number,
        } = staged.target.clone()
        else {
            return Err(Error::Damaged("an object is no part".into()));
        };
        let upload = Upload::open(self, &bucket, &key, &upload_id)?;
        let (spec, _) = upload.describe(self.mode)?;
        let declared = spec.checksum.map(|(algorithm, _)| algorithm);
        let checksum = match declared {
            Some(algorithm) => {
                let given = checksum.filter(|given| given.algorithm == algorithm);
                let value = match given {
                    Some(given) => given.value.clone(),
                    None => sum_of(&staged, algorithm)?,
                };
                Some((algorithm, value))
            }
            None => checksum.map(|given| (given.algorithm, given.value.clone())),
        };
        let checksum = checksum.map(|(algorithm, value)| Checksum {
            algorithm,
            // Of all bytes of the part; what the whole gets, the upload says.
            kind: ChecksumKind::FullObject,
            value,
        });
        // What versitygw combines to the checksum of an object whose upload declares none.
        let crc64 = match (&checksum, declared) {
            (_, Some(_)) => None,
            (Some(sum), None) if sum.algorithm == ChecksumAlgorithm::Crc64nvme => {
                Some(sum.value.clone())
            }
            (_, None) => Some(sum_of(&staged, ChecksumAlgorithm::Crc64nvme)?),
        };
        let set = parts::encode(
            etag,
            checksum.as_ref(),
            declared.is_some(),
            crc64.as_deref(),
        );
        let name = parts::publish(self, &upload, &mut staged.file, number, set)?;
        if !upload.is_alive()? {
            // It went into the trash with the upload, or was late for that.
            if let Err(error) = upload.dir.remove_file(&name) {
                tracing::debug!(%error, "remove a late part");
            }
            return Err(Error::NoSuchUpload);
        }
        let stat = rustix::fs::fstat(&staged.file.file)
            .map_err(|error| Error::io("look at a part", error))?;
        Ok(PartInfo {
            number,
            size: dir::size(&stat),
            etag: etag.clone(),
            checksum,
            last_modified: dir::mtime(&stat),
        })
    }

    /// See [`crate::Store::list_parts`].
    pub(crate) fn list_parts(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
        after: u32,
        max: usize,
    ) -> Result<(Vec<PartInfo>, bool)> {
        let upload = Upload::open(self, bucket, key, id)?;
        let mut numbers = parts::numbers(self.mode, &upload)?;
        numbers.retain(|number| *number > after);
        let more = numbers.len() > max;
        numbers.truncate(max);
        let mut listed = Vec::with_capacity(numbers.len());
        for number in numbers {
            listed.extend(Part::open(self.mode, &upload, number)?.map(|part| part.info()));
        }
        Ok((listed, more))
    }

    /// See [`crate::Store::abort_upload`].
    pub(crate) fn abort_upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
    ) -> Result<()> {
        let upload = Upload::open(self, bucket, key, id)?;
        let lock = self.upload_locks.lock(&upload)?;
        upload.discard(self)?;
        drop(lock);
        area::tidy(self, bucket, key)
    }
}

/// Checksum of a staged part in base64, read back from the page cache.
fn sum_of(staged: &Staged, algorithm: ChecksumAlgorithm) -> Result<String> {
    let mut running = Running::new(algorithm);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut offset = 0;
    loop {
        let read = staged
            .file
            .file
            .read_at(&mut buffer, offset)
            .map_err(|error| Error::io("read a part back", error))?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(running.finish_base64());
        };
        running.update(bytes);
        offset += bytes.len() as u64;
    }
}
