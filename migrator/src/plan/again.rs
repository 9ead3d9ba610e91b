//! The plan of a second take-over: of a store that was rolled back, both sides are brought together
//! key by key, and neither is made equal to the other.

use std::fmt;

use serde::Serialize;

use super::text::names;
use super::{Named, Plan};
use crate::ExitCode;
use crate::reconcile::Found;
use crate::source::Tally;

/// What a comparison with the manifest found, beside what would be copied and deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Again {
    /// Keys that only clients of the target changed: they stay as they are there.
    pub kept: u64,
    /// Keys that both sides changed, for a decision.
    pub undecided: Named,
    /// Keys of which a store does not tell how they are, by their errors.
    pub unknown: Named,
    /// How a run would end for what it finds.
    #[serde(skip)]
    exit: Option<ExitCode>,
}

impl Again {
    /// How it would end for what was found.
    pub(super) fn exit(&self) -> ExitCode {
        self.exit.unwrap_or(ExitCode::Ok)
    }
}

impl Plan {
    /// Counts what bringing both sides together would do, in the place of what would make the target
    /// equal to the source.
    pub(crate) fn reconcile(&mut self, found: Found, tally: Tally) {
        (self.create, self.replace) = (found.added, found.updated);
        (self.delete, self.delete_examples) = (found.deleted, found.deleted_examples);
        self.copy_bytes = found.brought.values().map(|brought| brought.bytes).sum();
        for (name, bucket) in &mut self.buckets {
            let mut all = found.brought.iter();
            let brought = all.find(|(bucket, _)| bucket.as_str() == name);
            bucket.copy = brought.map_or(0, |(_, brought)| brought.objects);
        }
        // They are about a target that is made equal.
        (self.room, self.same_but_case) = (None, None);
        self.take(tally);
        let exit = match found.worst {
            Some(code) => Some(code),
            None => (found.conflicts > 0).then_some(ExitCode::Conflicts),
        };
        self.again = Some(Again {
            kept: found.left,
            undecided: Named {
                count: found.conflicts,
                examples: found.examples,
            },
            unknown: Named {
                count: found.failed,
                examples: found.failures.into_iter().take(super::EXAMPLES).collect(),
            },
            exit,
        });
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kept > 0 {
            writeln!(
                f,
                "stay    {} that only clients of the target changed",
                self.kept
            )?;
        }
        let (count, examples) = (self.undecided.count, &self.undecided.examples);
        if count > 0 {
            let names = names(examples, count);
            writeln!(f, "OPEN    {count} changed on both sides: {names}")?;
        }
        if self.unknown.count > 0 {
            let names = names(&self.unknown.examples, self.unknown.count);
            writeln!(f, "UNREAD  {}: {names}", self.unknown.count)?;
        }
        Ok(())
    }
}

/// How a second take-over would end; nothing for one that is refused.
pub(super) fn result(f: &mut fmt::Formatter<'_>, plan: &Plan, again: &Again) -> fmt::Result {
    let begin = "result  taking it over again would";
    match plan.verdict.exit {
        ExitCode::Ok => writeln!(f, "{begin} succeed; writes of both sides are kept"),
        ExitCode::Conflicts => writeln!(
            f,
            "{begin} end with exit code 8: both sides changed {} keys; decide with --prefer newest, \
             source or target",
            again.undecided.count
        ),
        exit if again.unknown.count > 0 => writeln!(
            f,
            "{begin} end with exit code {exit}: {} keys could not be looked at",
            again.unknown.count
        ),
        exit => writeln!(
            f,
            "{begin} end with exit code {exit}: {} current objects cannot be carried; accept that \
             with --accept HASH, or whatever they are with --accept-loss",
            plan.losses
        ),
    }
}
