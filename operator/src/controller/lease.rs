//! Leader election by a `Lease`, by the rules of client-go's `leaderelection`: a lease that was
//! not renewed for its duration, *by the clock of the one who looks*, may be taken. So clocks of
//! different machines need not agree.

use std::time::{Duration, Instant};

use filestore_common::shutdown::CancellationToken;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};

/// Name of the lease, one per namespace of operators.
const NAME: &str = "filestore-operator";

/// How long a lease holds without being renewed.
const DURATION: Duration = Duration::from_secs(30);

/// How long its holder tries to renew before it stops acting: well before anybody else begins.
const RENEW_WITHIN: Duration = Duration::from_secs(20);

/// Pause between two tries.
const RETRY: Duration = Duration::from_secs(5);

/// Longest time for one request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The right to act.
pub(super) struct Lease {
    api: Api<Object>,
    identity: String,
}

/// What was last seen of the lease, and when by our clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    /// `resourceVersion`: changes with each renewal.
    version: Option<String>,
    at: Option<Instant>,
}

/// What to do about a lease of somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Ours, free or run out.
    Take,
    /// Somebody holds it.
    Wait,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Lease {
    pub(super) fn new(client: Client, namespace: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            identity,
        }
    }

    /// Waits for the lease; `false` when `shutdown` came first.
    pub(super) async fn acquire(&self, shutdown: &CancellationToken) -> bool {
        let mut seen = Seen::default();
        let mut told: Option<String> = None;
        loop {
            if shutdown.is_cancelled() {
                return false;
            }
            match self.attempt(&mut seen).await {
                Ok(None) => {
                    tracing::info!(identity = %self.identity, "This process acts: it has the lease");
                    return true;
                }
                Ok(Some(holder)) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(%holder, "Another process has the lease; waiting");
                        told = Some(holder);
                    }
                }
                Err(error) => tracing::warn!(%error, "Cannot get the lease; trying on"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Renews the lease until `shutdown`, or until that has not worked for too long.
    pub(super) async fn hold(&self, shutdown: &CancellationToken) {
        let mut renewed = Instant::now();
        let mut seen = Seen::default();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
            match self.attempt(&mut seen).await {
                Ok(None) => renewed = Instant::now(),
                Ok(Some(holder)) => {
                    tracing::warn!(%holder, "Another process took the lease; this one stops acting");
                    return;
                }
                Err(error) => tracing::warn!(%error, "Cannot renew the lease; trying on"),
            }
            if renewed.elapsed() > RENEW_WITHIN {
                tracing::warn!("The lease could not be renewed in time; this process stops acting");
                return;
            }
        }
    }

    /// Gives the lease back, so that the next one need not wait.
    pub(super) async fn release(&self) {
        let release = async {
            let Some(mut lease) = self.api.get_opt(NAME).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = None;
            self.api
                .replace(NAME, &PostParams::default(), &lease)
                .await
                .map(drop)
        };
        match tokio::time::timeout(PATIENCE, release).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "Cannot give the lease back; it runs out by itself");
            }
            Err(_) => tracing::warn!("Cannot give the lease back; it runs out by itself"),
        }
    }

    /// Takes or renews the lease if it may; else the name of its holder.
    async fn attempt(&self, seen: &mut Seen) -> kube::Result<Option<String>> {
        match tokio::time::timeout(PATIENCE, self.attempt_unbounded(seen)).await {
            Ok(result) => result,
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }

    async fn attempt_unbounded(&self, seen: &mut Seen) -> kube::Result<Option<String>> {
        let now = Timestamp::now();
        let params = PostParams::default();
        let Some(lease) = self.api.get_opt(NAME).await? else {
            let lease = Object {
                metadata: ObjectMeta {
                    name: Some(NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(taken(&LeaseSpec::default(), &self.identity, now)),
            };
            return won(self.api.create(&params, &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if decide(
            &spec,
            lease.metadata.resource_version.as_deref(),
            &self.identity,
            seen,
            Instant::now(),
        ) == Decision::Wait
        {
            return Ok(Some(spec.holder_identity.unwrap_or_default()));
        }
        // The resource version goes along: of two that try at once, one wins.
        let lease = Object {
            spec: Some(taken(&spec, &self.identity, now)),
            ..lease
        };
        won(self.api.replace(NAME, &params, &lease).await)
    }
}

/// A lost race is no error.
fn won(result: kube::Result<Object>) -> kube::Result<Option<String>> {
    match result {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Ok(Some("another process".to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn decide(
    spec: &LeaseSpec,
    version: Option<&str>,
    identity: &str,
    seen: &mut Seen,
    now: Instant,
) -> Decision {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder.is_empty() || holder == identity {
        return Decision::Take;
    }
    if seen.version.as_deref() != version {
        *seen = Seen {
            version: version.map(ToOwned::to_owned),
            at: Some(now),
        };
    }
    let seconds = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let duration = seconds.map_or(DURATION, Duration::from_secs);
    match seen.at {
        Some(at) if now.duration_since(at) > duration => Decision::Take,
        _ => Decision::Wait,
    }
}

/// The lease in our hands.
fn taken(before: &LeaseSpec, identity: &str, now: Timestamp) -> LeaseSpec {
    let renewal = before.holder_identity.as_deref() == Some(identity);
    let now = MicroTime(now);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: if renewal {
            before.acquire_time.clone()
        } else {
            Some(now.clone())
        },
        renew_time: Some(now),
        lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(!renewal)),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(30),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_when_free_ours_or_not_renewed_for_its_duration() {
        let start = Instant::now();
        let mut seen = Seen::default();
        let mut look = |holder: &str, version: &str, after: u64| {
            let now = start + Duration::from_secs(after);
            decide(&held_by(holder), Some(version), "me", &mut seen, now)
        };
        assert_eq!(look("", "1", 0), Decision::Take);
        assert_eq!(look("me", "1", 0), Decision::Take);
        assert_eq!(look("other", "2", 0), Decision::Wait);
        assert_eq!(look("other", "2", 29), Decision::Wait);
        // Renewed at 29: the time starts again.
        assert_eq!(look("other", "3", 29), Decision::Wait);
        assert_eq!(look("other", "3", 58), Decision::Wait);
        assert_eq!(look("other", "3", 60), Decision::Take);
    }

    #[test]
    fn a_renewal_keeps_when_it_was_acquired() {
        let first = Timestamp::from_second(1000).unwrap();
        let second = Timestamp::from_second(1005).unwrap();
        let mine = taken(&held_by("other"), "me", first);
        assert_eq!(mine.lease_transitions, Some(1));
        let again = taken(&mine, "me", second);
        assert_eq!(again.acquire_time, Some(MicroTime(first)));
        assert_eq!(again.renew_time, Some(MicroTime(second)));
        assert_eq!(again.lease_transitions, Some(1));
    }
}
