//! One YAML document of a file, and the strict forms of what may be in it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::ManifestError;
use crate::api::FilestoreSpec;

/// What every object starts with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// A Filestore in a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FilestoreDocument {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    pub(super) metadata: Metadata,
    pub(super) spec: FilestoreSpec,
    /// Written by the operator; there when the file was exported from a cluster.
    #[serde(default, rename = "status")]
    _status: Option<IgnoredAny>,
}

/// A Secret in a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SecretDocument {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    pub(super) metadata: Metadata,
    #[serde(default, rename = "type")]
    _type: Option<String>,
    #[serde(default, rename = "immutable")]
    _immutable: Option<bool>,
    #[serde(default)]
    pub(super) data: BTreeMap<String, ByteString>,
    #[serde(default)]
    pub(super) string_data: BTreeMap<String, String>,
}

/// The part of an object's metadata that its author writes; what an API server adds is skipped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "uid")]
    _uid: Option<IgnoredAny>,
    #[serde(default, rename = "resourceVersion")]
    _resource_version: Option<IgnoredAny>,
    #[serde(default, rename = "generation")]
    _generation: Option<IgnoredAny>,
    #[serde(default, rename = "creationTimestamp")]
    _creation_timestamp: Option<IgnoredAny>,
    #[serde(default, rename = "managedFields")]
    _managed_fields: Option<IgnoredAny>,
    #[serde(default, rename = "finalizers")]
    _finalizers: Option<IgnoredAny>,
    #[serde(default, rename = "ownerReferences")]
    _owner_references: Option<IgnoredAny>,
}

/// A document and where it stands in its file.
#[derive(Debug)]
pub(super) struct Document<'a> {
    file: &'a str,
    /// Line of its first line, from 1.
    pub(super) line: u64,
    text: &'a str,
}

/// Splits a stream into its documents. A line that starts with `---` always ends the document
/// before it, also inside a block scalar (YAML 1.2.2, 9.1.2 "Document markers").
pub(super) fn split<'a>(file: &'a str, text: &'a str) -> Vec<Document<'a>> {
    let is_marker = |line: &str| {
        line.strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if is_marker(line) && offset > start {
            documents.push(Document {
                file,
                line: start_line,
                text: text.get(start..offset).unwrap_or_default(),
            });
            (start, start_line) = (offset, number);
        }
        offset += line.len();
    }
    documents.push(Document {
        file,
        line: start_line,
        text: text.get(start..).unwrap_or_default(),
    });
    documents
}

impl Document<'_> {
    /// Reads the document as `T`.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        let mut path = String::new();
        serde_saphyr::with_deserializer_from_str(self.text, |deserializer| {
            read_with_path(deserializer, &mut path)
        })
        .map_err(|error| {
            let line = error
                .location()
                .map_or(1, |location| location.line().max(1));
            let message = error.render_with_options(serde_saphyr::render_options! {
                formatter: &PLAIN,
                snippets: serde_saphyr::SnippetMode::Off,
            });
            // The renderer appends the position within the document; ours is that in the file.
            let message = message
                .rsplit_once(" at line ")
                .map_or(message.as_str(), |(text, _)| text);
            ManifestError {
                file: self.file.to_owned(),
                line: self.line + line - 1,
                message: match path.as_str() {
                    "" | "." => message.to_owned(),
                    path => format!("{path}: {message}"),
                },
            }
        })
    }

    /// An error about the document as a whole.
    pub(super) fn error(&self, message: String) -> ManifestError {
        // A document that follows another starts with its marker line.
        let line = self.line + u64::from(self.text.starts_with("---"));
        ManifestError {
            file: self.file.to_owned(),
            line,
            message,
        }
    }
}

static PLAIN: serde_saphyr::UserMessageFormatter = serde_saphyr::UserMessageFormatter;

/// Deserializes and, on failure, leaves the path of the field in `path`.
fn read_with_path<'de, T, D>(deserializer: D, path: &mut String) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let mut track = serde_path_to_error::Track::new();
    let result = T::deserialize(serde_path_to_error::Deserializer::new(
        deserializer,
        &mut track,
    ));
    if result.is_err() {
        *path = track.path().to_string();
    }
    result
}
