//! `volume.json`: what a volume is, fixed when it is created.

use std::path::{Component, Path};

use filestore_common::BucketName;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::lock::{self, Lock};
use super::probe::{self, XattrSupport};
use crate::attributes::{json, xattr};
use crate::dir::Dir;
use crate::layout::{self, attribute};
use crate::query::{MetadataMode, StoreOptions};
use crate::{Error, Result};

/// Version of the layout that this program writes and the newest it reads.
const FORMAT_VERSION: u32 = 1;
/// What MinIO keeps at the root of a drive.
const MINIO_DIR: &str = ".minio.sys";

/// Content of `volume.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    /// Version of the layout.
    version: u32,
    /// Random, for messages and markers.
    id: String,
    /// Where metadata is kept.
    pub(super) metadata: MetadataMode,
    /// Data root relative to the volume, `.` for the volume itself.
    #[serde(default = "default_data_root")]
    data_root: String,
    /// Metadata is being taken over from elsewhere: what is there is not complete, nobody serves.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) importing: bool,
    /// The import that made this a volume has not written anything yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) fresh: bool,
    /// What the metadata mode before this one kept is not all removed yet. Nothing reads it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) stale: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde calls"
)]
fn is_false(value: &bool) -> bool {
    !value
}

fn default_data_root() -> String {
    layout::DATA_DIR.to_owned()
}

/// What a volume is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Objects; or a conversion.
    Use,
    /// Metadata from elsewhere: nobody else may use the volume before that is complete.
    Import,
}

/// A volume whose lock is held and whose identity is known.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) control: Dir,
    pub(super) identity: Identity,
    pub(super) lock: Lock,
}

/// One line with the cure for an error of the file system.
pub(super) fn unusable(path: &Path, what: &str, error: Errno) -> Error {
    let path = path.display();
    let uid = rustix::process::geteuid().as_raw();
    Error::Volume(match error {
        Errno::NOENT => format!("{path} does not exist ({what}): create or mount it first"),
        Errno::NOTDIR => format!("{path} is not a directory ({what})"),
        Errno::ACCESS | Errno::PERM => {
            format!("{path} is not accessible to user id {uid} ({what}): correct its owner or mode")
        }
        Errno::ROFS => format!("{path} is on a read-only file system ({what}): mount it writable"),
        Errno::NOSPC | Errno::DQUOT => format!("{path} has no space left ({what}): free some"),
        other => format!("{path} cannot be used: {what}: {other}"),
    })
}

/// Opens the directory of a volume.
pub(super) fn open_base(path: &Path) -> Result<Dir> {
    Dir::open_root(path).map_err(|error| unusable(path, "open the volume", error))
}

/// Opens the data root that the identity names.
pub(super) fn open_data_root(path: &Path, base: &Dir, identity: &Identity) -> Result<Dir> {
    let name = &identity.data_root;
    base.open_dir(name).map_err(|error| match error {
        Errno::NOENT => Error::Volume(format!(
            "{} is a volume, but its data root {name} is missing: is something not mounted?",
            path.display()
        )),
        other => unusable(path, &format!("open the data root {name}"), other),
    })
}

impl Claim {
    /// Locks the volume and reads its identity, creating it on first use. A failure leaves
    /// nothing behind.
    pub(super) fn take(
        path: &Path,
        base: &Dir,
        options: &StoreOptions,
        purpose: Purpose,
    ) -> Result<Self> {
        let asked_root = asked_data_root(path, options)?;
        let (control, made) = open_control(path, base)?;
        let lock = match lock::take(path, &control, options.access) {
            Ok(lock) => lock,
            Err(error) => {
                if made {
                    // Goes unless it has the locks of somebody who came in between.
                    let gone = base.remove_dir(layout::CONTROL_DIR);
                    tracing::debug!(?gone, "clean up after a failed creation");
                }
                return Err(error);
            }
        };
        // Not before: whoever had the lock until now may have been about to change it.
        let outcome = match json::read::<Identity>(&control, layout::VOLUME_FILE) {
            Ok(Some(known)) if !(known.fresh && purpose == Purpose::Import) => known
                .check(path, options, asked_root.as_deref())
                .map(|()| known),
            Ok(_) => Identity::create(path, base, &control, options, asked_root, purpose),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(identity) => Ok(Self {
                control,
                identity,
                lock,
            }),
            Err(error) => {
                if made {
                    // Only what was made here; a directory with more in it stays.
                    let locks_gone = layout::LOCK_FILES.map(|name| control.remove_file(name));
                    let dir_gone = base.remove_dir(layout::CONTROL_DIR);
                    tracing::debug!(?locks_gone, ?dir_gone, "clean up after a failed creation");
                }
                Err(error)
            }
        }
    }
}

