//! What may be made beside the store: names, rules of the network, monitoring, the site.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A further name that clients know the store by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompatibilityName {
    /// Name of the Service. One that somebody else made is left alone; it serves when the pod
    /// wears the labels that it selects (`pod.labels`).
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Its port. Default 9000.
    #[schemars(range(min = 1, max = 65535))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Who may reach the pod. The pod itself may only reach the source of a migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkPolicySpec {
    /// Makes a NetworkPolicy. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who may reach the S3 port, peers as in a NetworkPolicy. Default: everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<NetworkPolicyPeer>,
    /// Who may reach the metrics port besides the operator, peers as in a NetworkPolicy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_metrics_from: Vec<NetworkPolicyPeer>,
}

/// Objects for Prometheus and Grafana.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MonitoringSpec {
    /// Tells Prometheus where the metrics are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitorSpec>,
    /// Alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus_rule: Option<PrometheusRuleSpec>,
    /// A dashboard for Grafana.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<DashboardSpec>,
}

/// A ServiceMonitor of the Prometheus operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceMonitorSpec {
    /// Makes it. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Time between two scrapes. Default `30s`.
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(ms|s|m|h)$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// Labels that a Prometheus selects it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A PrometheusRule of the Prometheus operator. Its alerts need the ServiceMonitor's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusRuleSpec {
    /// Makes it. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Percent of the volume in use from which an alert warns. Default 80.
    #[schemars(range(min = 1, max = 94))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_warn_percent: Option<u8>,
    /// Labels that a Prometheus selects it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A ConfigMap with a dashboard for Grafana.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DashboardSpec {
    /// Makes it. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Labels that Grafana's sidecar selects it by. Default `grafana_dashboard: "1"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Where the store is, for consumers that choose a store by site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SiteSpec {
    /// Name of the site; a ConfigMap `NAME-site` tells it with the endpoint and the buckets.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    )]
    pub name: String,
    /// Endpoint that is told. Default: that of the Service.
    #[schemars(length(max = 256), regex(pattern = r"^https?://[^/]+/?$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}
