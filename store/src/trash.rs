//! Frees large files behind: a thread unlinks what was renamed into `.filestore/trash`, and
//! closes the last handle of what was overwritten.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::io::Errno;

use crate::dir::Dir;
use crate::layout;
use crate::{Error, Result};

/// Files of this size in bytes or more are freed behind; below, the detour costs more.
pub(crate) const LARGE: u64 = 1024 * 1024;

enum Job {
    /// Remove this entry of the trash.
    Remove(String),
    /// Close the last handle of an overwritten file.
    Close(OwnedFd),
}

/// The trash of a volume with its thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Trash {
    dir: Dir,
    jobs: Sender<Job>,
}

impl Trash {
    /// Starts the thread.
    pub(crate) fn start(dir: Dir) -> Result<Self> {
        let (jobs, queue) = channel();
        let own = dir
            .try_clone()
            .map_err(|e| Error::io("open the trash", e))?;
        std::thread::Builder::new()
            .name("trash".into())
            .spawn(move || work(&own, &queue))
            .map_err(|error| Error::io("start the thread that empties the trash", error))?;
        Ok(Self { dir, jobs })
    }

    /// Has everything freed that an earlier process left.
    pub(crate) fn empty(&self) -> Result<()> {
        let entries = self
            .dir
            .entries()
            .map_err(|e| Error::io("list the trash", e))?;
        for (name, _) in entries {
            self.send(Job::Remove(name));
        }
        Ok(())
    }

    /// Takes the file `name` out of `from` at once and frees it behind.
    pub(crate) fn take(&self, from: &Dir, name: &str) -> rustix::io::Result<bool> {
        let inside = layout::temp_name();
        match from.rename(name, &self.dir, &inside) {
            Ok(()) => {
                self.send(Job::Remove(inside));
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(false),
            // A mount inside the bucket; or no room for another name in the trash.
            Err(Errno::XDEV | Errno::NOSPC | Errno::DQUOT) => from.remove_file(name),
            Err(error) => Err(error),
        }
    }

    /// Closes the handle of a file whose name is gone.
    pub(crate) fn close(&self, handle: OwnedFd) {
        self.send(Job::Close(handle));
    }

    fn send(&self, job: Job) {
        // Without its thread the trash is emptied by the next start.
        if self.jobs.send(job).is_err() {
            tracing::warn!("the thread that empties the trash is gone");
        }
    }
}

fn work(dir: &Dir, queue: &Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        match job {
            Job::Close(handle) => drop(handle),
            Job::Remove(name) => {
                if let Err(error) = dir.remove_tree(&name) {
                    tracing::warn!(%error, "empty the trash");
                }
            }
        }
    }
}
