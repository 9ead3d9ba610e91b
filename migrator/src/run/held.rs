//! The state of a handed-over target: held by one program at a time, and written after each step.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use filestore_common::BucketName;
use filestore_common::marker::{MARKER_FILE, Marker, MarkerState};

use crate::copy::Ends;
use crate::manifest::{self, CarriedDigest};
use crate::reconcile::{DIVERGENCE_FILE, Deletes, Found, Task, reconcile};
use crate::scope::Scope;
use crate::session::phase;
use crate::state::State;
use crate::{Endpoint, Error, ExitCode, Kind, Location, Phase, Result};

/// Rounds before stores that keep changing are given up.
const ROUNDS: u32 = 3;

/// Marker and state of a target that was handed over, locked against other programs.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) state: State,
    pub(super) marker: Marker,
    _lock: File,
}

/// Where the state of a served store lies.
pub(super) fn state_beside(served: &Endpoint, given: Option<&std::path::PathBuf>) -> Result<State> {
    match (given, &served.location) {
        (Some(directory), _) => Ok(State::new(directory.clone())),
        (None, Location::Volume(path)) => Ok(State::new(path.join(".filestore"))),
        (None, location) => Err(Error::new(
            Kind::Usage,
            "open the migration of",
            location.to_string(),
            "an S3 endpoint keeps no marker",
        )
        .with_cure(
            "give the directory of marker and manifest with --state-dir: the one that the \
             migration was given, or `.filestore` of the volume",
        )),
    }
}

/// Opens the migration of a store that was handed over.
///
/// # Errors
/// [`Kind::Refused`] when none was, or when there is nothing to compare with.
pub(super) fn hold(state: State, what: &'static str) -> Result<Held> {
    served(&state, what)?;
    let lock = state.lock(what, false)?;
    // Read again: whoever held it may have moved the marker on.
    let marker = served(&state, what)?;
    Ok(Held {
        state,
        marker,
        _lock: lock,
    })
}

/// The marker of a store that was handed over.
fn served(state: &State, what: &'static str) -> Result<Marker> {
    let place = state.directory().display().to_string();
    let refuse = |problem: &str| Error::new(Kind::Refused, what, place.clone(), problem);
    let marker = state
        .marker()?
        .ok_or_else(|| refuse("no migration was begun here"))?;
    match marker.state {
        MarkerState::Copying | MarkerState::Verified => {
            return Err(refuse("was not handed over to clients yet")
                .with_cure("until then `filestore migrate run` makes it equal to the source"));
        }
        MarkerState::Cutover | MarkerState::RollingBack | MarkerState::RolledBack => {}
    }
    match marker.source.kind.as_str() {
        "adopted" => {
            let problem =
                "was migrated by an earlier chart, which left no manifest to compare with";
            Err(refuse(problem))
        }
        "none" => Err(refuse("there was no legacy store")),
        _ => Ok(marker),
    }
}

impl Held {
    /// Records what a reconciliation found.
    pub(super) fn record(&mut self, found: &Found) -> Result<()> {
        record(&self.state, &mut self.marker, found)
    }

    /// Moves the marker on.
    pub(super) fn enter(&mut self, state: MarkerState) -> Result<()> {
        self.marker.state = state;
        self.state.set_marker(&mut self.marker)
    }

    /// Brings the marker to the manifest where a command ended before it recorded what it did.
    pub(super) fn refresh(&mut self) -> Result<()> {
        refresh(&self.state, &mut self.marker)
    }

    /// Buckets that both sides had, by their names on the served store.
    pub(super) fn known_buckets(&self) -> Result<BTreeSet<BucketName>> {
        known_buckets(&self.marker)
    }
}

/// Digest, counts and divergence go into the marker.
pub(super) fn record(state: &State, marker: &mut Marker, found: &Found) -> Result<()> {
    if let Some((digest, counts)) = &found.manifest {
        marker.digest = Some(digest.clone());
        marker.carried.objects = counts.objects;
        marker.carried.bytes = counts.bytes;
    }
    marker.diverged = found.diverged();
    state.set_marker(marker)
}

