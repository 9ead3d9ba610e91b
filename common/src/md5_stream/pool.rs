//! Where threads that hash meet.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};

use super::{BLOCK, INIT, lanes};

/// Blocks of several streams, hashed side by side by whichever of their threads comes last.
///
/// Nobody waits for company: who finds no other thread at work begins with what is there, and what
/// comes in the meantime is hashed together.
#[derive(Debug, Default)]
pub struct Md5Pool {
    shared: Mutex<Shared>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: VecDeque<Job>,
    done: Vec<(u64, [u32; 4])>,
    next: u64,
    /// Threads that hash.
    working: usize,
}

#[derive(Debug)]
struct Job {
    id: u64,
    state: [u32; 4],
    /// Whole blocks that are still to be hashed.
    bytes: Bytes,
}

impl Md5Pool {
    /// Nobody is there.
    pub const fn new() -> Self {
        let shared = Shared {
            waiting: VecDeque::new(),
            done: Vec::new(),
            next: 0,
            working: 0,
        };
        Self {
            shared: Mutex::new(shared),
            news: Condvar::new(),
        }
    }

    /// The state of a stream after `bytes`, which are whole blocks. Blocks the thread.
    pub(super) fn compress(&self, state: [u32; 4], bytes: Bytes) -> [u32; 4] {
        let mut shared = self.lock();
        let id = shared.next;
        shared.next += 1;
        shared.waiting.push_back(Job { id, state, bytes });
        loop {
            if let Some(at) = shared.done.iter().position(|done| done.0 == id) {
                return shared.done.swap_remove(at).1;
            }
            let waiting = shared.waiting.len();
            if waiting == 0 || (waiting < lanes::LANES && shared.working > 0) {
                let woken = self.news.wait(shared);
                shared = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let mut batch: Vec<Job> = shared.waiting.drain(..waiting.min(lanes::LANES)).collect();
            shared.working += 1;
            drop(shared);
            hash(&mut batch);
            // Whoever brought the bytes may want their memory back.
            let ended = batch.extract_if(.., |job| job.bytes.is_empty());
            let ended: Vec<_> = ended.map(|job| (job.id, job.state)).collect();
            shared = self.lock();
            shared.working -= 1;
            shared.done.extend(ended);
            for job in batch.into_iter().rev() {
                shared.waiting.push_front(job);
            }
            self.news.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hashes one to four jobs until the first of them ends.
fn hash(jobs: &mut [Job]) {
    if let [job] = jobs {
        lanes::one(&mut job.state, &job.bytes);
        job.bytes.clear();
        return;
    }
    let Some(shortest) = jobs.iter().map(|job| job.bytes.len()).min() else {
        return;
    };
    debug_assert_eq!(shortest % BLOCK, 0);
    let mut states = [INIT; lanes::LANES];
    // Lanes that nobody takes hash once more what the first one does.
    let mut bytes: [&[u8]; lanes::LANES] = [&jobs[0].bytes[..shortest]; lanes::LANES];
    for (lane, job) in jobs.iter().enumerate() {
        states[lane] = job.state;
        bytes[lane] = &job.bytes[..shortest];
    }
    lanes::side_by_side(&mut states, bytes);
    for (job, state) in jobs.iter_mut().zip(states) {
        job.state = state;
        job.bytes.advance(shortest);
    }
}
