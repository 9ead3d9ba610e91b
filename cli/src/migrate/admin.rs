//! `--admin-addr`: `/healthz`, `/readyz` and `/metrics` of a migration at work.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use anyhow::Context as _;
use filestore_gateway::pages::{self, OPEN_METRICS, Pages, Reply, TEXT, found, unready};
use filestore_migrator::ExitCode;
use filestore_migrator::progress::Phase;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::exit::WithCode as _;
use crate::progress::{Shown, Snapshot};

type UnsignedGauge = Gauge<u64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

/// Serves what `shown` knows on `address` for as long as the runtime lives.
pub(super) fn serve(address: SocketAddr, shown: &Arc<Shown>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .with_context(|| format!("listen on {address}"))
        .code(ExitCode::Retryable)?;
    tokio::spawn(pages::serve(listener, Arc::new(Admin(Arc::clone(shown)))));
    Ok(())
}

struct Admin(Arc<Shown>);

impl Pages for Admin {
    async fn page(&self, path: &str) -> Option<Reply> {
        match path {
            "/healthz" => Some(found(TEXT, "ok\n")),
            "/readyz" => Some(match self.0.snapshot().phase {
                Phase::Held => found(TEXT, "held\n"),
                phase => unready(format!("not held: {}\n", phase.as_str())),
            }),
            "/metrics" => {
                let mut text = String::new();
                // Only a writer can fail, and a string does not.
                encode(&self.0.snapshot(), &mut text).ok()?;
                Some(found(OPEN_METRICS, text))
            }
            _ => None,
        }
    }
}

/// The metrics of a moment. Every name of docs/reference/migrate-output.md is here.
fn encode(now: &Snapshot, text: &mut String) -> fmt::Result {
    let mut registry = Registry::with_prefix("filestore_migrate");
    counters(&mut registry, now);
    phase(&mut registry, now);
    if let Some((at, _)) = &now.last_error {
        let since = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let help = "When something last failed or was tried again";
        let name = "last_error_timestamp_seconds";
        gauge(&mut registry, name, help, since.as_secs());
    }
    if let Some(left) = &now.left {
        let family = Family::<ReasonLabel, UnsignedGauge>::default();
        for (reason, left) in &left.reasons {
            let label = ReasonLabel {
                reason: reason.clone(),
            };
            family.get_or_create(&label).set(left.count);
        }
        registry.register("not_carried", "What stays behind, by reason", family);
    }
    text::encode(text, &registry)
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = UnsignedGauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn counters(registry: &mut Registry, now: &Snapshot) {
    let objects = Family::<OutcomeLabel, Counter>::default();
    for (outcome, count) in [
        ("copied", now.outcomes.copied),
        ("skipped", now.outcomes.skipped),
        ("deleted", now.outcomes.deleted),
        ("failed", now.outcomes.failed),
    ] {
        objects
            .get_or_create(&OutcomeLabel { outcome })
            .inc_by(count);
    }
    registry.register("objects", "Objects by what became of them", objects);
    let bytes = Counter::<u64>::default();
    bytes.inc_by(now.copied_bytes);
    let help = "Bytes of copied objects";
    registry.register_with_unit("copied", help, Unit::Bytes, bytes);
    let retries = Counter::<u64>::default();
    retries.inc_by(now.retries);
    let help = "Requests and objects that were tried again";
    registry.register("retries", help, retries);
}

fn phase(registry: &mut Registry, now: &Snapshot) {
    let phase = Family::<PhaseLabel, UnsignedGauge>::default();
    let label = PhaseLabel {
        phase: now.phase.as_str(),
    };
    phase.get_or_create(&label).set(1);
    registry.register("phase", "1 for the phase at work", phase);
    gauge(
        registry,
        "held",
        "1 while a final pass waits for the word to begin",
        u64::from(now.phase == Phase::Held),
    );
    gauge(
        registry,
        "keys_refused",
        "1 while a store refuses the keys and is asked again",
        u64::from(now.keys_refused),
    );
    let known = |count: u64| (count > 0).then_some(count);
    let done = now.done;
    let in_flight = u64::try_from(now.in_flight).unwrap_or(u64::MAX);
    for (name, help, value) in [
        (
            "phase_objects_done",
            "Objects done in the phase",
            Some(done.objects),
        ),
        (
            "phase_bytes_done",
            "Bytes moved in the phase",
            Some(done.bytes),
        ),
        (
            "phase_objects_expected",
            "Objects that the phase will touch",
            known(now.total.objects),
        ),
        (
            "phase_bytes_expected",
            "Bytes that the phase will move",
            known(now.total.bytes),
        ),
        (
            "listed_objects",
            "Objects of the source compared in the phase",
            Some(now.listed.objects),
        ),
        ("in_flight", "Objects being copied", Some(in_flight)),
        (
            "eta_seconds",
            "Time left in the phase, estimated",
            now.eta.map(|eta| eta.as_secs()),
        ),
    ] {
        if let Some(value) = value {
            gauge(registry, name, help, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use filestore_migrator::progress::{Event, Progress as _};
    use filestore_migrator::{Error, Kind};

    use super::*;
    use crate::progress::Style;

    #[test]
    fn metrics_say_what_events_said() {
        let shown = Shown::with(Style::None);
        shown.event(&Event::Phase {
            phase: Phase::Copy,
            objects: Some(4),
            bytes: Some(40),
        });
        let (object, bytes) = ("b/k", 10);
        shown.event(&Event::Started { object, bytes });
        shown.event(&Event::Bytes(10));
        shown.event(&Event::Ended { object });
        shown.event(&Event::Copied { object, bytes });
        shown.event(&Event::Skipped);
        let object = "b/l";
        shown.event(&Event::Started { object, bytes });

        let mut text = String::new();
        encode(&shown.snapshot(), &mut text).unwrap();

        for line in [
            "filestore_migrate_objects_total{outcome=\"copied\"} 1",
            "filestore_migrate_objects_total{outcome=\"skipped\"} 1",
            "filestore_migrate_objects_total{outcome=\"failed\"} 0",
            "filestore_migrate_copied_bytes_total 10",
            "filestore_migrate_phase{phase=\"copy\"} 1",
            "filestore_migrate_phase_objects_expected 4",
            "filestore_migrate_phase_bytes_done 10",
            "filestore_migrate_in_flight 1",
            "filestore_migrate_retries_total 0",
            "filestore_migrate_held 0",
            "filestore_migrate_keys_refused 0",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }

    #[test]
    fn a_store_that_refuses_the_keys_is_told_apart_from_one_that_is_away() {
        let shown = Shown::with(Style::None);
        let told = || {
            let mut text = String::new();
            encode(&shown.snapshot(), &mut text).unwrap();
            text.contains("filestore_migrate_keys_refused 1\n")
        };
        let waits = |kind| {
            let error = Error::new(kind, "list buckets", "http://legacy:9000", "no");
            let next = Duration::from_secs(5);
            shown.event(&Event::Waiting {
                error: &error,
                next,
            });
        };
        waits(Kind::Down);
        assert!(!told());
        waits(Kind::Auth);
        assert!(told());
        waits(Kind::Down);
        assert!(!told());
        waits(Kind::Auth);
        shown.event(&Event::Skipped);
        assert!(!told());
    }
}
