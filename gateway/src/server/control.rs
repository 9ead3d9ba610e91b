//! The control thread: accepts connections, serves the admin port, follows mounted credentials,
//! access files and certificates.

use std::convert::Infallible;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use filestore_common::shutdown::CancellationToken;
use filestore_store::Store;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;

use super::runtime;
use crate::access::{Accounts, Reload};
use crate::admin::Admin;
use crate::credentials::Credentials;
use crate::metrics::Metrics;
use crate::pages;
use crate::tls::Tls;

/// Pause after a failed accept (out of files), lest it spins.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the control thread works on.
pub(super) struct Control {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) workers: Vec<UnboundedSender<TcpStream>>,
    pub(super) admin: Option<(TcpListener, Arc<Admin>)>,
    pub(super) credentials: Arc<Credentials>,
    pub(super) store: Arc<Store>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) credentials_period: Duration,
    /// Closed when the last serving thread has ended.
    pub(super) serving: mpsc::Receiver<Infallible>,
    pub(super) shutdown: CancellationToken,
}

impl Control {
    /// Starts the thread. When `shutdown` is cancelled it closes the workers' queues, and ends
    /// after them: the admin port answers while requests in flight finish.
    pub(super) fn spawn(self) -> io::Result<JoinHandle<()>> {
        let runtime = runtime()?;
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                runtime.block_on(self.run());
                runtime.shutdown_background();
            })
    }

    async fn run(mut self) {
        let workers = Arc::new(self.workers);
        let mut accepting = JoinSet::new();
        for listener in self.listeners {
            accepting.spawn(accept(
                listener,
                Arc::clone(&workers),
                self.shutdown.clone(),
            ));
        }
        drop(workers);
        let mut beside = JoinSet::new();
        if self.credentials.are_mounted() {
            beside.spawn(follow(self.credentials, self.credentials_period));
        }
        if self.accounts.are_followed() {
            let of_store = (Arc::clone(&self.store), Arc::clone(&self.metrics));
            let period = self.credentials_period;
            beside.spawn(follow_access(self.accounts, of_store, period));
        }
        if let Some(tls) = self.tls {
            beside.spawn(follow_certificate(
                tls,
                self.metrics,
                self.credentials_period,
            ));
        }
        if let Some((listener, admin)) = self.admin {
            beside.spawn(pages::serve(listener, admin));
        }
        while accepting.join_next().await.is_some() {}
        self.serving.recv().await;
        self.store.stop_counting();
    }
}

async fn accept(
    listener: TcpListener,
    workers: Arc<Vec<UnboundedSender<TcpStream>>>,
    shutdown: CancellationToken,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "Cannot accept connections");
            return;
        }
    };
    let mut turns = workers.iter().cycle();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => {
                let gone = turns
                    .next()
                    .is_none_or(|worker| worker.send(stream).is_err());
                if gone {
                    tracing::error!("A serving thread is gone");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "Accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes mounted credentials over when they change.
async fn follow(credentials: Arc<Credentials>, period: Duration) {
    let mut period = tokio::time::interval(period);
    let mut failing = false;
    loop {
        period.tick().await;
        let credentials = Arc::clone(&credentials);
        match crate::io::long(move || credentials.reload()).await {
            Ok(changed) => {
                failing = false;
                if changed {
                    tracing::info!("Credentials changed");
                }
            }
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "Credentials cannot be read, keeping the ones in force");
            }
            Err(_) => {}
        }
    }
}

/// Takes access files over when they change.
async fn follow_access(
    accounts: Arc<Accounts>,
    (store, metrics): (Arc<Store>, Arc<Metrics>),
    period: Duration,
) {
    let mut period = tokio::time::interval(period);
    let mut told = None;
    loop {
        period.tick().await;
        let reading = Arc::clone(&accounts);
        match crate::io::long(move || reading.reload()).await {
            Ok(reload) => {
                told = None;
                metrics.access_read();
                if reload == Reload::Changed {
                    metrics.set_users(accounts.users());
                    store.set_quotas(&accounts.quotas());
                    tracing::info!(users = accounts.users(), "Access changed");
                }
            }
            Err(error) => {
                metrics.access_unreadable();
                let text = chain(&error);
                // Once for each thing that is wrong.
                if told.as_ref() != Some(&text) {
                    tracing::warn!(
                        error = text,
                        "Access files cannot be used, keeping what is in force"
                    );
                    told = Some(text);
                }
            }
        }
    }
}

/// Takes the certificate of the S3 port over when it changes.
async fn follow_certificate(tls: Arc<Tls>, metrics: Arc<Metrics>, period: Duration) {
    let mut period = tokio::time::interval(period);
    let mut told = None;
    let mut ended = false;
    loop {
        period.tick().await;
        let reading = Arc::clone(&tls);
        match crate::io::long(move || reading.reload()).await {
            Ok(changed) => {
                told = None;
                metrics.certificate().read(tls.not_after());
                if changed {
                    tracing::info!(not_after = %date(tls.not_after()), "Certificate changed");
                }
            }
            Err(error) => {
                metrics.certificate().unreadable();
                let text = chain(&error);
                if told.as_ref() != Some(&text) {
                    tracing::warn!(
                        error = text,
                        "Certificate files cannot be used, keeping the pair in force"
                    );
                    told = Some(text);
                }
            }
        }
        if std::mem::replace(&mut ended, tls.not_after() < SystemTime::now()) != ended && ended {
            tracing::warn!(
                not_after = %date(tls.not_after()),
                "The certificate of the S3 port has expired: clients refuse it"
            );
        }
    }
}

/// An error and its cause.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// RFC 3339.
fn date(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| "unknown".to_owned(), |time| time.to_string())
}
