//! Every condition and every reason, in one table, from which that of `docs/operator.md` is made.

/// One reason of a condition.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// Type of the condition.
    pub condition: &'static str,
    /// The reason.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it.
    pub cure: &'static str,
}

/// Summary: clients are served.
pub const READY: &str = "Ready";
/// Work is going on that will end by itself.
pub const RECONCILING: &str = "Reconciling";
/// Nothing will change before a person does something.
pub const STALLED: &str = "Stalled";
/// The volume can be used.
pub const STORAGE_READY: &str = "StorageReady";
/// All keys that the spec refers to are there.
pub const CREDENTIALS_READY: &str = "CredentialsReady";
/// The legacy store was taken over, or there is none.
pub const MIGRATED: &str = "Migrated";
/// Every further name leads to the store.
pub const NAMES_READY: &str = "NamesReady";
/// The objects for Prometheus and Grafana are there.
pub const MONITORING_READY: &str = "MonitoringReady";

macro_rules! reasons {
    ($($constant:ident = $name:literal;)*) => {
        $(#[doc = concat!("Reason `", $name, "`; see [`ALL`].")]
        pub const $constant: &str = $name;)*
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

reasons! {
    SERVING = "Serving";
    SUSPENDED = "Suspended";
    PROGRESSING = "Progressing";
    DONE = "Done";
    NO_PROBLEM = "NoProblem";
    INVALID_SPEC = "InvalidSpec";
    SECRET_MISSING = "SecretMissing";
    SECRET_KEY_MISSING = "SecretKeyMissing";
    SECRET_UNUSABLE = "SecretUnusable";
    FOUND = "Found";
    NAME_TAKEN = "NameTaken";
    REQUEST_REFUSED = "RequestRefused";
    IMAGE_PULL_FAILED = "ImagePullFailed";
    UNSCHEDULABLE = "Unschedulable";
    POD_FAILING = "PodFailing";
    POD_NOT_READY = "PodNotReady";
    BOUND = "Bound";
    EXPANDING = "Expanding";
    CLAIM_PENDING = "ClaimPending";
    CLAIM_MISSING = "ClaimMissing";
    CLAIM_DELETING = "ClaimDeleting";
    CLAIM_CONFLICT = "ClaimConflict";
    CLAIM_LOST = "ClaimLost";
    SHRINK_REFUSED = "ShrinkRefused";
    NOT_REQUESTED = "NotRequested";
    NOTHING_TO_MIGRATE = "NothingToMigrate";
    COMPLETED = "Completed";
    PENDING = "Pending";
    COPYING = "Copying";
    SOURCE_UNREACHABLE = "SourceUnreachable";
    SOURCE_CHANGING = "SourceChanging";
    SOURCE_NOT_NAMED = "SourceNotNamed";
    AMBIGUOUS_SOURCE = "AmbiguousSource";
    CREDENTIALS_REFUSED = "CredentialsRefused";
    VERIFY_FAILED = "VerifyFailed";
    DIVERGED = "Diverged";
    REFUSED = "Refused";
    OBJECTS_FAILED = "ObjectsFailed";
    INTERRUPTED = "Interrupted";
    NAMES_LEAD_HERE = "NamesLeadHere";
    COMPAT_SERVICE_CONFLICT = "CompatServiceConflict";
    APPLIED = "Applied";
    KIND_UNKNOWN = "KindUnknown";
    ENGINE_LACKS = "EngineLacks";
}

const fn reason(
    condition: &'static str,
    name: &'static str,
    meaning: &'static str,
    cure: &'static str,
) -> Reason {
    Reason {
        condition,
        name,
        meaning,
        cure,
    }
}

/// All of them. A reason of a more special condition is repeated by `Stalled` and `Ready` when it
/// is what keeps the store from serving; it is listed once, where it belongs.
pub const ALL: &[Reason] = &[
    reason(
        READY,
        SERVING,
        "The pod is ready, clients are served.",
        "Nothing.",
    ),
    reason(
        READY,
        SUSPENDED,
        "`spec.suspend` is true; no pod runs, the claim stays.",
        "Set `suspend: false`.",
    ),
    reason(
        READY,
        PROGRESSING,
        "Objects are being made, or a pod of an older spec is being replaced.",
        "Wait.",
    ),
    reason(
        READY,
        POD_NOT_READY,
        "The pod runs and does not answer its readiness probe yet.",
        "Wait; if it stays, read the log of the container `gateway`.",
    ),
    reason(
        READY,
        PENDING,
        "The take-over comes first.",
        "See the condition `Migrated`.",
    ),
    reason(STALLED, NO_PROBLEM, "Nothing needs a person.", "Nothing."),
    reason(
        STALLED,
        INVALID_SPEC,
        "A field is wrong; the message names it.",
        "Correct the field.",
    ),
    reason(
        STALLED,
        NAME_TAKEN,
        "An object that the Filestore needs exists and was made by somebody else. It is left alone.",
        "Give the Filestore another name, or delete the object.",
    ),
    reason(
        STALLED,
        REQUEST_REFUSED,
        "The API server refused a request: rights, quota, an admission rule, or a volume that cannot grow. The message has its words.",
        "Remove the cause; the operator tries again by itself.",
    ),
    reason(
        STALLED,
        IMAGE_PULL_FAILED,
        "The node cannot get the image.",
        "Correct `image`, or give the node access to it.",
    ),
    reason(
        STALLED,
        UNSCHEDULABLE,
        "No node takes the pod; the message has the scheduler's words.",
        "Free resources, or check where the volume is.",
    ),
    reason(
        STALLED,
        POD_FAILING,
        "A container ended with an error; the message has its last lines.",
        "Do what the message says; exit codes are in docs/reference/exit-codes.md.",
    ),
    reason(
        RECONCILING,
        PROGRESSING,
        "Work is going on that ends by itself.",
        "Wait.",
    ),
    reason(RECONCILING, DONE, "Nothing is left to do.", "Nothing."),
    reason(
        STORAGE_READY,
        BOUND,
        "The claim has its volume.",
        "Nothing.",
    ),
    reason(
        STORAGE_READY,
        EXPANDING,
        "The volume is growing; the store serves meanwhile.",
        "Wait; with a class that cannot grow volumes see the events of the claim.",
    ),
    reason(
        STORAGE_READY,
        CLAIM_PENDING,
        "The claim has no volume yet. With a class that waits for the first pod that is normal for a moment.",
        "If it stays, see the events of the claim: `kubectl describe pvc`.",
    ),
    reason(
        STORAGE_READY,
        CLAIM_MISSING,
        "The claim named by `existingClaim` does not exist.",
        "Create it, or set `size` instead.",
    ),
    reason(
        STORAGE_READY,
        CLAIM_DELETING,
        "Somebody deleted the claim; it goes when no pod uses it any more.",
        "Save the data now: set the reclaim policy of its volume to Retain before the pod stops.",
    ),
    reason(
        STORAGE_READY,
        CLAIM_CONFLICT,
        "A claim of this name exists and was not made for this Filestore. It is left alone.",
        "Name it under `existingClaim` to use it, or give the Filestore another name.",
    ),
    reason(
        STORAGE_READY,
        CLAIM_LOST,
        "The volume behind the claim is gone.",
        "Restore the volume, or point `existingClaim` at a restored one.",
    ),
    reason(
        STORAGE_READY,
        SHRINK_REFUSED,
        "`size` is smaller than the claim. Volumes never shrink; the store goes on with the larger one.",
        "Set `size` back.",
    ),
    reason(CREDENTIALS_READY, FOUND, "All keys are there.", "Nothing."),
    reason(
        CREDENTIALS_READY,
        SECRET_MISSING,
        "A Secret that the spec names does not exist.",
        "Create it in the namespace of the Filestore; the operator notices.",
    ),
    reason(
        CREDENTIALS_READY,
        SECRET_KEY_MISSING,
        "The Secret lacks the key; the message lists those it has.",
        "Add it, or name the right one under `keys`.",
    ),
    reason(
        CREDENTIALS_READY,
        SECRET_UNUSABLE,
        "The value is empty or has a line break.",
        "Correct the value.",
    ),
    reason(
        MIGRATED,
        NOT_REQUESTED,
        "The spec has no `migration`: a fresh store.",
        "Nothing.",
    ),
    reason(
        MIGRATED,
        NOTHING_TO_MIGRATE,
        "The spec names no source and nothing in the namespace looks like a MinIO, or the named one does not exist.",
        "Nothing; name the `source` if there is one.",
    ),
    reason(
        MIGRATED,
        COMPLETED,
        "The legacy store was copied and compared; this volume belongs to its clients now.",
        "Nothing.",
    ),
    reason(
        MIGRATED,
        PENDING,
        "The take-over has not begun: its pod does not run yet.",
        "Wait; see `StorageReady` and `Stalled`.",
    ),
    reason(
        MIGRATED,
        COPYING,
        "The take-over runs.",
        "Wait; `kubectl logs POD -c migrate` shows the progress.",
    ),
    reason(
        MIGRATED,
        SOURCE_UNREACHABLE,
        "The legacy store does not answer. Tried again by itself.",
        "Start it, or correct `source.endpoint`.",
    ),
    reason(
        MIGRATED,
        SOURCE_CHANGING,
        "Clients kept writing to the legacy store while it was copied. Tried again by itself.",
        "Stop its clients (for a drive: its MinIO).",
    ),
    reason(
        MIGRATED,
        SOURCE_NOT_NAMED,
        "Something in the namespace looks like a MinIO, and the spec asks for a take-over without naming a source. No store is started beside it.",
        "Name it under `migration.source`, or remove `migration`.",
    ),
    reason(
        MIGRATED,
        AMBIGUOUS_SOURCE,
        "The same with more than one candidate.",
        "Name one under `migration.source`.",
    ),
    reason(
        MIGRATED,
        CREDENTIALS_REFUSED,
        "The legacy store refuses the keys.",
        "Correct the Secret, or name the right keys under `source.credentials`.",
    ),
    reason(
        MIGRATED,
        VERIFY_FAILED,
        "After the copy both sides differ. Tried again by itself.",
        "Read the log of the container `migrate`.",
    ),
    reason(
        MIGRATED,
        DIVERGED,
        "Source and target both changed since the hand-over.",
        "Decide with `filestore migrate merge`.",
    ),
    reason(
        MIGRATED,
        REFUSED,
        "A guard refused: the drive is no single-drive MinIO, the volume belongs to another run, and the like. The message says which.",
        "Do what the message says.",
    ),
    reason(
        MIGRATED,
        OBJECTS_FAILED,
        "Some objects could not be carried, or the volume is full; the message and the log name them.",
        "Repair them on the legacy store; see docs/migration.md.",
    ),
    reason(
        MIGRATED,
        INTERRUPTED,
        "The take-over was stopped. It goes on by itself where it was.",
        "Wait.",
    ),
    reason(
        NAMES_READY,
        NAMES_LEAD_HERE,
        "Each name of `service.compatibility` leads to the store, by a Service of ours or by the labels that the pod wears.",
        "Nothing.",
    ),
    reason(
        NAMES_READY,
        COMPAT_SERVICE_CONFLICT,
        "A Service of that name was made by somebody else and does not lead here. It is left alone.",
        "Set `pod.labels` to what it selects, or delete it.",
    ),
    reason(
        MONITORING_READY,
        APPLIED,
        "The objects that `monitoring` asks for are there.",
        "Nothing.",
    ),
    reason(
        MONITORING_READY,
        KIND_UNKNOWN,
        "The cluster does not know ServiceMonitors or PrometheusRules. The store is not affected.",
        "Install the definitions of the Prometheus operator; noticed within ten minutes.",
    ),
    reason(
        MONITORING_READY,
        ENGINE_LACKS,
        "versitygw serves no metrics for Prometheus.",
        "Use `engine: bundled`, or switch monitoring off.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_row() {
        for name in NAMES {
            assert!(ALL.iter().any(|row| row.name == *name), "{name}");
        }
        for row in ALL {
            assert!(NAMES.contains(&row.name), "{}", row.name);
        }
    }
}
