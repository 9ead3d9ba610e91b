//! The plan for people.

use std::collections::BTreeMap;
use std::fmt;

use filestore_common::marker::{MarkerState, NotCarried};

use super::again;
use super::{Plan, Refusal, Setting};
use crate::ExitCode;
use crate::source::{About, Reason};

/// The reasons that count as losses.
const LOSSES: [Reason; 5] = [
    Reason::Encrypted,
    Reason::Tiered,
    Reason::Damaged,
    Reason::Unsupported,
    Reason::Unnameable,
];

/// Bytes in the unit that people read.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1024 * 1024 && unit + 1 < UNITS.len() {
        scaled /= 1024;
        unit += 1;
    }
    format!(
        "{}.{} {}",
        scaled / 1024,
        scaled % 1024 * 10 / 1024,
        UNITS[unit]
    )
}

/// Seconds in the units that people read.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The reasons that count as losses, for people.
pub(crate) fn loss_names(not_carried: &BTreeMap<String, NotCarried>) -> String {
    let named = LOSSES.iter().filter_map(|reason| {
        let left = not_carried.get(reason.as_str())?;
        Some(format!(
            "{} {} ({})",
            left.count,
            reason.as_str(),
            left.examples.join(", ")
        ))
    });
    named.collect::<Vec<_>>().join("; ")
}

fn about(f: &mut fmt::Formatter<'_>, about: &About) -> fmt::Result {
    let mut told: Vec<String> = about.server.iter().cloned().collect();
    told.extend(about.region.iter().map(|region| format!("region {region}")));
    told.extend(about.clock_skew_seconds.map(|skew| match skew {
        0 => "clock as here".to_owned(),
        1.. => format!("clock {skew} s ahead"),
        _ => format!("clock {} s behind", -skew),
    }));
    if told.is_empty() {
        return Ok(());
    }
    writeln!(f, "        {}", told.join(", "))
}

pub(super) fn names(examples: &[String], count: u64) -> String {
    let more = if (examples.len() as u64) < count {
        ", …"
    } else {
        ""
    };
    format!("{}{more}", examples.join(", ").escape_debug())
}

