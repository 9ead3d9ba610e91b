//! Everything on a volume that has metadata, whatever the mode.

use std::os::fd::{AsFd, BorrowedFd};

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::{FileType, Stat};

use crate::dir::{self, Dir};
use crate::layout;
use crate::multipart::forms::{Claimed, UploadDir, for_each_upload};
use crate::path::hash_dir;
use crate::volume::{Devices, Volume};
use crate::{Error, Result};

/// Something that has metadata.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A bucket.
    Bucket {
        bucket: &'a BucketName,
        dir: &'a Dir,
    },
    /// A file of a bucket's tree, or a directory, which may be an object.
    Object {
        bucket: &'a BucketName,
        key: &'a ObjectKey,
        file: BorrowedFd<'a>,
        stat: &'a Stat,
    },
    /// The file of a key that the tree cannot hold.
    Overflow {
        bucket: &'a BucketName,
        /// Hash of the key, the file's name.
        hash: &'a str,
        file: BorrowedFd<'a>,
        stat: &'a Stat,
    },
    /// An upload in progress. Its parts come with it.
    Upload {
        bucket: &'a BucketName,
        upload: &'a UploadDir,
    },
}

impl Item<'_> {
    /// What to call it in a message.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Bucket { bucket, .. } => format!("bucket {bucket}"),
            Self::Object { bucket, key, .. } => format!("{bucket}/{key}"),
            Self::Overflow { bucket, hash, .. } => {
                format!(
                    "{bucket}: .filestore/keys/{}/{hash}",
                    hash_dir(bucket, hash)
                )
            }
            Self::Upload { bucket, upload } => format!("upload {} in {bucket}", upload.id),
        }
    }

    /// Whether it is a directory of a bucket's tree.
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Object { stat, .. } if dir::file_type(stat) == FileType::Directory)
    }
}

type Visit<'a> = dyn FnMut(&Item<'_>) -> Result<()> + 'a;

/// Visits everything: of each bucket itself, its keys beside the tree, its tree, its uploads.
/// A key that is both in the tree and beside it comes from the tree last: that one counts.
/// Returns the file systems that all this lies on.
pub(super) fn walk(volume: &Volume, claimed: Claimed, visit: &mut Visit<'_>) -> Result<Devices> {
    let mut devices = volume.devices()?;
    let entries = volume.root.entries();
    for (name, kind) in entries.map_err(|error| Error::io("list buckets", error))? {
        let Ok(bucket) = BucketName::new(name) else {
            continue;
        };
        if kind != FileType::Directory {
            continue;
        }
        let dir = volume.bucket_dir(&bucket)?;
        visit(&Item::Bucket {
            bucket: &bucket,
            dir: &dir,
        })?;
        walk_overflow(volume, &bucket, visit)?;
        let mut tree = Tree {
            bucket: &bucket,
            devices: &mut devices,
            visit,
        };
        tree.walk(&dir, &mut String::new())?;
        for_each_upload(&volume.root, &bucket, claimed, &mut |upload| {
            visit(&Item::Upload {
                bucket: &bucket,
                upload,
            })
        })?;
    }
    Ok(devices)
}

fn walk_overflow(volume: &Volume, bucket: &BucketName, visit: &mut Visit<'_>) -> Result<()> {
    for hash in volume.overflow.names(bucket)? {
        let path = format!("{}/{hash}", hash_dir(bucket, &hash));
        let opened = volume.overflow.dir().open_file(&path);
        let opened =
            opened.map_err(|error| Error::io(format!("open .filestore/keys/{path}"), error))?;
        if let Some((file, stat)) = opened {
            visit(&Item::Overflow {
                bucket,
                hash: &hash,
                file: file.as_fd(),
                stat: &stat,
            })?;
        }
    }
    Ok(())
}

struct Tree<'a, 'v> {
    bucket: &'a BucketName,
    devices: &'a mut Devices,
    visit: &'a mut Visit<'v>,
}

impl Tree<'_, '_> {
    /// `path` is that of `dir` in the bucket, empty or with a slash at its end.
    fn walk(&mut self, dir: &Dir, path: &mut String) -> Result<()> {
        let bucket = self.bucket;
        let io = |path: &str, error| Error::io(format!("open {bucket}/{path}"), error);
        for (name, kind) in dir.entries().map_err(|error| io(path, error))? {
            if layout::is_hidden(name.as_bytes()) {
                continue;
            }
            let length = path.len();
            path.push_str(&name);
            match kind {
                FileType::RegularFile => {
                    let opened = dir.open_file(&name).map_err(|error| io(path, error))?;
                    if let (Some((file, stat)), Ok(key)) = (opened, ObjectKey::new(path.as_str())) {
                        self.visit(&key, file.as_fd(), &stat)?;
                    }
                }
                FileType::Directory => {
                    path.push('/');
                    let inside = dir.open_dir(&name).map_err(|error| io(path, error))?;
                    let stat = inside.stat_self().map_err(|error| io(path, error))?;
                    self.devices.note(&inside)?;
                    // Deeper than a key can be: no objects.
                    if let Ok(key) = ObjectKey::new(path.as_str()) {
                        self.visit(&key, inside.as_fd(), &stat)?;
                        self.walk(&inside, path)?;
                    }
                }
                _ => {}
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn visit(&mut self, key: &ObjectKey, file: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
        (self.visit)(&Item::Object {
            bucket: self.bucket,
            key,
            file,
            stat,
        })
    }
}
