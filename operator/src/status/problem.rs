//! What keeps the operator from its work until a person does something.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;

use super::reason;
use crate::plan::selector_of;
use crate::secret::SecretError;
use crate::validate::ValidationError;

/// A reason with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One of [`reason::ALL`].
    pub reason: &'static str,
    /// What is wrong, on which object, and what to do.
    pub message: String,
}

impl Problem {
    /// The spec, or a Secret that it refers to, is wrong.
    pub fn invalid(error: &ValidationError) -> Self {
        let field = &error.field;
        let (reason, message) = match &error.secret {
            None if error.engine_lacks => (reason::ENGINE_LACKS, error.to_string()),
            None => (reason::INVALID_SPEC, error.to_string()),
            Some(SecretError::Missing { secret }) => (
                reason::SECRET_MISSING,
                format!("{field}: Secret {secret:?} does not exist; create it in this namespace"),
            ),
            Some(SecretError::MissingKey { .. }) => (reason::SECRET_KEY_MISSING, error.to_string()),
            Some(SecretError::Unusable { .. } | SecretError::Certificate { .. }) => {
                (reason::SECRET_UNUSABLE, error.to_string())
            }
        };
        Self { reason, message }
    }

    /// The object is not of a form that this version understands.
    pub fn unreadable(error: &str) -> Self {
        Self {
            reason: reason::INVALID_SPEC,
            message: format!(
                "{error}; this is operator {}: correct the field, or update the operator",
                env!("CARGO_PKG_VERSION")
            ),
        }
    }

    pub(crate) fn name_taken(kind: &str, name: &str, live: &ObjectMeta) -> Self {
        let labels = live.labels.as_ref();
        let manager = labels.and_then(|all| all.get("app.kubernetes.io/managed-by"));
        let by = manager.map_or_else(String::new, |manager| format!(" (managed by {manager})"));
        Self {
            reason: reason::NAME_TAKEN,
            message: format!(
                "{kind} {name:?} exists and was not made for this Filestore{by}; it is left alone: give the Filestore another name, or delete it"
            ),
        }
    }

    pub(crate) fn compat_conflict(service: &DynamicObject) -> Self {
        let labels: Vec<String> = selector_of(service)
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        let manager = service.labels().get("app.kubernetes.io/managed-by");
        let by = manager.map_or_else(String::new, |manager| format!(" (managed by {manager})"));
        let cure = if labels.is_empty() {
            "delete it".to_owned()
        } else {
            format!("set pod.labels to what it selects ({})", labels.join(", "))
        };
        Self {
            reason: reason::COMPAT_SERVICE_CONFLICT,
            message: format!(
                "Service {:?} exists{by}, was not made for this Filestore and does not lead to it; it is left alone: {cure}, or remove the name from service.compatibility",
                service.name_any()
            ),
        }
    }

    pub(crate) fn refused(message: String) -> Self {
        Self {
            reason: reason::REQUEST_REFUSED,
            message,
        }
    }

    pub(crate) fn claim_missing(name: &str) -> Self {
        Self {
            reason: reason::CLAIM_MISSING,
            message: format!(
                "PersistentVolumeClaim {name:?} does not exist; create it, or set storage.size instead of existingClaim"
            ),
        }
    }

    pub(crate) fn claim_deleting(name: &str) -> Self {
        Self {
            reason: reason::CLAIM_DELETING,
            message: format!(
                "PersistentVolumeClaim {name:?} was deleted and goes with the last pod that uses it; to keep the data set persistentVolumeReclaimPolicy: Retain on its volume now"
            ),
        }
    }

    pub(crate) fn claim_conflict(name: &str) -> Self {
        Self {
            reason: reason::CLAIM_CONFLICT,
            message: format!(
                "PersistentVolumeClaim {name:?} exists and was not made for this Filestore; name it under storage.existingClaim to use it, or give the Filestore another name"
            ),
        }
    }

    pub(crate) fn shrink_refused(name: &str, has: &str, wants: &str) -> Self {
        Self {
            reason: reason::SHRINK_REFUSED,
            message: format!(
                "PersistentVolumeClaim {name:?} has {has}, storage.size says {wants}; volumes never shrink, set it back"
            ),
        }
    }

    /// Whether it is about the volume.
    pub(super) fn is_storage(&self) -> bool {
        matches!(
            self.reason,
            reason::CLAIM_MISSING
                | reason::CLAIM_DELETING
                | reason::CLAIM_CONFLICT
                | reason::SHRINK_REFUSED
        )
    }

    /// Whether it is about keys.
    pub(super) fn is_credentials(&self) -> bool {
        matches!(
            self.reason,
            reason::SECRET_MISSING
                | reason::SECRET_KEY_MISSING
                | reason::SECRET_UNUSABLE
                | reason::ACCESS_KEY_TAKEN
        )
    }
}
