//! Progress as JSON, one document a line: docs/reference/migrate-output.md.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::tracker::Snapshot;

pub(crate) fn time(time: SystemTime) -> String {
    filestore_migrator::state::rfc3339(time)
}

fn known(count: u64) -> Value {
    if count == 0 {
        Value::Null
    } else {
        count.into()
    }
}

/// Where it stands. `event` is `phase` when a phase begins, `progress` in between, `end` at last.
pub(super) fn state(event: &str, now: &Snapshot) -> Value {
    let (done, outcomes) = (now.done, now.outcomes);
    json!({
        "event": event,
        "time": time(SystemTime::now()),
        "phase": now.phase.as_str(),
        "seconds": now.elapsed.as_secs(),
        "objects": {"done": done.objects, "total": known(now.total.objects), "perSecond": now.rate.objects},
        "bytes": {"done": done.bytes, "total": known(now.total.bytes), "perSecond": now.rate.bytes},
        "listed": {"objects": now.listed.objects, "bytes": now.listed.bytes},
        "outcomes": {
            "copied": outcomes.copied,
            "skipped": outcomes.skipped,
            "deleted": outcomes.deleted,
            "failed": outcomes.failed,
        },
        "copiedBytes": now.copied_bytes,
        "retries": now.retries,
        "inFlight": now.in_flight,
        "current": now.current,
        "etaSeconds": now.eta.map(|eta| eta.as_secs()),
        "waiting": now.waiting,
    })
}

/// Something said in words: `failed`, `waiting` or `note`.
pub(super) fn words(event: &str, text: &str) -> Value {
    json!({"event": event, "time": time(SystemTime::now()), "text": text})
}
