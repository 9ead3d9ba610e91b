//! The committed CustomResourceDefinition is the one that the types give.
//! `UPDATE_GOLDEN=1 cargo test -p filestore-operator` rewrites it.

use std::path::PathBuf;

use serde_json::Value;

fn every_list_and_map(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, value);
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                every_list_and_map(child, &format!("{path}.{key}"), visit);
            }
        }
        Value::Array(list) => {
            for (index, child) in list.iter().enumerate() {
                every_list_and_map(child, &format!("{path}[{index}]"), visit);
            }
        }
        _ => {}
    }
}

#[test]
fn committed_file_is_what_the_types_give() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crds/filestores.yaml");
    let generated = filestore_operator::api::crd_yaml().unwrap();

    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &generated).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        generated,
        "crds/filestores.yaml is not current: run `filestore crd > crds/filestores.yaml`"
    );
}

/// An API server drops empty lists, so Argo CD would see a difference for ever.
#[test]
fn holds_no_empty_list_and_no_default() {
    let crd = serde_json::to_value(filestore_operator::api::crd()).unwrap();
    every_list_and_map(&crd, "", &mut |path, value| {
        assert!(
            !value.as_array().is_some_and(Vec::is_empty),
            "empty list at {path}"
        );
        // Objects must stay what their author wrote.
        assert!(value.get("default").is_none(), "default at {path}");
    });
}

/// A structural schema (Kubernetes, "Custom Resources") names a type at every level and never
/// closes an object that has properties.
#[test]
fn schema_is_structural() {
    let crd = serde_json::to_value(filestore_operator::api::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert!(schema["properties"].is_object(), "{schema}");
    every_list_and_map(schema, "spec", &mut |path, value| {
        if value
            .get("properties")
            .is_some_and(|inner| inner.get("type").is_none_or(Value::is_object))
        {
            assert_eq!(value["type"], "object", "{path}");
            assert!(value.get("additionalProperties").is_none(), "{path}");
        }
        for forbidden in ["$ref", "definitions", "oneOf", "anyOf", "nullable"] {
            assert!(value.get(forbidden).is_none(), "{forbidden} at {path}");
        }
    });
}
