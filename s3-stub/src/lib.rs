//! An S3 server for tests: it serves a scripted [`World`], remembers what it was asked, and can
//! misbehave in the ways that real servers, proxies and networks do but cannot be told to.
//!
//! ```text
//! request ──▶ serve ──▶ trouble (which rule fires?) ──▶ answer ──▶ listing · objects
//!               │                                          │
//!               ▼                                          ▼
//!             record                                     world
//! ```
//!
//! It runs on a thread of its own, so that blocking tests (a binary against it) and asynchronous
//! ones use it alike. A bucket can be [`Synthetic`]: a million keys that are computed, not held.
//! Signatures are not checked; whatever is about credentials is tested with real servers.

mod answer;
mod listing;
mod record;
mod serve;
mod trouble;
mod world;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub use listing::Listing;
pub use record::{Op, Seen};
pub use trouble::{Act, Trouble};
pub use world::{Bucket, Object, Synthetic, World};

use record::Record;

/// What the server's tasks share with the test.
#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    record: Mutex<Record>,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server; ends when it is dropped, cutting every connection.
#[derive(Debug)]
pub struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stub {
    /// Serves `world` on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When there is no port or no thread to have.
    pub fn start(world: World) -> io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), world)
    }

    /// Serves `world` at this address: where one was before that ended.
    ///
    /// # Errors
    /// As [`Stub::start`].
    pub fn start_at(address: SocketAddr, world: World) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
            record: Mutex::new(Record::default()),
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let served = shared.clone();
        let thread = std::thread::Builder::new()
            .name("s3-stub".into())
            .spawn(move || {
                runtime.block_on(async move {
                    tokio::select! {
                        () = serve::accept(listener, served) => {}
                        _ = stopped => {}
                    }
                });
                // Connections that are open end with the runtime.
            })?;
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what is served; requests that are being answered keep what they have.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.shared.world())
    }

    /// The requests so far, in order of arrival; at most [`Seen::KEPT`] of them.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.record().requests.clone()
    }

    /// How many requests there were of each operation, without any limit.
    pub fn counts(&self) -> BTreeMap<Op, u64> {
        self.shared.record().counts.clone()
    }

    /// How many requests there were of one operation.
    pub fn count(&self, op: Op) -> u64 {
        self.counts().get(&op).copied().unwrap_or(0)
    }

    /// Bytes of object bodies sent so far.
    pub fn body_bytes_sent(&self) -> u64 {
        self.shared.record().body_bytes
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.shared.record().forget();
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server shows in the test's output; the test itself decides.
            drop(thread.join());
        }
    }
}
