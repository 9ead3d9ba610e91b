//! What can go wrong in a migration: which object, which operation, and whether to try again.

use std::fmt;

use crate::ExitCode;

/// Result of a migration step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was; decides about retries and the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Wrong arguments or environment.
    Usage,
    /// The store does not exist (NXDOMAIN, no drive mounted).
    Absent,
    /// The store does not answer: refused, timeout, SERVFAIL, 5xx.
    Down,
    /// The store answered nobody for as long as it was to be waited for.
    Outage,
    /// The time for the whole command is over.
    Deadline,
    /// Credentials or rights.
    Auth,
    /// The bucket or object does not exist.
    NotFound,
    /// The object changed while it was read.
    Changed,
    /// Bytes are not what their checksum or ETag says.
    Damaged,
    /// The object cannot be read by anyone without a key or service that we do not have
    /// (SSE, tiering) or is of a format that the reader refuses.
    Unsupported,
    /// The store on this path or endpoint is not one that we read, as a whole.
    Refused,
    /// A listing was unordered, repeated, or did not end properly.
    Listing,
    /// The object on the target is not what was expected.
    Conflict,
    /// The target is full.
    NoSpace,
    /// The target cannot hold the object (name, metadata).
    Unnameable,
    /// A signal.
    Interrupted,
    /// Anything else.
    Other,
}

/// A failure of one operation on one object, bucket or store; prints as one line.
#[derive(Debug)]
pub struct Error {
    /// What kind.
    pub kind: Kind,
    /// What was attempted, a verb: `get`, `list`, `put`.
    pub operation: &'static str,
    /// On what: `bucket/key`, a bucket, an endpoint or a path.
    pub object: Box<str>,
    /// What happened.
    pub message: Box<str>,
    /// HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// S3 error code.
    pub code: Option<Box<str>>,
    /// Request id that the server gave.
    pub request_id: Option<Box<str>>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Whether it was tried again already as often as makes sense.
    pub exhausted: bool,
    /// What to do about it.
    pub cure: Option<Box<str>>,
}

impl Error {
    /// A failure of `operation` on `object`.
    pub fn new(
        kind: Kind,
        operation: &'static str,
        object: impl Into<Box<str>>,
        message: impl Into<Box<str>>,
    ) -> Self {
        Self {
            kind,
            operation,
            object: object.into(),
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            attempts: 1,
            exhausted: false,
            cure: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_cure(mut self, cure: impl Into<Box<str>>) -> Self {
        self.cure = Some(cure.into());
        self
    }

    /// Whether trying again cannot help. Bytes that failed their check are read once more, since
    /// the way between the stores may have damaged them.
    pub fn is_permanent(&self) -> bool {
        if self.exhausted {
            return true;
        }
        match self.kind {
            Kind::Down | Kind::Changed | Kind::Damaged => false,
            Kind::Other => self.status.is_some_and(|status| status < 500),
            _ => true,
        }
    }

    /// Whether going on with other objects makes no sense.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.kind,
            Kind::Usage
                | Kind::Absent
                | Kind::Outage
                | Kind::Deadline
                | Kind::Auth
                | Kind::Refused
                | Kind::Listing
                | Kind::NoSpace
                | Kind::Interrupted
        )
    }

    /// The exit code when this error ends the command.
    pub fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Usage => ExitCode::Usage,
            Kind::Absent | Kind::Down | Kind::Outage | Kind::Deadline => ExitCode::Retryable,
            Kind::Auth => ExitCode::Auth,
            Kind::Changed => ExitCode::Changed,
            Kind::Refused | Kind::Listing => ExitCode::Refused,
            Kind::Conflict => ExitCode::Conflicts,
            Kind::Interrupted => ExitCode::Interrupted,
            Kind::NotFound
            | Kind::Damaged
            | Kind::Unsupported
            | Kind::NoSpace
            | Kind::Unnameable
            | Kind::Other => ExitCode::Failures,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.operation, self.object.escape_debug())?;
        if let Some(status) = self.status {
            write!(f, "{status} ")?;
        }
        if let Some(code) = &self.code {
            write!(f, "{code}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(id) = &self.request_id {
            write!(f, " (request {id})")?;
        }
        if self.attempts > 1 {
            write!(f, " after {} attempts", self.attempts)?;
        }
        if let Some(cure) = &self.cure {
            write!(f, "; {cure}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_one_line_with_everything_a_person_needs() {
        let mut error = Error::new(
            Kind::Down,
            "get",
            "b/k\ney",
            "We encountered an internal error",
        )
        .with_cure("look at the server's log");
        error.status = Some(500);
        error.code = Some("InternalError".into());
        error.request_id = Some("17A".into());
        error.attempts = 5;

        assert_eq!(
            error.to_string(),
            "get b/k\\ney: 500 InternalError: We encountered an internal error (request 17A) \
             after 5 attempts; look at the server's log"
        );
    }
}
