//! Completing an upload: its parts become the object, whole and flushed, before they go.

use std::time::SystemTime;

use filestore_common::{
    BucketName, Checksum, ChecksumAlgorithm, ChecksumKind, ETag, ObjectInfo, ObjectKey, ObjectMeta,
};
use md5::{Digest, Md5};

use super::area::{self, Upload};
use super::checksum::{self, PartSum};
use super::parts::{self, Part};
use crate::attributes::{codec, xattr};
use crate::layout::attribute;
use crate::publish::Publication;
use crate::query::{CompleteOptions, CompletedPart, MetadataMode, UploadSpec};
use crate::staged::{StagedFile, Target};
use crate::volume::Volume;
use crate::{Error, Result};

/// Smallest part that is not the last (S3 user guide, "Multipart upload limits"), in bytes.
const MIN_PART: u64 = 5 * 1024 * 1024;

/// A part that was found as the client named it. Its file is opened again when it is its turn:
/// ten thousand of them would be too many open files.
#[derive(Debug)]
struct Checked {
    number: u32,
    size: u64,
    etag: ETag,
    /// Checksum of the algorithm that the object gets, in base64.
    sum: Option<String>,
}

impl Volume {
    /// See [`crate::Store::complete_upload`].
    pub(crate) fn complete_upload(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
        parts: &[CompletedPart],
        options: &CompleteOptions,
    ) -> Result<ObjectInfo> {
        let opened = Upload::open(self, bucket, key, id)
            .and_then(|upload| Ok((self.upload_locks.lock(&upload)?, upload)));
        let (lock, upload) = match opened {
            Err(Error::NoSuchUpload) => return self.completed_before(bucket, key, id, parts),
            other => other?,
        };
        let info = match self.made_by(bucket, key, id)? {
            // A crash between the object and the removal of its parts.
            Some(info) => info,
            None => self.assemble(bucket, key, &upload, parts, options)?,
        };
        // The object is there: what fails now leaves parts behind, not a wrong answer.
        let removed = upload.discard(self);
        drop(lock);
        if let Err(error) = removed.and_then(|()| area::tidy(self, bucket, key)) {
            tracing::warn!(%error, "remove a completed upload");
        }
        Ok(info)
    }

    /// The answer to a completion that is repeated after it succeeded.
    fn completed_before(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
        parts: &[CompletedPart],
    ) -> Result<ObjectInfo> {
        if !area::is_upload_id(id) {
            return Err(Error::NoSuchUpload);
        }
        let etag = multipart_etag(parts.iter().map(|part| &part.etag));
        self.made_by(bucket, key, id)?
            .filter(|info| etag.as_ref() == Some(&info.meta.etag))
            .ok_or(Error::NoSuchUpload)
    }

    /// The object of the key, if this upload made it.
    fn made_by(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: &str,
    ) -> Result<Option<ObjectInfo>> {
        let _guard = self.locks.read(bucket, key.as_str());
        let Some(found) = self.find(bucket, key)? else {
            return Ok(None);
        };
        let made_by = codec::decode(&found.attributes, &found.stat).upload_id;
        Ok((made_by.as_deref() == Some(id)).then(|| found.info()))
    }

    fn assemble(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload: &Upload,
        parts: &[CompletedPart],
        options: &CompleteOptions,
    ) -> Result<ObjectInfo> {
        let (spec, _) = upload.describe(self.mode)?;
        let (algorithm, kind) = spec
            .checksum
            .unwrap_or((ChecksumAlgorithm::Crc64nvme, ChecksumKind::FullObject));
        let checked = self.check_parts(upload, parts, algorithm, options)?;
        let sum = checksum::whole(algorithm, kind, checked.iter().map(Checked::sum));
        check_announced(&checked, sum.as_ref(), options)?;
        // Before the work; it is checked again when the object is published.
        {
            let _guard = self.locks.read(bucket, key.as_str());
            self.check(bucket, key, &options.precondition)?;
        }
        let meta = meta_of(spec, &checked, sum)?;
        let mut new = Publication {
            bucket,
            key,
            meta: &meta,
            upload_id: Some(&upload.id),
            precondition: &options.precondition,
            last_modified: options.last_modified,
        };
        match checked.as_slice() {
            [only] if self.unnamed_files => {
                new.last_modified.get_or_insert_with(SystemTime::now);
                self.rename_only_part(upload, only, &new)
            }
            _ => {
                let file = self.concatenate(bucket, key, upload, &checked)?;
                let mut fitting = meta.clone();
                self.drop_sizes_that_do_not_fit(&file, &mut fitting, &upload.id)?;
                new.meta = &fitting;
                self.publish(file, &new)
            }
        }
    }

