//! What all rounds share, and the telling of people.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::metrics::Metrics;
use super::store::Stores;
use crate::notices::Notice;
use crate::plan::FIELD_MANAGER;

/// What all rounds share.
pub(super) struct Context {
    client: Client,
    recorder: Recorder,
    /// Image for Filestores that name none.
    pub(super) image: Option<String>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stores: Arc<dyn Stores>,
    /// Failed rounds in a row, by namespace and name.
    failures: Mutex<HashMap<(String, String), u32>>,
}

impl Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    pub(super) fn new(
        client: Client,
        identity: String,
        image: Option<String>,
        metrics: Arc<Metrics>,
        stores: Arc<dyn Stores>,
    ) -> Self {
        let reporter = Reporter {
            controller: FIELD_MANAGER.to_owned(),
            instance: Some(identity),
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            image,
            metrics,
            stores,
            failures: Mutex::default(),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Tells people. An event that cannot be written is logged and stops nothing.
    pub(super) async fn tell(&self, notice: &Notice, about: &ObjectReference) {
        let name = about.name.as_deref().unwrap_or_default();
        let namespace = about.namespace.as_deref().unwrap_or_default();
        let (reason, note) = (notice.reason, &notice.note);
        if notice.warning {
            tracing::warn!(name, namespace, reason, "{note}");
        } else {
            tracing::info!(name, namespace, reason, "{note}");
        }
        let event = Event {
            type_: if notice.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: reason.to_owned(),
            // The API refuses longer notes.
            note: Some(note.chars().take(1000).collect()),
            action: "Reconcile".to_owned(),
            secondary: notice.related.as_ref().map(|related| ObjectReference {
                api_version: Some(related.api_version.to_owned()),
                kind: Some(related.kind.to_owned()),
                name: Some(related.name.clone()),
                namespace: about.namespace.clone(),
                field_path: related.field.clone(),
                ..ObjectReference::default()
            }),
        };
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::warn!(name, namespace, %error, "Cannot write an event");
        }
    }

    /// The counts of failed rounds.
    pub(super) fn failures(&self) -> MutexGuard<'_, HashMap<(String, String), u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
