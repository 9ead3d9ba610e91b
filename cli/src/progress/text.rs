//! Progress as text: a line on its own, or what stands beside a bar.

use filestore_migrator::plan::{human, span};
use filestore_migrator::progress::Phase;

use super::tracker::{Amount, Snapshot};

fn objects(count: u64) -> String {
    let unit = if count == 1 { "object" } else { "objects" };
    format!("{count} {unit}")
}

/// Objects and, where there are any, bytes.
pub(super) fn amount(amount: Amount) -> String {
    if amount.bytes == 0 {
        return objects(amount.objects);
    }
    format!("{}, {}", objects(amount.objects), human(amount.bytes))
}

/// How far it is.
pub(super) fn state(now: &Snapshot) -> String {
    let mut told = Vec::new();
    let (done, total) = (now.done, now.total);
    if total.objects > 0 {
        told.push(format!("{} of {}", done.objects, objects(total.objects)));
    } else if !matches!(now.phase, Phase::Connect | Phase::Held | Phase::Mark) {
        let listed = objects(now.listed.objects);
        told.push(format!(
            "listing, {listed} so far, {}",
            human(now.listed.bytes)
        ));
    }
    if total.bytes > 0 {
        told.push(format!("{} of {}", human(done.bytes), human(total.bytes)));
    } else if now.moved.bytes > 0 {
        told.push(format!("{} moved", human(now.moved.bytes)));
    }
    if now.rate.objects > 0 {
        told.push(format!("{}/s", objects(now.rate.objects)));
    }
    if now.rate.bytes > 0 {
        told.push(format!("{}/s", human(now.rate.bytes)));
    }
    if let Some(eta) = now.eta.filter(|_| now.permille() != Some(1000)) {
        told.push(format!("ETA {}", span(eta.as_secs())));
    }
    let failed = now.outcomes.failed;
    if failed > 0 {
        told.push(format!("{failed} FAILED"));
    }
    if let Some(error) = &now.waiting {
        told.push(format!("waiting: {error}"));
    } else if told.is_empty() && now.phase == Phase::Held {
        told.push("waiting for `go`".to_owned());
    } else if told.is_empty() && now.phase == Phase::Mark {
        told.push("writing the marker".to_owned());
    } else if told.is_empty() {
        told.push("waiting for an answer".to_owned());
    }
    told.join(", ")
}

/// What a phase did, when it is over; `None` for one that did nothing worth a line.
pub(super) fn over(now: &Snapshot) -> Option<String> {
    let done = match now.phase {
        Phase::Connect | Phase::Held | Phase::Mark => return None,
        Phase::Copy => now.moved,
        _ => Amount {
            objects: now.listed.objects,
            bytes: now.listed.bytes,
        },
    };
    (done.objects > 0).then(|| {
        format!(
            "{}: {} in {}",
            now.phase.as_str(),
            amount(done),
            span(now.phase_elapsed.as_secs())
        )
    })
}
