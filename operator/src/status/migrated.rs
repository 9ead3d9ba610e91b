//! How the take-over stands, from the init container that does it.

use filestore_common::marker::Counts;

use super::{Verdict, reason};
use crate::api::{FilestoreStatus, MigrationStatus};
use crate::observed::{ContainerView, Observed};
use crate::summary::{self, Summary};
use crate::validate::{Source, ValidatedFilestore};

/// Exit codes of `filestore migrate` (docs/reference/exit-codes.md) and their reasons.
const CODES: [(i32, &str); 8] = [
    (1, reason::OBJECTS_FAILED),
    (3, reason::VERIFY_FAILED),
    (4, reason::SOURCE_UNREACHABLE),
    (5, reason::REFUSED),
    (6, reason::CREDENTIALS_REFUSED),
    (7, reason::SOURCE_CHANGING),
    (8, reason::DIVERGED),
    (130, reason::INTERRUPTED),
];

/// Exit code of a guard that refused.
const REFUSED: i32 = 5;

/// Reasons that go away by trying again, which the kubelet does.
const PASSING: [&str; 13] = [
    reason::DEADLINE_PASSED,
    reason::PRECOPYING,
    reason::AWAITING_APPROVAL,
    reason::PREPARING,
    reason::CUTTING_OVER,
    reason::CUTOVER_FAILED,
    reason::ROLLING_BACK,
    reason::PENDING,
    reason::COPYING,
    reason::SOURCE_UNREACHABLE,
    reason::SOURCE_CHANGING,
    reason::VERIFY_FAILED,
    reason::INTERRUPTED,
];

/// The reason for an exit code other than 0.
pub(super) fn reason_of(code: i32) -> &'static str {
    let known = CODES.iter().find(|(known, _)| *known == code);
    known.map_or(reason::OBJECTS_FAILED, |(_, reason)| reason)
}

/// The reason for an end other than a good one.
pub(super) fn reason_of_end(code: i32, summary: &Summary) -> &'static str {
    if summary.out_of_time {
        reason::DEADLINE_PASSED
    } else {
        reason_of(code)
    }
}

/// What a person may do about an end, in the words of the spec; empty where the migrator's say it.
pub(crate) fn cure(code: i32, summary: &Summary) -> &'static str {
    if summary.out_of_time {
        "; it goes on where it was, with more time at once by a larger migration.deadline"
    } else if code == REFUSED && summary.text.contains("--max-delete") {
        "; that is migration.maxDelete"
    } else {
        ""
    }
}

/// Whether a person is needed.
pub(super) fn needs_a_person(verdict: &Verdict) -> bool {
    !verdict.holds && !PASSING.contains(&verdict.reason)
}

/// Condition `Migrated`.
pub(super) fn condition(
    filestore: &ValidatedFilestore,
    observed: &Observed,
    previous: &FilestoreStatus,
) -> Verdict {
    let Some(migration) = &filestore.migration else {
        return Verdict::new(true, reason::NOT_REQUESTED, "a fresh store");
    };
    match observed.migrate() {
        Some((ContainerView::Ended { code: 0, message }, _)) => {
            let told = summary::read(&message);
            if told.nothing_to_migrate {
                Verdict::new(
                    true,
                    reason::NOTHING_TO_MIGRATE,
                    "the legacy store does not exist",
                )
            } else {
                let text = or(told.text, || "the legacy store was taken over".to_owned());
                Verdict::new(true, reason::COMPLETED, text)
            }
        }
        Some((ContainerView::Ended { code, message }, _)) => {
            failed(code, &summary::read(&message), "")
        }
        // The truth is on the volume. That the hand-over was seen once is good enough for a pod that
        // is stopped or starts again: all it does then is to look for news on the source.
        _ if was_completed(migration.id.as_deref(), previous) => {
            let condition = super::find(previous, reason::MIGRATED);
            let message = condition.map_or("", |condition| condition.message.as_str());
            Verdict::new(true, reason::COMPLETED, message)
        }
        Some((ContainerView::Running, _)) if observed.told.keys_refused => Verdict::new(
            false,
            reason::CREDENTIALS_REFUSED,
            "the legacy store refuses the keys, and is asked again; the log of the container migrate says why",
        ),
        Some((ContainerView::Running, _)) if observed.told.connecting_fails => Verdict::new(
            false,
            reason::SOURCE_UNREACHABLE,
            "the legacy store does not answer; the log of the container migrate says how",
        ),
        Some((ContainerView::Running, _)) => once_more(observed)
            .unwrap_or_else(|| Verdict::new(false, reason::COPYING, "the take-over runs")),
        _ => match &migration.source {
            Some(Source::Offline { claim, .. }) if observed.source_claim.is_none() => Verdict::new(
                false,
                reason::SOURCE_MISSING,
                format!(
                    "PersistentVolumeClaim {claim:?} with the legacy drive does not exist; restore it, or correct migration.source.existingClaim"
                ),
            ),
            _ => Verdict::new(false, reason::PENDING, "the take-over has not begun"),
        },
    }
}

