//! How the take-over of a legacy store in the cluster stands, from its stage.

use filestore_common::marker::Counts;
use jiff::Timestamp;

use super::migrated::{cure, reason_of_end};
use super::{Verdict, reason};
use crate::api::{FilestoreStatus, FreezeStatus, MigrationStatus, PlanStatus};
use crate::observed::Observed;
use crate::takeover::{Back, JobKind, JobState, JobView, Mark, Stage, Takeover, plan_of, views};
use crate::validate::{InCluster, ValidatedFilestore};

/// Condition `Migrated`.
pub(super) fn condition(
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    observed: &Observed,
    stage: &Stage,
) -> Verdict {
    let seen = observed.takeover.as_ref();
    let jobs = seen.map_or_else(Vec::new, |seen| {
        let run = seen.run(&filestore.name, cluster);
        views(&seen.jobs, &seen.job_pods, &run)
    });
    let jobs = Jobs {
        all: &jobs,
        observed,
    };
    let no = |reason, message: String| Verdict::new(false, reason, message);
    match stage {
        Stage::Fresh(None) => Verdict::new(
            true,
            reason::NOTHING_TO_MIGRATE,
            "no source is named and nothing in the namespace looks like a MinIO, or the named one does not exist",
        ),
        Stage::Fresh(Some(why)) => Verdict::new(true, reason::NOTHING_TO_MIGRATE, why.clone()),
        Stage::Blocked(problem) => Verdict::of(problem),
        Stage::Suspended => no(
            reason::PENDING,
            "suspend is true; the legacy store serves".to_owned(),
        ),
        Stage::Make { kind, .. } => jobs.once_more(*kind, None)
            .unwrap_or_else(|| no(reason_of_kind(*kind), before(*kind))),
        Stage::Clears => jobs.once_more(JobKind::Final, None).unwrap_or_else(|| {
            no(
                reason::PREPARING,
                "a pod of this store has to go first".to_owned(),
            )
        }),
        Stage::Runs(job) => running(&jobs, job),
        Stage::Waits(job, until) => no(
            failed(job),
            format!("{}; tried again at {until:.0}, the legacy store serves", told(job)),
        ),
        Stage::Approval(plan) => no(reason::AWAITING_APPROVAL, approval(filestore, plan)),
        Stage::Freeze(_) | Stage::Stops => no(
            reason::CUTTING_OVER,
            "the legacy store is being stopped".to_owned(),
        ),
        Stage::Go(_) | Stage::Final(_) => no(
            reason::CUTTING_OVER,
            "the legacy store is stopped, the final pass works".to_owned(),
        ),
        Stage::Start => no(reason::CUTTING_OVER, "the new store starts".to_owned()),
        Stage::HandOver(_) => no(
            reason::CUTTING_OVER,
            observed
                .takeover
                .as_ref()
                .and_then(|seen| seen.trouble.clone())
                .unwrap_or_else(|| "the new store is tried and handed over".to_owned()),
        ),
        Stage::GiveUp(_, why) => no(
            reason::CUTOVER_FAILED,
            format!("{why}; the legacy store is started again"),
        ),
        Stage::Served { diverged, writers, .. } => served(observed, diverged.as_deref(), *writers),
        Stage::Back(back) => way_back(&jobs, back),
        Stage::RolledBack => no(
            reason::ROLLED_BACK,
            "the legacy store serves again; take it over again with a new migration.id, or delete this Filestore".to_owned(),
        ),
    }
}

fn served(observed: &Observed, diverged: Option<&str>, writers: bool) -> Verdict {
    let name = observed
        .takeover
        .as_ref()
        .and_then(Takeover::legacy)
        .map_or_else(String::new, |legacy| legacy.workload.title());
    if writers {
        return Verdict::new(
            false,
            reason::WRITERS_SEEN,
            format!("{name} was started after the hand-over and is being stopped"),
        );
    }
    if let Some(who) = diverged {
        return Verdict::new(
            false,
            reason::DIVERGED,
            format!(
                "{name} was started after the hand-over by {who} and may have taken writes; docs/cutover.md, Afterwards, says how to see which"
            ),
        );
    }
    let trouble = observed
        .takeover
        .as_ref()
        .and_then(|seen| seen.trouble.clone());
    let text = trouble.unwrap_or_else(|| "the legacy store was taken over".to_owned());
    Verdict::new(true, reason::COMPLETED, text)
}

