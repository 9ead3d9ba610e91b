//! Buckets: directories of the data root whose names are bucket names.

use std::io::ErrorKind;
use std::sync::PoisonError;
use std::time::SystemTime;

use filestore_common::{BucketName, Tags};
use rustix::fs::FileType;

use crate::attributes::{AttributeSet, codec, xattr};
use crate::dir::{self, Dir};
use crate::layout::{TEMP_DIR, attribute, is_leftover};
use crate::query::{BucketInfo, MetadataMode};
use crate::sidecar;
use crate::volume::Volume;
use crate::{Error, Result};

/// Who owns the objects of a bucket: versitygw's default.
const OWNERSHIP: &str = "BucketOwnerEnforced";
/// How often a bucket is emptied of temporary files that come while it is deleted.
const CLEAR_ATTEMPTS: usize = 20;

/// The `acl` attribute of a private bucket.
#[derive(serde::Serialize)]
#[serde(rename_all = "PascalCase")]
struct Acl<'a> {
    owner: &'a str,
    grantees: [Grantee<'a>; 1],
}

#[derive(serde::Serialize)]
#[serde(rename_all = "PascalCase")]
struct Grantee<'a> {
    permission: &'a str,
    access: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
}

impl Volume {
    /// See [`crate::Store::list_buckets`].
    pub(crate) fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        let entries = self.root.entries();
        let entries = entries.map_err(|error| Error::io("list buckets", error))?;
        let mut buckets = Vec::new();
        for (name, kind) in entries {
            let Ok(bucket) = BucketName::new(name) else {
                continue;
            };
            if kind != FileType::Directory {
                continue;
            }
            match self.head_bucket(&bucket) {
                Ok(info) => buckets.push(info),
                Err(Error::NoSuchBucket) => {}
                Err(error) => return Err(error),
            }
        }
        buckets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(buckets)
    }

    /// See [`crate::Store::head_bucket`].
    pub(crate) fn head_bucket(&self, bucket: &BucketName) -> Result<BucketInfo> {
        let dir = self.bucket_dir(bucket)?;
        let stored = match self.mode {
            MetadataMode::Xattr => xattr::get(&dir, attribute::CREATED)?,
            MetadataMode::Sidecar => sidecar::read_bucket(&self.meta, bucket)?
                .and_then(|set| set.get(attribute::CREATED).map(<[u8]>::to_vec)),
        };
        let stored = stored
            .and_then(|ns| String::from_utf8(ns).ok())
            .and_then(|ns| ns.parse().ok());
        let created = match stored {
            Some(ns) => dir::time_from_ns(ns),
            None => dir::mtime(
                &dir.stat_self()
                    .map_err(|e| Error::io("look at a bucket", e))?,
            ),
        };
        let name = bucket.clone();
        Ok(BucketInfo { name, created })
    }

    /// See [`crate::Store::create_bucket`].
    pub(crate) fn create_bucket(&self, bucket: &BucketName, owner: &str) -> Result<()> {
        let gate = self
            .bucket_gate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.flush.note_made(bucket.as_str());
        let made = self
            .root
            .make_dir(bucket.as_str())
            .map_err(|error| Error::io("create a bucket", error))?;
        // A directory that somebody made by hand becomes a bucket of the asked-for owner.
        let dir = match self.bucket_dir(bucket) {
            Err(Error::NoSuchBucket) if !made => return Err(Error::BucketExists),
            other => other?,
        };
        if !made
            && self
                .bucket_attribute(bucket, &dir, attribute::ACL)?
                .is_some()
        {
            return Err(Error::BucketExists);
        }
        let outcome = self.write_new_bucket(bucket, &dir, owner);
        if outcome.is_err() && made {
            let removed = self.root.remove_dir(bucket.as_str());
            tracing::debug!(
                ?removed,
                "remove a bucket whose attributes could not be set"
            );
        }
        outcome?;
        self.counters.created(bucket, made);
        drop(gate);
        self.flush.directory(&dir)?;
        self.flush.directory(&self.root)?;
        self.flush.ancestors(&self.root, bucket.as_str())
    }

    fn write_new_bucket(&self, bucket: &BucketName, dir: &Dir, owner: &str) -> Result<()> {
        let grantee = Grantee {
            permission: "FULL_CONTROL",
            access: owner,
            kind: "CanonicalUser",
        };
        let acl = serde_json::to_vec(&Acl {
            owner,
            grantees: [grantee],
        })
        .map_err(|error| Error::io("encode an acl", std::io::Error::other(error)))?;
        let mut set = AttributeSet::default();
        set.set(
            attribute::CREATED,
            dir::ns_of(SystemTime::now()).to_string(),
        );
        set.set(attribute::OWNERSHIP, OWNERSHIP);
        // Last, since its presence says that the bucket is complete.
        set.set(attribute::ACL, acl);
        match self.mode {
            MetadataMode::Xattr => xattr::write(dir, &set),
            MetadataMode::Sidecar => sidecar::write_bucket(self, bucket, &set),
        }
    }

    fn bucket_attribute(
        &self,
        bucket: &BucketName,
        dir: &Dir,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        match self.mode {
            MetadataMode::Xattr => xattr::get(dir, name),
            MetadataMode::Sidecar => {
                let set = sidecar::read_bucket(&self.meta, bucket)?;
                Ok(set.and_then(|set| set.get(name).map(<[u8]>::to_vec)))
            }
        }
    }

    /// See [`crate::Store::bucket_tags`].
    pub(crate) fn bucket_tags(&self, bucket: &BucketName) -> Result<Option<Tags>> {
        let dir = self.bucket_dir(bucket)?;
        let value = self.bucket_attribute(bucket, &dir, attribute::TAGS)?;
        Ok(value.and_then(|value| {
            let mut set = AttributeSet::default();
            set.set(attribute::TAGS, value);
            codec::decode_tags(&set)
        }))
    }

    /// See [`crate::Store::set_bucket_tags`].
    pub(crate) fn set_bucket_tags(&self, bucket: &BucketName, tags: Option<&Tags>) -> Result<()> {
        let value = tags.map(codec::tags_value);
        self.set_bucket_attribute(bucket, attribute::TAGS, value)
    }

    /// See [`crate::Store::set_bucket_created`].
    pub(crate) fn set_bucket_created(
        &self,
        bucket: &BucketName,
        created: SystemTime,
    ) -> Result<()> {
        let ns = dir::ns_of(created).to_string();
        self.set_bucket_attribute(bucket, attribute::CREATED, Some(ns.into_bytes()))
    }

    /// See [`crate::Store::bucket_settings`].
    pub(crate) fn bucket_settings(&self, bucket: &BucketName) -> Result<Vec<(String, Vec<u8>)>> {
        let dir = self.bucket_dir(bucket)?;
        let set = match self.mode {
            MetadataMode::Xattr => xattr::read(&dir)?,
            MetadataMode::Sidecar => sidecar::read_bucket(&self.meta, bucket)?.unwrap_or_default(),
        };
        let mut settings: Vec<_> = set
            .iter()
            .filter_map(|(name, value)| Some((setting(name, value)?, value.to_vec())))
            .collect();
        settings.sort_unstable();
        Ok(settings)
    }

    /// Replaces or removes one attribute of a bucket.
    fn set_bucket_attribute(
        &self,
        bucket: &BucketName,
        name: &'static str,
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        let _gate = self
            .bucket_gate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let dir = self.bucket_dir(bucket)?;
        match (self.mode, value) {
            (MetadataMode::Xattr, Some(value)) => xattr::put(&dir, name, &value)?,
            (MetadataMode::Xattr, None) => drop(xattr::remove(&dir, name)?),
            (MetadataMode::Sidecar, value) => {
                let mut set = sidecar::read_bucket(&self.meta, bucket)?.unwrap_or_default();
                match value {
                    Some(value) => set.set(name, value),
                    None => drop(set.remove(name)),
                }
                return sidecar::write_bucket(self, bucket, &set);
            }
        }
        self.flush.directory(&dir)
    }

    /// See [`crate::Store::delete_bucket`].
    pub(crate) fn delete_bucket(&self, bucket: &BucketName) -> Result<()> {
        let _gate = self
            .bucket_gate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let io = |error: std::io::Error| Error::io("delete a bucket", error);
        let dir = self.bucket_dir(bucket)?;
        // Bodies being received come and go in the temporary area while it is removed.
        for _ in 0..CLEAR_ATTEMPTS {
            if !self.overflow_keys(bucket)?.is_empty() || self.holds_objects(bucket, &dir, "")? {
                return Err(Error::BucketNotEmpty);
            }
            match clear(&dir) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                Err(error) => return Err(io(error)),
            }
        }
        // Fails if another process put something there meanwhile.
        if !self
            .root
            .remove_dir(bucket.as_str())
            .map_err(|e| io(e.into()))?
        {
            self.bucket_dir(bucket)?;
            return Err(Error::BucketNotEmpty);
        }
        self.counters.forget(bucket);
        self.flush.directory(&self.root)?;
        if self.mode == MetadataMode::Sidecar {
            self.remove_records(bucket)?;
        }
        Ok(())
    }

    /// Whether there is data below `dir` (at `path` in the bucket) that must not go with the bucket.
    fn holds_objects(&self, bucket: &BucketName, dir: &Dir, path: &str) -> Result<bool> {
        let mut directories = Vec::new();
        let mut found = false;
        dir.for_each(|name, kind| {
            match kind {
                // Also one whose name is no UTF-8, which no listing shows.
                FileType::RegularFile => found |= !is_leftover(name),
                FileType::Directory if name != TEMP_DIR.as_bytes() => {
                    match std::str::from_utf8(name) {
                        Ok(name) => directories.push(name.to_owned()),
                        Err(_) => found = true,
                    }
                }
                _ => {}
            }
            !found
        })
        .map_err(|error| Error::io("look into a bucket", error))?;
        for name in directories {
            if found {
                break;
            }
            let inside = match dir.open_dir(&name) {
                Ok(inside) => inside,
                Err(error) if dir::is_absent(error) => continue,
                Err(error) => return Err(Error::io("look into a bucket", error)),
            };
            let below = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            found = self.is_directory_object(bucket, &below, &inside)?
                || self.holds_objects(bucket, &inside, &below)?;
        }
        Ok(found)
    }
}

