//! Who may reach the pod, and where the pod may go.

use serde_json::{Value, json};

use super::labels::selector;
use super::{ADMIN_PORT_NAME, API_PORT_NAME};
use crate::api::NetworkPolicySpec;
use crate::validate::{Source, ValidatedFilestore};

/// Pods of the operator, in whatever namespace: it reads how full the volume is, and hands a
/// migrated store over.
const OPERATOR: (&str, &str) = ("app.kubernetes.io/name", "filestore-operator");

/// `spec` of the NetworkPolicy.
pub(super) fn body(filestore: &ValidatedFilestore, spec: &NetworkPolicySpec) -> Value {
    let operator = json!({
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {OPERATOR.0: OPERATOR.1}},
    });
    let peers = |named: &[_]| -> Vec<Value> {
        let named = named.iter().map(|peer| json!(peer));
        std::iter::once(operator.clone()).chain(named).collect()
    };
    let mut api = json!({"ports": [{"port": API_PORT_NAME, "protocol": "TCP"}]});
    if !spec.allow_from.is_empty() {
        api["from"] = Value::Array(peers(&spec.allow_from));
    }
    let metrics = json!({
        "ports": [{"port": ADMIN_PORT_NAME, "protocol": "TCP"}],
        "from": peers(&spec.allow_metrics_from),
    });
    let mut body = json!({
        "podSelector": {"matchLabels": selector(filestore)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [api, metrics],
    });
    let source = filestore
        .migration
        .as_ref()
        .and_then(|migration| migration.source.as_ref());
    if let Some(Source::Online { endpoint, .. }) = source {
        body["egress"] = json!([
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"ports": [{"port": port(endpoint), "protocol": "TCP"}]},
        ]);
    }
    json!({"spec": body})
}

/// Port of a checked endpoint.
fn port(endpoint: &str) -> u16 {
    let default = if endpoint.starts_with("https:") {
        443
    } else {
        80
    };
    let authority = endpoint.rsplit('/').next().unwrap_or_default();
    let written = authority.rsplit_once(':').map(|(_, port)| port.parse());
    written.and_then(Result::ok).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_an_endpoint() {
        assert_eq!(port("http://ryax-minio:9000"), 9000);
        assert_eq!(port("http://[fd00::1]:9001"), 9001);
        assert_eq!(port("http://[fd00::1]"), 80);
        assert_eq!(port("https://s3.example"), 443);
    }
}
