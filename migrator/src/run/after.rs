//! `run` after cut-over: never destructive, bounded, and never a reason not to serve.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use filestore_common::marker::{Marker, SourceIdentity};
use filestore_common::{BucketName, ObjectKey};
use futures::StreamExt;

use super::{Ending, Outcome, Stage, before, held};
use crate::connect::{self, Use};
use crate::reconcile::{DIVERGENCE_FILE, Deletes, Depth, Found, Rules, Side, Task, reconcile};
use crate::s3::Patience;
use crate::session::{Session, phase, state_of};
use crate::source::{Bucket, Entry, Listing, Object, Source, Tally};
use crate::{Error, ExitCode, Kind, Phase, Result, RunOptions, guard};

fn outcome(ending: Ending, marker: Marker, summary: String) -> Outcome {
    Outcome {
        exit: ExitCode::Ok,
        ending,
        marker: Some(marker),
        summary,
        apart: None,
        undecided: None,
    }
}

/// Compares the source with what was carried. Whatever the source does, the gateway may start.
pub(super) async fn run<F>(
    options: &RunOptions,
    marker: Marker,
    patience: &Patience,
    source: Option<F>,
) -> Result<Outcome>
where
    F: Future<Output = Result<Arc<dyn Source>>>,
{
    let since = marker.cutover_at.clone().unwrap_or_default();
    let not = |marker: Marker, why: String| {
        let summary = format!("cut over at {since}; the source was not compared again: {why}");
        Ok(outcome(Ending::NotRechecked, marker, summary))
    };
    let Some(source) = source else {
        return not(marker, "none is configured".into());
    };
    if marker.source.kind == "adopted" {
        return not(
            marker,
            "this volume was migrated by an earlier chart".into(),
        );
    }
    phase(&*patience.progress, Phase::Recheck, None, None);
    let deadline = Instant::now() + options.recheck;
    let patience = Patience {
        wait: options.recheck,
        ..patience.clone()
    };
    let opened = async {
        let source = source.await?;
        let identity = source.identity().await?;
        Ok::<_, Error>((source, identity))
    };
    let (source, identity) = match tokio::time::timeout(options.recheck, opened).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) if error.kind == Kind::Interrupted => return Err(error),
        Ok(Err(error)) => return not(marker, error.to_string()),
        Err(_) => return not(marker, "it did not answer in time".into()),
    };
    let lock = state_of(options).map(|state| state.lock("compare", false));
    let lock = match lock.transpose() {
        Ok(lock) => lock,
        Err(error) => return not(marker, error.to_string()),
    };
    // Read again: whoever held it may have moved the marker on.
    let marker = still_handed_over(options)?;
    // Not under the time limit: an abandoned attempt would keep the volume from the gateway.
    let target = connect::target(&options.to, &options.owner, Use::Write, &patience).await;
    let target = match target {
        Ok(target) => target,
        // In use (changes are taken back from it, say) or not usable: that the gateway finds out.
        Err(error) if error.kind == Kind::Refused => return not(marker, error.to_string()),
        Err(error) => return Err(error),
    };
    let mut session = Session::with_ends(options, source, target, identity, &patience)?;
    session.lock = lock;
    if marker.source.kind == "none" && session.target_is_empty().await? {
        // Started empty, still empty, and the legacy store is there after all.
        session.marker = None;
        let outcome = before::take_over(&mut session).await;
        session.close().await;
        return outcome;
    }
    if !guard::same_source(&marker.source, &session.identity) {
        let why = format!(
            "{} is not the store that was migrated ({}); copy from it explicitly if you want its \
             objects here",
            session.identity.location, marker.source.location
        );
        session.close().await;
        return not(marker, why);
    }
    let result = compare(&session, &marker, deadline, &patience).await;
    let mut marker = marker;
    if !matches!(&result, Ok(found) if !found.cut_short)
        && let Some(state) = &session.state
    {
        // Nothing may keep the gateway from its volume.
        drop(held::refresh(state, &mut marker));
    }
    let outcome = match result {
        Ok(found) if found.cut_short => {
            let why = format!("time was over after {} objects", found.objects);
            not(marker, why)
        }
        Ok(found) => record(&session, marker, &found, &since),
        Err(error) if error.kind == Kind::Interrupted => Err(error),
        Err(error) => not(marker, error.to_string()),
    };
    session.close().await;
    outcome
}

