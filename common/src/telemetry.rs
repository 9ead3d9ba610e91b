//! Logging set-up.

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// One line of text.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(Error::Format(other.to_owned())),
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Unknown format.
    #[error("log format {0:?} is none of auto, text, json")]
    Format(String),
    /// The level is no filter.
    #[error("log level {0:?} is neither a level (error, warn, info, debug, trace) nor a filter")]
    Level(String, #[source] tracing_subscriber::filter::ParseError),
    /// Somebody else set a subscriber.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Libraries whose debug output holds strings to sign, signatures or request headers: never
/// below `info`, whatever the filter says.
const CAPPED: [&str; 6] = [
    "s3s",
    "aws_sigv4",
    "aws_runtime",
    "aws_smithy",
    "aws_sdk_s3",
    "hyper",
];

fn allowed(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO
        || !CAPPED
            .iter()
            .any(|target| metadata.target().starts_with(target))
}

/// s3s reports each refused request (every 404) as an error; the access log has them already.
fn filter(level: &str) -> Result<EnvFilter, Error> {
    let text = if level.contains("s3s") {
        level.to_owned()
    } else {
        format!("{level},s3s=off")
    };
    EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(text)
        .map_err(|error| Error::Level(level.to_owned(), error))
}

/// Sends log lines to standard error. `level` is a level or a filter such as
/// `info,filestore_gateway=debug`.
///
/// # Errors
/// [`Error`].
pub fn init(level: &str, format: LogFormat) -> Result<(), Error> {
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = if json {
        layer.json().flatten_event(true).boxed()
    } else {
        layer
            .with_ansi(std::io::stderr().is_terminal())
            .compact()
            .boxed()
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter_fn(allowed)))
        .with(filter(level)?)
        .try_init()
        .map_err(|_| Error::AlreadySet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sink.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = fmt::layer()
            .with_writer(move || writer.clone())
            .with_filter(filter_fn(allowed));
        let subscriber = tracing_subscriber::registry()
            .with(layer)
            .with(filter(level).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "s3s::ops::signature", "string-to-sign");
            tracing::error!(target: "s3s::ops", "refused");
            tracing::debug!(target: "filestore_gateway", "own-debug");
            tracing::info!(target: "filestore_gateway", "own-info");
        });
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn strings_to_sign_are_never_logged() {
        for level in ["trace", "debug", "s3s=trace", "info,s3s=debug"] {
            assert!(!logged(level).contains("string-to-sign"), "{level}");
        }
    }

    #[test]
    fn levels_and_filters_apply() {
        let debug = logged("debug");
        assert!(debug.contains("own-debug") && !debug.contains("refused"));
        let info = logged("info");
        assert!(info.contains("own-info") && !info.contains("own-debug"));
        assert!(logged("info,s3s=info").contains("refused"));
        assert!(filter("info,=x=").is_err());
    }
}
