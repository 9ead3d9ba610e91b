//! An opened migration: both ends, the state, and the steps that the commands are made of.

mod admit;
mod expect;
mod look;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use filestore_common::BucketName;
use filestore_common::marker::{Marker, MarkerState, SourceIdentity};
use futures::TryStreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::connect::{self, Use};
use crate::copy::Ends;
use crate::fit::fitted;
use crate::pace::Bandwidth;
use crate::pass::{self, Limits, Recorder, Report};
use crate::plan::Conditions;
use crate::policy::Pass;
use crate::s3::{Pace, Patience};
use crate::scope::worker::{self, Turn};
use crate::scope::{Cuts, Range, Scope, ScopedSource, ScopedTarget, View};
use crate::source::{Entry, Listed, Source};
use crate::state::{Checkpoint, State, new_marker, rfc3339};
use crate::target::Target;
use crate::verify::{self, Findings, Mode, Outputs};
use crate::{Error, Event, Kind, Phase, Progress, Result, RunOptions, guard, plan};

/// Rounds of the final pass before a source that keeps changing is given up.
const ROUNDS: u32 = 3;

/// Both ends and what is remembered.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) ends: Ends,
    pub(crate) state: Option<State>,
    pub(crate) identity: SourceIdentity,
    pub(crate) marker: Option<Marker>,
    /// What of both sides is shown to the engine.
    pub(crate) view: Arc<View>,
    /// The right to change the state.
    pub(crate) lock: Option<File>,
    /// Both sides as they are.
    whole: (Arc<dyn Source>, Arc<dyn Target>),
    /// What the last look at both sides found, if they were equal then, or made so.
    equal: look::Equal,
}

/// How waits are reported and ended.
pub(crate) fn patience(
    options: &RunOptions,
    progress: &Arc<dyn Progress>,
    cancel: &CancellationToken,
) -> Patience {
    Patience {
        wait: options.wait,
        cancel: cancel.clone(),
        progress: progress.clone(),
        pace: Pace {
            parallel: options.parallel,
            rate: options.rate,
        },
    }
}

/// Where the target's state is, known before it is opened.
pub(crate) fn state_of(options: &RunOptions) -> Option<State> {
    let directory = match (&options.state_dir, &options.to.location) {
        (Some(directory), _) => Some(directory.clone()),
        (None, crate::Location::Volume(path)) => Some(path.join(".filestore")),
        (None, _) => None,
    };
    directory.map(State::new)
}

/// How much of what was migrated is looked at when the target was handed over.
#[derive(Debug, Clone, Copy)]
enum Extent {
    /// What is asked for, which may be a part of it.
    Asked,
    /// All of it; to ask for less is an error.
    All,
    /// All of it, whatever is asked for.
    Migrated,
}

/// Which objects are looked at: what is asked for, until the target was handed over.
fn scope(options: &RunOptions, marker: Option<&Marker>, extent: Extent) -> Result<Scope> {
    let location = options.from.as_ref().map(|from| &from.location);
    let asked = options
        .scope
        .clone()
        .with_locations(location, &options.to.location)?;
    // A target that started empty beside no source has nothing migrated.
    let handed_over = marker.filter(|marker| {
        (marker.cutover_at.is_some() || marker.follows.is_some()) && marker.source.kind != "none"
    });
    let Some(marker) = handed_over else {
        return Ok(asked);
    };
    let migrated = Scope::recorded(marker.scope.as_ref())?;
    match extent {
        Extent::Asked if !asked.covers(&migrated) => {
            asked.continued(&migrated, false).map(|_| asked)
        }
        Extent::All if !asked.selects_all_of(&migrated) => {
            let problem = format!("leaves out some of what was migrated, {migrated}");
            Err(
                Error::new(Kind::Usage, "compare", asked.to_string(), problem)
                    .with_cure("name no bucket; what was migrated is known"),
            )
        }
        _ => Ok(migrated),
    }
}

