//! Keeps the cluster as the Filestores say: `filestore operator`.
//!
//! ```text
//! watches ─▶ reconcile: observe ─▶ validate ─▶ plan ─▶ carry out ─▶ status ─▶ events
//! ```
//!
//! All decisions are in the pure modules ([`crate::plan`], [`crate::status`]); here are the
//! requests and the waiting.

mod access;
mod api;
mod ask;
mod context;
mod deletion;
mod extras;
mod http;
mod lease;
mod metrics;
mod observe;
mod pinned;
mod put_back;
mod reconcile;
mod serve;
mod step;
mod store;
mod watch;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use filestore_common::shutdown::CancellationToken;
use kube::Client;

pub use api::Error;
use context::Context;
use lease::Lease;
use metrics::Metrics;
use serve::Health;
use store::ByHttp;

/// Which namespaces are looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, which needs cluster-wide rights.
    All,
    /// These.
    Namespaces(Vec<String>),
}

/// How the operator runs.
#[derive(Debug)]
pub struct Settings {
    /// Namespaces to look after.
    pub scope: Scope,
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of this process in the lease and in events: the pod's.
    pub identity: String,
    /// Whether to wait for the lease before anything is done.
    pub leader_election: bool,
    /// Image for Filestores that name none; `None` = that of this version.
    pub image: Option<String>,
    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    pub listener: Option<TcpListener>,
}

/// How long rounds under way may take to end.
const DRAIN: Duration = Duration::from_secs(8);

/// Pause between two looks for the resource's definition.
const DEFINITION_RETRY: Duration = Duration::from_secs(2);

/// Runs until `shutdown`, then ends what is under way and gives the lease back.
///
/// # Errors
/// The address for metrics cannot be served.
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::default());
    let health = Arc::new(Health::default());
    let end = CancellationToken::new();
    let served = match settings.listener {
        Some(listener) => Some(tokio::spawn(serve::serve(
            serve::listen(listener)?,
            Arc::clone(&metrics),
            Arc::clone(&health),
            end.clone(),
        ))),
        None => None,
    };
    let context = Arc::new(Context::new(
        client.clone(),
        settings.identity.clone(),
        settings.image.clone(),
        Arc::clone(&metrics),
        Arc::new(ByHttp::default()),
    ));
    wait_for_definition(&client, &settings.scope, &shutdown).await;
    health.set_ready();
    let lease = settings
        .leader_election
        .then(|| Lease::new(client, &settings.namespace, settings.identity));
    while !shutdown.is_cancelled() {
        let Some(lease) = &lease else {
            metrics.set_leader(true);
            watch::run(&settings.scope, &context, &shutdown).await;
            break;
        };
        if !lease.acquire(&shutdown).await {
            break;
        }
        metrics.set_leader(true);
        let term = shutdown.child_token();
        let work = async {
            tokio::select! {
                () = watch::run(&settings.scope, &context, &term) => {}
                () = overdue(&term) => {
                    tracing::warn!("Rounds did not end in time and were cut off");
                }
            }
        };
        let hold = async {
            lease.hold(&shutdown).await;
            term.cancel();
        };
        tokio::join!(work, hold);
        metrics.set_leader(false);
        if shutdown.is_cancelled() {
            lease.release().await;
        }
    }
    end.cancel();
    if let Some(served) = served {
        // The port is closed or its task panicked; either way this is the end.
        drop(served.await);
    }
    Ok(())
}

/// Ends some time after `term`: before anybody else may take a lease that was lost.
async fn overdue(term: &CancellationToken) {
    term.cancelled().await;
    tokio::time::sleep(DRAIN).await;
}

/// Waits for the resource to be known to the API server: with GitOps its definition may come
/// after us.
async fn wait_for_definition(client: &Client, scope: &Scope, shutdown: &CancellationToken) {
    let mut told = false;
    while !shutdown.is_cancelled() {
        match observe::definition(client, scope).await {
            Ok(()) => return,
            Err(error) if !told => {
                told = true;
                tracing::warn!(%error, "Filestores cannot be listed: is the definition installed (kubectl apply -f crds/), and may this account list them? Trying on");
            }
            Err(error) => tracing::debug!(%error, "Filestores cannot be listed yet"),
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(DEFINITION_RETRY) => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
