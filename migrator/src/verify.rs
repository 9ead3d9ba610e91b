//! Comparing both sides key by key: `=` same, `-` missing on the source, `+` missing on the
//! target, `*` different, `!` could not be compared (the symbols of `rclone check --combined`).

use std::io::Write;
use std::path::Path;

use filestore_common::BucketName;
use filestore_common::marker::Counts;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::copy::Ends;
use crate::manifest::{self, CarriedDigest, Line};
use crate::merge::{Merge, Merged, Ordered, Pair};
use crate::plan::human;
use crate::policy::{Sameness, compare};
use crate::source::{Body, Entry, Tally};
use crate::{Error, Event, Kind, Result};

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
    /// Why, for `*` and `!`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For the manifest.
    #[serde(skip)]
    line: Option<Line>,
}

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
    /// The same as far as known; the source shows no ETag.
    pub unproven: u64,
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
            writeln!(
                f,
                "{} of them without an ETag, judged by size and time",
                self.unproven
            )?;
        }
        for example in &self.examples {
            writeln!(f, "  {}", example.escape_debug())?;
        }
        writeln!(f, "digest {}", self.digest)
    }
}

/// Where the findings go.
#[derive(Debug, Default)]
pub struct Outputs<'a> {
    /// JSON lines, one per key.
    pub report: Option<&'a Path>,
    /// Manifest of what is the same.
    pub manifest: Option<&'a Path>,
}