/// The S3 name of a setting that somebody made; `None` for what every bucket has, for its tags, and
/// for our own book-keeping.
fn setting(name: &str, value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    Some(match name {
        attribute::TAGS => return None,
        _ if name.starts_with(attribute::OURS) => return None,
        attribute::OWNERSHIP if text == OWNERSHIP => return None,
        attribute::OWNERSHIP => format!("ownership {text}"),
        attribute::ACL if is_private(value) => return None,
        attribute::ACL => "ACL".into(),
        "cors" => "CORS".into(),
        "bucket-lock" => "object lock".into(),
        "versioning" => match value {
            [0] => "versioning Suspended".into(),
            _ => "versioning Enabled".into(),
        },
        // `policy`, `website`, and whatever else is kept on buckets.
        other => other.to_owned(),
    })
}

/// Whether an `acl` attribute grants nothing beyond the owner's own full control.
fn is_private(value: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    #[derive(Default)]
    struct Stored {
        owner: String,
        grantees: Option<Vec<StoredGrantee>>,
    }
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "PascalCase", default)]
    struct StoredGrantee {
        access: String,
    }
    serde_json::from_slice::<Stored>(value).is_ok_and(|acl| {
        let grantees = acl.grantees.unwrap_or_default();
        grantees.iter().all(|grantee| grantee.access == acl.owner)
    })
}

/// Removes everything in a bucket that holds no objects but regular files, which came since that
/// was found out.
fn clear(dir: &Dir) -> std::io::Result<()> {
    for (name, kind) in dir.entries()? {
        match kind {
            FileType::Directory if name == TEMP_DIR => dir.remove_tree(&name)?,
            FileType::Directory => match dir.open_dir(&name) {
                Ok(inside) => {
                    clear(&inside)?;
                    dir.remove_dir(&name)?;
                }
                Err(error) if dir::is_absent(error) => {}
                Err(error) => return Err(error.into()),
            },
            FileType::RegularFile if !is_leftover(name.as_bytes()) => {}
            _ => drop(dir.remove_file(&name)?),
        }
    }
    Ok(())
}
