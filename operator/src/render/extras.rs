//! Optional objects, as many as the spec asks for.

use std::collections::BTreeMap;

use filestore_common::BucketName;
use kube::api::{DynamicObject, TypeMeta};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::labels::{labels, selector};
use super::{API_PORT_NAME, monitoring, network_policy, tls};
use crate::extras::{Extra, PURPOSE_LABEL, Purpose};
use crate::validate::{Name, Server, Site, ValidatedFilestore};

/// Everything optional that `filestore` asks for. versitygw serves no metrics, so with it there
/// is nothing for Prometheus.
pub fn extras(filestore: &ValidatedFilestore) -> Vec<Extra> {
    let mut extras: Vec<Extra> = filestore
        .compatibility
        .iter()
        .map(|name| compatibility(filestore, name))
        .collect();
    if let Some(spec) = &filestore.network_policy {
        let body = network_policy::body(filestore, spec);
        extras.push(extra(filestore, Purpose::NetworkPolicy, "", body));
    }
    if filestore.server == Server::Bundled {
        extras.extend(monitoring::extras(filestore));
    }
    if let Some(site) = &filestore.site {
        extras.push(self::site(filestore, site));
    }
    extras
}

/// URL of the store for clients in the cluster.
pub fn endpoint(filestore: &ValidatedFilestore) -> String {
    let namespace = namespace(filestore);
    format!(
        "{}://{}.{namespace}:{}",
        tls::protocol(filestore),
        filestore.name,
        filestore.service_port
    )
}

pub(super) fn namespace(filestore: &ValidatedFilestore) -> &str {
    filestore.namespace.as_deref().unwrap_or("default")
}

/// An object with the Filestore's name and `suffix`, its labels, and the fields of `body`.
pub(super) fn extra(
    filestore: &ValidatedFilestore,
    purpose: Purpose,
    suffix: &str,
    body: Value,
) -> Extra {
    let mut labels = labels(filestore);
    labels.insert(PURPOSE_LABEL.to_owned(), purpose.as_str().to_owned());
    Extra {
        purpose,
        object: DynamicObject {
            types: Some(TypeMeta {
                api_version: purpose.api_version().to_owned(),
                kind: purpose.kind().to_owned(),
            }),
            metadata: ObjectMeta {
                name: Some(format!("{}{suffix}", filestore.name)),
                namespace: filestore.namespace.clone(),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            data: body,
        },
    }
}

/// Adds labels; ours win.
pub(super) fn labelled(mut extra: Extra, more: &BTreeMap<String, String>) -> Extra {
    let labels = extra.object.metadata.labels.get_or_insert_default();
    for (key, value) in more {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    extra
}

fn compatibility(filestore: &ValidatedFilestore, name: &Name) -> Extra {
    let body = json!({"spec": {
        "selector": selector(filestore),
        "ports": [{
            "name": tls::protocol(filestore), "port": name.port, "protocol": "TCP",
            "targetPort": API_PORT_NAME,
        }],
    }});
    let mut extra = extra(filestore, Purpose::Compatibility, "", body);
    extra.object.metadata.name = Some(name.name.clone());
    extra
}

fn site(filestore: &ValidatedFilestore, site: &Site) -> Extra {
    let buckets: Vec<&str> = filestore.buckets.iter().map(BucketName::as_str).collect();
    let endpoint = site.endpoint.clone().unwrap_or_else(|| endpoint(filestore));
    let body = json!({"data": {
        "site": site.name,
        "endpoint": endpoint,
        "region": filestore.region,
        "buckets": buckets.join("\n"),
    }});
    let label = BTreeMap::from([("filestore.ryax.tech/site".to_owned(), site.name.clone())]);
    labelled(extra(filestore, Purpose::Site, "-site", body), &label)
}
