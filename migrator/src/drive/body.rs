//! Bodies: found inline or in part files, every byte checked on its way out.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use filestore_common::ETag;
use md5::{Digest, Md5};

use super::bitrot::{BitrotReader, framed_len};
use super::error::{Damaged, Error, Result, Unreadable};
use super::fs::Root;
use super::object::{BodyPlan, DriveObject};
use super::s2::S2Reader;
use super::xl_meta::{Part, find_inline};

/// Buffer between a file and the frames; large frames pass it by.
const BUFFER: usize = 8 << 10;

/// Whether the ETag is what the bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ETagCheck {
    /// The MD5 of the bytes, or of the parts' MD5s, is the ETag.
    Matches,
    /// It is another one. The bytes are still what MinIO wrote, each frame's hash says so: an
    /// ETag that MinIO took over from another store (replication) looks like this.
    Differs,
    /// The ETag is of no form that can be computed from the bytes.
    NotComputable,
}

/// A part's bytes as S3 shows them.
type PartStream = Box<dyn Read + Send>;

/// Reads one object's body; every frame, block and length is checked before a byte comes out.
pub struct BodyReader {
    root: Arc<Root>,
    /// `bucket/key`, for errors.
    name: String,
    plan: BodyPlan,
    /// Where the whole body lies in `xl.meta`, if it does.
    inline: Option<(File, std::ops::Range<u64>)>,
    /// Index of the part being read, or of the next one.
    part: usize,
    stream: Option<PartStream>,
    /// Bytes of the current part that came out.
    part_read: u64,
    /// Bytes that are still to come.
    left: u64,
    digest: Option<ETagDigest>,
}