/// Announces a step.
pub(crate) fn phase(
    progress: &dyn Progress,
    phase: Phase,
    objects: Option<u64>,
    bytes: Option<u64>,
) {
    progress.event(&Event::Phase {
        phase,
        objects,
        bytes,
    });
}

impl<'a> Session<'a> {
    /// Opens the target for writing beside an opened source.
    pub(crate) async fn open(
        options: &'a RunOptions,
        source: Arc<dyn Source>,
        write: bool,
        patience: &Patience,
    ) -> Result<Self> {
        Self::opened(options, source, write, patience, Extent::Asked).await
    }

    /// The same, of all that was migrated.
    pub(crate) async fn open_migrated(
        options: &'a RunOptions,
        source: Arc<dyn Source>,
        write: bool,
        patience: &Patience,
    ) -> Result<Self> {
        Self::opened(options, source, write, patience, Extent::All).await
    }

    async fn opened(
        options: &'a RunOptions,
        source: Arc<dyn Source>,
        write: bool,
        patience: &Patience,
        extent: Extent,
    ) -> Result<Self> {
        let identity = source.identity().await?;
        let state = state_of(options);
        let marker = state.as_ref().map(State::marker).transpose()?.flatten();
        let scope = scope(options, marker.as_ref(), extent)?;
        let purpose = match (write, options.shard) {
            (false, _) => Use::Look,
            (true, None) => Use::Write,
            (true, Some(_)) => Use::WriteBeside,
        };
        let target = connect::target(&options.to, &options.owner, purpose, patience).await?;
        let session = Self::seen(options, source.clone(), target, identity, patience, scope)?;
        ScopedSource::expect_buckets(&*source, &session.view).await?;
        Ok(session)
    }

    /// A session over ends that are open already.
    pub(crate) fn with_ends(
        options: &'a RunOptions,
        source: Arc<dyn Source>,
        target: Arc<dyn Target>,
        identity: SourceIdentity,
        patience: &Patience,
    ) -> Result<Self> {
        let state = state_of(options);
        let marker = state.as_ref().map(State::marker).transpose()?.flatten();
        let scope = scope(options, marker.as_ref(), Extent::Migrated)?;
        Self::seen(options, source, target, identity, patience, scope)
    }

    /// A session over what of both ends is in `scope`.
    pub(crate) fn seen(
        options: &'a RunOptions,
        source: Arc<dyn Source>,
        target: Arc<dyn Target>,
        mut identity: SourceIdentity,
        patience: &Patience,
        scope: Scope,
    ) -> Result<Self> {
        let state = state_of(options);
        // Read again: the target is ours only now.
        let marker = state.as_ref().map(State::marker).transpose()?.flatten();
        let selected = |name: &String| scope.buckets.target_name(name).is_some();
        identity.buckets.retain(selected);
        let view = Arc::new(View::new(scope, Range::default()));
        let whole = (source.clone(), target.clone());
        let source = ScopedSource::wrap(source, &view);
        let target = ScopedTarget::wrap(target, &view, options.create_buckets);
        let ends = Ends {
            source: fitted(source, target.naming()),
            target,
            progress: patience.progress.clone(),
            cancel: patience.cancel.clone(),
            parallel: options.parallel.max(1),
            wait: options.wait,
            bandwidth: options.bandwidth.map(Bandwidth::new),
        };
        Ok(Self {
            options,
            ends,
            state,
            identity,
            marker,
            view,
            lock: None,
            whole,
            equal: look::Equal::default(),
        })
    }

    /// Shows only `range` of what is in scope.
    fn narrow(&mut self, range: Range) {
        let (source, target) = &self.whole;
        self.view = Arc::new(View::new(self.view.scope.clone(), range));
        let source = ScopedSource::wrap(source.clone(), &self.view);
        self.ends.source = fitted(source, target.naming());
        let create = self.options.create_buckets;
        self.ends.target = ScopedTarget::wrap(target.clone(), &self.view, create);
    }

