//! `--summary-file`: how a migration ended, in a file that fits the termination message of a Pod.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use filestore_common::marker::Marker;
use filestore_migrator::progress::Phase;
use filestore_migrator::{Ending, ExitCode, Outcome};
use serde_json::{Map, Value, json};

use crate::exit::WithCode as _;
use crate::progress::{self, LeftBehind, Snapshot};

/// Longest termination message that Kubernetes keeps.
const MOST_BYTES: usize = 4096;
/// Examples of each kind and characters of each text, the fewer the less fits.
const SHORTER: [(usize, usize); 6] = [(10, 400), (5, 400), (3, 300), (1, 200), (1, 80), (0, 80)];

/// The file, opened before anything is done: one that cannot be written is a usage error.
#[derive(Debug)]
pub(super) struct SummaryFile(File);

impl SummaryFile {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        // Not replaced by another file: a termination log is a mount of its own.
        File::options()
            .create(true)
            .write(true)
            .truncate(true)
            .open(path)
            .map(Self)
            .with_context(|| format!("open {}", path.display()))
            .code(ExitCode::Usage)
    }

    pub(super) fn write(mut self, summary: &Value) -> anyhow::Result<()> {
        let text = format!("{summary}\n");
        let written = self.0.set_len(0).and_then(|()| {
            self.0.rewind()?;
            self.0.write_all(text.as_bytes())
        });
        written.context("write the summary file")
    }
}

/// What is known at the end.
#[derive(Debug)]
pub(super) struct End<'a> {
    pub(super) command: &'static str,
    pub(super) began: SystemTime,
    pub(super) exit: ExitCode,
    pub(super) error: Option<String>,
    /// `--deadline` broke it off.
    pub(super) out_of_time: bool,
    pub(super) outcome: Option<&'a Outcome>,
    pub(super) seen: &'a Snapshot,
}

/// The summary, as much of it as fits. Counts are always there; examples and texts give way.
pub(super) fn summary(end: &End<'_>) -> Value {
    let mut value = Value::Null;
    for (examples, characters) in SHORTER {
        value = whole(end, examples, characters);
        // The newline at the end counts as well.
        if value.to_string().len() < MOST_BYTES {
            break;
        }
    }
    value
}

fn whole(end: &End<'_>, examples: usize, characters: usize) -> Value {
    let seen = end.seen;
    let cut = |text: &str| shortened(text, characters);
    let texts = |all: &[String]| -> Vec<String> {
        all.iter().take(examples).map(|text| cut(text)).collect()
    };
    let mut told = json!({
        "version": 1,
        "filestore": env!("CARGO_PKG_VERSION"),
        "command": end.command,
        "exit": end.exit.code(),
        "meaning": end.exit.meaning(),
        "ending": ended(end),
        "error": end.error.as_deref().map(cut),
        "startedAt": progress::time(end.began),
        "endedAt": progress::time(SystemTime::now()),
        "seconds": seen.elapsed.as_secs(),
        "phase": seen.phase.as_str(),
        "outcomes": {
            "copied": seen.outcomes.copied,
            "skipped": seen.outcomes.skipped,
            "deleted": seen.outcomes.deleted,
            "failed": seen.outcomes.failed,
        },
        "copiedBytes": seen.copied_bytes,
        "retries": seen.retries,
        "failures": texts(&seen.failures),
        "lastError": seen.last_error.as_ref().map(|(at, text)| json!({
            "time": progress::time(*at),
            "text": cut(text),
        })),
    });
    let Some(fields) = told.as_object_mut() else {
        return told;
    };
    if end.command == "final" {
        fields.insert("parts".into(), parts(seen));
    }
    if let Some(apart) = end.outcome.and_then(|outcome| outcome.apart) {
        fields.insert("differed".into(), apart.differed.into());
        fields.insert("onlyOnTarget".into(), apart.only_on_target.into());
    }
    if let Some(open) = end.outcome.and_then(|outcome| outcome.undecided.as_ref()) {
        let told = json!({
            "changedOnBoth": open.changed_on_both,
            "deletedOnOne": open.deleted_on_one,
            "examples": texts(&open.examples),
        });
        fields.insert("undecided".into(), told);
    }
    if let Some(left) = &seen.left {
        fields.extend(left_behind(left, &texts));
    }
    if let Some(marker) = end.outcome.and_then(|outcome| outcome.marker.as_ref()) {
        fields.insert("marker".into(), stage(marker, &cut));
    }
    told
}