/// Opens `.filestore`; whether it was made for that.
fn open_control(path: &Path, base: &Dir) -> Result<(Dir, bool)> {
    let open = || base.open_dir(layout::CONTROL_DIR);
    let unusable = |error| unusable(path, "open .filestore", error);
    match open() {
        Ok(control) => return Ok((control, false)),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(unusable(error)),
    }
    refuse_drive(path, base)?;
    let made = base
        .make_dir(layout::CONTROL_DIR)
        .map_err(|error| self::unusable(path, "create .filestore", error))?;
    Ok((open().map_err(unusable)?, made))
}

fn refuse_drive(path: &Path, base: &Dir) -> Result<()> {
    let found = base.stat(MINIO_DIR);
    if found.map_err(|e| unusable(path, MINIO_DIR, e))?.is_none() {
        return Ok(());
    }
    Err(Error::Volume(format!(
        "{} is a MinIO drive, which is only read: give it as a migration source and choose another volume",
        path.display()
    )))
}

/// Whether `path` is to become a volume when it is opened to import: it has no `volume.json`, or
/// that of an import that wrote nothing.
pub(crate) fn is_new(path: &Path) -> Result<bool> {
    match open_base(path)?.open_dir(layout::CONTROL_DIR) {
        Ok(control) => Ok(json::read::<Identity>(&control, layout::VOLUME_FILE)?
            .is_none_or(|identity| identity.fresh)),
        Err(error) if crate::dir::is_absent(error) => Ok(true),
        Err(error) => Err(unusable(path, "open .filestore", error)),
    }
}

impl Identity {
    /// Makes a directory whose lock is held a volume.
    fn create(
        path: &Path,
        base: &Dir,
        control: &Dir,
        options: &StoreOptions,
        asked_root: Option<String>,
        purpose: Purpose,
    ) -> Result<Self> {
        refuse_drive(path, base)?;
        let data_root = match asked_root {
            Some(asked) => asked,
            None => find_data_root(path, base)?,
        };
        let metadata = choose_mode(path, control, options.metadata, &data_root, base)?;
        let to_import = purpose == Purpose::Import;
        let identity = Self {
            version: FORMAT_VERSION,
            id: uuid::Uuid::new_v4().to_string(),
            metadata,
            data_root,
            importing: to_import,
            fresh: to_import,
            stale: false,
        };
        if identity.data_root != "." {
            base.open_or_make_dir(&identity.data_root)
                .map_err(|error| unusable(path, "create the data root", error))?;
        }
        identity.write(control)?;
        flush(base).map_err(|error| unusable(path, "flush .filestore", error))?;
        tracing::info!(
            volume = %path.display(),
            metadata = ?identity.metadata,
            data_root = identity.data_root,
            "created a volume"
        );
        Ok(identity)
    }

    /// Replaces `volume.json`, atomically and flushed.
    pub(super) fn write(&self, control: &Dir) -> Result<()> {
        json::write(control, layout::VOLUME_FILE, self, true)?;
        flush(control).map_err(|error| Error::io("flush .filestore", error))
    }

    /// Fails while an import is not at its end.
    pub(super) fn check_import(&self, path: &Path) -> Result<()> {
        if !self.importing {
            return Ok(());
        }
        Err(Error::Volume(format!(
            "{} was left by an unfinished import of versitygw's metadata: run `filestore volume import-sidecar` again",
            path.display()
        )))
    }

