//! Results on standard output.

use std::io::Write as _;

use anyhow::Context as _;

/// Prints text, ending in one newline.
pub(super) fn text(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("write to standard output")
}

/// Prints a value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    text(&serde_json::to_string_pretty(value).context("write JSON")?)
}

/// Prints a line of `--progress json`.
pub(super) fn event(event: &serde_json::Value) {
    // Nobody is left to tell when standard error is closed.
    drop(writeln!(std::io::stderr(), "{event}"));
}

/// Prints a value as JSON, or as text.
pub(super) fn either<T: serde::Serialize + std::fmt::Display>(
    as_json: bool,
    value: &T,
) -> anyhow::Result<()> {
    if as_json {
        json(value)
    } else {
        text(&value.to_string())
    }
}