/// How a final pass spent its time: how long it was held, and what came after.
fn parts(seen: &Snapshot) -> Value {
    let seconds = |phase: Phase| {
        let spent = seen.spent.get(&phase).copied().unwrap_or_default();
        // Milliseconds are as much as anybody wants to read.
        Duration::from_millis(u64::try_from(spent.as_millis()).unwrap_or(u64::MAX)).as_secs_f64()
    };
    json!({
        "waitedSeconds": seconds(Phase::Held),
        "finalSeconds": seconds(Phase::Final),
        "verifySeconds": seconds(Phase::Verify),
        "markerSeconds": seconds(Phase::Mark),
    })
}

fn left_behind(left: &LeftBehind, texts: &dyn Fn(&[String]) -> Vec<String>) -> Map<String, Value> {
    let reasons: Map<String, Value> = left
        .reasons
        .iter()
        .map(|(reason, left)| {
            let told = json!({
                "count": left.count,
                "bytes": left.bytes,
                "examples": texts(&left.examples),
            });
            (reason.clone(), told)
        })
        .collect();
    let mut fields = Map::new();
    if !reasons.is_empty() {
        fields.insert("notCarriedHash".into(), left.hash.clone().into());
    }
    fields.insert("notCarried".into(), Value::Object(reasons));
    fields
}

fn stage(marker: &Marker, cut: &dyn Fn(&str) -> String) -> Value {
    json!({
        "runId": cut(&marker.run_id),
        "state": marker.state,
        "source": cut(&marker.source.location),
        "deploymentId": marker.source.deployment_id,
        "carried": marker.carried,
        "digest": marker.digest,
        "cutoverAt": marker.cutover_at,
        "acceptedBy": marker.accepted_by.as_deref().map(cut),
        "diverged": marker.diverged,
    })
}

fn ended(end: &End<'_>) -> Option<&'static str> {
    let outcome = end.outcome.map(|outcome| ending(outcome.ending));
    outcome.or_else(|| end.out_of_time.then_some("deadline"))
}

fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::NothingToMigrate => "nothingToMigrate",
        Ending::Migrated => "migrated",
        Ending::Rechecked => "rechecked",
        Ending::NotRechecked => "notRechecked",
        Ending::Merged => "merged",
        Ending::Reversed => "reversed",
        Ending::RolledBack => "rolledBack",
        Ending::Abandoned => "abandoned",
        Ending::Incomplete => "incomplete",
    }
}

/// The first characters of a text.
fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (start, _) = text.split_at(end);
            format!("{start}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use filestore_common::marker::NotCarried;
    use filestore_migrator::progress::{Event, Progress as _};
    use filestore_migrator::{Error, Kind};

    use super::*;
    use crate::progress::{Shown, Style};

    #[test]
    fn the_worst_case_fits_and_keeps_every_count() {
        let shown = Shown::with(Style::None);
        // Keys as long as S3 allows, of characters that JSON writes as six bytes.
        let key = "\u{1}".repeat(1024);
        for _ in 0..500 {
            let error = Error::new(Kind::Other, "put", key.as_str(), "x".repeat(5000));
            shown.event(&Event::Failed(&error));
        }
        let mut seen = shown.snapshot();
        let reasons = (0..13).map(|n| {
            let left = NotCarried {
                count: u64::MAX,
                bytes: u64::MAX,
                examples: vec![key.clone(); 10],
            };
            (format!("noncurrentVersions{n}"), left)
        });
        seen.left = Some(LeftBehind {
            reasons: reasons.collect(),
            hash: "0123456789abcdef".into(),
        });

        let summary = summary(&End {
            command: "run",
            began: SystemTime::now() - Duration::from_secs(5),
            exit: ExitCode::Failures,
            error: Some(key.clone()),
            out_of_time: false,
            outcome: None,
            seen: &seen,
        });

        let text = format!("{summary}\n");
        assert!(text.len() <= MOST_BYTES, "{} bytes", text.len());
        assert_eq!(summary["outcomes"]["failed"], 500);
        assert_eq!(
            summary["notCarried"]["noncurrentVersions12"]["count"],
            u64::MAX
        );
        assert_eq!(summary["exit"], 1);
    }

    #[test]
    fn a_usual_one_keeps_its_examples() {
        let shown = Shown::with(Style::None);
        let error = Error::new(Kind::Other, "put", "b/k", "no");
        shown.event(&Event::Failed(&error));
        let before = Instant::now();
        let seen = shown.snapshot();
        let summary = summary(&End {
            command: "copy",
            began: SystemTime::now(),
            exit: ExitCode::Failures,
            error: None,
            out_of_time: true,
            outcome: None,
            seen: &seen,
        });
        assert_eq!(summary["ending"], "deadline");
        assert_eq!(summary["failures"], json!(["put b/k: no"]));
        assert!(seen.elapsed <= before.elapsed() + seen.elapsed);
    }
}
