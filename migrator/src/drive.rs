//! The offline source: the data directory of a stopped single-drive MinIO, read without MinIO.
//!
//! ```text
//! Drive::open ─ format.json ok? ──▶ buckets() ──▶ walk(bucket) ─ keys in byte order
//!                                                    │  xl.meta: versions, metadata
//!                                                    ▼
//!                            reader(object): inline | part files ─ bitrot ─ S2 ─▶ bytes
//! ```
//!
//! Nothing is ever written: files are opened read-only, without following symbolic links and
//! (where allowed) without touching access times. Every byte is checked against the hashes that
//! MinIO stored. Facts about the format are in `docs/reference/offline-source.md`.

mod bitrot;
mod body;
mod bucket;
mod checksum;
pub mod error;
mod format;
mod fs;
mod msgp;
mod object;
mod quiet;
mod s2;
mod system;
mod walk;
mod xl_meta;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use filestore_common::{BucketName, ObjectKey};

use self::fs::Root;
use self::walk::{look, object_dir};

pub use body::{BodyReader, ETagCheck};
pub use bucket::DriveBucket;
pub use error::{Encryption, Error, FormatError, Result, Unreadable};
pub use object::DriveObject;
pub use quiet::{Fingerprint, IDLE_INTERVAL};
pub use system::SystemReport;
pub use walk::{Content, Stray, Walk, WalkItem, WalkedKey};

/// Longest `.metadata.bin` that is read, in bytes. A bucket policy has at most 20 KiB.
const MAX_SETTINGS: u64 = 16 << 20;

/// Top-level names that are no buckets and no reason to worry: MinIO's own, Bitnami's, ext4's.
const NO_BUCKETS: [&str; 4] = [".minio.sys", ".root_user", ".root_password", "lost+found"];

/// A MinIO data directory. Cheap to clone; may be used from many threads.
#[derive(Debug, Clone)]
pub struct Drive {
    root: Arc<Root>,
    deployment_id: Option<String>,
}

/// First level of the drive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopLevel {
    /// Buckets in byte order.
    pub buckets: Vec<BucketName>,
    /// Directories whose names no bucket can have.
    pub not_buckets: Vec<String>,
}

