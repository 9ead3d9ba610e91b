//! Results on their way to report, manifest, digest and counts.

use std::io::Write as _;
use std::path::Path;

use super::{Checked, Evidence, Findings, Sample, Status};
use crate::manifest::{self, CarriedDigest};
use crate::{Error, Kind, Result};

/// Where the findings go.
#[derive(Debug, Default)]
pub struct Outputs<'a> {
    /// JSON lines, one per key.
    pub report: Option<&'a Path>,
    /// Manifest of what is the same.
    pub manifest: Option<&'a Path>,
}

/// Takes results in order of bucket and key.
pub(super) struct Collector {
    pub(super) findings: Findings,
    digest: CarriedDigest,
    report: Option<std::io::BufWriter<std::fs::File>>,
    manifest: Option<manifest::Writer>,
}

fn failed(path: &str, error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Other, "write", path, error.to_string())
}

impl Collector {
    pub(super) fn create(sample: Sample, outputs: &Outputs<'_>) -> Result<Self> {
        let report = outputs.report.map(|path| {
            let file = std::fs::File::create(path);
            file.map(std::io::BufWriter::new).map_err(|error| Error {
                kind: Kind::Usage,
                ..failed(&path.display().to_string(), error)
            })
        });
        let manifest = outputs.manifest.map(manifest::Writer::create);
        Ok(Self {
            findings: Findings {
                sample: (!sample.is_all()).then(|| sample.to_string()),
                ..Findings::default()
            },
            digest: CarriedDigest::default(),
            report: report.transpose()?,
            manifest: manifest.transpose()?,
        })
    }

    pub(super) fn add(&mut self, checked: &Checked) -> Result<()> {
        let findings = &mut self.findings;
        let count = match checked.status {
            Status::Same => &mut findings.same,
            Status::MissingOnSource => &mut findings.missing_on_source,
            Status::MissingOnTarget => &mut findings.missing_on_target,
            Status::Different => &mut findings.different,
            Status::Failed => &mut findings.failed,
        };
        *count += 1;
        match checked.by {
            Some(Evidence::ETag | Evidence::Bytes) => findings.read += 1,
            Some(Evidence::SizeAndTime) => findings.unproven += 1,
            Some(Evidence::Listing) | None => {}
        }
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

    pub(super) fn finish(mut self) -> Result<Findings> {
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