/// The marker as it is now, of a target that belongs to its clients.
fn still_handed_over(options: &RunOptions) -> Result<Marker> {
    let marker = super::marker(options)?;
    match super::stage(options, marker.as_ref())? {
        Stage::After(marker) => Ok(marker.clone()),
        Stage::Before | Stage::Again(_) => Err(super::moved_on(options)),
    }
}

async fn compare(
    session: &Session<'_>,
    marker: &Marker,
    deadline: Instant,
    patience: &Patience,
) -> Result<Found> {
    guard::prove_different(&session.ends, &session.options.to.location).await?;
    let Some(state) = &session.state else {
        return Err(Error::new(
            Kind::NotFound,
            "open",
            "the manifest",
            "there is no state directory",
        ));
    };
    let task = Task {
        command: "run",
        state,
        run_id: &marker.run_id,
        rules: Rules {
            writes: Side::Served,
            prefer: None,
            deletes: Deletes::List,
        },
        keeps_times: session.ends.target.traits().keeps_last_modified,
        depth: Depth::Changes,
        dry_run: false,
        report: None,
        deadline: Some(deadline),
        max_delete: None,
    };
    let work = reconcile(&session.ends, &task);
    // A source that hangs must not hold the gateway back.
    match tokio::time::timeout_at((deadline + patience.wait / 4).into(), work).await {
        Ok(found) => found,
        Err(_) => Ok(Found {
            cut_short: true,
            ..Found::default()
        }),
    }
}

fn record(
    session: &Session<'_>,
    mut marker: Marker,
    found: &Found,
    since: &str,
) -> Result<Outcome> {
    let mut lines = vec![format!(
        "cut over at {since}; source compared again: {} objects, {} added, {} updated",
        found.objects, found.added, found.updated
    )];
    if found.diverged() {
        let names = found.examples.join(", ");
        let file = session
            .state
            .as_ref()
            .map(|state| state.run_dir(&marker.run_id));
        let file = file.unwrap_or_default().join(DIVERGENCE_FILE);
        lines.push(format!(
            "DIVERGED, nothing overwritten or deleted: {} deleted on the source, {} changed on \
             both sides: {}; all are in {}; `filestore migrate merge` decides",
            found.deleted_on_source,
            found.conflicts,
            names.escape_debug(),
            file.display()
        ));
    }
    if found.failed > 0 {
        lines.push(format!("{} objects could not be merged", found.failed));
    }
    if let Some(state) = &session.state {
        held::record(state, &mut marker, found)?;
    }
    Ok(outcome(Ending::Rechecked, marker, lines.join("\n")))
}

/// The source that does not exist.
#[derive(Debug)]
pub(super) struct NoSource;

#[async_trait]
impl Source for NoSource {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
    async fn identity(&self) -> Result<SourceIdentity> {
        Err(missing())
    }
    async fn buckets(&self) -> Result<Vec<Bucket>> {
        Ok(Vec::new())
    }
    fn list(&self, _bucket: &BucketName) -> Listing {
        futures::stream::once(async { Err(missing()) }).boxed()
    }
    async fn survey(&self, _bucket: &BucketName) -> Result<Tally> {
        Ok(Tally::default())
    }
    async fn open(&self, _bucket: &BucketName, _entry: &Entry) -> Result<Object> {
        Err(missing())
    }
    async fn head(&self, _bucket: &BucketName, _key: &ObjectKey) -> Result<Option<Entry>> {
        Err(missing())
    }
}

fn missing() -> Error {
    Error::new(Kind::Absent, "open", "the source", "does not exist")
}