    fn check(&self, path: &Path, options: &StoreOptions, asked_root: Option<&str>) -> Result<()> {
        let path = path.display();
        if self.version > FORMAT_VERSION {
            return Err(Error::Volume(format!(
                "{path} has format version {}, this program knows up to {FORMAT_VERSION}: use a newer one",
                self.version
            )));
        }
        if let Some(asked) = options.metadata.filter(|asked| *asked != self.metadata) {
            return Err(Error::Volume(format!(
                "{path} keeps metadata in {} mode, {} was asked for: leave the option out, or run `filestore volume convert`",
                name_of(self.metadata),
                name_of(asked)
            )));
        }
        if let Some(asked) = asked_root.filter(|asked| *asked != self.data_root) {
            return Err(Error::Volume(format!(
                "{path} keeps its buckets in {}, {asked} was asked for: point to the former",
                self.data_root
            )));
        }
        Ok(())
    }
}

/// Flushes the entries of a directory, where the file system takes that.
fn flush(dir: &Dir) -> rustix::io::Result<()> {
    match rustix::fs::fsync(dir) {
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}

fn name_of(mode: MetadataMode) -> &'static str {
    match mode {
        MetadataMode::Xattr => "xattr",
        MetadataMode::Sidecar => "sidecar",
    }
}

/// The asked-for data root relative to the volume.
fn asked_data_root(path: &Path, options: &StoreOptions) -> Result<Option<String>> {
    let Some(asked) = &options.data_root else {
        return Ok(None);
    };
    let relative = asked.strip_prefix(path).ok().and_then(|relative| {
        let plain = relative
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        relative.to_str().filter(|_| plain)
    });
    match relative {
        Some("") => Ok(Some(".".to_owned())),
        Some(relative) => Ok(Some(relative.to_owned())),
        None => Err(Error::Volume(format!(
            "data root {} does not lie in the volume {}",
            asked.display(),
            path.display()
        ))),
    }
}

/// `s3`, or the volume itself where versitygw put buckets directly into it.
fn find_data_root(path: &Path, base: &Dir) -> Result<String> {
    let there = base
        .stat(layout::DATA_DIR)
        .map_err(|error| unusable(path, "look for the data root", error))?;
    if there.is_none() && holds_buckets(path, base)? {
        return Ok(".".to_owned());
    }
    Ok(default_data_root())
}

/// Whether versitygw wrote buckets into `root`.
fn holds_buckets(path: &Path, root: &Dir) -> Result<bool> {
    let entries = root
        .entries()
        .map_err(|error| unusable(path, "list the volume", error))?;
    for (name, kind) in entries {
        if kind != FileType::Directory || BucketName::new(&name).is_err() {
            continue;
        }
        let Ok(bucket) = root.open_dir(&name) else {
            continue;
        };
        if xattr::get(&bucket, attribute::ACL)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn choose_mode(
    path: &Path,
    control: &Dir,
    asked: Option<MetadataMode>,
    data_root: &str,
    base: &Dir,
) -> Result<MetadataMode> {
    let existing = base.open_dir(data_root);
    let written_by_versitygw = match &existing {
        Ok(root) => holds_buckets(path, root)?,
        Err(_) => false,
    };
    if written_by_versitygw && asked == Some(MetadataMode::Sidecar) {
        return Err(Error::Volume(format!(
            "{} holds buckets with extended attributes, sidecar mode would not see their metadata: leave the option out, and run `filestore volume convert` then",
            path.display()
        )));
    }
    if asked == Some(MetadataMode::Sidecar) {
        return Ok(MetadataMode::Sidecar);
    }
    let support = probe::xattr_support(control)
        .map_err(|error| unusable(path, "try out extended attributes", error))?;
    match (support, asked) {
        (XattrSupport::Missing, Some(_)) => Err(Error::Volume(format!(
            "the file system of {} has no extended attributes: use the sidecar metadata mode, or another file system",
            path.display()
        ))),
        (XattrSupport::Missing, None) => Ok(MetadataMode::Sidecar),
        (XattrSupport::Small, None) if !written_by_versitygw => Ok(MetadataMode::Sidecar),
        (XattrSupport::Small, _) => {
            tracing::warn!(
                "the file system takes short extended attributes only: long metadata will be refused"
            );
            Ok(MetadataMode::Xattr)
        }
        (XattrSupport::Full, _) => Ok(MetadataMode::Xattr),
    }
}
