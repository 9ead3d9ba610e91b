//! Every condition and every reason, in one table, from which that of `docs/operator.md` is made.

mod table;

pub use table::ALL;

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
    ACCESS_KEY_TAKEN = "AccessKeyTaken";
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
    SOURCE_UNSUPPORTED = "SourceUnsupported";
    SOURCE_MISSING = "SourceMissing";
    PRECOPYING = "Precopying";
    PREPARING = "Preparing";
    AWAITING_APPROVAL = "AwaitingApproval";
    CUTTING_OVER = "CuttingOver";
    CUTOVER_FAILED = "CutoverFailed";
    WRITERS_SEEN = "WritersSeen";
    ROLLING_BACK = "RollingBack";
    ROLLED_BACK = "RolledBack";
    AMBIGUOUS_SOURCE = "AmbiguousSource";
    CREDENTIALS_REFUSED = "CredentialsRefused";
    VERIFY_FAILED = "VerifyFailed";
    DIVERGED = "Diverged";
    REFUSED = "Refused";
    OBJECTS_FAILED = "ObjectsFailed";
    INTERRUPTED = "Interrupted";
    DEADLINE_PASSED = "DeadlinePassed";
    NAMES_LEAD_HERE = "NamesLeadHere";
    COMPAT_SERVICE_CONFLICT = "CompatServiceConflict";
    APPLIED = "Applied";
    KIND_UNKNOWN = "KindUnknown";
    ENGINE_LACKS = "EngineLacks";
}

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
