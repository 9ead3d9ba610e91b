//! Comparing both sides key by key: `=` same, `-` missing on the source, `+` missing on the
//! target, `*` different, `!` could not be compared (the symbols of `rclone check --combined`).

mod check;
mod collect;
mod findings;
mod sample;

use filestore_common::BucketName;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::copy::Ends;
use crate::manifest::Line;
use crate::merge::{Merge, Ordered};
use crate::source::Tells;
use crate::{Error, Event, Result};

use check::{Found, check};
use collect::Collector;
pub use collect::Outputs;
pub use findings::Findings;
pub use sample::{NoShare, Sample};

/// How closely to look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Both listings: ETag and size.
    #[default]
    Listing,
    /// Also reads the target and computes the ETag from its bytes.
    ETag,
    /// Reads both sides and compares every byte.
    Bytes,
}

/// How closely to look at which objects. Listings are compared whole in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// What is read of each object.
    pub mode: Mode,
    /// Which objects are read at all.
    pub sample: Sample,
    /// Read both sides also where the listing is to suffice and cannot prove sameness, as one of
    /// them has no comparable ETag.
    pub prove: bool,
    /// Only keys that both sides hold with one ETag and size, whatever their times and metadata:
    /// all else was compared before, and decided.
    pub agreed: bool,
    /// Ask the source for tags, which costs it more than a plain listing.
    pub tags: bool,
}

impl Depth {
    /// What is compared of what the source tells.
    fn tells(self, tells: Tells) -> Tells {
        if tells == Tells::Tags && !self.tags {
            return Tells::Nothing;
        }
        tells
    }
}

impl From<Mode> for Depth {
    fn from(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

/// Result for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    /// Same on both sides.
    #[serde(rename = "=")]
    Same,
    /// Only on the target.
    #[serde(rename = "-")]
    MissingOnSource,
    /// Only on the source.
    #[serde(rename = "+")]
    MissingOnTarget,
    /// Different.
    #[serde(rename = "*")]
    Different,
    /// Could not be compared.
    #[serde(rename = "!")]
    Failed,
}

/// What a result rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Evidence {
    /// Size and ETag of both listings, and times and metadata where the target keeps them.
    Listing,
    /// Size and time alone: there are no ETags to compare.
    SizeAndTime,
    /// The bytes of the target fit its ETag, which is that of the source.
    #[serde(rename = "etag")]
    ETag,
    /// The bytes of both sides.
    Bytes,
}

/// A line of the report.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// Result.
    pub status: Status,
    /// Bucket.
    pub bucket: BucketName,
    /// Key.
    pub key: String,
    /// Size at the source, or at the target where only that has it.
    pub size: u64,
    /// ETag at the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// What the result rests on; absent where only one side has the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Evidence>,
    /// Why, for `*` and `!`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For the manifest.
    #[serde(skip)]
    line: Option<Line>,
}

/// Compares everything.
///
/// # Errors
/// What makes going on senseless; single objects end as `!`.
pub async fn verify(ends: &Ends, depth: Depth, outputs: &Outputs<'_>) -> Result<Findings> {
    let mut writer = Collector::create(depth.sample, outputs)?;
    let buckets = ends.source.buckets().await?;
    let theirs = ends.target.buckets().await?;
    let mut names: Vec<BucketName> = buckets.iter().map(|bucket| bucket.name.clone()).collect();
    let on_source = names.clone();
    names.extend(theirs.into_iter().map(|bucket| bucket.name));
    names.sort();
    names.dedup();
    let tells = depth.tells(ends.source.tells());
    for name in names {
        let ours = if on_source.contains(&name) {
            writer.findings.carried.buckets += 1;
            writer
                .findings
                .tally
                .merge(ends.source.survey(&name).await?);
            ends.list_source(&name, tells)
        } else {
            stream::empty().boxed()
        };
        // Metadata as well, where it costs no request: compared where the source's listing knows it,
        // and recorded.
        let theirs = ends.target.list_full(&name);
        let merge = Merge::new(
            Ordered::new(format!("{name} on the source"), ours),
            Ordered::new(format!("{name} on the target"), theirs),
        );
        let items = stream::try_unfold(merge, |mut merge| async move {
            Ok::<_, Error>(merge.next().await?.map(|item| (item, merge)))
        });
        // Results in the order of keys, whichever is done first.
        let mut results = std::pin::pin!(
            items
                .map_ok(|item| check(ends, &name, item, depth))
                .try_buffered(ends.parallel.max(1))
        );
        while let Some(result) = results.try_next().await? {
            ends.go_on()?;
            match result {
                Found::Left(left) => writer.findings.tally.add(left),
                Found::Decided => {}
                Found::Checked(checked) => {
                    ends.progress.event(&Event::Listed {
                        bytes: checked.size,
                    });
                    writer.add(&checked)?;
                }
            }
        }
    }
    writer
        .findings
        .tally
        .merge(ends.source.survey_store().await?);
    writer.finish()
}