/// Brings a marker to the manifest where a command ended before it recorded what it did (a refused
/// deletion, a store that went away, time that was over).
pub(super) fn refresh(state: &State, marker: &mut Marker) -> Result<()> {
    let written = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|file| file.modified())
            .ok()
    };
    let path = state.manifest(&marker.run_id);
    if written(&path) < written(&state.directory().join(MARKER_FILE)) {
        // The marker always comes last.
        return Ok(());
    }
    let mut manifest = manifest::Reader::open(&path)?;
    let (mut digest, mut objects, mut bytes) = (CarriedDigest::default(), 0, 0);
    while let Some(line) = manifest.line()? {
        if line.settled.is_none() {
            digest.add(&line.bucket, &line.key, line.etag.as_ref(), line.size);
            objects += 1;
            bytes += line.size;
        }
    }
    let listed = state.run_dir(&marker.run_id).join(DIVERGENCE_FILE);
    let diverged = std::fs::metadata(listed).is_ok_and(|file| file.len() > 0);
    let digest = Some(digest.finish());
    if marker.digest == digest && marker.diverged == diverged {
        return Ok(());
    }
    marker.digest = digest;
    marker.carried.objects = objects;
    marker.carried.bytes = bytes;
    marker.diverged = diverged;
    state.set_marker(marker)
}

/// What a trial found, unless the guards of deletions would stop the real thing.
///
/// # Errors
/// [`Kind::Refused`].
pub(super) fn admitted(trial: Found, task: &Task<'_>) -> Result<Found> {
    let deleted = trial.deleted;
    let problem = if task.rules.deletes != Deletes::Apply || deleted == 0 {
        return Ok(trial);
    } else if trial.objects == 0 {
        format!("{deleted} objects would go because the side that is read is empty")
    } else if task.max_delete.is_some_and(|most| deleted > most) {
        format!("{deleted} objects would go, more than --max-delete allows")
    } else {
        return Ok(trial);
    };
    let what = "objects of the other side";
    Err(Error::new(Kind::Refused, "delete", what, problem))
}

/// Buckets that both sides had, by their names on the served store.
pub(super) fn known_buckets(marker: &Marker) -> Result<BTreeSet<BucketName>> {
    let scope = Scope::recorded(marker.scope.as_ref())?;
    let names = marker.source.buckets.iter();
    Ok(names
        .filter_map(|own| scope.buckets.target_name(own))
        .collect())
}

/// Makes the buckets on the written side that the other side got since, an object in them or not;
/// returns them. One that is known and missing was deleted there.
pub(super) async fn make_new_buckets(
    ends: &Ends,
    known: &BTreeSet<BucketName>,
) -> Result<Vec<BucketName>> {
    let there = ends.target.buckets().await?;
    let mut made = Vec::new();
    for bucket in ends.source.buckets().await? {
        if known.contains(&bucket.name) || there.iter().any(|other| other.name == bucket.name) {
            continue;
        }
        ends.target.ensure_bucket(&bucket).await?;
        made.push(bucket.name);
    }
    Ok(made)
}

/// Reconciles until a look at both stores finds nothing more to do; `None` when they keep changing.
/// Ends early with what is undecided or failed.
pub(super) async fn until_done(
    ends: &Ends,
    task: &Task<'_>,
    step: Phase,
    mut record: impl FnMut(&Found) -> Result<()>,
) -> Result<Option<Found>> {
    let mut total: Option<Found> = None;
    for _ in 0..ROUNDS {
        phase(&*ends.progress, step, None, None);
        // Over all rounds together.
        let deleted = total.as_ref().map_or(0, |total| total.deleted);
        let round = Task {
            max_delete: task.max_delete.map(|most| most.saturating_sub(deleted)),
            ..task.clone()
        };
        let mut found = reconcile(ends, &round).await?;
        record(&found)?;
        if let Some(earlier) = &total {
            found.add(earlier);
        }
        if found.exit() != ExitCode::Ok {
            return Ok(Some(found));
        }
        phase(&*ends.progress, Phase::Verify, Some(found.objects), None);
        let look = Task {
            dry_run: true,
            report: None,
            ..task.clone()
        };
        let rest = reconcile(ends, &look).await?;
        if !rest.changed() && rest.exit() == ExitCode::Ok {
            return Ok(Some(found));
        }
        total = Some(found);
    }
    Ok(None)
}