/// Compares everything.
///
/// # Errors
/// What makes going on senseless; single objects end as `!`.
pub async fn verify(ends: &Ends, mode: Mode, outputs: &Outputs<'_>) -> Result<Findings> {
    let mut writer = Collector::create(outputs)?;
    let buckets = ends.source.buckets().await?;
    let theirs = ends.target.buckets().await?;
    let mut names: Vec<BucketName> = buckets.iter().map(|bucket| bucket.name.clone()).collect();
    let on_source = names.clone();
    names.extend(theirs.into_iter().map(|bucket| bucket.name));
    names.sort();
    names.dedup();
    for name in names {
        let ours = if on_source.contains(&name) {
            writer.findings.carried.buckets += 1;
            writer
                .findings
                .tally
                .merge(ends.source.survey(&name).await?);
            ends.source.list(&name)
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
                .map_ok(|item| check(ends, &name, item, mode))
                .try_buffered(ends.parallel.max(1))
        );
        while let Some(result) = results.try_next().await? {
            ends.go_on()?;
            match result {
                Found::Left(left) => writer.findings.tally.add(left),
                Found::Checked(checked, unproven) => {
                    ends.progress.event(&Event::Listed {
                        bytes: checked.size,
                    });
                    writer.findings.unproven += u64::from(unproven);
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

enum Found {
    Left(crate::source::Left),
    Checked(Box<Checked>, bool),
}

async fn check(ends: &Ends, bucket: &BucketName, item: Merged, mode: Mode) -> Result<Found> {
    let pair = match item {
        Merged::Left(left) => return Ok(Found::Left(left)),
        Merged::Pair(pair) => pair,
    };
    let result = |status, entry: &Entry| Checked {
        status,
        bucket: bucket.clone(),
        key: entry.key.as_str().to_owned(),
        size: entry.size,
        etag: entry.etag.as_ref().map(|etag| etag.as_str().to_owned()),
        reason: None,
        line: None,
    };
    let (ours, theirs) = match pair {
        Pair::Source(ours) => {
            return Ok(Found::Checked(
                Box::new(result(Status::MissingOnTarget, &ours)),
                false,
            ));
        }
        Pair::Target(theirs) => {
            return Ok(Found::Checked(
                Box::new(result(Status::MissingOnSource, &theirs)),
                false,
            ));
        }
        Pair::Both(ours, theirs) => (ours, theirs),
    };
    let sameness = compare(&ours, &theirs, &ends.target.traits());
    let mut checked = result(Status::Same, &ours);
    if sameness == Sameness::Different {
        checked.status = Status::Different;
        let etag = |entry: &Entry| {
            entry
                .etag
                .as_ref()
                .map_or_else(|| "none".into(), ToString::to_string)
        };
        checked.reason = Some(format!(
            "source {} bytes, ETag {}; target {} bytes, ETag {}",
            ours.size,
            etag(&ours),
            theirs.size,
            etag(&theirs)
        ));
        return Ok(Found::Checked(Box::new(checked), false));
    }
    let closer = match (mode, sameness) {
        // Without an ETag only the bytes can tell (minio/minio#6198).
        (Mode::Bytes, _) | (Mode::ETag, Sameness::Unproven) => {
            bytes_equal(ends, bucket, &ours).await
        }
        (Mode::ETag, _) => match ends.proves_itself(bucket, &ours.key).await {
            Ok(None) => bytes_equal(ends, bucket, &ours).await,
            Ok(Some(proved)) => Ok(proved),
            Err(error) => Err(error),
        },
        (Mode::Listing, _) => Ok(true),
    };
    match closer {
        Ok(true) => checked.line = Some(Line::new(bucket, &ours, &theirs)),
        Ok(false) => {
            checked.status = Status::Different;
            checked.reason = Some("the bytes differ".into());
        }
        Err(error) if error.is_fatal() => return Err(error),
        Err(error) => {
            ends.progress.event(&Event::Failed(&error));
            checked.status = Status::Failed;
            checked.reason = Some(error.to_string());
        }
    }
    let unproven = sameness == Sameness::Unproven && mode == Mode::Listing;
    Ok(Found::Checked(Box::new(checked), unproven))
}

/// Reads both sides in step.
async fn bytes_equal(ends: &Ends, bucket: &BucketName, ours: &Entry) -> Result<bool> {
    let source = ends.source.open(bucket, ours).await?;
    let target = ends.target.open(bucket, &ours.key).await?;
    if source.info.size != target.info.size {
        return Ok(false);
    }
    same_bytes(ends.paced(source.body), ends.shown(target.body)).await
}

async fn same_bytes(mut one: Body, mut other: Body) -> Result<bool> {
    let mut ahead = bytes::Bytes::new();
    loop {
        let Some(mut chunk) = one.try_next().await? else {
            return Ok(
                ahead.is_empty() && other.try_next().await?.is_none_or(|rest| rest.is_empty())
            );
        };
        while !chunk.is_empty() {
            if ahead.is_empty() {
                match other.try_next().await? {
                    Some(next) => ahead = next,
                    None => return Ok(false),
                }
                continue;
            }
            let common = chunk.len().min(ahead.len());
            if chunk.split_to(common) != ahead.split_to(common) {
                return Ok(false);
            }
        }
    }
}

struct Collector {
    findings: Findings,
    digest: CarriedDigest,
    report: Option<std::io::BufWriter<std::fs::File>>,
    manifest: Option<manifest::Writer>,
}

fn failed(path: &str, error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Other, "write", path, error.to_string())
}

impl Collector {
    fn create(outputs: &Outputs<'_>) -> Result<Self> {
        let report = outputs.report.map(|path| {
            let file = std::fs::File::create(path);
            file.map(std::io::BufWriter::new).map_err(|error| Error {
                kind: Kind::Usage,
                ..failed(&path.display().to_string(), error)
            })
        });
        let manifest = outputs.manifest.map(manifest::Writer::create);
        Ok(Self {
            findings: Findings::default(),
            digest: CarriedDigest::default(),
            report: report.transpose()?,
            manifest: manifest.transpose()?,
        })
    }

    fn add(&mut self, checked: &Checked) -> Result<()> {
        let findings = &mut self.findings;
        let count = match checked.status {
            Status::Same => &mut findings.same,
            Status::MissingOnSource => &mut findings.missing_on_source,
            Status::MissingOnTarget => &mut findings.missing_on_target,
            Status::Different => &mut findings.different,
            Status::Failed => &mut findings.failed,
        };
        *count += 1;
        if checked.status != Status::Same && findings.examples.len() < 10 {
            let reason = checked.reason.as_deref().unwrap_or(match checked.status {
                Status::MissingOnTarget => "missing on the target",
                _ => "missing on the source",
            });
            findings
                .examples
                .push(format!("{}/{}: {reason}", checked.bucket, checked.key));
        }
        if let Some(line) = &checked.line {
            findings.carried.objects += 1;
            findings.carried.bytes += line.size;
            self.digest
                .add(&line.bucket, &line.key, line.etag.as_ref(), line.size);
            if let Some(manifest) = &mut self.manifest {
                manifest.add(line)?;
            }
        }
        if let Some(report) = &mut self.report {
            serde_json::to_writer(&mut *report, checked).map_err(|e| failed("the report", e))?;
            report
                .write_all(b"\n")
                .map_err(|e| failed("the report", e))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Findings> {
        if let Some(mut report) = self.report.take() {
            report.flush().map_err(|e| failed("the report", e))?;
        }
        self.findings.digest = match self.manifest.take() {
            // An unequal target gets no manifest; a half one would pass for a whole one.
            Some(manifest) if self.findings.differences() + self.findings.failed == 0 => {
                manifest.finish()?.0
            }
            _ => self.digest.finish(),
        };
        Ok(self.findings)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn body(chunks: &'static [&'static [u8]]) -> Body {
        stream::iter(chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk)))).boxed()
    }

    #[tokio::test]
    async fn bodies_are_compared_whatever_their_chunks() {
        const WHOLE: &[&[u8]] = &[b"abcd"];
        const PIECES: &[&[u8]] = &[b"", b"a", b"bcd", b""];
        const SHORTER: &[&[u8]] = &[b"ab", b"c"];
        const OTHER: &[&[u8]] = &[b"abc", b"e"];
        assert!(same_bytes(body(WHOLE), body(PIECES)).await.unwrap());
        assert!(same_bytes(body(PIECES), body(WHOLE)).await.unwrap());
        for (one, two) in [
            (WHOLE, SHORTER),
            (SHORTER, WHOLE),
            (WHOLE, OTHER),
            (OTHER, PIECES),
        ] {
            assert!(
                !same_bytes(body(one), body(two)).await.unwrap(),
                "{one:?} {two:?}"
            );
        }
    }
}
