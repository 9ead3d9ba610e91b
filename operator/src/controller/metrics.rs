//! Metrics of the operator, `filestore_operator_*`.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::Phase;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    kind: String,
    verb: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// Counters and gauges, ready to be shown.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    rounds: Family<Outcome, Counter>,
    duration: Histogram,
    writes: Family<Write, Counter>,
    phases: Family<PhaseLabel, Gauge>,
    leader: Gauge<i64, std::sync::atomic::AtomicI64>,
    /// Phase of each Filestore, by namespace and name.
    known: Mutex<HashMap<(String, String), Option<Phase>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("filestore_operator");
        let rounds = Family::<Outcome, Counter>::default();
        registry.register("rounds", "Reconcile rounds", rounds.clone());
        let duration = Histogram::new([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]);
        registry.register("round_seconds", "Time that a round took", duration.clone());
        let writes = Family::<Write, Counter<u64, AtomicU64>>::default();
        registry.register(
            "writes",
            "Writes to the API server, without leases and events",
            writes.clone(),
        );
        let phases = Family::<PhaseLabel, Gauge>::default();
        registry.register("filestores", "Filestores by phase", phases.clone());
        let leader = Gauge::default();
        registry.register(
            "leader",
            "1 while this process is the one that acts",
            leader.clone(),
        );
        Self {
            registry,
            rounds,
            duration,
            writes,
            phases,
            leader,
            known: Mutex::default(),
        }
    }
}

impl Metrics {
    pub(super) fn round(&self, took: Duration, ok: bool) {
        let result = if ok { "ok" } else { "error" };
        self.rounds.get_or_create(&Outcome { result }).inc();
        self.duration.observe(took.as_secs_f64());
    }

    pub(super) fn write(&self, kind: &str, verb: &str) {
        let label = Write {
            kind: kind.to_owned(),
            verb: verb.to_owned(),
        };
        self.writes.get_or_create(&label).inc();
    }

    pub(super) fn set_leader(&self, leader: bool) {
        self.leader.set(i64::from(leader));
    }

    pub(super) fn phase(&self, namespace: &str, name: &str, phase: Option<Phase>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert((namespace.to_owned(), name.to_owned()), phase);
        self.count(&known);
    }

    pub(super) fn forget(&self, namespace: &str, name: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&(namespace.to_owned(), name.to_owned()));
        self.count(&known);
    }

    fn count(&self, known: &HashMap<(String, String), Option<Phase>>) {
        for phase in Phase::ALL {
            let count = known
                .values()
                .filter(|found| **found == Some(phase))
                .count();
            let label = PhaseLabel {
                phase: phase.to_string(),
            };
            let gauge = self.phases.get_or_create(&label);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// In OpenMetrics text.
    pub(super) fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
