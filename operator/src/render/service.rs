//! The Service in front of the pod.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::API_PORT_NAME;
use super::deployment::object_meta;
use super::labels::selector;
use super::tls;
use crate::validate::ValidatedFilestore;

/// The Service by the Filestore's name.
pub fn service(filestore: &ValidatedFilestore) -> Service {
    Service {
        metadata: object_meta(filestore),
        spec: Some(ServiceSpec {
            selector: Some(selector(filestore)),
            ports: Some(vec![ServicePort {
                name: Some(tls::protocol(filestore).to_owned()),
                port: i32::from(filestore.service_port),
                target_port: Some(IntOrString::String(API_PORT_NAME.to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
