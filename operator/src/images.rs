//! Which images would be pulled: for a Filestore, for rendered objects, for values of the charts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::api::GROUP;
use crate::manifest::{self, ManifestError};
use crate::validate::DEFAULT_IMAGE;

/// Top-level values of `charts/filestore` and `charts/filestore-operator`. A file with others holds
/// values of a chart around ours, whose meaning we do not know.
const VALUES: [&str; 31] = [
    "buckets",
    "crd",
    "credentials",
    "defaultImage",
    "durability",
    "enabled",
    "engine",
    "fullnameOverride",
    "global",
    "image",
    "imagePullPolicy",
    "imagePullSecrets",
    "migration",
    "monitoring",
    "nameOverride",
    "networkPolicy",
    "nodeSelector",
    "placement",
    "pod",
    "region",
    "resources",
    "security",
    "service",
    "setUserIds",
    "site",
    "storage",
    "suspend",
    "tls",
    "tolerations",
    "versitygw",
    "watch",
];

/// Collects images; [`Images::finish`] gives them.
#[derive(Debug, Default)]
pub struct Images {
    found: BTreeSet<String>,
    values: Option<Value>,
}

impl Images {
    /// Adds all documents of a file: Filestores, any other objects, values of the charts.
    ///
    /// # Errors
    /// Broken YAML, or a document that is none of these.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), ManifestError> {
        for (line, document) in manifest::documents(file, text)? {
            let is_object = document["kind"].is_string() && document["apiVersion"].is_string();
            if is_object {
                self.object(&document);
            } else if is_values(&document) {
                merge(self.values.get_or_insert_default(), document);
            } else {
                return Err(ManifestError {
                    file: file.to_owned(),
                    line,
                    message: "neither an object nor values of a chart of ours; for the values of a chart that holds ours render it: helm template CHART --values FILE | filestore images -".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The images, sorted, each once. With nothing added: that of this version.
    pub fn finish(mut self) -> BTreeSet<String> {
        if let Some(values) = self.values.take() {
            self.chart(&values);
        }
        if self.found.is_empty() {
            self.found.insert(DEFAULT_IMAGE.to_owned());
        }
        self.found
    }

    fn object(&mut self, object: &Value) {
        let group = object["apiVersion"].as_str().unwrap_or_default();
        match object["kind"].as_str().unwrap_or_default() {
            "Filestore" if group.starts_with(GROUP) => {
                let own = object["spec"]["image"].as_str().unwrap_or(DEFAULT_IMAGE);
                self.found.insert(own.to_owned());
                self.walk(&object["spec"]);
            }
            // Their texts are not ours to read.
            "Secret" | "ConfigMap" => {}
            "List" => {
                for item in object["items"].as_array().into_iter().flatten() {
                    self.object(item);
                }
            }
            _ => self.walk(object),
        }
    }

    /// Every text under a key `image`, and what an operator gives to Filestores that name none.
    fn walk(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if fields.get("name").and_then(Value::as_str) == Some("FILESTORE_IMAGE") {
                    self.take(fields.get("value"));
                }
                self.take(fields.get("image"));
                fields.values().for_each(|value| self.walk(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            _ => {}
        }
    }

    fn take(&mut self, value: Option<&Value>) {
        let text = value
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty());
        self.found.extend(text.map(str::to_owned));
    }

    fn chart(&mut self, values: &Value) {
        let registry = values["global"]["imageRegistry"].as_str();
        let mut take = |image: &str| {
            self.found.insert(in_registry(image, registry));
        };
        let text = |value: &Value| {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let own = text(&values["image"]).unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
        take(&own);
        let versitygw = values["engine"] == "versitygw";
        let other = versitygw.then(|| text(&values["versitygw"]["image"]));
        for image in [text(&values["defaultImage"]), other.flatten()]
            .into_iter()
            .flatten()
        {
            take(&image);
        }
    }
}

fn is_values(document: &Value) -> bool {
    let fields = document.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| VALUES.contains(&key.as_str())))
}

/// As Helm merges files: maps are joined, everything else is replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into @ Value::Null, Value::Object(from)) => {
            *into = Value::Object(Map::new());
            merge(into, Value::Object(from));
        }
        (into, from) => *into = from,
    }
}

/// An image, from `registry` instead of its own; as `charts/filestore` does it.
fn in_registry(image: &str, registry: Option<&str>) -> String {
    let Some(registry) = registry.filter(|registry| !registry.is_empty()) else {
        return image.to_owned();
    };
    let path = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => rest,
        _ => image,
    };
    format!("{}/{path}", registry.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(texts: &[&str]) -> Vec<String> {
        let mut images = Images::default();
        for text in texts {
            images.add("f.yaml", text).unwrap();
        }
        images.finish().into_iter().collect()
    }

    #[test]
    fn of_a_filestore() {
        let head = "apiVersion: filestore.ryax.tech/v1alpha1\nkind: Filestore\nmetadata: {name: f}\nspec:\n";
        assert_eq!(
            images(&[&format!("{head}  storage: {{size: 1Gi}}")]),
            [DEFAULT_IMAGE]
        );
        let spec = "  image: reg.example/f:1\n  versitygw: {image: v:2}\n  later: {image: m:3}\n";
        assert_eq!(
            images(&[&format!("{head}{spec}")]),
            ["m:3", "reg.example/f:1", "v:2"]
        );
    }

    #[test]
    fn of_rendered_objects() {
        let text = "# from helm\n---\n# Source: x\napiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      initContainers: [{name: a, image: i:1}]\n      containers:\n      - name: b\n        image: c:1\n        env: [{name: FILESTORE_IMAGE, value: d:1}]\n---\napiVersion: v1\nkind: ConfigMap\ndata: {image: no}\n---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {containers: [{image: 'c:1'}, {image: e:1}]}}]\n";
        assert_eq!(images(&[text]), ["c:1", "d:1", "e:1", "i:1"]);
    }

    #[test]
    fn of_values() {
        assert_eq!(images(&["engine: bundled"]), [DEFAULT_IMAGE]);
        let registry = "global: {imageRegistry: reg.example:5000/x/}\nengine: versitygw";
        assert_eq!(
            images(&[
                registry,
                "image: docker.io/a/f:1\nversitygw: {image: a/v:2}"
            ]),
            ["reg.example:5000/x/a/f:1", "reg.example:5000/x/a/v:2"]
        );
        // The later file wins, and leaves what it does not name.
        assert_eq!(
            images(&[
                "image: a:1\nversitygw: {image: v:1}",
                "image: b:1",
                "engine: versitygw"
            ]),
            ["b:1", "v:1"]
        );
        assert_eq!(images(&["image: a:1\nversitygw: {image: v:1}"]), ["a:1"]);
    }

    #[test]
    fn values_are_those_of_the_charts() {
        let mut known = BTreeSet::new();
        for chart in ["filestore", "filestore-operator"] {
            let file = format!(
                "{}/../charts/{chart}/values.schema.json",
                env!("CARGO_MANIFEST_DIR")
            );
            let schema: Value =
                serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            known.extend(schema["properties"].as_object().unwrap().keys().cloned());
        }
        assert!(known.iter().eq(VALUES.iter()), "{known:?}");
    }

    #[test]
    fn of_nothing_and_of_something_else() {
        assert_eq!(images(&[]), [DEFAULT_IMAGE]);
        for other in ["filestore: {image: a:1}", "just text", "- a\n- b"] {
            let error = Images::default().add("f.yaml", other).unwrap_err();
            assert!(
                error.to_string().starts_with("f.yaml:1: neither"),
                "{error}"
            );
        }
    }
}