    /// The state; of a shard also the right to begin, when the others are done with it.
    async fn turn(&mut self) -> Result<Option<Turn>> {
        if self.options.shard.is_none() {
            self.hold()?;
            return Ok(None);
        }
        let Some(state) = &self.state else {
            let target = self.options.to.location.to_string();
            let problem = "workers must agree, and an S3 target keeps no state";
            return Err(Error::new(Kind::Usage, "migrate to", target, problem)
                .with_cure("give them one directory that all of them see with --state-dir"));
        };
        let turn = Turn::wait(state, &self.ends).await?;
        self.hold()?;
        Ok(Some(turn))
    }

    /// Shows only the shard of this worker, as cut before, or as cut now and not recorded.
    pub(crate) async fn look_at_shard(&mut self) -> Result<()> {
        let Some(shard) = self.options.shard else {
            return Ok(());
        };
        let known = match (&self.state, &self.marker) {
            (Some(state), Some(marker)) => worker::known_cuts(state, &marker.run_id, shard.count)?,
            _ => None,
        };
        let cuts: Cuts = match known {
            Some(cuts) => cuts,
            None => worker::cut(&self.ends, shard.count).await?,
        };
        self.narrow(cuts.range(shard));
        Ok(())
    }

    /// Lets go of the target, so that a gateway can open it.
    pub(crate) async fn close(self) {
        let target = self.ends.target.clone();
        drop(self);
        target.close().await;
    }

    /// Takes the right to change the state and reads the marker again, which was not ours before.
    pub(crate) fn hold(&mut self) -> Result<()> {
        if let (None, Some(state)) = (&self.lock, &self.state) {
            self.lock = Some(state.lock("migrate to", self.options.shard.is_some())?);
            self.marker = state.marker()?;
        }
        Ok(())
    }

    /// After a pause: the source must be the store that it was, and may have got buckets.
    ///
    /// # Errors
    /// [`Kind::Refused`] when it is another one.
    pub(crate) async fn look_again(&mut self) -> Result<()> {
        self.equal.set(None);
        let source = &self.whole.0;
        let mut identity = source.identity().await?;
        guard::require_source(&self.identity, &identity)?;
        ScopedSource::expect_buckets(&**source, &self.view).await?;
        let buckets = &self.view.scope.buckets;
        identity
            .buckets
            .retain(|name| buckets.target_name(name).is_some());
        if let Some(marker) = &mut self.marker {
            marker.source = identity.clone();
        }
        self.identity = identity;
        Ok(())
    }

    fn refuse(&self, message: impl Into<Box<str>>) -> Error {
        Error::new(
            Kind::Refused,
            "migrate to",
            self.ends.target.traits().location,
            message,
        )
    }

    /// Begins or resumes: guards first, then the marker `copying`.
    ///
    /// # Errors
    /// [`Kind::Refused`].
    pub(crate) async fn begin(&mut self, pass: Pass) -> Result<()> {
        let _turn = self.turn().await?;
        let asked = self.view.scope.clone();
        let mut recorded = None;
        if let Some(marker) = &self.marker {
            self.admit(marker)?;
            let begun = Scope::recorded(marker.scope.as_ref())?;
            recorded = Some((asked.continued(&begun, pass == Pass::Final)?, begun));
        }
        guard::prove_different(&self.ends, &self.options.to.location).await?;
        if !self.options.create_buckets {
            ScopedTarget::expect_buckets(&*self.ends.source, &*self.ends.target).await?;
        }
        let empty = self.target_is_empty().await?;
        let run_id = self.run_id();
        let mut marker = self
            .marker
            .take()
            .unwrap_or_else(|| new_marker(&run_id, self.identity.clone()));
        let fresh = marker.updated_at == marker.started_at && marker.digest.is_none();
        marker.state = MarkerState::Copying;
        marker.source = self.identity.clone();
        let mut widened = None;
        marker.scope = match recorded {
            None => asked.record(),
            Some((now, begun)) => {
                let record = now.record();
                widened = (now != begun).then_some(begun);
                record
            }
        };
        if let Some(state) = &self.state {
            let mut checkpoint = state.checkpoint(&run_id)?;
            if fresh && checkpoint == Checkpoint::default() {
                checkpoint.target_was_empty = empty;
                state.set_checkpoint(&run_id, &checkpoint)?;
            } else if let Some(begun) = widened.filter(|_| checkpoint.target_was_empty)
                && !self.holds_only_of(&begun).await?
            {
                // What lies outside of the earlier scope was not copied by this migration.
                checkpoint.target_was_empty = false;
                state.set_checkpoint(&run_id, &checkpoint)?;
            }
            state.set_marker(&mut marker)?;
        }
        self.marker = Some(marker);
        if let (Some(shard), Some(state)) = (self.options.shard, &self.state) {
            let cuts = worker::agreed_cuts(&self.ends, state, &run_id, shard.count).await?;
            self.narrow(cuts.range(shard));
        }
        Ok(())
    }

