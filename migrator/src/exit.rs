//! Exit codes of `filestore migrate` (docs/reference/migrate.md).

use std::fmt;

/// How a migration command ended. The numbers are part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// Done; nothing is missing.
    Ok = 0,
    /// Some objects could not be carried; they are in the report.
    Failures = 1,
    /// The command line or the environment is wrong.
    Usage = 2,
    /// Source and target differ.
    Differences = 3,
    /// The source or the target did not answer, or the time was over; trying again later may help.
    Retryable = 4,
    /// A guard refused to go on; nothing was changed by the refused step.
    Refused = 5,
    /// Credentials were not accepted.
    Auth = 6,
    /// Objects kept changing while they were copied.
    Changed = 7,
    /// Source and target both changed since the migration.
    Conflicts = 8,
    /// Stopped by a signal; a rerun resumes.
    Interrupted = 130,
}

impl ExitCode {
    /// All codes, for the reference page.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Failures,
        Self::Usage,
        Self::Differences,
        Self::Retryable,
        Self::Refused,
        Self::Auth,
        Self::Changed,
        Self::Conflicts,
        Self::Interrupted,
    ];

    /// The process exit status.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// One line for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done; nothing is missing",
            Self::Failures => "some objects could not be carried; the report names them",
            Self::Usage => "command line, environment or manifest is wrong",
            Self::Differences => "source and target differ",
            Self::Retryable => {
                "something did not answer or is taken, or time is up; run again later"
            }
            Self::Refused => "a guard refused; nothing was changed by the refused step",
            Self::Auth => "credentials were not accepted",
            Self::Changed => "objects kept changing while they were copied",
            Self::Conflicts => "source and target both changed since the migration",
            Self::Interrupted => "stopped by a signal; a rerun resumes",
        }
    }

    /// When it happens, for people.
    pub fn example(self) -> &'static str {
        match self {
            Self::Ok => "`up` and `gateway` also after Ctrl-C while serving",
            Self::Failures => "damaged object on the source; disk full; anything not listed below",
            Self::Usage => {
                "unknown flag; missing file; unknown field, wrong type; Secret or key missing"
            }
            Self::Differences => "`migrate verify`",
            Self::Retryable => "source down until the wait was over; port in use",
            Self::Refused => {
                "no `format.json`, erasure set, volume unreadable, in use or of another metadata \
                 mode, metadata that does not fit (`volume convert`), directory of the legacy \
                 claim missing; another list stays behind than was accepted"
            }
            Self::Auth => "wrong secret key of the source",
            Self::Changed => "a client still writes to the source",
            Self::Conflicts => "`migrate merge` without a preference",
            Self::Interrupted => "Ctrl-C during the copy",
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts rely on the numbers; the page must not drift.
    #[test]
    fn the_reference_page_lists_every_code() {
        let page = include_str!("../../docs/reference/migrate.md");
        for code in ExitCode::ALL {
            let row = format!("| {} | {} |", code.code(), code.meaning());
            assert!(page.contains(&row), "{row}");
        }
    }
}