fn way_back(jobs: &Jobs<'_>, back: &Back) -> Verdict {
    let no = |text: String| Verdict::new(false, reason::ROLLING_BACK, text);
    match back {
        Back::Off => no("the new store is being stopped".to_owned()),
        Back::Make(kind, ..) => jobs
            .once_more(*kind, None)
            .unwrap_or_else(|| no("the next Job is made".to_owned())),
        Back::Runs(job) if job.kind == JobKind::Abandon => {
            no("the way back is given up, the new store will serve again".to_owned())
        }
        Back::Runs(job) => jobs
            .once_more(job.kind, Some(job))
            .unwrap_or_else(|| no("what changed since the hand-over goes back".to_owned())),
        Back::Stop(_) => no("the way back is being stopped".to_owned()),
        Back::Restore => no("the legacy store is being started".to_owned()),
        Back::Waits(job, until) => Verdict::new(
            false,
            failed(job),
            format!("{}; tried again at {until:.0}", told(job)),
        ),
    }
}

fn reason_of_kind(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Copy => reason::PRECOPYING,
        _ => reason::PREPARING,
    }
}

fn before(kind: JobKind) -> String {
    match kind {
        JobKind::Copy => "a round of copying begins; the legacy store serves".to_owned(),
        _ => "the cut-over is prepared; the legacy store serves".to_owned(),
    }
}

/// Jobs of the run, and what the one at work tells.
struct Jobs<'a> {
    all: &'a [JobView],
    observed: &'a Observed,
}

impl Jobs<'_> {
    /// Why the last Job of this kind failed, until `now`, the one after it, got further: whoever
    /// looks in between has to see it.
    fn once_more(&self, kind: JobKind, now: Option<&JobView>) -> Option<Verdict> {
        let mut jobs = self.all.iter();
        let last = jobs
            .rfind(|job| job.kind == kind && now.is_none_or(|now| job.number < now.number))
            .filter(|last| last.aborted.is_some() || last.is_over() && !last.is_done())
            // One that failed was no hindrance.
            .filter(|last| last.kind != JobKind::Gate)?;
        // A final pass got further when it waits for the word, which is another stage.
        let further = now.is_some_and(|now| {
            let through = last.summary.through.unwrap_or_default();
            // A conflict is found in the midst of the way back; only a correction promises more.
            let may_be = kind == JobKind::Copy || kind == JobKind::Back && now.failures == 0;
            may_be && self.observed.told.is_beyond(through)
        });
        if further {
            return None;
        }
        let text = format!("{}; it is tried again", told(last));
        Some(Verdict::new(false, failed(last), text))
    }
}

fn running(jobs: &Jobs<'_>, job: &JobView) -> Verdict {
    let no = |reason, text: String| Verdict::new(false, reason, text);
    let before = jobs.once_more(job.kind, Some(job));
    if let JobState::Starting(Some(why)) = &job.state {
        let text = format!("the pod of Job {} does not start: {why}", job.name);
        return match before {
            Some(before) => no(before.reason, format!("{}, but {text}", before.message)),
            None => no(reason_of_kind(job.kind), text),
        };
    }
    if job.kind == JobKind::Copy && jobs.observed.told.connecting_fails {
        let text = format!(
            "the legacy store does not answer; the log of Job {} says how",
            job.name
        );
        return no(reason::SOURCE_UNREACHABLE, text);
    }
    let text = match job.kind {
        JobKind::Copy if !job.workers.is_empty() => {
            let done = job.workers.iter().filter(|worker| worker.is_done());
            format!(
                "round {} of copying, {} of {} workers done; the legacy store serves",
                job.round,
                done.count(),
                job.workers.len()
            )
        }
        JobKind::Copy => format!("round {} of copying; the legacy store serves", job.round),
        JobKind::Gate => "the image of the legacy store is tried".to_owned(),
        _ => "the final pass gets ready; the legacy store serves".to_owned(),
    };
    before.unwrap_or_else(|| no(reason_of_kind(job.kind), text))
}

fn failed(job: &JobView) -> &'static str {
    let code = match job.state {
        JobState::Ended { code } => Some(reason_of_end(code, &job.summary)),
        _ => None,
    };
    match (job.kind, code) {
        (JobKind::Final, _) => reason::CUTOVER_FAILED,
        // A conflict needs a person, everything else may pass.
        (JobKind::Back | JobKind::Abandon, Some(reason::DIVERGED | reason::REFUSED)) => {
            code.unwrap_or(reason::ROLLING_BACK)
        }
        (JobKind::Back | JobKind::Abandon, _) => reason::ROLLING_BACK,
        (_, code) => code.unwrap_or(reason::INTERRUPTED),
    }
}

fn told(job: &JobView) -> String {
    if let Some(why) = &job.aborted {
        return why.clone();
    }
    match &job.state {
        JobState::Ended { code } if job.summary.text.is_empty() => {
            format!("Job {} ended with exit code {code}", job.name)
        }
        JobState::Ended { code } => format!("{}{}", job.summary.text, cure(*code, &job.summary)),
        JobState::Lost(why) => format!("Job {}: {why}", job.name),
        _ => format!("Job {}", job.name),
    }
}