    /// The run's name: given, the marker's, or a new one.
    pub(crate) fn run_id(&self) -> String {
        let known = self.marker.as_ref().map(|marker| marker.run_id.clone());
        known
            .or_else(|| self.options.run_id.clone())
            .unwrap_or_else(|| {
                format!("run-{}", rfc3339(SystemTime::now()).replace([':', '-'], ""))
            })
    }

    /// Whether no bucket of the target holds an object.
    pub(crate) async fn target_is_empty(&self) -> Result<bool> {
        self.holds_only(|_, _| false).await
    }

    /// Whether each object of the target is one that `known` takes.
    async fn holds_only(&self, known: impl Fn(&BucketName, &Entry) -> bool) -> Result<bool> {
        for bucket in self.ends.target.buckets().await? {
            let mut listing = self.ends.target.list(&bucket.name);
            while let Some(item) = listing.try_next().await? {
                let (Listed::Object(entry) | Listed::Outside(entry)) = item else {
                    continue;
                };
                self.ends.go_on()?;
                if !guard::is_probe(&entry) && !known(&bucket.name, &entry) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether the target holds nothing outside of `scope`.
    async fn holds_only_of(&self, scope: &Scope) -> Result<bool> {
        self.holds_only(|bucket, entry| {
            scope.buckets.source_name(bucket).is_some()
                && scope.keys.takes(entry.key.as_str())
                && scope.window.contains(entry.last_modified)
        })
        .await
    }

    /// The plan.
    pub(crate) async fn plan(&self) -> Result<plan::Plan> {
        self.planned(None).await
    }

    /// The plan with an estimate of the time.
    pub(crate) async fn planned(&self, measure: Option<Duration>) -> Result<plan::Plan> {
        phase(&*self.ends.progress, Phase::Plan, None, None);
        let migration = self.marker.as_ref().map(|marker| marker.state);
        let conditions = Conditions::new(self.options, migration);
        let plan = plan::plan(&self.ends, &conditions, measure).await?;
        let equal = plan.create + plan.replace + plan.delete == 0;
        self.equal.set(equal.then(|| plan.hidden_examples.clone()));
        Ok(plan)
    }

    /// Refuses before anything is written, where the flags ask for what only a plan can tell.
    pub(crate) async fn precheck(&self) -> Result<()> {
        if !self.options.needs_plan() {
            return Ok(());
        }
        self.plan().await?.refusal().map_or(Ok(()), Err)
    }

    /// Where a pass records how far it came.
    fn recorder<'r>(&'r self, pass: Pass, run_id: &'r str) -> Result<Recorder<'r>> {
        let mut checkpoint = match &self.state {
            Some(state) => state.checkpoint(run_id)?,
            None => Checkpoint::default(),
        };
        if let (Pass::Final, Some(state)) = (pass, &self.state) {
            checkpoint.unflushed = worker::doubt(state, run_id, checkpoint.unflushed.take())?;
        }
        let scope = self.marker.as_ref().map(|marker| marker.scope.as_ref());
        Ok(Recorder {
            state: self.state.as_ref(),
            run_id,
            checkpoint,
            whole: self.view.scope.covers(&Scope::recorded(scope.flatten())?),
        })
    }

    /// What may be deleted.
    fn limits(&self) -> Limits {
        Limits {
            delete_foreign: self.options.delete_extraneous,
            max_delete: self.options.max_delete,
        }
    }

    /// Whether the final pass may delete what `report` found on the target alone, as far as it
    /// is known before: a refusal must not come when everybody waits.
    ///
    /// # Errors
    /// [`Kind::Refused`].
    pub(crate) fn admit_deletes(&self, report: &Report) -> Result<()> {
        let Some(state) = self.state.as_ref().filter(|_| report.failed == 0) else {
            return Ok(());
        };
        let checkpoint = state.checkpoint(&self.run_id())?;
        pass::admit(
            report.extraneous,
            checkpoint.target_was_empty,
            self.limits(),
        )
    }

    /// One pass.
    pub(crate) async fn pass(&self, pass: Pass) -> Result<Report> {
        self.equal.set(None);
        let run_id = worker::checkpoint_id(&self.run_id(), self.options.shard);
        let mut recorder = self.recorder(pass, &run_id)?;
        let limits = self.limits();
        let report = Box::pin(pass::run(
            &self.ends,
            pass,
            limits,
            self.options.durability,
            &mut recorder,
        ))
        .await?;
        if let (Pass::Final, Some(state), 0) = (pass, &self.state, report.failed) {
            worker::settled(state, &run_id)?;
        }
        let equal = report.failed + report.extraneous == 0;
        self.equal.set(equal.then(|| report.hidden.clone()));
        Ok(report)
    }

    /// Final passes until both sides are equal, at most [`ROUNDS`].
    pub(crate) async fn settle(&self, mode: Mode) -> Result<(Report, Findings)> {
        let run_id = self.run_id();
        let manifest = self.state.as_ref().map(|state| state.manifest(&run_id));
        let outputs = Outputs {
            report: None,
            manifest: manifest.as_deref(),
        };
        let still = self.ends.source.still().await?;
        if mode == Mode::Listing
            && let Some(found) = self.look(&outputs).await?
        {
            self.is_still(still.as_ref()).await?;
            return Ok(found);
        }
        let mut total: Option<Report> = None;
        for round in 1.. {
            phase(&*self.ends.progress, Phase::Final, None, None);
            self.expect()?;
            let mut report = self.pass(Pass::Final).await?;
            if let Some(earlier) = total.take() {
                report.add(&earlier);
            }
            phase(
                &*self.ends.progress,
                Phase::Verify,
                Some(report.objects),
                (mode != Mode::Listing).then_some(report.object_bytes),
            );
            let findings = verify::verify(&self.ends, mode.into(), &outputs).await?;
            if findings.differences() == 0 {
                self.is_still(still.as_ref()).await?;
            }
            if findings.differences() == 0 || report.failed > 0 || round >= ROUNDS {
                return Ok((report, findings));
            }
            total = Some(report);
        }
        Err(self.refuse("no round was made"))
    }

    /// Writes the marker after a verification without differences.
    pub(crate) fn conclude(&mut self, findings: &Findings) -> Result<()> {
        phase(&*self.ends.progress, Phase::Mark, None, None);
        let Some(marker) = &mut self.marker else {
            return Ok(());
        };
        marker.carried = findings.carried.clone();
        marker.digest = Some(findings.digest.clone());
        marker.not_carried = findings.tally.clone().into_marker();
        let left = !marker.not_carried.is_empty();
        marker.not_carried_hash = left.then(|| findings.tally.hash());
        marker.accepted_by = left.then(|| self.options.acceptance()).flatten();
        marker.state = MarkerState::Verified;
        if self.options.cutover {
            marker.state = MarkerState::Cutover;
            marker.cutover_at = Some(rfc3339(SystemTime::now()));
        }
        match &self.state {
            Some(state) => state.set_marker(marker),
            None => Ok(()),
        }
    }
}