impl Drive {
    /// Opens the drive at `path` after a look at its `format.json`.
    ///
    /// # Errors
    /// [`FormatError`] with what was found and what to do; [`Error::Denied`]; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let root = Root::open(path)?;
        let deployment_id = format::read(&root)?;
        Ok(Self {
            root: Arc::new(root),
            deployment_id,
        })
    }

    /// Opens a tree that lost its `.minio.sys`: objects are readable, settings are not. Any other
    /// `format.json` than a single drive's is still refused.
    ///
    /// # Errors
    /// As [`Drive::open`], but not [`FormatError::Missing`].
    pub fn open_without_format(path: &Path) -> Result<Self> {
        match Self::open(path) {
            Err(Error::Format(FormatError::Missing { .. })) => Ok(Self {
                root: Arc::new(Root::open(path)?),
                deployment_id: None,
            }),
            other => other,
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Which MinIO deployment this is, from `format.json`.
    pub fn deployment_id(&self) -> Option<&str> {
        self.deployment_id.as_deref()
    }

    /// Buckets, and directories that look like none.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    pub fn top_level(&self) -> Result<TopLevel> {
        let mut top = TopLevel::default();
        self.root.read_dir(".", |name, kind| {
            let name = String::from_utf8_lossy(name).into_owned();
            if kind != rustix::fs::FileType::Directory || NO_BUCKETS.contains(&name.as_str()) {
                return;
            }
            match BucketName::new(name.clone()) {
                Ok(bucket) => top.buckets.push(bucket),
                Err(_) => top.not_buckets.push(name),
            }
        })?;
        top.buckets.sort_unstable();
        top.not_buckets.sort_unstable();
        Ok(top)
    }

    /// Buckets with their settings, in byte order of names.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`]. Settings that cannot be read are told in
    /// [`DriveBucket::damage`].
    pub fn buckets(&self) -> Result<Vec<DriveBucket>> {
        let names = self.top_level()?.buckets;
        names.into_iter().map(|name| self.bucket(name)).collect()
    }

    /// One bucket with its settings.
    ///
    /// # Errors
    /// As [`Drive::buckets`].
    pub fn bucket(&self, name: BucketName) -> Result<DriveBucket> {
        let dir = format!(".minio.sys/buckets/{name}");
        let changed = self.root.dir_modified(name.as_str())?;
        let mut bucket = DriveBucket::new(name, changed.unwrap_or(SystemTime::UNIX_EPOCH));
        match self.small_object(&format!("{dir}/.metadata.bin")) {
            Ok(Some(body)) => {
                if let Err(damage) = bucket.add_settings(&body) {
                    bucket.damage = Some(damage.0);
                }
            }
            Ok(None) => {}
            Err(error @ Error::Object { .. }) => bucket.damage = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        for found in system::dirs(&self.root, &dir)? {
            let old = bucket::OLD_FILES.iter().find(|(file, _)| *file == found);
            if let Some((_, setting)) = old {
                bucket.add(setting, &[]);
            }
        }
        Ok(bucket)
    }

    /// Reads an object of MinIO's own; `None` when there is none.
    fn small_object(&self, dir: &str) -> Result<Option<Vec<u8>>> {
        let refuse = |reason| Error::Object {
            object: dir.to_owned(),
            reason,
        };
        let object = match look(&self.root, dir, &mut Vec::new())? {
            Some((Content::Object(object), _)) => object,
            Some((Content::Unreadable(reason), _)) => return Err(refuse(reason)),
            _ => return Ok(None),
        };
        if object.size > MAX_SETTINGS {
            let text = format!("{} bytes of settings", object.size);
            return Err(refuse(Unreadable::Damaged(text)));
        }
        let mut reader = BodyReader::new(Arc::clone(&self.root), dir.to_owned(), &object, false)?;
        let mut body = Vec::new();
        let mut piece = [0; 4 << 10];
        loop {
            match reader.read_checked(&mut piece)? {
                0 => return Ok(Some(body)),
                count => body.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// All keys of a bucket in byte order, from the first one after `start_after`.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`] (also when there is no such bucket).
    pub fn walk(&self, bucket: &BucketName, start_after: Option<&ObjectKey>) -> Result<Walk> {
        Walk::new(Arc::clone(&self.root), bucket, start_after)
    }

    /// What `key` holds now; `None` when it has no `xl.meta`.
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub fn look(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Content>> {
        let dir = format!("{bucket}/{}", object_dir(key.as_str()));
        let found = look(&self.root, &dir, &mut Vec::new())?;
        Ok(found.map(|(content, _)| content))
    }

    /// Opens an object that was found at `bucket`/`key`. With `check_etag`, MD5s are computed on
    /// the way and [`BodyReader::etag_check`] answers at the end.
    ///
    /// # Errors
    /// [`Error::Object`], [`Error::Changed`], [`Error::Denied`], [`Error::Io`].
    pub fn reader(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        object: &DriveObject,
        check_etag: bool,
    ) -> Result<BodyReader> {
        let name = format!("{bucket}/{key}");
        BodyReader::new(Arc::clone(&self.root), name, object, check_etag)
    }

    /// Counts of what is no object and does not travel.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    pub fn system(&self) -> Result<SystemReport> {
        SystemReport::read(&self.root)
    }

    /// A fingerprint of all buckets and of MinIO's own directories; see [`Fingerprint`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Io`].
    pub fn fingerprint(&self) -> Result<Fingerprint> {
        Fingerprint::take(&self.root, &self.top_level()?.buckets)
    }
}

#[cfg(test)]
mod tests;