fn failed(code: i32, told: &Summary, more: &str) -> Verdict {
    let text = or(told.text.clone(), || {
        format!("the take-over ended with exit code {code}")
    });
    let text = format!("{text}{}{more}", cure(code, told));
    Verdict::new(false, reason_of_end(code, told), text)
}

/// Why the take-over failed before the container was started again, until it got further: whoever
/// looks in between has to see it. One that was killed goes on where it was.
fn once_more(observed: &Observed) -> Option<Verdict> {
    let (code, message) = observed.migrate_before()?;
    let is_told = CODES
        .iter()
        .any(|(known, reason)| *known == code && *reason != reason::INTERRUPTED);
    let told = summary::read(&message);
    // What differed at the end is seen at the end.
    let further = reason_of(code) != reason::VERIFY_FAILED
        && observed.told.is_beyond(told.through.unwrap_or_default());
    (is_told && !further).then(|| failed(code, &told, "; it is tried again"))
}

fn was_completed(id: Option<&str>, previous: &FilestoreStatus) -> bool {
    let same_run = previous
        .migration
        .as_ref()
        .is_some_and(|migration| migration.id.as_deref() == id);
    same_run
        && super::find(previous, reason::MIGRATED)
            .is_some_and(|found| found.status == "True" && found.reason == reason::COMPLETED)
}

fn or(text: String, other: impl FnOnce() -> String) -> String {
    if text.is_empty() { other() } else { text }
}

/// Numbers of the take-over.
pub(super) fn numbers(
    filestore: &ValidatedFilestore,
    observed: &Observed,
    previous: &FilestoreStatus,
    verdict: &Verdict,
) -> Option<MigrationStatus> {
    let migration = filestore.migration.as_ref()?;
    let before = previous
        .migration
        .as_ref()
        .filter(|before| before.id == migration.id);
    let copied = match verdict.reason {
        reason::COMPLETED => Some(100),
        _ => observed
            .told
            .copied_percent
            .or_else(|| before.and_then(|before| before.copied_percent)),
    };
    let restarts = observed.migrate().map(|(_, restarts)| restarts);
    let carried = match observed.migrate() {
        Some((ContainerView::Ended { code: 0, message }, _)) => summary::read(&message).carried,
        _ => None,
    };
    let number = |of: fn(&Counts) -> u64, before: Option<i64>| {
        let now = carried
            .as_ref()
            .and_then(|carried| i64::try_from(of(carried)).ok());
        now.or(before)
    };
    Some(MigrationStatus {
        id: migration.id.clone(),
        copied_percent: copied,
        objects: number(
            |carried| carried.objects,
            before.and_then(|before| before.objects),
        ),
        bytes: number(
            |carried| carried.bytes,
            before.and_then(|before| before.bytes),
        ),
        restarts: restarts.filter(|count| *count > 0),
        ..MigrationStatus::default()
    })
}
