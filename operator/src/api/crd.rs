//! The CustomResourceDefinition, generated from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;

use super::Filestore;

/// The CustomResourceDefinition.
///
/// Lists that kube leaves empty are dropped: an API server does not store them, so that GitOps
/// tools would show them as drift for ever.
pub fn crd() -> CustomResourceDefinition {
    let mut crd = Filestore::crd();
    let empty = |list: &mut Option<Vec<String>>| {
        if list.as_ref().is_some_and(Vec::is_empty) {
            *list = None;
        }
    };
    empty(&mut crd.spec.names.categories);
    empty(&mut crd.spec.names.short_names);
    for version in &mut crd.spec.versions {
        if version
            .selectable_fields
            .as_ref()
            .is_some_and(Vec::is_empty)
        {
            version.selectable_fields = None;
        }
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            refuse_null(schema);
            for path in AS_IN_KUBERNETES {
                if let Some(field) = property(schema, path) {
                    undescribe(field);
                }
            }
        }
    }
    crd
}

/// Paths of fields whose form is Kubernetes' own, described there.
pub const AS_IN_KUBERNETES: [&str; 5] = [
    "spec.placement.tolerations",
    "spec.placement.affinity",
    "spec.placement.topologySpreadConstraints",
    "spec.networkPolicy.allowFrom",
    "spec.networkPolicy.allowMetricsFrom",
];

fn property<'a>(schema: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    path.split('.').try_fold(schema, |schema, name| {
        schema.properties.as_mut()?.get_mut(name)
    })
}

/// Drops the descriptions below a field: of the definition they would be a third.
fn undescribe(schema: &mut JSONSchemaProps) {
    each_below(schema, &mut |below| {
        below.description = None;
        undescribe(below);
    });
}

/// Calls `visit` with each schema directly inside of `schema`.
fn each_below(schema: &mut JSONSchemaProps, visit: &mut dyn FnMut(&mut JSONSchemaProps)) {
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut())
    {
        visit(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        visit(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        visit(values);
    }
}

/// Drops `nullable`: a field is there with a value, or not there. Rules never meet a null. Drops
/// formats of Rust, too (`uint16`), which an API server warns of; the ranges say the same.
fn refuse_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.format.take_if(|format| format.starts_with("uint"));
    each_below(schema, &mut refuse_null);
}

/// The CustomResourceDefinition as YAML, for `crds/` and `filestore crd`.
///
/// # Errors
/// When it cannot be written as YAML, which would be a defect of this program.
pub fn crd_yaml() -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(&crd())
}