impl std::fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyReader")
            .field("name", &self.name)
            .field("part", &self.part)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl BodyReader {
    /// Prepares to read `object`, called `name` in errors. `check_etag` computes MD5s on the way.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::Object`], [`Error::Denied`], [`Error::Io`].
    pub(super) fn new(
        root: Arc<Root>,
        name: String,
        object: &DriveObject,
        check_etag: bool,
    ) -> Result<Self> {
        let mut reader = Self {
            root,
            name,
            plan: object.body.clone(),
            inline: None,
            part: 0,
            stream: None,
            part_read: 0,
            left: object.size,
            digest: check_etag
                .then(|| ETagDigest::new(object.meta.etag.clone(), object.body.parts.len())),
        };
        reader.inline = reader.find_inline()?;
        Ok(reader)
    }

    /// Looks for the body in `xl.meta`.
    fn find_inline(&self) -> Result<Option<(File, std::ops::Range<u64>)>> {
        let Some(offset) = self.plan.inline_at else {
            return Ok(None);
        };
        let path = format!("{}/xl.meta", self.plan.dir);
        let changed = || Error::Changed {
            object: self.name.clone(),
        };
        let (file, stamp) = self.root.open_file(&path)?.ok_or_else(changed)?;
        if stamp != self.plan.stamp {
            return Err(changed());
        }
        let names = [self.plan.version.as_str(), self.plan.data_dir.as_str()];
        let found = find_inline(&file, offset, stamp.len, names)
            .map_err(|error| self.describe(error, "xl.meta"))?;
        // Without bytes there is nothing to find: an empty object is not damaged.
        let Some(range) = found.filter(|range| !range.is_empty()) else {
            return Ok(None);
        };
        let [part] = self.plan.parts[..] else {
            return Err(self.damaged("its inline body has several parts".to_owned()));
        };
        self.check_framed_len(&part, range.end - range.start, "its inline body")?;
        Ok(Some((file, range)))
    }

    fn check_framed_len(&self, part: &Part, found: u64, what: &str) -> Result<()> {
        let expected = framed_len(part.stored, self.plan.shard as u64);
        if expected == Some(found) {
            return Ok(());
        }
        Err(self.damaged(format!(
            "{what} has {found} bytes, {} belong there",
            expected.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string())
        )))
    }

    /// Reads some bytes; 0 only at the end, when all sizes agreed.
    ///
    /// # Errors
    /// As [`BodyReader::new`]; bytes that came out before are good.
    pub fn read_checked(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let Some(part) = self.plan.parts.get(self.part).copied() else {
                if self.left > 0 {
                    return Err(self.damaged(format!("{} bytes are missing at its end", self.left)));
                }
                return Ok(0);
            };
            let stream = match self.stream.take() {
                Some(stream) => stream,
                None => self.open_part(&part)?,
            };
            let stream = self.stream.insert(stream);
            let read = stream.read(out);
            let count =
                read.map_err(|error| self.describe(error, &format!("part.{}", part.number)))?;
            if count > 0 {
                return self.took(&out[..count]);
            }
            self.end_part(&part)?;
        }
    }

    fn took(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len() as u64;
        self.part_read += count;
        self.left = self
            .left
            .checked_sub(count)
            .ok_or_else(|| self.damaged("it holds more bytes than its size says".to_owned()))?;
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        Ok(bytes.len())
    }

    fn end_part(&mut self, part: &Part) -> Result<()> {
        if let Some(actual) = part.actual
            && actual != self.part_read
        {
            return Err(self.damaged(format!(
                "part {} gave {} bytes, its metadata says {actual}",
                part.number, self.part_read
            )));
        }
        if let Some(digest) = &mut self.digest {
            digest.end_part();
        }
        self.stream = None;
        self.part_read = 0;
        self.part += 1;
        Ok(())
    }

    fn open_part(&self, part: &Part) -> Result<PartStream> {
        let (file, len) = match &self.inline {
            Some((file, range)) => {
                let mut file = file
                    .try_clone()
                    .map_err(|error| self.describe(error, "xl.meta"))?;
                file.seek(SeekFrom::Start(range.start))
                    .map_err(|error| self.describe(error, "xl.meta"))?;
                (file, range.end - range.start)
            }
            None if part.stored == 0 => return Ok(Box::new(io::empty())),
            None => {
                let path = self.part_path(part);
                let Some((file, stamp)) = self.root.open_file(&path)? else {
                    return Err(self.missing_part(part));
                };
                self.check_framed_len(part, stamp.len, &format!("part.{}", part.number))?;
                (file, stamp.len)
            }
        };
        let capacity = usize::try_from(len).map_or(BUFFER, |len| len.clamp(1, BUFFER));
        let file = BufReader::with_capacity(capacity, file.take(len));
        let frames = BitrotReader::new(file, part.stored, self.plan.shard);
        Ok(if self.plan.compressed {
            Box::new(S2Reader::new(frames))
        } else {
            Box::new(frames)
        })
    }

    fn part_path(&self, part: &Part) -> String {
        format!(
            "{}/{}/part.{}",
            self.plan.dir, self.plan.data_dir, part.number
        )
    }

    /// A part that is not there: overwritten meanwhile, or lost?
    fn missing_part(&self, part: &Part) -> Error {
        let path = format!("{}/xl.meta", self.plan.dir);
        match self.root.open_file(&path) {
            Ok(Some((_, stamp))) if stamp == self.plan.stamp => self.damaged(format!(
                "{}/part.{} is missing",
                self.plan.data_dir, part.number
            )),
            Ok(_) => Error::Changed {
                object: self.name.clone(),
            },
            Err(error) => error,
        }
    }

    /// Tells damage from failures of the file system.
    fn describe(&self, error: io::Error, what: &str) -> Error {
        let damage = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Damaged>());
        match damage {
            Some(damage) => self.damaged(format!("{what}: {damage}")),
            None => self
                .root
                .io_error("read", &format!("{}/{what}", self.plan.dir), error),
        }
    }

    fn damaged(&self, text: String) -> Error {
        Error::Object {
            object: self.name.clone(),
            reason: Unreadable::Damaged(text),
        }
    }

    /// What the bytes say of the ETag; only after the end, and when it was asked for.
    pub fn etag_check(&self) -> Option<ETagCheck> {
        let done = self.part == self.plan.parts.len();
        self.digest
            .as_ref()
            .filter(|_| done)
            .map(ETagDigest::verdict)
    }
}

impl Read for BodyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_checked(out).map_err(io::Error::other)
    }
}

/// Computes the ETag that S3 would give the bytes.
#[derive(Debug)]
struct ETagDigest {
    etag: ETag,
    multipart: bool,
    part: Md5,
    parts: Md5,
    count: usize,
}

impl ETagDigest {
    fn new(etag: ETag, parts: usize) -> Self {
        Self {
            multipart: etag.part_count().map(|count| count as usize) == Some(parts),
            etag,
            part: Md5::new(),
            parts: Md5::new(),
            count: 0,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.part.update(bytes);
    }

    fn end_part(&mut self) {
        self.count += 1;
        if self.multipart {
            self.parts.update(self.part.finalize_reset());
        }
    }

    fn verdict(&self) -> ETagCheck {
        let computed = if self.multipart {
            format!(
                "{}-{}",
                hex::encode(self.parts.clone().finalize()),
                self.count
            )
        } else if self.etag.is_md5() {
            hex::encode(self.part.clone().finalize())
        } else {
            return ETagCheck::NotComputable;
        };
        if computed == self.etag.as_str() {
            ETagCheck::Matches
        } else {
            ETagCheck::Differs
        }
    }
}
