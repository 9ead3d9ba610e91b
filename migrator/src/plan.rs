//! What a migration would do, found by reading both sides and writing nothing.

use std::collections::BTreeMap;
use std::fmt;

use filestore_common::BucketName;
use filestore_common::marker::{NotCarried, SourceIdentity};
use futures::StreamExt;
use serde::Serialize;

use crate::copy::Ends;
use crate::merge::{Merge, Merged, Ordered, Pair};
use crate::policy::{Action, Pass, decide};
use crate::source::{Reason, Tally};
use crate::{Event, ExitCode, Result};

/// Names given as examples.
const EXAMPLES: usize = 10;
/// Room that a file takes beyond its bytes: directory entry, rounding up to blocks.
const OVERHEAD_BYTES: u64 = 4096;

/// What a bucket holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketPlan {
    /// Objects of the source.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects to copy.
    pub copy: u64,
}

/// Free space on the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// Bytes needed.
    pub needed_bytes: u64,
    /// Bytes free.
    pub available_bytes: u64,
    /// Files needed.
    pub needed_inodes: u64,
    /// Files free; `None` where the file system does not count them.
    pub available_inodes: Option<u64>,
}

impl Room {
    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.needed_bytes <= self.available_bytes
            && self
                .available_inodes
                .is_none_or(|free| self.needed_inodes <= free)
    }
}

/// The plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Source.
    pub source: SourceIdentity,
    /// `volume`, `filestore` or `s3`.
    pub target_kind: &'static str,
    /// Target.
    pub target: String,
    /// Whether ETags come out equal whatever their form.
    pub keeps_etag: bool,
    /// Whether Last-Modified survives.
    pub keeps_last_modified: bool,
    /// By bucket.
    pub buckets: BTreeMap<String, BucketPlan>,
    /// Objects of the source.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that the target does not have.
    pub create: u64,
    /// Objects that would be written over another one.
    pub replace: u64,
    /// Bytes to copy.
    pub copy_bytes: u64,
    /// Objects that are the same.
    pub skip: u64,
    /// Of those, objects without an ETag, judged by size and time.
    pub etag_unknown: u64,
    /// Objects only on the target: `final` would delete them.
    pub delete: u64,
    /// The first of them.
    pub delete_examples: Vec<String>,
    /// Objects that the source's own listings hide; carried.
    pub hidden: u64,
    /// The first of them.
    pub hidden_examples: Vec<String>,
    /// What will not travel, by reason.
    pub not_carried: BTreeMap<String, NotCarried>,
    /// Current objects among that.
    pub losses: u64,
    /// Space on a volume.
    pub room: Option<Room>,
}

impl Plan {
    /// Whether a run would succeed.
    pub fn exit(&self, accept_loss: bool) -> ExitCode {
        if self.room.as_ref().is_some_and(|room| !room.fits()) {
            ExitCode::Refused
        } else if self.losses > 0 && !accept_loss {
            ExitCode::Failures
        } else {
            ExitCode::Ok
        }
    }
}

/// Compares both sides.
///
/// # Errors
/// Whatever either side answers instead.
pub async fn plan(ends: &Ends) -> Result<Plan> {
    let traits = ends.target.traits();
    let mut plan = Plan {
        source: ends.source.identity().await?,
        target_kind: traits.kind,
        target: traits.location.clone(),
        keeps_etag: traits.keeps_etag,
        keeps_last_modified: traits.keeps_last_modified,
        buckets: BTreeMap::new(),
        objects: 0,
        bytes: 0,
        create: 0,
        replace: 0,
        copy_bytes: 0,
        skip: 0,
        etag_unknown: 0,
        delete: 0,
        delete_examples: Vec::new(),
        hidden: 0,
        hidden_examples: Vec::new(),
        not_carried: BTreeMap::new(),
        losses: 0,
        room: None,
    };
    let mut tally = ends.source.survey_store().await?;
    let mut on_target: Vec<BucketName> = ends
        .target
        .buckets()
        .await?
        .into_iter()
        .map(|bucket| bucket.name)
        .collect();
    let new_directories = plan.buckets.len();
    for bucket in ends.source.buckets().await? {
        tally.merge(ends.source.survey(&bucket.name).await?);
        let exists = on_target.contains(&bucket.name);
        on_target.retain(|name| *name != bucket.name);
        plan.compare(ends, &bucket.name, true, exists, &mut tally)
            .await?;
    }
    for name in on_target {
        plan.compare(ends, &name, false, true, &mut tally).await?;
    }
    plan.losses = tally.losses();
    plan.not_carried = tally.into_marker();
    if let Some(space) = ends.target.space().await? {
        let files = plan.create + plan.replace;
        plan.room = Some(Room {
            needed_bytes: plan
                .copy_bytes
                .saturating_add(files.saturating_mul(OVERHEAD_BYTES)),
            available_bytes: space.available_bytes,
            needed_inodes: files + new_directories as u64,
            available_inodes: (space.total_inodes > 0).then_some(space.available_inodes),
        });
    }
    Ok(plan)
}

