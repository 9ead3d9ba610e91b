//! After cut-over: the source as it is now against the manifest, never against the target, which
//! belongs to its clients by then. Additions and newer versions of keys that no client touched
//! are merged; deletions and conflicts are listed and stay as they are.

use std::io::Write;
use std::time::Instant;

use filestore_common::marker::Counts;
use filestore_common::{BucketName, ETag};
use serde::Serialize;

use crate::copy::{Copied, Ends};
use crate::manifest::{self, Line};
use crate::merge::Ordered;
use crate::source::{Entry, Listed};
use crate::state::State;
use crate::target::Expect;
use crate::{Error, Event, Kind, Result};

/// File below `runs/<id>/` that names what was not applied.
pub const DIVERGENCE_FILE: &str = "divergence.jsonl";

/// How a key changed on the source without being applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Divergence {
    /// Deleted on the source, still on the target.
    DeletedOnSource,
    /// Changed or added on the source, and changed, added or deleted by a client of the target.
    ChangedOnBoth,
}

/// What the comparison found.
#[derive(Debug, Default)]
pub struct Recheck {
    /// Objects of the source that were compared.
    pub objects: u64,
    /// New objects merged.
    pub added: u64,
    /// Newer versions merged.
    pub updated: u64,
    /// [`Divergence::DeletedOnSource`].
    pub deleted_on_source: u64,
    /// [`Divergence::ChangedOnBoth`].
    pub conflicts: u64,
    /// The first names of both.
    pub examples: Vec<String>,
    /// Objects that could not be merged.
    pub failed: u64,
    /// The time was over before the end.
    pub cut_short: bool,
    /// Digest and counts of the new manifest, when one was written.
    pub manifest: Option<(String, Counts)>,
}

impl Recheck {
    /// Whether the source changed in ways that were not applied.
    pub fn diverged(&self) -> bool {
        self.deleted_on_source + self.conflicts > 0
    }
}

/// What is known about a key: as the manifest has it, and as the source has it now.
struct Change {
    bucket: BucketName,
    recorded: Option<Line>,
    now: Option<Entry>,
}

struct Rechecker<'a> {
    ends: &'a Ends,
    manifest: manifest::Reader,
    ahead: Option<Line>,
    next: manifest::Writer,
    divergences: std::io::BufWriter<std::fs::File>,
    found: Recheck,
    deadline: Instant,
}

/// Compares the source with the manifest of `run_id` until `deadline`. When time is short nothing
/// is recorded, and what was merged so far is recognised the next time.
///
/// # Errors
/// [`Kind::NotFound`] without a manifest; whatever the source answers.
pub async fn recheck(
    ends: &Ends,
    state: &State,
    run_id: &str,
    deadline: Instant,
) -> Result<Recheck> {
    let path = state.manifest(run_id);
    let names = state.run_dir(run_id).join(DIVERGENCE_FILE);
    let new_names = manifest::temporary(&names);
    let failed = |error: std::io::Error| {
        Error::new(
            Kind::Other,
            "write",
            names.display().to_string(),
            error.to_string(),
        )
    };
    let mut run = Rechecker {
        ends,
        manifest: manifest::Reader::open(&path)?,
        ahead: None,
        next: manifest::Writer::create(&path)?,
        divergences: std::io::BufWriter::new(std::fs::File::create(&new_names).map_err(failed)?),
        found: Recheck::default(),
        deadline,
    };
    run.ahead = run.manifest.line()?;
    run.all().await?;
    let Rechecker {
        next,
        mut divergences,
        mut found,
        ..
    } = run;
    if found.cut_short {
        drop(std::fs::remove_file(manifest::temporary(&path)));
        drop(std::fs::remove_file(&new_names));
        return Ok(found);
    }
    ends.target.flush().await?;
    divergences.flush().map_err(failed)?;
    divergences.get_ref().sync_all().map_err(failed)?;
    std::fs::rename(&new_names, &names).map_err(failed)?;
    found.manifest = Some(next.finish()?);
    Ok(found)
}

