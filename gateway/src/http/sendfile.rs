//! Bodies that go from the page cache to the socket without passing through this process.
//!
//! hyper knows bodies as `Bytes` only. A [`slice`] is a `Bytes` that stands for part of an open
//! file: it points into a reserved range of addresses with nothing behind it, and the address says
//! which file and which offset is meant. hyper measures, splits and queues it like any other;
//! [`super::socket::Socket`] recognises the address when it is to be written and calls
//! [`SentFile::send`]. The file is held by the slice itself, so pipelined answers do not mix, and
//! is closed when hyper drops the slice.
//!
//! The kernel sends pages, not copies: a process that changes a file *in place* while it is sent
//! changes what is sent, as with any server that uses sendfile. The store never does; it replaces
//! files.
//!
//! This is the only module with `unsafe` code. Whoever reads a slice's bytes instead of sending
//! them is killed by the kernel (or gets `EFAULT` from it), which is the point: wrong bytes cannot
//! reach a client.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use rustix::fs::sendfile;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Most bytes that one slice stands for.
pub(crate) const MAX_SLICE: usize = 4 * 1024 * 1024;

/// Slices that may exist at a time. With [`MAX_SLICE`] this reserves 16 GiB of addresses, no
/// memory.
const SLOTS: usize = 4 * 1024;

/// Bytes copied at a time where the file system cannot sendfile.
const COPY_BYTES: usize = 64 * 1024;

/// The reserved addresses; `None` when the system refused them.
static RANGE: OnceLock<Option<Range>> = OnceLock::new();

struct Range {
    base: usize,
    slots: Vec<Mutex<Option<Target>>>,
    free: Mutex<Vec<usize>>,
}

/// What the addresses of a slot stand for.
#[derive(Debug, Clone)]
struct Target {
    file: Arc<File>,
    offset: u64,
    length: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Range {
    fn get() -> Option<&'static Self> {
        RANGE.get_or_init(Self::reserve).as_ref()
    }

    #[expect(
        unsafe_code,
        reason = "reserving addresses has no safe form; nothing is mapped behind them"
    )]
    fn reserve() -> Option<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing. It
        // is never unmapped, so no other allocation can ever get an address of it.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                SLOTS * MAX_SLICE,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        match mapped {
            Ok(base) => Some(Self {
                base: base.expose_provenance(),
                slots: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
                free: Mutex::new((0..SLOTS).rev().collect()),
            }),
            Err(error) => {
                tracing::warn!(%error, "No addresses for sendfile, bodies are copied");
                None
            }
        }
    }
}

/// Owner of a slice's addresses.
struct Slot {
    index: usize,
    length: usize,
    range: &'static Range,
}

impl AsRef<[u8]> for Slot {
    #[expect(
        unsafe_code,
        reason = "the addresses are given out as bytes that only the socket looks at"
    )]
    fn as_ref(&self) -> &[u8] {
        let start = std::ptr::with_exposed_provenance(self.range.base + self.index * MAX_SLICE);
        // SAFETY: the range is one reserved mapping that outlives the process's other data, this
        // slot's part of it is MAX_SLICE long and `length` is not longer. The bytes are never
        // read nor written through the reference: the body's only reader is the socket, which
        // takes the address from it (`find`) and gives the kernel the file instead. A slice
        // reference makes the compiler assume nothing that would let it read ahead of that.
        unsafe { std::slice::from_raw_parts(start, self.length) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slot) = self.range.slots.get(self.index) {
            *lock(slot) = None;
        }
        lock(&self.range.free).push(self.index);
    }
}

