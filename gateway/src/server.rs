//! The gateway's process: sockets, threads, start and end.
//!
//! One control thread accepts connections, deals them out in turn to the serving threads (each a
//! current-thread runtime) and runs the admin port. Cancelling the token ends it in order: no new
//! connections, requests in flight go on for the grace period, then everything is dropped.

mod control;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use filestore_common::shutdown::CancellationToken;
use filestore_store::{Store, StoreOptions};
use http::HeaderValue;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::{Builder, Runtime};

use crate::access::{AccessError, Accounts};
use crate::admin::Admin;
use crate::auth::{KeyAuth, KeyHolders};
use crate::config::{Config, Listen};
use crate::context::{Files, RequestIds};
use crate::credentials::{CredentialError, Credentials};
use crate::host::Hosts;
use crate::http::Http;
use crate::metrics::Metrics;
use crate::s3;
use crate::tls::{Tls, TlsError};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Threads for file work beside each serving thread. A file system that hangs fills them and
/// requests queue; the process stays small and alive.
const BLOCKING_THREADS: usize = 64;

/// How often buckets are counted again, for what others wrote to the volume.
const COUNT_PERIOD: Duration = Duration::from_hours(12);

/// Why a gateway did not start or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Access keys are missing or unreadable.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// Users are unreadable.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The certificate of the S3 port cannot be served.
    #[error("TLS of the S3 port: {0}")]
    Tls(#[from] TlsError),
    /// The volume cannot be served.
    #[error("volume {volume}: {source}")]
    Volume {
        /// Its path.
        volume: String,
        /// Cause, with a cure.
        source: filestore_store::Error,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {listen}: {}", bind_reason(source))]
    Bind {
        /// The address as it was given.
        listen: Listen,
        /// Cause.
        source: io::Error,
    },
    /// Threads or runtimes could not be made.
    #[error("start serving threads")]
    Start(#[source] io::Error),
    /// A serving thread died.
    #[error("a serving thread panicked")]
    Panicked,
}

fn bind_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process uses this port".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "permission denied (ports below 1024 need CAP_NET_BIND_SERVICE)".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "no interface has this address".to_owned(),
        _ => error.to_string(),
    }
}

/// A running gateway. Dropping it asks it to end, [`Gateway::wait`] also waits for that.
#[derive(Debug)]
pub struct Gateway {
    addresses: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    shutdown: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

/// Serves until `shutdown` is cancelled and requests in flight are over. Blocks.
///
/// # Errors
/// [`Error`].
pub fn serve(config: &Config, shutdown: &CancellationToken) -> Result<(), Error> {
    Gateway::start(config, shutdown)?.wait()
}

impl Gateway {
    /// Opens the volume, binds the ports (0 = any free one) and starts to serve. Blocks until
    /// that is done; neither needs nor uses a runtime of the caller.
    ///
    /// # Errors
    /// [`Error`]; nothing keeps running then.
    pub fn start(config: &Config, shutdown: &CancellationToken) -> Result<Self, Error> {
        let shutdown = shutdown.child_token();
        // A failed start below drops the threads that run already: their queues close.
        let credentials = Arc::new(Credentials::open(config.credentials.clone())?);
        let accounts = Accounts::open(Arc::clone(&credentials), config.access.clone())?;
        let accounts = Arc::new(accounts);
        let tls = open_tls(config)?;
        let listeners = bind_all(&config.listen)?;
        let admin_listener = config.admin_listen.map(bind).transpose()?;
        let addresses = local_addresses(&listeners)?;
        let admin_address = admin_listener
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()
            .map_err(Error::Start)?;
        let store = Arc::new(open_store(config)?);
        store.set_quotas(&accounts.quotas());
        raise_file_limit();

        let metrics = Arc::new(metrics(tls.as_deref()));
        metrics.set_users(accounts.users());
        let http = Arc::new(http(config, &store, (&credentials, &accounts), &metrics));
        let settings = worker::Settings {
            idle_timeout: config.idle_timeout,
            grace: config.grace,
            tls: tls.clone(),
            files: Files {
                // The kernel cannot encrypt what it sends.
                sendfile: config.sendfile && tls.is_none(),
                all_on_pool: config.blocking_io,
            },
        };
        let (alive, serving) = tokio::sync::mpsc::channel(1);
        let mut threads = Vec::new();
        let mut workers = Vec::new();
        for index in 0..serving_threads(config.threads) {
            let (sender, thread) = worker::spawn(
                index,
                Arc::clone(&http),
                settings.clone(),
                shutdown.clone(),
                alive.clone(),
            )
            .map_err(Error::Start)?;
            workers.push(sender);
            threads.push(thread);
        }
        drop(alive);
        let admin = Admin::new(
            Arc::clone(&store),
            Arc::clone(&metrics),
            config.require_marker.clone(),
            shutdown.clone(),
        );
        threads.push(count(&store).map_err(Error::Start)?);
        let control = control::Control {
            store: Arc::clone(&store),
            listeners,
            workers,
            admin: admin_listener.map(|listener| (listener, Arc::new(admin))),
            credentials,
            accounts,
            tls,
            metrics,
            credentials_period: config.credentials_period,
            serving,
            shutdown: shutdown.clone(),
        };
        let control = control.spawn().inspect_err(|_| store.stop_counting());
        threads.push(control.map_err(Error::Start)?);
        tracing::info!(
            volume = %store.path().display(),
            metadata = ?store.metadata_mode(),
            addresses = ?addresses,
            admin = ?admin_address,
            tls = config.tls.is_some(),
            "Serving"
        );
        Ok(Self {
            addresses,
            admin: admin_address,
            shutdown,
            threads,
        })
    }