fn approval(filestore: &ValidatedFilestore, plan: &PlanStatus) -> String {
    let back = if plan.way_back {
        ""
    } else {
        "there is NO WAY BACK to a running MinIO: its image cannot be started here; "
    };
    let left = if plan.left_behind.is_empty() {
        "nothing stays behind".to_owned()
    } else {
        format!("what stays behind: {}", plan.left_behind.join(", "))
    };
    format!(
        "{back}{left}; to approve: kubectl patch fst {} --type=merge -p '{{\"spec\":{{\"migration\":{{\"approve\":\"{}\"}}}}}}'",
        filestore.name, plan.hash
    )
}

/// Numbers and names of the take-over.
pub(super) fn numbers(
    filestore: &ValidatedFilestore,
    cluster: &InCluster,
    observed: &Observed,
    previous: &FilestoreStatus,
    stage: &Stage,
) -> MigrationStatus {
    let id = filestore
        .migration
        .as_ref()
        .and_then(|found| found.id.clone());
    let before = previous
        .migration
        .clone()
        .filter(|before| before.id == id)
        .unwrap_or_default();
    let Some(seen) = &observed.takeover else {
        return MigrationStatus { id, ..before };
    };
    let record = seen.record().filter(|record| record.by == filestore.name);
    let run = seen.run(&filestore.name, cluster);
    let jobs = views(&seen.jobs, &seen.job_pods, &run);
    let last = |kind| jobs.iter().rfind(|job| job.kind == kind);
    let copied = last(JobKind::Copy);
    let latest = jobs.iter().max_by_key(|job| (job.at, job.kind));
    let done = matches!(stage, Stage::Served { .. });
    let carried = last(JobKind::Final)
        .filter(|job| job.is_done())
        .and_then(|job| job.summary.carried.clone());
    let number = |of: fn(&Counts) -> u64, told: Option<i64>, before: Option<i64>| {
        let carried = carried
            .as_ref()
            .and_then(|found| i64::try_from(of(found)).ok());
        carried.or(told).or(before)
    };
    let told = &observed.told;
    let gate = last(JobKind::Gate).filter(|gate| gate.is_over());
    let source = seen.source();
    let handed_over = match stage {
        Stage::Served { .. } => Some(run),
        Stage::Back(_) => before.handed_over.clone(),
        _ => None,
    };
    MigrationStatus {
        // What runs after a round that ended well looks at it once more.
        copied_percent: if done || copied.is_some_and(JobView::is_done) {
            Some(100)
        } else {
            told.copied_percent.or(before.copied_percent)
        },
        objects: number(|found| found.objects, told.objects, before.objects),
        bytes: number(|found| found.bytes, told.bytes, before.bytes),
        restarts: None,
        rounds: copied
            .map(|job| i32::try_from(job.round).unwrap_or(i32::MAX))
            .or(before.rounds),
        job: latest.map(|job| job.name.clone()).or(before.job),
        plan: gate
            .zip(source.as_ref())
            .map(|(gate, source)| plan_of(filestore, cluster, source, copied, gate.is_done()))
            .or(before.plan),
        source,
        freeze: freeze(
            observed,
            record
                .as_ref()
                .map(|record| (record.stage, record.at, record.job.as_str())),
            &jobs,
            before.freeze,
        ),
        handed_over,
        id,
    }
}

/// How the freeze was spent so far. Once it is over, it is not computed again: a pod that starts
/// anew would make it longer.
fn freeze(
    observed: &Observed,
    record: Option<(Mark, Timestamp, &str)>,
    jobs: &[JobView],
    before: Option<FreezeStatus>,
) -> Option<FreezeStatus> {
    let Some((mark, began, name)) = record else {
        return before;
    };
    let started_at = format!("{began:.0}");
    let known = before.filter(|before| before.started_at == started_at);
    if mark == Mark::RolledBack
        || known
            .as_ref()
            .is_some_and(|known| known.total_seconds.is_some())
    {
        return known;
    }
    let job = jobs.iter().find(|job| job.name == name);
    let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs().max(0);
    let went = job.and_then(|job| job.went);
    let ended = job.filter(|job| job.is_done()).and_then(|job| job.at);
    let ready = observed.ready_since();
    Some(FreezeStatus {
        stop_seconds: went.map(|went| seconds(began, went)),
        final_seconds: went.zip(ended).map(|(went, ended)| seconds(went, ended)),
        start_seconds: ended.zip(ready).map(|(ended, ready)| seconds(ended, ready)),
        total_seconds: ended.and(ready).map(|ready| seconds(began, ready)),
        started_at,
    })
}
