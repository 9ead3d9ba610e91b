//! What is made beside the store when the spec asks for it, and taken away when it does not.

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};

/// Label that says what an object is for; only what carries it is ever taken away.
pub const PURPOSE_LABEL: &str = "filestore.ryax.tech/purpose";

/// What an optional object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A Service by a further name of the store.
    Compatibility,
    /// Who may reach the pod.
    NetworkPolicy,
    /// Where Prometheus finds the metrics.
    ServiceMonitor,
    /// Alerts.
    PrometheusRule,
    /// A dashboard.
    Dashboard,
    /// Where the store is.
    Site,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Compatibility,
        Self::NetworkPolicy,
        Self::ServiceMonitor,
        Self::PrometheusRule,
        Self::Dashboard,
        Self::Site,
    ];

    /// Value of [`PURPOSE_LABEL`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compatibility => "compatibility",
            Self::NetworkPolicy => "network-policy",
            Self::ServiceMonitor => "service-monitor",
            Self::PrometheusRule => "prometheus-rule",
            Self::Dashboard => "dashboard",
            Self::Site => "site",
        }
    }

    /// Kind of the object.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Compatibility => "Service",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::ServiceMonitor => "ServiceMonitor",
            Self::PrometheusRule => "PrometheusRule",
            Self::Dashboard | Self::Site => "ConfigMap",
        }
    }

    /// `apiVersion` of the object.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Compatibility | Self::Dashboard | Self::Site => "v1",
            Self::NetworkPolicy => "networking.k8s.io/v1",
            Self::ServiceMonitor | Self::PrometheusRule => "monitoring.coreos.com/v1",
        }
    }

    /// Where the API serves it.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::Compatibility => ApiResource::erase::<Service>(&()),
            Self::Dashboard | Self::Site => ApiResource::erase::<ConfigMap>(&()),
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::ServiceMonitor => prometheus_operator(self, "servicemonitors"),
            Self::PrometheusRule => prometheus_operator(self, "prometheusrules"),
        }
    }
}

/// Kinds of the Prometheus operator, which a cluster may not know.
fn prometheus_operator(purpose: Purpose, plural: &str) -> ApiResource {
    ApiResource {
        group: "monitoring.coreos.com".to_owned(),
        version: "v1".to_owned(),
        api_version: purpose.api_version().to_owned(),
        kind: purpose.kind().to_owned(),
        plural: plural.to_owned(),
    }
}

/// An optional object.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// What it is for.
    pub purpose: Purpose,
    /// The object.
    pub object: DynamicObject,
}

/// What the cluster has of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Objects that were made for the Filestore, and those of others under a name that is wanted.
    pub live: Vec<Extra>,
    /// Kinds that the cluster does not know.
    pub unserved: Vec<Purpose>,
    /// Kinds that we may not look at, with the API server's words.
    pub refused: Vec<(Purpose, String)>,
}

impl Found {
    /// The object of this purpose and name.
    pub fn get(&self, purpose: Purpose, name: &str) -> Option<&DynamicObject> {
        self.live
            .iter()
            .find(|extra| extra.purpose == purpose && extra.object.name_any() == name)
            .map(|extra| &extra.object)
    }

    /// Notes an object as it is now.
    pub fn put(&mut self, extra: Extra) {
        let name = extra.object.name_any();
        self.live
            .retain(|old| old.purpose != extra.purpose || old.object.name_any() != name);
        self.live.push(extra);
    }
}
