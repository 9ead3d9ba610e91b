//! How the new pod takes the place of a legacy one behind its Services: by their labels and port.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::legacy::Namespace;
use crate::api::NamedObject;
use crate::render::{API_PORT, API_PORT_NAME, NAME_LABEL};

type Labels = BTreeMap<String, String>;

/// Whether a Service leads to pods with these labels.
pub(super) fn selects(service: &Service, labels: &Labels) -> bool {
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty() && is_part(selector, labels))
}

fn is_part(part: &Labels, whole: &Labels) -> bool {
    part.iter()
        .all(|(key, value)| whole.get(key) == Some(value))
}

/// The S3 port of a MinIO container.
pub(super) fn api_port(container: &Container) -> i32 {
    let env = container.env.as_deref().unwrap_or_default();
    let told = env
        .iter()
        .find(|variable| variable.name == "MINIO_API_PORT_NUMBER")
        .and_then(|variable| variable.value.as_deref()?.parse().ok());
    let ports = container.ports.as_deref().unwrap_or_default();
    let named = ports.iter().find(|port| {
        port.name
            .as_deref()
            .is_some_and(|name| matches!(name, "api" | "minio-api" | "http" | "https" | "minio"))
    });
    told.or_else(|| named.map(|port| port.container_port))
        .unwrap_or(9000)
}

fn leads_to(port: &ServicePort, api: i32, container: &Container) -> bool {
    match &port.target_port {
        None => port.port == api,
        Some(IntOrString::Int(number)) => *number == api,
        Some(IntOrString::String(name)) => container
            .ports
            .iter()
            .flatten()
            .any(|found| found.name.as_deref() == Some(name) && found.container_port == api),
    }
}

/// Whether our pod answers where the Service's port leads.
fn reaches_us(port: &ServicePort) -> bool {
    match &port.target_port {
        None => port.port == i32::from(API_PORT),
        Some(IntOrString::Int(number)) => *number == i32::from(API_PORT),
        Some(IntOrString::String(name)) => name == API_PORT_NAME,
    }
}

fn name(service: &Service) -> &str {
    service.metadata.name.as_deref().unwrap_or_default()
}

fn ports(service: &Service) -> &[ServicePort] {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default()
}

/// Services that lead to the S3 port of the legacy pods, those with an address of their own first;
/// and in words what keeps our pod from taking over behind them.
pub(super) fn services(
    filestore: &str,
    legacy: &Labels,
    api: i32,
    container: &Container,
    namespace: Namespace<'_>,
) -> (Vec<NamedObject>, Option<String>) {
    let mut led: Vec<&Service> = namespace
        .services
        .iter()
        .filter(|service| selects(service, legacy))
        .filter(|service| {
            ports(service)
                .iter()
                .any(|port| leads_to(port, api, container))
        })
        .collect();
    let headless = |service: &Service| {
        let spec = service.spec.as_ref();
        spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
    };
    led.sort_by_key(|service| (headless(service), name(service)));
    let unreachable = led.iter().find_map(|service| {
        let port = ports(service)
            .iter()
            .find(|port| leads_to(port, api, container) && !reaches_us(port))?;
        let target = match &port.target_port {
            Some(IntOrString::String(name)) => format!("{name:?}"),
            Some(IntOrString::Int(number)) => number.to_string(),
            None => port.port.to_string(),
        };
        Some(format!(
            "port {} of Service {} leads to {target}, the new pod answers on {API_PORT_NAME:?} ({API_PORT})",
            port.port,
            name(service)
        ))
    });
    let found: Vec<NamedObject> = led
        .iter()
        .map(|service| NamedObject {
            name: name(service).to_owned(),
            uid: service.metadata.uid.clone().unwrap_or_default(),
        })
        .collect();
    let worn = labels(&found, legacy, namespace);
    let conflict = unreachable.or_else(|| others(filestore, &worn, legacy, namespace));
    (found, conflict)
}

/// Port of a Service that leads to the S3 port.
pub(super) fn service_port(
    service: &str,
    api: i32,
    container: &Container,
    namespace: Namespace<'_>,
) -> Option<i32> {
    let found = namespace
        .services
        .iter()
        .find(|found| name(found) == service)?;
    ports(found)
        .iter()
        .find(|port| leads_to(port, api, container))
        .map(|port| port.port)
}

/// Labels that the Services select: all of them are on the legacy pods.
pub(super) fn labels(
    services: &[NamedObject],
    legacy: &Labels,
    namespace: Namespace<'_>,
) -> Labels {
    let mut worn = Labels::new();
    for service in namespace.services {
        if services.iter().any(|found| found.name == name(service)) {
            let selector = service.spec.as_ref();
            worn.extend(
                selector
                    .and_then(|spec| spec.selector.clone())
                    .unwrap_or_default(),
            );
        }
    }
    worn.retain(|key, value| legacy.get(key) == Some(value));
    worn
}

/// Which other workload would take our pod for one of its own: its budget and its autoscaler would
/// count it (it would not adopt it: the pod has a controller). A further Service cannot: whatever
/// selects what our pod wears selects the legacy pods already.
fn others(
    filestore: &str,
    worn: &Labels,
    legacy: &Labels,
    namespace: Namespace<'_>,
) -> Option<String> {
    let found = namespace.workloads.iter().find(|workload| {
        let labels = workload.metadata.labels.as_ref();
        let ours = labels.and_then(|labels| labels.get(NAME_LABEL)) == Some(&filestore.to_owned());
        !ours
            && !workload.selector.is_empty()
            && is_part(&workload.selector, worn)
            && workload.pod_labels() != *legacy
    });
    found.map(|workload| format!("{} selects what its Services select", workload.title()))
}
