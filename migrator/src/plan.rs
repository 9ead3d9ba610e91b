//! What a migration would do, found by reading both sides and writing nothing.

mod again;
mod compare;
mod measure;
mod room;
mod text;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use filestore_common::marker::{MarkerState, NotCarried, SourceIdentity};
use serde::Serialize;

use crate::copy::Ends;
use crate::naming::Naming;
use crate::source::{About, Tally, versions_left};
use crate::target::Traits;
use crate::{Error, Event, ExitCode, Result};

pub use again::Again;
pub use measure::Estimate;
pub use room::Room;
pub(crate) use text::loss_names;
pub use text::{human, span};
pub use verdict::{Conditions, Refusal, Verdict};

/// Names given as examples.
const EXAMPLES: usize = 10;

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

/// A setting of a bucket that the source was found to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// Bucket.
    pub bucket: String,
    /// Its S3 name (`policy`, `lifecycle`, `tags`, …).
    pub setting: String,
    /// Whether it travels.
    pub carried: bool,
}

/// Things counted, with the first few names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<String>,
}

impl Named {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(name());
        }
    }
}

/// The plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Source.
    pub source: SourceIdentity,
    /// What the source says of itself.
    pub source_about: About,
    /// `volume`, `filestore` or `s3`.
    pub target_kind: &'static str,
    /// Target.
    pub target: String,
    /// What the target says of itself.
    pub target_about: About,
    /// Whether ETags come out equal whatever their form.
    pub keeps_etag: bool,
    /// Whether Last-Modified survives.
    pub keeps_last_modified: bool,
    /// Where a migration to this target stands already.
    pub migration: Option<MarkerState>,
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
    /// Objects without an ETag to compare, judged by size and time in every pass.
    pub etag_unknown: u64,
    /// Objects only on the target: `final` would delete them. Of a second take-over those that went
    /// from the source.
    pub delete: u64,
    /// The first of them.
    pub delete_examples: Vec<String>,
    /// Objects that the source's own listings hide; carried.
    pub hidden: u64,
    /// The first of them.
    pub hidden_examples: Vec<String>,
    /// Keys that are no path: carried, and kept apart from the tree, where only Filestore sees
    /// them.
    pub apart: Named,
    /// Keys that differ by case only, where the target takes them for one.
    pub same_but_case: Option<Named>,
    /// Objects whose metadata has no room in the file system of the target, where the source's
    /// listing shows metadata.
    pub oversized: Named,
    /// Every setting found, in the order of buckets.
    pub settings: Vec<Setting>,
    /// What will not travel, by reason.
    pub not_carried: BTreeMap<String, NotCarried>,
    /// Names that list as a whole, for `--accept`; `None` when it is empty.
    pub not_carried_hash: Option<String>,
    /// Current objects among that.
    pub losses: u64,
    /// What only the copy itself will show.
    pub notes: Vec<String>,
    /// Space on a volume.
    pub room: Option<Room>,
    /// Of a target that was rolled back: what would become of what both sides wrote since. Room and
    /// time are not estimated then.
    pub again: Option<Again>,
    /// How long it may take.
    pub estimate: Option<Estimate>,
    /// Objects among those read for it that the source does not give; their errors.
    pub unreadable: Named,
    /// Whether a run would succeed.
    pub verdict: Verdict,
}

impl Plan {
    fn new(traits: Traits, source: SourceIdentity) -> Self {
        Self {
            source,
            source_about: About::default(),
            target_kind: traits.kind,
            target: traits.location,
            target_about: About::default(),
            keeps_etag: traits.keeps_etag,
            keeps_last_modified: traits.keeps_last_modified,
            migration: None,
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
            apart: Named::default(),
            same_but_case: None,
            oversized: Named::default(),
            settings: Vec::new(),
            not_carried: BTreeMap::new(),
            not_carried_hash: None,
            losses: 0,
            notes: Vec::new(),
            room: None,
            again: None,
            estimate: None,
            unreadable: Named::default(),
            verdict: Verdict::default(),
        }
    }

    /// The exit code of a run.
    pub fn exit(&self) -> ExitCode {
        self.verdict.exit
    }

    /// Why a run would not even begin.
    pub fn refusal(&self) -> Option<Error> {
        self.verdict.error(&self.target)
    }

    /// Whether a run would succeed.
    pub(crate) fn judge(&mut self, conditions: &Conditions) {
        self.verdict = verdict::verdict(self, conditions);
    }

    fn take(&mut self, tally: Tally) {
        self.losses = tally.losses();
        self.not_carried_hash = (tally != Tally::default()).then(|| tally.hash());
        self.not_carried = tally.into_marker();
    }

    /// As [`Tally::versions_left`].
    fn versions_left(&self) -> Option<(String, &'static str)> {
        versions_left(|reason| self.not_carried.get(reason.as_str()))
    }
}

/// Compares both sides. With a time for it some objects are read, to estimate how long the copy
/// will take.
///
/// # Errors
/// Whatever either side answers instead.
pub async fn plan(ends: &Ends, conditions: &Conditions, measure: Option<Duration>) -> Result<Plan> {
    let mut plan = Plan::new(ends.target.traits(), ends.source.identity().await?);
    plan.migration = conditions.migration;
    let mut walk = compare::Walk::new(ends).await?;
    let tally = walk.run(&mut plan).await?;
    ends.progress.event(&Event::Left(&tally));
    plan.take(tally);
    plan.same_but_case = walk.same_but_case();
    if let Some(space) = ends.target.space().await? {
        plan.room = Some(room::needed(&plan, walk.directories, &space));
    }
    plan.source_about = ends.source.about();
    plan.target_about = ends.target.about();
    plan.notes = notes(ends, &plan);
    if let Some(budget) = measure.filter(|budget| !budget.is_zero()) {
        let measured = measure::estimate(ends, walk.sample(), &plan, budget).await?;
        plan.estimate = measured.estimate;
        plan.unreadable = measured.unreadable;
    }
    plan.judge(conditions);
    Ok(plan)
}

/// What a listing cannot show and the target may not take.
fn notes(ends: &Ends, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if !plan.keeps_last_modified {
        notes.push("Last-Modified cannot be kept: S3 has no way to set it".into());
    }
    match ends.target.naming() {
        Naming::Tree { server, .. } => notes.push(format!(
            "{server} keeps keys as paths: what has no path there is among the unnameable"
        )),
        Naming::Overflow => {}
        Naming::Any => notes.push(
            "the target's limits of keys are not known to us; a key that it refuses is named \
             when it is copied"
                .into(),
        ),
    }
    if let Some(limit) = ends.target.metadata_limit() {
        notes.push(limit);
    }
    let skew = |about: &About| about.clock_skew_seconds.filter(|skew| skew.abs() >= 60);
    for (side, about) in [
        ("source", &plan.source_about),
        ("target", &plan.target_about),
    ] {
        if let Some(skew) = skew(about) {
            notes.push(format!(
                "the clock of the {side} is {} s {} this machine's; S3 refuses requests from 900 s \
                 on: set both by NTP",
                skew.abs(),
                if skew > 0 { "ahead of" } else { "behind" }
            ));
        }
    }
    notes
}
