//! Objects that may have to be deleted, kept in an unnamed file until it is certain: their number
//! must not cost memory.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use filestore_common::{BucketName, ETag, ObjectKey};
use serde::{Deserialize, Serialize};

use crate::{Error, Kind, Result};

/// An object that only the target has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doomed {
    pub(crate) bucket: BucketName,
    pub(crate) key: ObjectKey,
    pub(crate) etag: Option<ETag>,
}

/// The file. It is made when the first object comes: most passes have none.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    file: Option<BufWriter<File>>,
    count: u64,
}

fn failed(directory: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Other,
        "write",
        "the list of deletes",
        error.to_string(),
    )
    .with_cure(format!(
        "it lies in {}, which must be writable and have space",
        directory.display()
    ))
}

impl Spool {
    /// In the run's own directory, else in the one for temporary files (which an image of ours
    /// does not have).
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self {
            directory: directory.unwrap_or_else(std::env::temp_dir),
            file: None,
            count: 0,
        }
    }

    fn open(&self) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.directory)?;
        let path = self
            .directory
            .join(format!("deletes-{}", uuid::Uuid::new_v4()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, doomed: &Doomed) -> Result<()> {
        self.write(doomed)
            .map_err(|error| failed(&self.directory, error))?;
        self.count += 1;
        Ok(())
    }

    fn write(&mut self, doomed: &Doomed) -> std::io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => BufWriter::new(self.open()?),
        };
        let file = self.file.insert(file);
        serde_json::to_writer(&mut *file, doomed)?;
        file.write_all(b"\n")
    }

    /// From the beginning, in the order of [`Spool::push`].
    pub(crate) fn read(&mut self) -> Result<impl Iterator<Item = Result<Doomed>> + use<>> {
        let directory = self.directory.clone();
        let file = self.rewound().map_err(|error| failed(&directory, error))?;
        let lines = file
            .into_iter()
            .flat_map(|file| BufReader::new(file).lines());
        Ok(lines.map(move |line| {
            let line = line.map_err(|error| failed(&directory, error))?;
            serde_json::from_str(&line).map_err(|error| failed(&directory, error))
        }))
    }

    fn rewound(&mut self) -> std::io::Result<Option<File>> {
        let Some(out) = &mut self.file else {
            return Ok(None);
        };
        out.flush()?;
        let mut file = out.get_ref().try_clone()?;
        file.rewind()?;
        Ok(Some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_comes_back_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(Some(directory.path().join("runs/a")));
        assert_eq!(spool.read().unwrap().count(), 0);
        let doomed: Vec<Doomed> = ["b\nc", "a"]
            .into_iter()
            .map(|key| Doomed {
                bucket: BucketName::new("bkt").unwrap(),
                key: ObjectKey::new(key).unwrap(),
                etag: Some(ETag::new("e")),
            })
            .collect();
        for one in &doomed {
            spool.push(one).unwrap();
        }
        assert_eq!(spool.len(), 2);
        let read: Vec<Doomed> = spool.read().unwrap().map(Result::unwrap).collect();
        assert_eq!(read, doomed);
        let left = std::fs::read_dir(directory.path().join("runs/a")).unwrap();
        assert_eq!(left.count(), 0, "the file has no name");
    }
}