    /// A single part becomes the object by getting its name too: nothing is copied.
    fn rename_only_part(
        &self,
        upload: &Upload,
        only: &Checked,
        new: &Publication<'_>,
    ) -> Result<ObjectInfo> {
        let part = reopen(self.mode, upload, only)?;
        parts::keep_own(self.mode, &part)?;
        let same = part
            .file
            .try_clone()
            .map_err(|error| Error::io("open a part", error))?;
        let info = self.publish(StagedFile::existing(part.file), new)?;
        // More attributes than an object has do no harm.
        if let Err(error) = parts::forget_part(self.mode, &same, new.meta) {
            tracing::warn!(%error, "remove what belonged to a part");
        }
        Ok(info)
    }

    /// Finds each part as the client named it.
    fn check_parts(
        &self,
        upload: &Upload,
        parts: &[CompletedPart],
        algorithm: ChecksumAlgorithm,
        options: &CompleteOptions,
    ) -> Result<Vec<Checked>> {
        let is_ascending = parts
            .iter()
            .zip(parts.iter().skip(1))
            .all(|(part, next)| part.number < next.number);
        if !is_ascending {
            return Err(Error::InvalidPartOrder);
        }
        let mut checked = Vec::with_capacity(parts.len());
        for named in parts {
            let invalid = || Error::InvalidPart(named.number);
            let part = Part::open(self.mode, upload, named.number)?.ok_or_else(invalid)?;
            let is_same_sum = named
                .checksum
                .as_ref()
                .is_none_or(|sum| part.checksum_value(sum.algorithm) == Some(sum.value.as_str()));
            if part.etag != named.etag || !is_same_sum {
                return Err(invalid());
            }
            checked.push(Checked {
                number: part.number,
                size: part.size,
                sum: part.checksum_value(algorithm).map(str::to_owned),
                etag: part.etag,
            });
        }
        let Some((_, all_but_last)) = checked.split_last() else {
            return Err(Error::InvalidPart(0));
        };
        let small = all_but_last.iter().find(|part| part.size < MIN_PART);
        match small.filter(|_| !options.allow_small_parts) {
            Some(part) => Err(Error::PartTooSmall {
                number: part.number,
                size: part.size,
            }),
            None => Ok(checked),
        }
    }

    /// All parts in one staged file; by reference where the file system can.
    fn concatenate(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        upload: &Upload,
        checked: &[Checked],
    ) -> Result<StagedFile> {
        let target = Target::Object {
            bucket: bucket.clone(),
            key: key.clone(),
        };
        let mut staged = self.stage(target, None)?;
        for part in checked {
            let file = reopen(self.mode, upload, part)?.file;
            staged.append(&file, 0, part.size)?;
        }
        Ok(staged.file)
    }

    /// Leaves the part sizes out where the file system has no room for them (ext4: 4 KiB for all
    /// attributes): the object is worth more than reading it by part number.
    fn drop_sizes_that_do_not_fit(
        &self,
        file: &StagedFile,
        meta: &mut ObjectMeta,
        id: &str,
    ) -> Result<()> {
        /// That many sizes always fit beside the largest metadata.
        const FITTING: usize = 100;

        if self.mode == MetadataMode::Sidecar || meta.part_sizes.len() <= FITTING {
            return Ok(());
        }
        match xattr::write(&file.file, &codec::encode(meta, Some(id))) {
            Err(Error::MetadataTooLarge(_)) => {
                tracing::warn!(
                    parts = meta.part_sizes.len(),
                    "no room for the sizes of the parts"
                );
                meta.part_sizes.clear();
                xattr::remove(&file.file, attribute::MULTIPART).map(drop)
            }
            other => other,
        }
    }
}

