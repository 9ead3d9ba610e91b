//! Threads that copy: each takes one object at a time and may block on it, with a small runtime
//! of its own for the network.
//!
//! A thread for each object in flight costs less than handing every object from the runtime to a
//! blocking thread and back, and a file system that answers slowly holds up only as many objects
//! as a slow server would. Jobs are taken in the order in which they were given, several small
//! ones at a time when many wait.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Jobs that may wait; whoever gives more waits until half of them are taken.
const MOST_WAITING: usize = 512;
/// Small jobs that a thread takes at a time, at most.
const BATCH: usize = 16;

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread is one of these, and blocking it holds up nobody else.
pub(crate) fn may_block() -> bool {
    MAY_BLOCK.get()
}

/// Whether there are more objects at work than cores: then nothing is gained by more threads for
/// one of them, and its bytes stay in the cache of one core.
pub(crate) fn crowded() -> bool {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));
    may_block() && AT_WORK.load(Ordering::Relaxed) > *CORES
}

/// Jobs that are not small, in all lanes of the process.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Counts a job while it is there.
struct AtWork;

impl AtWork {
    fn begin() -> Self {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Job<T> {
    work: Work<T>,
    small: bool,
}

struct State<T> {
    waiting: VecDeque<Job<T>>,
    done: Vec<T>,
    /// Given and not yet in `done`.
    open: usize,
    /// A job panicked, with what it said.
    panicked: bool,
    threads: usize,
    /// Threads that look for work.
    idle: usize,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// There is work.
    work: Notify,
    /// Something was done, or there is room.
    news: Notify,
    /// End, and drop what is not done.
    stop: CancellationToken,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most so many threads, started when there is work for them.
pub(crate) struct Lanes<T> {
    shared: Arc<Shared<T>>,
    most: usize,
}

impl<T> std::fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// A job panicked, or no thread could be started.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl<T: Send + 'static> Lanes<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    waiting: VecDeque::new(),
                    done: Vec::new(),
                    open: 0,
                    panicked: false,
                    threads: 0,
                    idle: 0,
                }),
                work: Notify::new(),
                news: Notify::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// Gives a job; waits while too many do. A `small` one may be taken together with others.
    pub(crate) async fn push(
        &self,
        small: bool,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<(), Broken> {
        let begin_thread = {
            let mut state = self.shared.state();
            state.open += 1;
            let work: Work<T> = if small {
                Box::pin(work)
            } else {
                Box::pin(async {
                    let _at_work = AtWork::begin();
                    work.await
                })
            };
            state.waiting.push_back(Job { work, small });
            let wanted = state.idle == 0 && state.threads < self.most;
            state.threads += usize::from(wanted);
            wanted
        };
        if begin_thread {
            self.start()?;
        } else {
            self.shared.work.notify_one();
        }
        if self.shared.state().waiting.len() >= MOST_WAITING {
            self.until(|state| state.waiting.len() <= MOST_WAITING / 2)
                .await?;
        }
        Ok(())
    }

    /// What was done since the last call, in any order.
    pub(crate) fn take_done(&self) -> Vec<T> {
        std::mem::take(&mut self.shared.state().done)
    }

    /// Waits until everything that was given is done.
    pub(crate) async fn drain(&self) -> Result<(), Broken> {
        self.until(|state| state.open == 0).await
    }

    async fn until(&self, reached: impl Fn(&State<T>) -> bool) -> Result<(), Broken> {
        loop {
            let news = self.shared.news.notified();
            {
                let state = self.shared.state();
                if state.panicked {
                    return Err(Broken("panicked".into()));
                }
                if reached(&state) {
                    return Ok(());
                }
            }
            news.await;
        }
    }

    fn start(&self) -> Result<(), Broken> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| Broken(error.to_string()))?;
        let shared = self.shared.clone();
        let most = self.most;
        let thread = std::thread::Builder::new().name("copy".into());
        let started = thread.spawn(move || {
            MAY_BLOCK.set(true);
            runtime.block_on(async {
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    () = lane(&shared, most) => {}
                }
            });
            // A blocked write of a dead mount must not hold the exit back.
            runtime.shutdown_background();
        });
        started.map(drop).map_err(|error| Broken(error.to_string()))
    }
}