/// Bytes that stand for `length` (at most [`MAX_SLICE`]) bytes of `file` from `offset`. `None`
/// when too many slices exist: the caller copies then.
pub(crate) fn slice(file: &Arc<File>, offset: u64, length: usize) -> Option<Bytes> {
    if length == 0 || length > MAX_SLICE {
        return None;
    }
    let range = Range::get()?;
    let index = lock(&range.free).pop()?;
    // From here on the slot is given back by its owner's drop.
    let owner = Slot {
        index,
        length,
        range,
    };
    *lock(range.slots.get(index)?) = Some(Target {
        file: Arc::clone(file),
        offset,
        length,
    });
    Some(Bytes::from_owner(owner))
}

/// A part of a file that is to be written in place of some bytes.
#[derive(Debug)]
pub(crate) struct SentFile(Target);

/// What `bytes` stand for; `None` when they are ordinary bytes. The bytes are not read.
///
/// # Errors
/// They are in the reserved range but no slice is there: never write them.
pub(crate) fn find(bytes: &[u8]) -> io::Result<Option<SentFile>> {
    let Some(Some(range)) = RANGE.get() else {
        return Ok(None);
    };
    let Some(position) = bytes.as_ptr().addr().checked_sub(range.base) else {
        return Ok(None);
    };
    let (index, start) = (position / MAX_SLICE, position % MAX_SLICE);
    let Some(slot) = range.slots.get(index) else {
        return Ok(None);
    };
    let target = lock(slot).clone();
    match target {
        Some(target) if start + bytes.len() <= target.length => Ok(Some(SentFile(Target {
            offset: target.offset + start as u64,
            length: bytes.len(),
            ..target
        }))),
        _ => Err(io::Error::other("not a slice of a file")),
    }
}

impl SentFile {
    /// Gives as much to `socket` as it takes, at least one byte.
    ///
    /// # Errors
    /// `WouldBlock`; `UnexpectedEof` when the file became shorter than the slice; what the
    /// kernel says.
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<usize> {
        let Target {
            file,
            offset,
            length,
        } = &self.0;
        let sent = match sendfile(&socket, file, Some(&mut offset.clone()), *length) {
            Err(Errno::INVAL | Errno::NOSYS) => self.copy(&socket)?,
            result => result?,
        };
        if sent == 0 {
            let error = "file became shorter while it was sent";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error));
        }
        Ok(sent)
    }

    /// For file systems without sendfile.
    fn copy(&self, socket: impl AsFd) -> io::Result<usize> {
        let mut buffer = vec![0; self.0.length.min(COPY_BYTES)];
        let read = self.0.file.read_at(&mut buffer, self.0.offset)?;
        buffer.truncate(read);
        if buffer.is_empty() {
            return Ok(0);
        }
        Ok(rustix::net::send(
            socket,
            &buffer,
            rustix::net::SendFlags::NOSIGNAL,
        )?)
    }
}

/// Whether part of a file can be sent without waiting for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warmth {
    /// It is in the page cache, as far as three pages tell.
    Warm,
    /// It is not.
    Cold,
    /// The file system does not say.
    Unknown,
}

/// Looks at the first, the middle and the last byte of a part of a file.
pub(crate) fn warmth(file: &File, offset: u64, length: usize) -> Warmth {
    let length = length as u64;
    for at in [0, length / 2, length.saturating_sub(1)] {
        let mut byte = [0];
        let mut buffers = [io::IoSliceMut::new(&mut byte)];
        match preadv2(file, &mut buffers, offset + at, ReadWriteFlags::NOWAIT) {
            // At its end: sending says so.
            Ok(_) => {}
            Err(Errno::AGAIN) => return Warmth::Cold,
            Err(_) => return Warmth::Unknown,
        }
    }
    Warmth::Warm
}

/// Reads part of a file for the sake of the page cache. Blocks.
///
/// # Errors
/// As `read`.
pub(crate) fn warm(file: &File, mut offset: u64, length: usize) -> io::Result<()> {
    let mut buffer = vec![0; length.min(COPY_BYTES)];
    let end = offset + length as u64;
    while offset < end {
        match file.read_at(&mut buffer, offset) {
            Ok(0) => break,
            Ok(read) => offset += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