impl Checked {
    fn sum(&self) -> Option<PartSum<'_>> {
        Some(PartSum {
            value: self.sum.as_deref()?,
            size: self.size,
        })
    }
}

/// Opens a checked part again, if it still is the same.
fn reopen(mode: MetadataMode, upload: &Upload, checked: &Checked) -> Result<Part> {
    Part::open(mode, upload, checked.number)?
        .filter(|part| part.etag == checked.etag && part.size == checked.size)
        .ok_or(Error::InvalidPart(checked.number))
}

/// Compares the whole with what the client announced.
fn check_announced(
    checked: &[Checked],
    sum: Option<&Checksum>,
    options: &CompleteOptions,
) -> Result<()> {
    let size: u64 = checked.iter().map(|part| part.size).sum();
    if let Some(announced) = options.object_size.filter(|announced| *announced != size) {
        let text = format!("{announced} bytes announced, {size} received");
        return Err(Error::BadDigest(text));
    }
    let Some(announced) = &options.checksum else {
        return Ok(());
    };
    let is_same = sum.is_some_and(|sum| {
        // Clients leave the `-N` of a composite checksum out or not.
        let (value, _) = split_count(&sum.value);
        let (wanted, count) = split_count(&announced.value);
        sum.algorithm == announced.algorithm
            && value == wanted
            && count.is_none_or(|count| count == checked.len().to_string())
    });
    if is_same {
        Ok(())
    } else {
        Err(Error::BadDigest("checksum of the whole".to_owned()))
    }
}

/// Splits `<base64>-<parts>`; base64 has no hyphen.
fn split_count(value: &str) -> (&str, Option<&str>) {
    match value.split_once('-') {
        Some((value, count)) => (value, Some(count)),
        None => (value, None),
    }
}

fn meta_of(spec: UploadSpec, checked: &[Checked], sum: Option<Checksum>) -> Result<ObjectMeta> {
    let etag = multipart_etag(checked.iter().map(|part| &part.etag))
        .ok_or_else(|| Error::Damaged("a part without an MD5 as ETag".to_owned()))?;
    Ok(ObjectMeta {
        etag,
        headers: spec.headers,
        user: spec.user,
        tags: spec.tags,
        checksum: sum,
        part_sizes: checked.iter().map(|part| part.size).collect(),
    })
}

/// MD5 of the concatenated MD5s of the parts, `-N`; `None` when one is no MD5.
fn multipart_etag<'a>(parts: impl ExactSizeIterator<Item = &'a ETag>) -> Option<ETag> {
    let count = parts.len();
    let mut digest = Md5::new();
    for etag in parts {
        if !etag.is_md5() {
            return None;
        }
        digest.update(hex::decode(etag.as_str()).ok()?);
    }
    Some(ETag::new(format!(
        "{}-{count}",
        hex::encode(digest.finalize())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipart_etags_are_those_of_s3() {
        let parts = [b"a".as_slice(), b"b"].map(|part| ETag::new(hex::encode(Md5::digest(part))));
        let bytes = [Md5::digest(b"a"), Md5::digest(b"b")].concat();
        let expected = format!("{}-2", hex::encode(Md5::digest(bytes)));

        assert_eq!(multipart_etag(parts.iter()), Some(ETag::new(expected)));
        assert_eq!(multipart_etag([ETag::new("CRC64NVME-x")].iter()), None);
    }

    #[test]
    fn composite_checksums_may_come_without_their_count() {
        assert_eq!(split_count("q83v-2"), ("q83v", Some("2")));
        assert_eq!(split_count("q+/v=="), ("q+/v==", None));
    }
}
