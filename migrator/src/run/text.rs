//! Summaries for people.

use std::fmt::Write as _;

use crate::pass::Report;
use crate::plan::human;

/// What a pass did. Lines end with a newline.
pub(super) fn pass(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    drop(writeln!(
        text,
        "copied {} new and {} changed objects ({}); {} were the same; {} deleted",
        report.created,
        report.replaced,
        human(report.bytes),
        report.skipped + report.unproven,
        report.deleted
    ));
    if report.extraneous > 0 {
        let names = report.extraneous_examples.join(", ");
        drop(writeln!(
            text,
            "{} objects are only on the target: {}",
            report.extraneous,
            names.escape_debug()
        ));
    }
    if !report.hidden.is_empty() {
        let names = report.hidden.join(", ");
        drop(writeln!(
            text,
            "carried although the source's listings hide them: {}",
            names.escape_debug()
        ));
    }
    for (reason, left) in report.tally.iter() {
        let names = left.examples.join(", ");
        drop(writeln!(
            text,
            "left behind, {}: {} ({})",
            reason.as_str(),
            left.count,
            names.escape_debug()
        ));
    }
    if report.failed > 0 {
        drop(writeln!(text, "{} objects failed:", report.failed));
        for error in &report.failures {
            drop(writeln!(text, "  {error}"));
        }
    }
    text
}
