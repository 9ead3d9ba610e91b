//! Trying out what a file system can do.

use std::fs::File;
use std::io::{Read, Seek, Write};

use rustix::fs::{Mode, OFlags, XattrFlags};

use super::Volume;
use crate::attributes::xattr;
use crate::dir::Dir;
use crate::layout::{self, FILE_MODE, attribute};
use crate::query::MetadataMode;
use crate::{Error, Result};

/// Largest value tried: user metadata may have 2 KB (S3 user guide), ten tags more.
const LARGE: usize = 3000;

/// What a file system takes as extended attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum XattrSupport {
    /// None.
    Missing,
    /// Short values only.
    Small,
    /// All that S3 metadata may need.
    Full,
}

/// Tries whether `O_TMPFILE` files can be made and linked; proves as well that `dir` is writable.
pub(super) fn unnamed_files(dir: &Dir) -> rustix::io::Result<bool> {
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let name = layout::temp_name();
    if let Ok(fd) = dir.open(".", flags, Mode::from_raw_mode(FILE_MODE))
        && dir.link(&File::from(fd), &name).is_ok()
    {
        dir.remove_file(&name)?;
        return Ok(true);
    }
    drop(dir.create_file(&name, FILE_MODE)?);
    dir.remove_file(&name)?;
    Ok(false)
}

/// Tries extended attributes on a file in `dir`.
pub(crate) fn xattr_support(dir: &Dir) -> rustix::io::Result<XattrSupport> {
    let name = layout::temp_name();
    let file = dir.create_file(&name, FILE_MODE)?;
    let support = if !xattr_works(&file, 64) {
        XattrSupport::Missing
    } else if xattr_works(&file, LARGE) {
        XattrSupport::Full
    } else {
        XattrSupport::Small
    };
    dir.remove_file(&name)?;
    Ok(support)
}

fn xattr_works(file: &File, length: usize) -> bool {
    const NAME: &str = "user.filestore.probe";
    let value = vec![b'x'; length];
    rustix::fs::fsetxattr(file, NAME, &value, XattrFlags::empty()).is_ok()
        && matches!(xattr::get(file, &NAME["user.".len()..]), Ok(Some(read)) if read == value)
        && rustix::fs::fremovexattr(file, NAME).is_ok()
}

impl Volume {
    /// See [`crate::Store::probe`].
    pub(crate) fn probe(&self) -> Result<()> {
        self.flush.healthy()?;
        self.probe_mount()?;
        let name = layout::temp_name();
        let outcome = self.probe_file(&name);
        match self.control.remove_file(&name) {
            Ok(_) => outcome,
            Err(error) => outcome.and_then(|()| Err(Error::io("remove the probe file", error))),
        }
    }

    /// A volume that was unmounted under us still answers, out of sight of everybody else.
    fn probe_mount(&self) -> Result<()> {
        let stat = |dir: &Dir| {
            dir.stat_self()
                .map_err(|error| Error::io("look at the volume", error))
        };
        let named = Dir::open_root(&self.path)
            .and_then(|base| base.open_dir(layout::CONTROL_DIR))
            .map_err(|error| Error::io("open the volume", error))?;
        let (named, open) = (stat(&named)?, stat(&self.control)?);
        if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino) {
            Ok(())
        } else {
            Err(Error::Volume(format!(
                "{} is no longer the volume that was opened: restart after looking at its mount",
                self.path.display()
            )))
        }
    }

    fn probe_file(&self, name: &str) -> Result<()> {
        const BODY: &[u8] = b"filestore probe";
        let mut file = self
            .control
            .create_file(name, FILE_MODE)
            .map_err(|error| Error::io("create the probe file", error))?;
        let io = |error| Error::io("write and read the probe file", error);
        file.write_all(BODY).map_err(io)?;
        if self.mode == MetadataMode::Xattr {
            xattr::put(&file, attribute::ETAG, BODY)?;
        }
        self.flush.file(&file)?;
        file.rewind().map_err(io)?;
        let mut read = Vec::new();
        file.read_to_end(&mut read).map_err(io)?;
        let same = read == BODY
            && (self.mode == MetadataMode::Sidecar
                || xattr::get(&file, attribute::ETAG)?.as_deref() == Some(BODY));
        if same {
            Ok(())
        } else {
            Err(Error::Damaged(
                "the probe file does not hold what was written".into(),
            ))
        }
    }
}
