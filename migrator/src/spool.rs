//! Objects that may have to be deleted, kept in an unnamed file until it is certain: their number
//! must not cost memory.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};

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

/// The file.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufWriter<File>,
    count: u64,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Other,
        "write",
        "the list of deletes",
        error.to_string(),
    )
    .with_cure("it lies in the directory for temporary files; set TMPDIR to one with space")
}

impl Spool {
    pub(crate) fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("filestore-{}", uuid::Uuid::new_v4()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = file.map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        Ok(Self {
            file: BufWriter::new(file),
            count: 0,
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, doomed: &Doomed) -> Result<()> {
        serde_json::to_writer(&mut self.file, doomed).map_err(failed)?;
        self.file.write_all(b"\n").map_err(failed)?;
        self.count += 1;
        Ok(())
    }

    /// From the beginning, in the order of [`Spool::push`].
    pub(crate) fn read(&mut self) -> Result<impl Iterator<Item = Result<Doomed>> + use<>> {
        self.file.flush().map_err(failed)?;
        let mut file = self.file.get_ref().try_clone().map_err(failed)?;
        file.rewind().map_err(failed)?;
        let lines = BufReader::new(file).lines();
        Ok(lines.map(|line| serde_json::from_str(&line.map_err(failed)?).map_err(failed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_comes_back_in_order() {
        let mut spool = Spool::create().unwrap();
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
    }
}
