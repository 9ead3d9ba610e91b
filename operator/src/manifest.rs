//! Reads a manifest file: one Filestore and the Secrets it refers to, as YAML documents.
//!
//! The file form is strict: an unknown field or a wrong type is refused with file, line and field
//! path, since nothing in front of us (no API server) would do it.

mod document;

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde_json::Value;

use crate::api::{API_VERSION, Filestore, GROUP};
use crate::secret::Secrets;
use document::{Document, FilestoreDocument, Header, SecretDocument};

/// Why a manifest was refused: one line that names file, line and field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct ManifestError {
    /// Name of the file as the user gave it.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u64,
    /// Field path, where there is one, and what is wrong with it.
    pub message: String,
}

/// A manifest file.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The one Filestore.
    pub filestore: Filestore,
    /// All Secrets of the file.
    pub secrets: Secrets,
}

impl Manifest {
    /// Reads the documents of `text`; `file` names it in errors.
    ///
    /// # Errors
    /// [`ManifestError`]: no or more than one Filestore, another kind of object, two Secrets of
    /// one name, a Secret in another namespace, an unknown field, a wrong type, broken YAML.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let mut filestore: Option<(Filestore, u64)> = None;
        let mut secrets = Secrets::default();
        let mut namespaces: Vec<(String, Option<String>, u64)> = Vec::new();

        for document in document::split(file, text) {
            // A document of comments only is null.
            if document.read::<Value>()?.is_null() {
                continue;
            }
            let header: Header = document.read()?;
            match (header.api_version.as_str(), header.kind.as_str()) {
                (API_VERSION, "Filestore") => {
                    if let Some((_, line)) = filestore {
                        return Err(document.error(format!(
                            "a second Filestore (the first is at line {line}); a file holds one"
                        )));
                    }
                    filestore = Some((read_filestore(&document)?, document.line));
                }
                ("v1", "Secret") => {
                    let (name, namespace, values) = read_secret(&document)?;
                    if !secrets.insert(name.clone(), values) {
                        return Err(document.error(format!("a second Secret {name:?}; keep one")));
                    }
                    namespaces.push((name, namespace, document.line));
                }
                (version, "Filestore") if version.starts_with(GROUP) => {
                    return Err(document.error(format!(
                        "apiVersion: {version:?} is not known to this version; use {API_VERSION:?}"
                    )));
                }
                (version, kind) => {
                    return Err(document.error(format!(
                        "{kind} of {version} does not belong here: the file holds one Filestore ({API_VERSION}) and its Secrets (v1)"
                    )));
                }
            }
        }

        let Some((filestore, _)) = filestore else {
            return Err(ManifestError {
                file: file.to_owned(),
                line: 1,
                message: format!(
                    "no Filestore in the file; add a document with apiVersion: {API_VERSION} and kind: Filestore"
                ),
            });
        };
        for (name, namespace, line) in namespaces {
            let home = &filestore.metadata.namespace;
            if let (Some(namespace), Some(home)) = (&namespace, home)
                && namespace != home
            {
                return Err(ManifestError {
                    file: file.to_owned(),
                    line,
                    message: format!(
                        "metadata.namespace: Secret {name:?} is in {namespace:?}, but the Filestore in {home:?}; put both in one namespace"
                    ),
                });
            }
        }
        Ok(Self { filestore, secrets })
    }
}

/// All documents of a file that hold anything, each with its first line.
///
/// # Errors
/// Broken YAML.
pub fn documents(file: &str, text: &str) -> Result<Vec<(u64, Value)>, ManifestError> {
    let mut found = Vec::new();
    for document in document::split(file, text) {
        let value = document.read::<Value>()?;
        if !value.is_null() {
            found.push((document.line, value));
        }
    }
    Ok(found)
}

fn read_filestore(document: &Document<'_>) -> Result<Filestore, ManifestError> {
    let form: FilestoreDocument = document.read()?;
    Ok(Filestore {
        metadata: ObjectMeta {
            name: Some(form.metadata.name),
            namespace: form.metadata.namespace,
            labels: form.metadata.labels,
            annotations: form.metadata.annotations,
            ..ObjectMeta::default()
        },
        spec: form.spec,
        status: None,
    })
}

type SecretParts = (String, Option<String>, BTreeMap<String, Vec<u8>>);

fn read_secret(document: &Document<'_>) -> Result<SecretParts, ManifestError> {
    let form: SecretDocument = document.read()?;
    let mut values: BTreeMap<_, _> = form
        .data
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect();
    // As in the API server: stringData wins over data.
    values.extend(
        form.string_data
            .into_iter()
            .map(|(key, value)| (key, value.into_bytes())),
    );
    Ok((form.metadata.name, form.metadata.namespace, values))
}

#[cfg(test)]
mod tests;
