//! What the worker of a Job is told.

use super::{HOLD_FILE, HOLD_PATH, JobRequest};
use crate::api::Prefer;
use crate::quantity;
use crate::render::migrate::{BANDWIDTH, DEADLINE, MAX_DELETE, bucket_args, limit};
use crate::render::{DATA_PATH, SOURCE_PATH, minio};
use crate::takeover::JobKind;
use crate::validate::{Migration, ValidatedFilestore};

/// Arguments of the worker.
pub(super) fn args(filestore: &ValidatedFilestore, request: &JobRequest<'_>) -> Vec<String> {
    let local = minio::endpoint();
    let volume = format!("volume:{DATA_PATH}");
    let drive = match request.legacy.source.path.as_str() {
        "" => format!("minio-drive:{SOURCE_PATH}"),
        path => format!("minio-drive:{SOURCE_PATH}/{path}"),
    };
    let (command, from, to) = match request.kind {
        JobKind::Copy => ("copy", request.legacy.endpoint.as_str(), volume.as_str()),
        // Reads the empty store that was just started, and writes nothing.
        JobKind::Gate => ("plan", local.as_str(), volume.as_str()),
        JobKind::Final => ("final", drive.as_str(), volume.as_str()),
        JobKind::Back | JobKind::Abandon => ("roll-back", volume.as_str(), local.as_str()),
    };
    let mut args: Vec<String> = ["migrate", command, "--from", from]
        .map(str::to_owned)
        .into();
    if request.kind != JobKind::Abandon {
        args.extend(["--to".to_owned(), to.to_owned()]);
    }
    let mut flag = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    if request.kind != JobKind::Gate {
        flag("--id", request.run);
    }
    let migration = filestore.migration.as_ref();
    if request.kind == JobKind::Final {
        if let Some(migration) = migration {
            flag("--verify", migration.verify.as_str());
        }
        flag("--hold-file", &format!("{HOLD_PATH}/{HOLD_FILE}"));
    }
    if let Some(count) = migration.and_then(|migration| migration.parallelism)
        && request.kind != JobKind::Abandon
    {
        flag("--parallel", &count.to_string());
    }
    if let Some(migration) = migration {
        args.extend(scope_and_limits(migration, request));
    }
    let mut flag = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
    match request.prefer {
        Some(Prefer::Newest) => flag("--prefer", "newest"),
        Some(Prefer::Filestore) => flag("--prefer", "source"),
        Some(Prefer::Legacy) => flag("--prefer", "target"),
        None => {}
    }
    match request.kind {
        // We saw the pods of the legacy store go.
        JobKind::Final => args.push("--source-is-stopped".to_owned()),
        JobKind::Abandon => args.push("--abandon".to_owned()),
        _ => {}
    }
    args
}

/// Which buckets, and how far it may go. The empty store of the gate has no buckets; the way back
/// keeps to those of the marker, and clients wait for it.
fn scope_and_limits(migration: &Migration, request: &JobRequest<'_>) -> Vec<String> {
    let JobRequest { kind, shards, .. } = *request;
    if !matches!(kind, JobKind::Copy | JobKind::Final) {
        return Vec::new();
    }
    let mut args = bucket_args(migration);
    // The final pass keeps to it as long as the legacy store serves beside it.
    let bandwidth = migration.bandwidth.as_deref();
    let bandwidth = bandwidth.map(|all| share_of(all, shards));
    args.extend(limit(BANDWIDTH, bandwidth.as_ref()));
    if shards > 1 {
        let shard = format!("$(JOB_COMPLETION_INDEX)/{shards}");
        args.extend(limit("--shard", Some(&shard)));
    }
    if kind == JobKind::Copy {
        // A final pass that is cut off would have stopped the store for nothing; how long it may
        // be stopped is not its own to say.
        args.extend(limit(DEADLINE, migration.deadline.as_ref()));
    } else {
        args.extend(limit(MAX_DELETE, migration.max_delete.as_ref()));
    }
    args
}

/// What one of several workers may read in a second of what all may.
fn share_of(all: &str, shards: u16) -> String {
    match quantity::nanos(all) {
        Some(nanos) if shards > 1 => {
            let bytes = nanos / 1_000_000_000 / i128::from(shards);
            bytes.max(1).to_string()
        }
        _ => all.to_owned(),
    }
}
