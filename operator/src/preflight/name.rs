//! The names that clients know the legacy store by, and what else selects its pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::legacy::Legacy;
use super::{Facts, Finding, Weight, by, name_of};
use crate::render::{API_PORT, API_PORT_NAME};

const CHECK: &str = "name";

type Labels = BTreeMap<String, String>;

fn is_part(part: &Labels, whole: &Labels) -> bool {
    !part.is_empty()
        && part
            .iter()
            .all(|(key, value)| whole.get(key) == Some(value))
}

fn selector(service: &Service) -> Option<&Labels> {
    service.spec.as_ref()?.selector.as_ref()
}

fn ports(service: &Service) -> &[ServicePort] {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default()
}

/// Whether our pod answers where the port leads.
fn reaches_us(port: &ServicePort) -> bool {
    match &port.target_port {
        None => port.port == i32::from(API_PORT),
        Some(IntOrString::Int(number)) => *number == i32::from(API_PORT),
        Some(IntOrString::String(name)) => name == API_PORT_NAME,
    }
}

/// Each Service that leads to the legacy pods, and the labels by which our pod takes their place.
pub(super) fn names(legacy: &Legacy, facts: &Facts) -> (Vec<Finding>, Labels) {
    let services = match &facts.services {
        Ok(services) => services,
        Err(why) => {
            return (
                vec![Finding::unknown(CHECK, "Services", why)],
                Labels::new(),
            );
        }
    };
    let worn = legacy.labels();
    let mut labels = Labels::new();
    let mut findings = Vec::new();
    for service in services {
        let Some(selects) = selector(service).filter(|selects| is_part(selects, &worn)) else {
            continue;
        };
        let name = name_of(&service.metadata);
        let told: Vec<String> = ports(service)
            .iter()
            .map(|port| port.port.to_string())
            .collect();
        let title = format!("Service {name}:{}{}", told.join(","), by(&service.metadata));
        if ports(service).iter().any(reaches_us) {
            labels.extend(selects.clone());
            let text = format!("{title} leads to the new pod once that wears what it selects");
            findings.push(Finding::new(CHECK, Weight::Ok, text));
        } else {
            let text =
                format!("{title} leads to no port of the new pod ({API_PORT_NAME}, {API_PORT})");
            findings.push(Finding::new(CHECK, Weight::Must, text).cure(format!(
                "set the targetPort of its S3 port to {API_PORT_NAME}"
            )));
        }
    }
    if findings.is_empty() {
        let text = format!("no Service leads to {}", legacy.title());
        findings.push(
            Finding::new(CHECK, Weight::Warning, text)
                .cure("clients use an address of another kind: have them use the new Service"),
        );
    }
    (findings, labels)
}

fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else {
        return false;
    };
    // Expressions are rare, and none of the charts has them.
    let all = selector.match_labels.as_ref();
    all.is_none_or(|wanted| {
        wanted
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    }) && selector
        .match_expressions
        .as_ref()
        .is_none_or(Vec::is_empty)
}

/// What applies to the legacy pods and will apply to ours.
pub(super) fn network(legacy: &Legacy, facts: &Facts) -> Vec<Finding> {
    let check = "network";
    let labels = legacy.labels();
    let mut findings: Vec<Finding> = [
        ("NetworkPolicies", facts.policies.as_ref().err()),
        ("PodDisruptionBudgets", facts.budgets.as_ref().err()),
    ]
    .into_iter()
    .filter_map(|(what, why)| Some(Finding::unknown(check, what, why?)))
    .collect();
    for policy in facts.policies.iter().flatten() {
        let spec = policy.spec.as_ref();
        if selects(spec.and_then(|spec| spec.pod_selector.as_ref()), &labels) {
            let name = name_of(&policy.metadata);
            let text = format!(
                "NetworkPolicy {name}{} will apply to the new pod, too; it most likely closes the metrics port",
                by(&policy.metadata)
            );
            findings.push(
                Finding::new(check, Weight::Note, text)
                    .cure("networkPolicy.enabled opens what the new pod needs; policies add up"),
            );
        }
    }
    for budget in facts.budgets.iter().flatten() {
        let spec = budget.spec.as_ref();
        if selects(spec.and_then(|spec| spec.selector.as_ref()), &labels) {
            let name = name_of(&budget.metadata);
            let never = spec.is_some_and(|spec| {
                let is =
                    |value: &Option<IntOrString>, number| *value == Some(IntOrString::Int(number));
                is(&spec.max_unavailable, 0) || is(&spec.min_available, 1)
            });
            let text = format!("PodDisruptionBudget {name} will apply to the new pod, too");
            findings.push(if never {
                Finding::new(
                    check,
                    Weight::Warning,
                    format!("{text}, and never allows it to be evicted"),
                )
                .cure("set maxUnavailable: 1, else nodes cannot be drained")
            } else {
                Finding::new(check, Weight::Note, text)
            });
        }
    }
    findings
}