impl Plan {
    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, bucket) in &self.buckets {
            let (objects, size, copy) = (bucket.objects, human(bucket.bytes), bucket.copy);
            writeln!(
                f,
                "bucket  {name}: {objects} objects, {size}, {copy} to copy"
            )?;
        }
        let size = human(self.copy_bytes);
        writeln!(
            f,
            "copy    {} new, {} replaced, {size}; {} are the same",
            self.create, self.replace, self.skip
        )?;
        if self.etag_unknown > 0 {
            let count = self.etag_unknown;
            writeln!(f, "        etag unknown: {count} (judged by size and time)")?;
        }
        if self.delete > 0 {
            let names = names(&self.delete_examples, self.delete);
            let whose = match self.again {
                Some(_) => "that went from the source",
                None => "only on the target",
            };
            writeln!(f, "delete  {} {whose}: {names}", self.delete)?;
        }
        if let Some(again) = &self.again {
            write!(f, "{again}")?;
        }
        if self.hidden > 0 {
            let names = names(&self.hidden_examples, self.hidden);
            writeln!(
                f,
                "hidden  {} that the source's listings do not show, carried: {names}",
                self.hidden
            )?;
        }
        if self.apart.count > 0 {
            let names = names(&self.apart.examples, self.apart.count);
            writeln!(
                f,
                "apart   {} that are no path, carried, kept apart from the tree: {names}",
                self.apart.count
            )?;
        }
        Ok(())
    }

    fn left_behind(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carried: Vec<&Setting> = self.settings.iter().filter(|s| s.carried).collect();
        if !carried.is_empty() {
            let names = carried
                .iter()
                .map(|s| format!("{}: {}", s.bucket, s.setting));
            let names: Vec<String> = names.collect();
            writeln!(
                f,
                "carried bucketSettings: {} ({})",
                names.len(),
                names.join(", ")
            )?;
        }
        let is_loss = |reason: &str| LOSSES.iter().any(|loss| loss.as_str() == reason);
        for (reason, left) in &self.not_carried {
            let label = if is_loss(reason) {
                "LOST   "
            } else if reason == Reason::UnknownVersions.as_str() {
                "UNKNOWN"
            } else {
                "left   "
            };
            let size = if left.bytes > 0 {
                format!(", {}", human(left.bytes))
            } else {
                String::new()
            };
            let names = names(
                &left.examples,
                left.count.min(left.examples.len() as u64 + 1),
            );
            writeln!(f, "{label} {reason}: {}{size} ({names})", left.count)?;
        }
        for unseen in &self.source_about.not_visible {
            writeln!(f, "unseen  {unseen}")?;
        }
        if self.oversized.count > 0 {
            let names = names(&self.oversized.examples, self.oversized.count);
            let count = self.oversized.count;
            writeln!(
                f,
                "TOOBIG  {count} whose metadata has no room on the target: {names}"
            )?;
        }
        if self.unreadable.count > 0 {
            let names = names(&self.unreadable.examples, self.unreadable.count);
            let count = self.unreadable.count;
            writeln!(
                f,
                "UNREAD  {count} of the objects read for the estimate: {names}"
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note    {note}")?;
        }
        Ok(())
    }

    fn outlook(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(room) = &self.room {
            let verdict = if room.fits() { "fits" } else { "DOES NOT FIT" };
            let (needed, free) = (human(room.needed_bytes), human(room.available_bytes));
            let files = match room.available_inodes {
                Some(free) => format!("{} files of {free}", room.needed_inodes),
                None => format!("{} files", room.needed_inodes),
            };
            writeln!(f, "space   {needed} needed of {free}, {files}, {verdict}")?;
        }
        if let Some(estimate) = &self.estimate {
            writeln!(
                f,
                "time    about {} (an estimate: {} objects, {} were read in {} ms; writing is not \
                 in it)",
                span(estimate.seconds),
                estimate.sampled_objects,
                human(estimate.sampled_bytes),
                estimate.sampled_milliseconds
            )?;
        }
        if let Some(hash) = &self.not_carried_hash {
            writeln!(
                f,
                "accept  {hash} names all that stays behind: with --accept {hash} a run goes on \
                 only while it is that"
            )?;
        }
        if self.migration == Some(MarkerState::Cutover) {
            return writeln!(
                f,
                "result  was cut over before: `run` only compares and never overwrites"
            );
        }
        if let Some(again) = &self.again
            && self.verdict.refusals.is_empty()
        {
            return again::result(f, self, again);
        }
        match self.verdict.exit {
            ExitCode::Ok => writeln!(f, "result  a run would succeed"),
            ExitCode::Failures if self.oversized.count > 0 => writeln!(
                f,
                "result  a run would end with exit code 1: metadata of {} objects does not fit; \
                 use a volume with sidecar metadata or another file system",
                self.oversized.count
            ),
            ExitCode::Failures if self.unreadable.count > 0 => writeln!(
                f,
                "result  a run would end with exit code 1: objects cannot be read, at least {}",
                self.unreadable.count
            ),
            ExitCode::Failures => writeln!(
                f,
                "result  a run would end with exit code 1: {} current objects cannot be carried; \
                 accept that with --accept HASH, or whatever they are with --accept-loss",
                self.losses
            ),
            exit => {
                for refusal in &self.verdict.refusals {
                    let Refusal { problem, cure } = refusal;
                    let problem = problem.escape_debug();
                    writeln!(
                        f,
                        "result  a run would be refused ({exit}): {problem}; {cure}"
                    )?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.source.deployment_id.as_deref().unwrap_or("unknown");
        let (location, kind) = (&self.source.location, &self.source.kind);
        writeln!(f, "from    {location} ({kind}, deployment {id})")?;
        about(f, &self.source_about)?;
        writeln!(f, "to      {} ({})", self.target, self.target_kind)?;
        about(f, &self.target_about)?;
        self.counts(f)?;
        self.left_behind(f)?;
        self.outlook(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (16 << 20, "16.0 MiB"),
            (3 << 40, "3.0 TiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn spans_for_people() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min 1 s"),
            (7260, "2 h 1 min"),
            (180_000, "2 d 2 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
