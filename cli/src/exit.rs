//! Which exit code an error ends with. The codes are one table for all subcommands:
//! `docs/reference/exit-codes.md`.

use std::fmt;

use filestore_migrator::ExitCode;

/// An error with the exit code that it stands for.
#[derive(Debug)]
pub(crate) struct Coded {
    code: ExitCode,
    error: anyhow::Error,
}

impl Coded {
    /// `error`, ending the process with `code`.
    pub(crate) fn new(code: ExitCode, error: impl Into<anyhow::Error>) -> Self {
        Self {
            code,
            error: error.into(),
        }
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl std::error::Error for Coded {}

/// Gives an error its exit code.
pub(crate) trait WithCode<T> {
    /// The same result, whose error ends the process with `code`.
    fn code(self, code: ExitCode) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithCode<T> for Result<T, E> {
    fn code(self, code: ExitCode) -> anyhow::Result<T> {
        self.map_err(|error| Coded::new(code, error).into())
    }
}

/// The exit code of an error: its own, the migrator's, or "failures".
pub(crate) fn of(error: &anyhow::Error) -> ExitCode {
    error
        .downcast_ref::<Coded>()
        .map(|coded| coded.code)
        .or_else(|| {
            error
                .downcast_ref::<filestore_migrator::Error>()
                .map(filestore_migrator::Error::exit_code)
        })
        .unwrap_or(ExitCode::Failures)
}
