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
    /// The source or the target did not answer; trying again later may help.
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
            Self::Usage => "command line or environment is wrong",
            Self::Differences => "source and target differ",
            Self::Retryable => "source or target did not answer; run again later",
            Self::Refused => "a guard refused; the text says which and why",
            Self::Auth => "credentials were not accepted",
            Self::Changed => "objects kept changing while they were copied",
            Self::Conflicts => "source and target both changed since the migration",
            Self::Interrupted => "stopped by a signal; a rerun resumes",
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
