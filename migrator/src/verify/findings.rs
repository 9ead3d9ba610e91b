//! What a verification found, and how it is told.

use filestore_common::marker::Counts;
use serde::Serialize;

use crate::plan::human;
use crate::source::Tally;

/// What a verification found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// `=`.
    pub same: u64,
    /// `-`.
    pub missing_on_source: u64,
    /// `+`.
    pub missing_on_target: u64,
    /// `*`.
    pub different: u64,
    /// `!`.
    pub failed: u64,
    /// Of these, the same as far as size and time tell; there is no ETag to compare.
    pub unproven: u64,
    /// Objects that were read.
    pub read: u64,
    /// Of which only so many were to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Objects and bytes that are the same.
    pub carried: Counts,
    /// Digest over them (see `manifest`).
    pub digest: String,
    /// Keys that are not the same, the first few.
    pub examples: Vec<String>,
    /// What the source cannot give.
    #[serde(skip)]
    pub tally: Tally,
}

impl Findings {
    /// Keys on which both sides differ.
    pub fn differences(&self) -> u64 {
        self.missing_on_source + self.missing_on_target + self.different
    }
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "verified {} objects, {}: {} differ, {} missing on the target, {} only there, {} \
             unreadable",
            self.same,
            human(self.carried.bytes),
            self.different,
            self.missing_on_target,
            self.missing_on_source,
            self.failed
        )?;
        if self.unproven > 0 {
            let count = self.unproven;
            writeln!(
                f,
                "{count} of them without an ETag, judged by size and time"
            )?;
        }
        if let Some(sample) = &self.sample {
            writeln!(
                f,
                "read {} objects, a sample of {sample}: chosen by a hash of their names, the same \
                 ones each time",
                self.read
            )?;
        } else if self.read > 0 {
            writeln!(f, "read {} objects", self.read)?;
        }
        for example in &self.examples {
            writeln!(f, "  {}", example.escape_debug())?;
        }
        writeln!(f, "digest {}", self.digest)
    }
}