impl Plan {
    async fn compare(
        &mut self,
        ends: &Ends,
        bucket: &BucketName,
        on_source: bool,
        on_target: bool,
        tally: &mut Tally,
    ) -> Result<()> {
        let traits = ends.target.traits();
        let empty = || futures::stream::empty().boxed();
        let ours = if on_source {
            ends.source.list(bucket)
        } else {
            empty()
        };
        let theirs = if on_target {
            ends.target.list(bucket)
        } else {
            empty()
        };
        let mut merge = Merge::new(
            Ordered::new(format!("{bucket} on the source"), ours),
            Ordered::new(format!("{bucket} on {}", traits.location), theirs),
        );
        let mut here = BucketPlan::default();
        while let Some(item) = merge.next().await? {
            ends.go_on()?;
            let pair = match item {
                Merged::Left(left) => {
                    tally.add(left);
                    continue;
                }
                Merged::Pair(pair) => pair,
            };
            let action = decide(&pair, Pass::Final, &traits);
            let entry = match &pair {
                Pair::Source(ours) | Pair::Both(ours, _) => ours,
                Pair::Target(theirs) => {
                    self.delete += 1;
                    if self.delete_examples.len() < EXAMPLES {
                        self.delete_examples
                            .push(format!("{bucket}/{}", theirs.key));
                    }
                    continue;
                }
            };
            ends.progress.event(&Event::Listed { bytes: entry.size });
            here.objects += 1;
            here.bytes += entry.size;
            if entry.hidden {
                self.hidden += 1;
                if self.hidden_examples.len() < EXAMPLES {
                    self.hidden_examples.push(format!("{bucket}/{}", entry.key));
                }
            }
            match action {
                Action::Create => self.create += 1,
                Action::Replace => self.replace += 1,
                Action::SkipUnproven => self.etag_unknown += 1,
                Action::Skip | Action::Delete | Action::Leave => {}
            }
            if matches!(action, Action::Create | Action::Replace) {
                here.copy += 1;
                self.copy_bytes += entry.size;
            } else {
                self.skip += 1;
            }
        }
        if on_source {
            self.objects += here.objects;
            self.bytes += here.bytes;
            self.buckets.insert(bucket.to_string(), here);
        }
        Ok(())
    }
}

/// Bytes in the unit that people read.
pub(crate) fn human(bytes: u64) -> String {
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.source.deployment_id.as_deref().unwrap_or("unknown");
        writeln!(
            f,
            "from    {} ({}, deployment {id})",
            self.source.location, self.source.kind
        )?;
        writeln!(f, "to      {} ({})", self.target, self.target_kind)?;
        for (name, bucket) in &self.buckets {
            writeln!(
                f,
                "bucket  {name}: {} objects, {}, {} to copy",
                bucket.objects,
                human(bucket.bytes),
                bucket.copy
            )?;
        }
        writeln!(
            f,
            "copy    {} new, {} replaced, {}; {} are the same",
            self.create,
            self.replace,
            human(self.copy_bytes),
            self.skip
        )?;
        if self.etag_unknown > 0 {
            writeln!(
                f,
                "        etag unknown: {} (judged by size and time)",
                self.etag_unknown
            )?;
        }
        if self.delete > 0 {
            let names = self.delete_examples.join(", ");
            writeln!(
                f,
                "delete  {} only on the target: {}",
                self.delete,
                names.escape_debug()
            )?;
        }
        if self.hidden > 0 {
            let names = self.hidden_examples.join(", ");
            writeln!(
                f,
                "hidden  {} that the source's listings do not show, carried: {}",
                self.hidden,
                names.escape_debug()
            )?;
        }
        for (reason, left) in &self.not_carried {
            let names = left.examples.join(", ");
            writeln!(
                f,
                "left    {reason}: {} ({})",
                left.count,
                names.escape_debug()
            )?;
        }
        if !self.keeps_last_modified {
            writeln!(
                f,
                "note    Last-Modified cannot be kept: S3 has no way to set it"
            )?;
        }
        if let Some(room) = &self.room {
            let verdict = if room.fits() { "fits" } else { "DOES NOT FIT" };
            writeln!(
                f,
                "space   {} needed of {}, {verdict}",
                human(room.needed_bytes),
                human(room.available_bytes)
            )?;
        }
        Ok(())
    }
}

/// The reasons that count as losses, for people.
pub(crate) fn loss_names(not_carried: &BTreeMap<String, NotCarried>) -> String {
    let losses = [
        Reason::Encrypted,
        Reason::Tiered,
        Reason::Damaged,
        Reason::Unsupported,
        Reason::Unnameable,
    ];
    let named = losses.iter().filter_map(|reason| {
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
    fn a_run_fits_only_when_bytes_and_files_do() {
        let room = |available_bytes, available_inodes| Room {
            needed_bytes: 10,
            available_bytes,
            needed_inodes: 2,
            available_inodes,
        };
        assert!(room(10, Some(2)).fits());
        assert!(room(10, None).fits());
        assert!(!room(9, Some(2)).fits());
        assert!(!room(10, Some(1)).fits());
    }
}
