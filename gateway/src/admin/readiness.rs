//! Whether clients may be sent here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filestore_common::marker::{Marker, MarkerState};
use filestore_common::shutdown::CancellationToken;
use filestore_store::Store;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::VOLUME_PATIENCE;

/// Answers are kept this long: several probes (kubelet, operator, people) cost one.
const KEPT: Duration = Duration::from_secs(1);

/// Looks at the volume on request.
#[derive(Debug)]
pub(super) struct Readiness {
    store: Arc<Store>,
    require_marker: Option<String>,
    shutdown: CancellationToken,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    /// A look that has not come back: a hung volume is not looked at twice.
    looking: Option<JoinHandle<Result<(), String>>>,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    at: Instant,
    /// Changes of the marker that were known before the look.
    changes: u64,
    told: Result<(), String>,
}

impl Readiness {
    pub(super) fn new(
        store: Arc<Store>,
        require_marker: Option<String>,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            store,
            require_marker,
            shutdown,
            last: Mutex::new(Last::default()),
        }
    }

    /// `Err` says why not.
    pub(super) async fn check(&self) -> Result<(), String> {
        if self.shutdown.is_cancelled() {
            return Err("shutting down".to_owned());
        }
        let mut last = self.last.lock().await;
        let changes = self.store.marker_changes();
        if let Some(answer) = &last.answer
            && answer.at.elapsed() < KEPT
            && answer.changes == changes
        {
            return answer.told.clone();
        }
        let looking = last.looking.get_or_insert_with(|| {
            let (store, marker) = (Arc::clone(&self.store), self.require_marker.clone());
            tokio::task::spawn_blocking(move || look(&store, marker.as_deref()))
        });
        let answer = match tokio::time::timeout(VOLUME_PATIENCE, looking).await {
            Err(_) => return Err("the volume does not answer".to_owned()),
            Ok(joined) => joined.unwrap_or_else(|error| Err(error.to_string())),
        };
        last.looking = None;
        last.answer = Some(Answer {
            at: Instant::now(),
            changes,
            told: answer.clone(),
        });
        answer
    }
}

fn look(store: &Store, require_marker: Option<&str>) -> Result<(), String> {
    store
        .probe()
        .map_err(|error| format!("volume is not usable: {error}"))?;
    let marker = store
        .marker()
        .map_err(|error| format!("migration marker: {error}"))?;
    belongs_to_clients(marker.as_ref(), require_marker)
}

/// Whether clients may be led here. Without a migration to wait for, all but one that went back.
fn belongs_to_clients(marker: Option<&Marker>, require_marker: Option<&str>) -> Result<(), String> {
    match (marker, require_marker) {
        (Some(marker), _) if marker.state == MarkerState::RollingBack => Err(format!(
            "migration {} is being rolled back to the legacy store; finish that with `filestore \
             migrate roll-back`, or give it up with `filestore migrate roll-back --abandon`",
            marker.run_id
        )),
        (Some(marker), _) if marker.state == MarkerState::RolledBack => Err(format!(
            "migration {} was rolled back: the legacy store serves its clients again; take it \
             over again with a new id",
            marker.run_id
        )),
        (_, None) => Ok(()),
        (marker, Some(run)) => cut_over(marker, run),
    }
}

/// Whether the volume belongs to its clients, by the migration that was asked for or because it
/// was taken over as it was (`adopted`; such a volume has no id of ours).
fn cut_over(marker: Option<&Marker>, run: &str) -> Result<(), String> {
    let Some(marker) = marker else {
        return Err("the migration has not begun".to_owned());
    };
    if marker.run_id != run && marker.source.kind != "adopted" {
        return Err(format!(
            "the volume holds migration {}, not {run}",
            marker.run_id
        ));
    }
    match marker.state {
        MarkerState::Cutover => Ok(()),
        state => Err(format!("the migration is {state}, not cutover")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(state: &str) -> Marker {
        let text = format!(
            r#"{{"version":1,"runId":"run-7","state":"{state}","holder":"h",
                "startedAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z",
                "source":{{"kind":"s3","location":"http://minio","buckets":[]}},
                "carried":{{"buckets":0,"objects":0,"bytes":0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_went_back_is_never_ready() {
        for required in [None, Some("run-7")] {
            for state in ["rollingBack", "rolledBack"] {
                let told = belongs_to_clients(Some(&marker(state)), required).unwrap_err();
                assert!(told.contains("roll"), "{told}");
            }
        }
        for state in ["copying", "verified", "cutover"] {
            assert_eq!(belongs_to_clients(Some(&marker(state)), None), Ok(()));
        }
        assert_eq!(belongs_to_clients(None, None), Ok(()));
    }

    #[test]
    fn only_cutover_of_the_named_run_is_ready() {
        assert!(cut_over(None, "run-7").unwrap_err().contains("not begun"));
        for state in ["copying", "verified", "rollingBack", "rolledBack"] {
            assert!(cut_over(Some(&marker(state)), "run-7").is_err(), "{state}");
        }

        assert_eq!(cut_over(Some(&marker("cutover")), "run-7"), Ok(()));

        let other = cut_over(Some(&marker("cutover")), "run-8").unwrap_err();
        assert!(other.contains("run-7"), "{other}");
        let mut adopted = marker("cutover");
        "adopted".clone_into(&mut adopted.source.kind);
        assert_eq!(cut_over(Some(&adopted), "run-8"), Ok(()));
    }
}
