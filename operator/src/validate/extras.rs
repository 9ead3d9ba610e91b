//! Rules for what is made beside the store.

use std::collections::BTreeSet;

use super::check::{dns_label, dns_subdomain, endpoint};
use super::{Alerts, Dashboard, Monitoring, Name, Result, Scrape, Site, ValidationError};
use crate::api::{
    CompatibilityName, MonitoringSpec, NetworkPolicySpec, PlacementSpec, SecretReference, SiteSpec,
};

/// Further names, each once and none of them the store's own.
pub(super) fn names(own: &str, names: &[CompatibilityName]) -> Result<Vec<Name>> {
    let mut seen = BTreeSet::from([own]);
    names
        .iter()
        .enumerate()
        .map(|(index, wanted)| {
            let field = format!("spec.service.compatibility[{index}].name");
            dns_label(&field, &wanted.name, 63)?;
            if !seen.insert(&wanted.name) {
                let message = format!(
                    "{:?} is there already: the Filestore's own name and each other name may be used once; remove it",
                    wanted.name
                );
                return Err(ValidationError::new(field, message));
            }
            Ok(Name {
                name: wanted.name.clone(),
                port: wanted.port.unwrap_or(9000),
            })
        })
        .collect()
}

pub(super) fn placement(spec: Option<&PlacementSpec>) -> Result<PlacementSpec> {
    let spec = spec.cloned().unwrap_or_default();
    if let Some(class) = &spec.priority_class_name {
        dns_subdomain("spec.placement.priorityClassName", class)?;
    }
    Ok(spec)
}

pub(super) fn pull_secrets(secrets: &[SecretReference]) -> Result<Vec<String>> {
    secrets
        .iter()
        .enumerate()
        .map(|(index, secret)| {
            let field = format!("spec.pod.imagePullSecrets[{index}].name");
            dns_subdomain(field, &secret.name).map(|()| secret.name.clone())
        })
        .collect()
}

pub(super) fn network_policy(spec: Option<&NetworkPolicySpec>) -> Option<NetworkPolicySpec> {
    spec.filter(|spec| spec.enabled.unwrap_or_default())
        .cloned()
}

pub(super) fn monitoring(spec: Option<&MonitoringSpec>) -> Result<Monitoring> {
    let spec = spec.cloned().unwrap_or_default();
    let on = |enabled: Option<bool>| enabled.unwrap_or_default();
    let scrape = spec
        .service_monitor
        .filter(|monitor| on(monitor.enabled))
        .map(|monitor| {
            let interval = monitor.interval.unwrap_or_else(|| "30s".to_owned());
            duration("spec.monitoring.serviceMonitor.interval", &interval)?;
            Ok(Scrape {
                interval,
                labels: monitor.labels,
            })
        })
        .transpose()?;
    let alerts = spec
        .prometheus_rule
        .filter(|rule| on(rule.enabled))
        .map(|rule| {
            let percent = rule.capacity_warn_percent.unwrap_or(80);
            if !(1..=94).contains(&percent) {
                return Err(ValidationError::new(
                    "spec.monitoring.prometheusRule.capacityWarnPercent",
                    "must be from 1 to 94; at 95 percent another alert is critical",
                ));
            }
            Ok(Alerts {
                capacity_warn_percent: percent,
                labels: rule.labels,
            })
        })
        .transpose()?;
    let dashboard = spec
        .dashboard
        .filter(|dashboard| on(dashboard.enabled))
        .map(|dashboard| Dashboard {
            labels: if dashboard.labels.is_empty() {
                [("grafana_dashboard".to_owned(), "1".to_owned())].into()
            } else {
                dashboard.labels
            },
        });
    Ok(Monitoring {
        scrape,
        alerts,
        dashboard,
    })
}

/// A duration as Prometheus takes it, of one unit.
fn duration(field: &str, text: &str) -> Result<()> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let known = ["ms", "s", "m", "h"].contains(&unit);
    if known && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    let message = format!("{text:?} is no time; write for example 30s or 1m");
    Err(ValidationError::new(field, message))
}

pub(super) fn site(spec: Option<&SiteSpec>) -> Result<Option<Site>> {
    let Some(spec) = spec else { return Ok(None) };
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = spec.name.as_bytes();
    let valid = bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b));
    if !valid {
        let message = format!(
            "{:?} is no name of a site; use up to 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
            spec.name
        );
        return Err(ValidationError::new("spec.site.name", message));
    }
    let endpoint = spec
        .endpoint
        .as_ref()
        .map(|url| endpoint("spec.site.endpoint", url))
        .transpose()?;
    Ok(Some(Site {
        name: spec.name.clone(),
        endpoint,
    }))
}