impl<T> Drop for Lanes<T> {
    fn drop(&mut self) {
        self.shared.state().waiting.clear();
        // All at once: a thread's runtime may serve connections that others use.
        self.shared.stop.cancel();
    }
}

/// The work of one thread.
async fn lane<T>(shared: &Shared<T>, lanes: usize) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        take(shared, lanes, &mut batch).await;
        for work in batch.drain(..) {
            let outcome = AssertUnwindSafe(work).catch_unwind().await;
            let mut state = shared.state();
            state.open -= 1;
            match outcome {
                Ok(done) => state.done.push(done),
                Err(_) => state.panicked = true,
            }
            let news = state.open == 0 || state.panicked;
            drop(state);
            if news {
                shared.news.notify_one();
            }
        }
    }
}

/// Fills `batch` as soon as there is work.
async fn take<T>(shared: &Shared<T>, lanes: usize, batch: &mut Vec<Work<T>>) {
    let mut waited = false;
    loop {
        let work = shared.work.notified();
        {
            let mut state = shared.state();
            state.idle -= usize::from(std::mem::take(&mut waited));
            let before = state.waiting.len();
            let fair = (before / (2 * lanes)).clamp(1, BATCH);
            while batch.len() < fair {
                // One that is not small goes alone, so that none waits behind it.
                let fits = |job: &Job<T>| job.small || batch.is_empty();
                if !state.waiting.front().is_some_and(fits) {
                    break;
                }
                let Some(job) = state.waiting.pop_front() else {
                    break;
                };
                batch.push(job.work);
                if !job.small {
                    break;
                }
            }
            let left = state.waiting.len();
            if before > MOST_WAITING / 2 && left <= MOST_WAITING / 2 {
                shared.news.notify_one();
            }
            if left > 0 {
                shared.work.notify_one();
            }
            if !batch.is_empty() {
                return;
            }
            state.idle += 1;
            waited = true;
        }
        work.await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn everything_is_done_once_by_threads_that_may_block() {
        let lanes = Lanes::new(3);
        assert!(!may_block());
        for number in 0..3000_u32 {
            lanes
                .push(number % 7 > 0, async move { (number, may_block()) })
                .await
                .unwrap();
        }
        lanes.drain().await.unwrap();
        let mut done = lanes.take_done();
        done.sort_unstable();
        let expected: Vec<_> = (0..3000).map(|number| (number, true)).collect();
        assert_eq!(done, expected);
    }

    #[tokio::test]
    async fn as_many_are_at_work_as_allowed_and_no_more() {
        let lanes = Lanes::new(4);
        let (now, gate) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        for _ in 0..40 {
            let (now, gate) = (now.clone(), gate.clone());
            let work = async move {
                let count = now.fetch_add(1, Ordering::SeqCst) + 1;
                // The fourth lets everybody go on.
                if count == 4 {
                    gate.cancel();
                }
                gate.cancelled().await;
                now.fetch_sub(1, Ordering::SeqCst);
                count
            };
            lanes.push(false, work).await.unwrap();
        }
        lanes.drain().await.unwrap();
        assert_eq!(lanes.take_done().into_iter().max(), Some(4));
    }

    #[tokio::test]
    async fn a_panic_is_told_and_what_hangs_is_dropped() {
        struct Told(CancellationToken);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        let (lanes, dropped) = (Lanes::new(2), CancellationToken::new());
        let told = Told(dropped.clone());
        let hangs = async move {
            let _told = told;
            std::future::pending::<()>().await;
        };
        lanes.push(false, hangs).await.unwrap();
        lanes
            .push(false, async { panic!("on purpose") })
            .await
            .unwrap();
        assert!(lanes.drain().await.is_err());
        drop(lanes);
        dropped.cancelled().await;
    }
}