impl Rechecker<'_> {
    async fn all(&mut self) -> Result<()> {
        for bucket in self.ends.source.buckets().await? {
            let name = &bucket.name;
            // Buckets of the manifest that are gone from the source.
            while let Some(line) = self.recorded_before(name, None)? {
                self.change(Change {
                    bucket: line.bucket.clone(),
                    recorded: Some(line),
                    now: None,
                })
                .await?;
            }
            let mut ensured = false;
            let mut listing =
                Ordered::new(format!("{name} on the source"), self.ends.source.list(name));
            while let Some(item) = listing.next().await? {
                let Listed::Object(entry) = item else {
                    continue;
                };
                if self.over()? {
                    return Ok(());
                }
                while let Some(line) = self.recorded_before(name, Some(&entry))? {
                    self.change(Change {
                        bucket: name.clone(),
                        recorded: Some(line),
                        now: None,
                    })
                    .await?;
                }
                let recorded = match &self.ahead {
                    Some(line) if line.bucket == *name && line.key == entry.key => {
                        let next = self.manifest.line()?;
                        std::mem::replace(&mut self.ahead, next)
                    }
                    _ => None,
                };
                if recorded.is_none() && !ensured {
                    self.ends.target.ensure_bucket(&bucket).await?;
                    ensured = true;
                }
                self.found.objects += 1;
                self.ends
                    .progress
                    .event(&Event::Listed { bytes: entry.size });
                self.change(Change {
                    bucket: name.clone(),
                    recorded,
                    now: Some(entry),
                })
                .await?;
            }
            while let Some(line) = self.recorded_within(name)? {
                self.change(Change {
                    bucket: name.clone(),
                    recorded: Some(line),
                    now: None,
                })
                .await?;
            }
        }
        while let Some(line) = self.ahead.take() {
            self.ahead = self.manifest.line()?;
            self.change(Change {
                bucket: line.bucket.clone(),
                recorded: Some(line),
                now: None,
            })
            .await?;
        }
        Ok(())
    }

    fn over(&mut self) -> Result<bool> {
        self.ends.go_on()?;
        self.found.cut_short |= Instant::now() >= self.deadline;
        Ok(self.found.cut_short)
    }

    /// Takes the manifest's next line if it comes before `entry` of `bucket` (before the whole
    /// bucket without one).
    fn recorded_before(
        &mut self,
        bucket: &BucketName,
        entry: Option<&Entry>,
    ) -> Result<Option<Line>> {
        let before = self
            .ahead
            .as_ref()
            .is_some_and(|line| match line.bucket.cmp(bucket) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => entry.is_some_and(|entry| line.key < entry.key),
                std::cmp::Ordering::Greater => false,
            });
        self.take_if(before)
    }

    fn recorded_within(&mut self, bucket: &BucketName) -> Result<Option<Line>> {
        let within = self
            .ahead
            .as_ref()
            .is_some_and(|line| line.bucket == *bucket);
        self.take_if(within)
    }

    fn take_if(&mut self, wanted: bool) -> Result<Option<Line>> {
        if !wanted {
            return Ok(None);
        }
        let next = self.manifest.line()?;
        Ok(std::mem::replace(&mut self.ahead, next))
    }

    async fn change(&mut self, change: Change) -> Result<()> {
        let Change {
            bucket,
            recorded,
            now,
        } = change;
        match (recorded, now) {
            (Some(line), Some(now)) if unchanged(&line, &now) => self.next.add(&line),
            (Some(line), None) => self.gone(line).await,
            (recorded, Some(now)) => self.newer(bucket, recorded, now).await,
            (None, None) => Ok(()),
        }
    }

    /// Deleted on the source since.
    async fn gone(&mut self, line: Line) -> Result<()> {
        // The listing may have missed it: ask for the key itself.
        let source = self.ends.source.head(&line.bucket, &line.key).await?;
        if source.is_none() {
            if self
                .ends
                .target
                .head(&line.bucket, &line.key)
                .await?
                .is_none()
            {
                // Clients deleted it as well.
                return Ok(());
            }
            self.found.deleted_on_source += 1;
            self.diverged(&line.bucket, line.key.as_str(), Divergence::DeletedOnSource)?;
        }
        self.next.add(&line)
    }

    /// Added or written on the source since.
    async fn newer(
        &mut self,
        bucket: BucketName,
        recorded: Option<Line>,
        now: Entry,
    ) -> Result<()> {
        let target = self.ends.target.head(&bucket, &now.key).await?;
        let added = recorded.is_none();
        let keeps_times = self.ends.target.traits().keeps_last_modified;
        let timely = |modified: u64, there: &Entry| {
            !keeps_times || modified == manifest::unix(there.last_modified)
        };
        let expect = match (&recorded, &target) {
            // Merged before the last run could record it.
            (_, Some(there))
                if same(now.etag.as_ref(), now.size, there)
                    && timely(manifest::unix(now.last_modified), there) =>
            {
                return self.next.add(&Line::new(&bucket, &now, there));
            }
            (None, None) => Some(Expect::Absent),
            // Untouched on the target since it was carried.
            (Some(line), Some(there))
                if same(line.on_target(), line.size, there) && timely(line.modified, there) =>
            {
                Some(Expect::Same(there.etag.clone()))
            }
            // Written by a client of both.
            (_, Some(there)) if same(now.etag.as_ref(), now.size, there) => {
                return self.next.add(&Line::new(&bucket, &now, there));
            }
            _ => None,
        };
        let merged = match expect {
            None => Err(Error::new(Kind::Conflict, "merge", "", "")),
            Some(expect) => self.ends.copy(&bucket, &now, &expect).await,
        };
        match merged {
            Ok(Copied::Done(bytes)) => {
                let name = format!("{bucket}/{}", now.key);
                self.ends.progress.event(&Event::Copied {
                    object: &name,
                    bytes,
                });
                *(if added {
                    &mut self.found.added
                } else {
                    &mut self.found.updated
                }) += 1;
                // What was copied may be newer than what was listed; the target knows.
                let there = self.ends.target.head(&bucket, &now.key).await?;
                self.next.add(&Line::new(
                    &bucket,
                    &now,
                    &there.unwrap_or_else(|| now.clone()),
                ))
            }
            Ok(Copied::Vanished) => self.keep(recorded),
            Err(error) if error.kind == Kind::Conflict => {
                self.found.conflicts += 1;
                self.diverged(&bucket, now.key.as_str(), Divergence::ChangedOnBoth)?;
                self.keep(recorded)
            }
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                self.ends.progress.event(&Event::Failed(&error));
                self.found.failed += 1;
                self.keep(recorded)
            }
        }
    }

    fn keep(&mut self, recorded: Option<Line>) -> Result<()> {
        recorded.map_or(Ok(()), |line| self.next.add(&line))
    }

    fn diverged(&mut self, bucket: &BucketName, key: &str, how: Divergence) -> Result<()> {
        if self.found.examples.len() < 10 {
            self.found.examples.push(format!("{bucket}/{key}"));
        }
        let failed = |error: String| Error::new(Kind::Other, "write", DIVERGENCE_FILE, error);
        let line = serde_json::json!({ "how": how, "bucket": bucket, "key": key });
        serde_json::to_writer(&mut self.divergences, &line).map_err(|e| failed(e.to_string()))?;
        self.divergences
            .write_all(b"\n")
            .map_err(|e| failed(e.to_string()))
    }
}

/// Whether the source still shows what the manifest recorded.
fn unchanged(line: &Line, now: &Entry) -> bool {
    line.size == now.size
        && line.modified == manifest::unix(now.last_modified)
        && match (&line.etag, &now.etag) {
            (Some(recorded), Some(shown)) => recorded == shown,
            _ => true,
        }
}

/// Whether the target holds an object of this ETag and size.
fn same(etag: Option<&ETag>, size: u64, there: &Entry) -> bool {
    size == there.size && etag.is_some() && etag == there.etag.as_ref()
}