    /// Where S3 clients connect, in the order of [`Config::listen`].
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where the admin port is.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Asks for the end; requests in flight go on for the grace period.
    pub fn shutdown(&self) {
        self.shutdown.cancel();
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// [`Error::Panicked`].
    pub fn wait(mut self) -> Result<(), Error> {
        let results: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        if results.iter().any(Result::is_err) {
            return Err(Error::Panicked);
        }
        tracing::info!("Stopped");
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn open_store(config: &Config) -> Result<Store, Error> {
    let options = StoreOptions {
        durability: config.durability,
        metadata: config.metadata,
        ..StoreOptions::default()
    };
    let (volume, options) = match &config.data_root {
        None => (config.volume.clone(), options),
        Some(root) => options.for_data_root(root),
    };
    let opened = Store::open(&volume, &options).and_then(|store| {
        store.start_counting()?;
        Ok(store)
    });
    opened.map_err(|source| Error::Volume {
        volume: volume.display().to_string(),
        source,
    })
}

/// Starts the thread that counts what the buckets hold, until [`Store::stop_counting`]; nothing
/// changes the volume any more then.
fn count(store: &Arc<Store>) -> io::Result<JoinHandle<()>> {
    let store = Arc::clone(store);
    thread::Builder::new()
        .name("count".to_owned())
        .spawn(move || {
            store.count(COUNT_PERIOD);
            if let Err(error) = store.save_counts() {
                tracing::warn!(%error, "Counts of the buckets could not be kept for the next start");
            }
        })
}

fn http(
    config: &Config,
    store: &Arc<Store>,
    (credentials, accounts): (&Credentials, &Arc<Accounts>),
    metrics: &Arc<Metrics>,
) -> Http {
    let hosts = Hosts::new(&config.virtual_domains);
    let gateway = s3::Gateway::new(
        Arc::clone(store),
        s3::Settings {
            region: config.region.clone(),
            owner: credentials.owner(),
            tls: config.tls.is_some(),
        },
    );
    let service = s3::Service::new(&gateway, &hosts, |builder| {
        builder.set_auth(KeyAuth(Arc::clone(accounts)));
        builder.set_access(KeyHolders);
    });
    let ids = RequestIds::new();
    let host_id = HeaderValue::from_str(&ids.next())
        .unwrap_or_else(|_| HeaderValue::from_static("filestore"));
    Http {
        service,
        metrics: Arc::clone(metrics),
        accounts: Arc::clone(accounts),
        hosts,
        health_path: config.health_path.clone(),
        ids,
        host_id,
    }
}

fn open_tls(config: &Config) -> Result<Option<Arc<Tls>>, TlsError> {
    let tls = config.tls.clone().map(Tls::open).transpose()?;
    Ok(tls.map(Arc::new))
}

fn metrics(tls: Option<&Tls>) -> Metrics {
    let mut metrics = Metrics::new();
    if let Some(tls) = tls {
        metrics.register_certificate();
        metrics.certificate().read(tls.not_after());
    }
    metrics
}

fn serving_threads(asked: Option<NonZeroUsize>) -> usize {
    asked
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
}

fn bind_all(listen: &[Listen]) -> Result<Vec<TcpListener>, Error> {
    listen.iter().copied().map(bind).collect()
}

fn bind(listen: Listen) -> Result<TcpListener, Error> {
    let mut result = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in listen.candidates() {
        result = bind_one(address);
        match &result {
            // No IPv6 on this machine: the next candidate is IPv4.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {}
            _ => break,
        }
    }
    result.map_err(|source| Error::Bind { listen, source })
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // A restarted gateway gets its port back although old connections linger.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn local_addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, Error> {
    let addresses: io::Result<_> = listeners.iter().map(TcpListener::local_addr).collect();
    addresses.map_err(Error::Start)
}

/// Each connection and each body being moved is a file: the usual soft limit of 1024 is low.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "Could not raise the limit of open files");
    }
}
