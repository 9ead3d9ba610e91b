//! Errors of a drive as the engine's.

use std::io;

use crate::drive::{Error as DriveError, FormatError, Unreadable};
use crate::source::Reason;
use crate::{Error, Kind};

/// An error of `operation`; `object` is used where the error itself names nothing better.
pub(super) fn explain(operation: &'static str, object: &str, error: DriveError) -> Error {
    let kind = match &error {
        DriveError::Format(FormatError::NotADirectory { path, .. }) if !path.exists() => {
            Kind::Absent
        }
        // Waiting does not give rights on files.
        DriveError::Format(_) | DriveError::Denied { .. } => Kind::Refused,
        DriveError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Kind::NotFound,
        DriveError::Io { .. } => Kind::Other,
        DriveError::Object { reason, .. } => kind(reason),
        DriveError::Changed { .. } => Kind::Changed,
    };
    match error {
        DriveError::Object { object, reason } => {
            Error::new(kind, operation, object, reason.to_string())
        }
        DriveError::Changed { object } => {
            Error::new(kind, operation, object, "changed on the drive meanwhile")
                .with_cure("stop MinIO before its drive is read")
        }
        // The engine's errors begin with the object.
        DriveError::Format(error) => {
            let text = error.to_string();
            let path = object.strip_prefix("minio-drive:").unwrap_or(object);
            let rest = text
                .strip_prefix(path)
                .map(|rest| rest.trim_start_matches(": "));
            Error::new(kind, operation, object, rest.unwrap_or(&text))
        }
        other => Error::new(kind, operation, object, other.to_string()),
    }
}

fn kind(reason: &Unreadable) -> Kind {
    match reason {
        Unreadable::Damaged(_) => Kind::Damaged,
        _ => Kind::Unsupported,
    }
}

/// Why such an object stays behind.
pub(super) fn reason(unreadable: &Unreadable) -> Reason {
    match unreadable {
        Unreadable::Damaged(_) => Reason::Damaged,
        Unreadable::Encrypted(_) => Reason::Encrypted,
        Unreadable::Tiered(_) => Reason::Tiered,
        Unreadable::Erasure { .. } | Unreadable::Legacy | Unreadable::Unsupported(_) => {
            Reason::Unsupported
        }
    }
}
