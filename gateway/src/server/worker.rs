//! A serving thread: a current-thread runtime with its share of the connections.

use std::convert::Infallible;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use filestore_common::shutdown::CancellationToken;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use socket2::{SockRef, TcpKeepalive};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::runtime;
use crate::context::Files;
use crate::http::Http;
use crate::http::socket::Socket;
use crate::tls::Tls;

/// S3 allows 8 KiB of headers, presigned URLs and proxies add some.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 256;

/// When a silent client's machine is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// What connections have in common.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) idle_timeout: Duration,
    pub(super) grace: Duration,
    /// `None` = plain HTTP.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) files: Files,
}

/// Starts a thread that serves the connections sent to it. It ends when the sender is gone and
/// its connections are over, or the grace period is, and drops `alive` then.
pub(super) fn spawn(
    index: usize,
    http: Arc<Http>,
    settings: Settings,
    shutdown: CancellationToken,
    alive: mpsc::Sender<Infallible>,
) -> io::Result<(mpsc::UnboundedSender<TcpStream>, JoinHandle<()>)> {
    let (sender, connections) = mpsc::unbounded_channel();
    let runtime = runtime()?;
    let thread = thread::Builder::new()
        .name(format!("serve-{index}"))
        .spawn(move || {
            runtime.block_on(run(http, settings, shutdown, connections));
            // File work that still runs (a hung file system) must not hold the process.
            runtime.shutdown_background();
            drop(alive);
        })?;
    Ok((sender, thread))
}

async fn run(
    http: Arc<Http>,
    settings: Settings,
    shutdown: CancellationToken,
    mut connections: mpsc::UnboundedReceiver<TcpStream>,
) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            connection = connections.recv() => match connection {
                Some(stream) => {
                    serving.spawn(serve(stream, Arc::clone(&http), settings.clone(), shutdown.clone()));
                }
                None => break,
            },
            Some(_) = serving.join_next(), if !serving.is_empty() => {}
        }
    }
    let rest = async { while serving.join_next().await.is_some() {} };
    if tokio::time::timeout(settings.grace, rest).await.is_err() {
        tracing::warn!("Grace period over, dropping requests in flight");
    }
}

async fn serve(
    stream: TcpStream,
    http: Arc<Http>,
    settings: Settings,
    shutdown: CancellationToken,
) {
    let begun = tokio::select! {
        begun = begin(stream, &settings) => begun,
        () = shutdown.cancelled() => return,
    };
    let socket = match begun {
        Ok(Some(socket)) => socket,
        Ok(None) => return,
        Err(error) => {
            tracing::debug!(%error, "Connection lost before its first request");
            return;
        }
    };
    let files = settings.files;
    let service = service_fn(move |request| Arc::clone(&http).handle(request, files));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.idle_timeout)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES)
        .serve_connection(socket, service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "Connection ended");
    }
}

/// Makes a connection one that requests come over. `None`: it is over already, and told why.
async fn begin(stream: TcpStream, settings: &Settings) -> io::Result<Option<Socket>> {
    let stream = prepared(stream)?;
    let Some(tls) = &settings.tls else {
        return Ok(Some(Socket::plain(stream)));
    };
    // As long as a request's head may take.
    let handshake = tokio::time::timeout(settings.idle_timeout, tls.accept(stream));
    Ok(handshake.await??.map(Socket::tls))
}

fn prepared(stream: TcpStream) -> io::Result<tokio::net::TcpStream> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    tokio::net::TcpStream::from_std(stream)
}
