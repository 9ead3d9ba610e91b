//! Summaries for people.

use std::fmt;

use crate::pass::Report;
use crate::plan::human;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "copied {} new and {} changed objects ({}); {} were the same; {} deleted",
            self.created,
            self.replaced,
            human(self.bytes),
            self.skipped + self.unproven,
            self.deleted
        )?;
        if self.extraneous > 0 {
            let names = self.extraneous_examples.join(", ");
            writeln!(
                f,
                "only on the target: {} ({})",
                self.extraneous,
                names.escape_debug()
            )?;
        }
        if !self.hidden.is_empty() {
            let names = self.hidden.join(", ");
            writeln!(
                f,
                "carried although the source's listings hide them: {}",
                names.escape_debug()
            )?;
        }
        for (reason, left) in self.tally.iter() {
            let names = left.examples.join(", ");
            writeln!(
                f,
                "left behind, {}: {} ({})",
                reason.as_str(),
                left.count,
                names.escape_debug()
            )?;
        }
        if self.failed > 0 {
            writeln!(f, "{} objects failed:", self.failed)?;
            for error in &self.failures {
                writeln!(f, "  {error}")?;
            }
        }
        Ok(())
    }
}
