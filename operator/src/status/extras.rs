//! Conditions of what is made beside the store; each is there only when something is asked for.

use std::collections::BTreeSet;

use super::{Input, Verdict, reason};
use crate::extras::{Found, Purpose};
use crate::validate::{Server, ValidatedFilestore};

pub(super) fn verdicts(input: &Input<'_>) -> Vec<(&'static str, Verdict)> {
    let Some(filestore) = input.filestore else {
        return Vec::new();
    };
    let mut verdicts = Vec::new();
    if !filestore.compatibility.is_empty() {
        let conflict = input
            .problems
            .iter()
            .find(|problem| problem.reason == reason::COMPAT_SERVICE_CONFLICT);
        let verdict = conflict.map_or_else(
            || Verdict::new(true, reason::NAMES_LEAD_HERE, ""),
            Verdict::of,
        );
        verdicts.push((reason::NAMES_READY, verdict));
    }
    verdicts.extend(
        monitoring(filestore, &input.observed.extras)
            .map(|verdict| (reason::MONITORING_READY, verdict)),
    );
    verdicts
}

fn monitoring(filestore: &ValidatedFilestore, found: &Found) -> Option<Verdict> {
    let wanted = &filestore.monitoring;
    let purposes: Vec<Purpose> = [
        wanted.scrape.as_ref().map(|_| Purpose::ServiceMonitor),
        wanted.alerts.as_ref().map(|_| Purpose::PrometheusRule),
        wanted.dashboard.as_ref().map(|_| Purpose::Dashboard),
    ]
    .into_iter()
    .flatten()
    .collect();
    if purposes.is_empty() {
        return None;
    }
    if filestore.server != Server::Bundled {
        let message = "versitygw serves no metrics for Prometheus (it only sends StatsD, and the operator makes no exporter for that); use engine bundled, or switch monitoring off";
        return Some(Verdict::new(false, reason::ENGINE_LACKS, message));
    }
    let refused = found
        .refused
        .iter()
        .find(|(purpose, _)| purposes.contains(purpose));
    if let Some((_, message)) = refused {
        return Some(Verdict::new(
            false,
            reason::REQUEST_REFUSED,
            message.clone(),
        ));
    }
    let unknown: BTreeSet<&str> = purposes
        .into_iter()
        .filter(|purpose| found.unserved.contains(purpose))
        .map(Purpose::kind)
        .collect();
    if unknown.is_empty() {
        return Some(Verdict::new(true, reason::APPLIED, ""));
    }
    let kinds: Vec<&str> = unknown.into_iter().collect();
    let message = format!(
        "the cluster does not know {}; install the definitions of the Prometheus operator",
        kinds.join(" and ")
    );
    Some(Verdict::new(false, reason::KIND_UNKNOWN, message))
}
