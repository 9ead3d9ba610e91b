//! Jobs of a take-over: rounds of copying, the final pass that waits, the way back.
//!
//! A Job is made once and its template never changes. It runs one pod and is not tried again by
//! itself: the operator paces, and reads why the last one failed. A round of copying may be shared
//! by several ([`workers`]).

mod args;
mod workers;

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EmptyDirVolumeSource,
    HTTPGetAction, LocalObjectReference, NodeAffinity, NodeSelector, NodeSelectorRequirement,
    NodeSelectorTerm, ObjectFieldSelector, PodSpec, PodTemplateSpec, Probe, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;

use super::ADMIN_PORT;
use super::container::{
    DATA_VOLUME, SOURCE_VOLUME, container, env, key_env, secret_env, source_mount,
};
use super::labels::{COMPONENT_LABEL, NAME_LABEL};
use super::migrate::{MIGRATE_CONTAINER, TERMINATION_LOG};
use super::minio;
use super::pod::{claim_volume, security_context};
use super::prepare::layout;
use crate::api::Prefer;
use crate::takeover::{JobKind, Legacy};
use crate::validate::{KeyPair, ValidatedFilestore};

/// Label of a Job and its pod: the run.
pub const RUN_LABEL: &str = "filestore.ryax.tech/run";

/// Label of a Job and its pod: what for.
pub const JOB_LABEL: &str = "filestore.ryax.tech/job";

/// Annotation of a Job: its number among those of its kind.
pub const NUMBER_ANNOTATION: &str = "filestore.ryax.tech/number";

/// Annotation of a Job: its round within its run.
pub const ROUND_ANNOTATION: &str = "filestore.ryax.tech/round";

/// Annotation of a Job: how many before it failed in a row.
pub const FAILURES_ANNOTATION: &str = "filestore.ryax.tech/failures";

/// Annotation of a Job: a name for all that it uses.
pub const USED_ANNOTATION: &str = "filestore.ryax.tech/used";

/// Annotation of a Job: the failed one before it, where what that used has changed since.
pub const AFTER_ANNOTATION: &str = "filestore.ryax.tech/after";

/// Annotation of a Job: why it was given up.
pub const ABORTED_ANNOTATION: &str = "filestore.ryax.tech/aborted";

/// Annotation of a Job: when it was given up, RFC 3339.
pub const ABORTED_AT_ANNOTATION: &str = "filestore.ryax.tech/aborted-at";

/// Annotation of the final pass's pod that lets it go on; the kubelet puts it into a file.
pub const GO_ANNOTATION: &str = "filestore.ryax.tech/go";

/// Its value.
pub const GO: &str = "go";

/// Where that file is.
const HOLD_PATH: &str = "/hold";
const HOLD_FILE: &str = "go";
const HOLD_VOLUME: &str = "hold";

/// Longest time for the image of the legacy store to come and start.
const GATE_SECONDS: i64 = 300;

/// A Job to be.
#[derive(Clone, Copy, Debug)]
pub struct JobRequest<'a> {
    /// What for.
    pub kind: JobKind,
    /// Its number among those of its kind.
    pub number: u32,
    /// Its round within its run.
    pub round: u32,
    /// How many before it failed in a row.
    pub failures: u32,
    /// Name of the run.
    pub run: &'a str,
    /// Node that it has to run on: where the legacy drive is mounted.
    pub node: Option<&'a str>,
    /// How many pods share it; 1 = a plain Job.
    pub shards: u16,
    /// Pods on several nodes may mount the volume.
    pub spread: bool,
    /// The legacy store.
    pub legacy: &'a Legacy,
    /// Its keys.
    pub keys: &'a KeyPair,
    /// Who wins on the way back.
    pub prefer: Option<Prefer>,
}

/// The Job, for a Filestore that is dressed for the take-over.
pub fn job(filestore: &ValidatedFilestore, request: &JobRequest<'_>) -> Job {
    let kind = request.kind.as_str();
    let labels: BTreeMap<String, String> = [
        (NAME_LABEL, filestore.name.as_str()),
        (COMPONENT_LABEL, "take-over"),
        (RUN_LABEL, request.run),
        (JOB_LABEL, kind),
        ("app.kubernetes.io/managed-by", "filestore"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let annotations: BTreeMap<String, String> = [
        (NUMBER_ANNOTATION, request.number),
        (ROUND_ANNOTATION, request.round),
        (FAILURES_ANNOTATION, request.failures),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_string()))
    .into();
    let mut spec = JobSpec {
        backoff_limit: Some(0),
        active_deadline_seconds: (request.kind == JobKind::Gate).then_some(GATE_SECONDS),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels.clone()),
                annotations: Some(filestore.pod.annotations.clone())
                    .filter(|annotations| !annotations.is_empty()),
                ..ObjectMeta::default()
            }),
            spec: Some(pod(filestore, request)),
        },
        ..JobSpec::default()
    };
    if request.shards > 1 {
        let migration = filestore.migration.as_ref();
        let deadline = migration.is_some_and(|migration| migration.deadline.is_some());
        workers::share(&mut spec, request.shards, deadline);
    }
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{kind}-{}", filestore.name, request.number)),
            namespace: filestore.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        ..Job::default()
    }
}

fn pod(filestore: &ValidatedFilestore, request: &JobRequest<'_>) -> PodSpec {
    let init: Vec<Container> = match request.kind {
        JobKind::Copy | JobKind::Final => layout(filestore).into_iter().collect(),
        JobKind::Gate | JobKind::Back => vec![minio::minio(request)],
        JobKind::Abandon => Vec::new(),
    };
    let secrets = filestore.pod.image_pull_secrets.iter();
    let mut secrets: Vec<_> = secrets
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    if matches!(request.kind, JobKind::Gate | JobKind::Back) {
        let legacy = request.legacy.workload.template.spec.as_ref();
        secrets.extend(
            legacy
                .and_then(|pod| pod.image_pull_secrets.clone())
                .into_iter()
                .flatten(),
        );
    }
    let placement = filestore.placement.clone();
    PodSpec {
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        node_selector: (!placement.node_selector.is_empty()).then_some(placement.node_selector),
        tolerations: (!placement.tolerations.is_empty()).then_some(placement.tolerations),
        priority_class_name: placement.priority_class_name,
        init_containers: (!init.is_empty()).then_some(init),
        containers: vec![worker(filestore, request)],
        volumes: Some(volumes(filestore, request)),
        security_context: Some(security_context(&filestore.security)),
        restart_policy: Some("Never".to_owned()),
        service_account_name: Some(filestore.name.clone()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        affinity: affinity(&filestore.name, request),
        ..PodSpec::default()
    }
}

/// Where the pod has to run.
fn affinity(name: &str, request: &JobRequest<'_>) -> Option<Affinity> {
    match request.node {
        _ if request.shards > 1 && request.spread => None,
        None if request.shards > 1 => Some(workers::beside_each_other(name, request)),
        node => node.map(on_node),
    }
}

/// A drive that one node mounts can be read beside its owner on that node only.
fn on_node(name: &str) -> Affinity {
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![name.to_owned()]),
        }]),
        ..NodeSelectorTerm::default()
    };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn worker(filestore: &ValidatedFilestore, request: &JobRequest<'_>) -> Container {
    let mut variables = vec![
        secret_env(
            "FILESTORE_OWNER",
            &filestore.root.secret,
            &filestore.root.access_key,
        ),
        env("FILESTORE_ADMIN_ADDR", format!("0.0.0.0:{ADMIN_PORT}")),
        env("FILESTORE_SUMMARY_FILE", TERMINATION_LOG),
    ];
    match request.kind {
        JobKind::Copy | JobKind::Gate => variables.extend(key_env(
            request.keys,
            "FILESTORE_FROM_ACCESS_KEY",
            "FILESTORE_FROM_SECRET_KEY",
        )),
        JobKind::Back => variables.extend(key_env(
            request.keys,
            "FILESTORE_TO_ACCESS_KEY",
            "FILESTORE_TO_SECRET_KEY",
        )),
        JobKind::Final | JobKind::Abandon => {}
    }
    let mut worker = Container {
        env: Some(variables),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..container(filestore, MIGRATE_CONTAINER, args::args(filestore, request))
    };
    if request.kind == JobKind::Final {
        let mounts = worker.volume_mounts.get_or_insert_default();
        mounts.push(source_mount());
        mounts.push(VolumeMount {
            name: HOLD_VOLUME.to_owned(),
            mount_path: HOLD_PATH.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
        // Ready = it waits for the word, everything opened and up to date.
        worker.readiness_probe = Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/readyz".to_owned()),
                port: IntOrString::Int(i32::from(ADMIN_PORT)),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(1),
            timeout_seconds: Some(5),
            failure_threshold: Some(3),
            ..Probe::default()
        });
    }
    worker
}

fn volumes(filestore: &ValidatedFilestore, request: &JobRequest<'_>) -> Vec<Volume> {
    let claim = &request.legacy.source.claim.name;
    let data = claim_volume(DATA_VOLUME, &filestore.storage.claim, false);
    match request.kind {
        JobKind::Copy | JobKind::Abandon => vec![data],
        JobKind::Final => vec![
            data,
            // Read-only as a volume: the kubelet then leaves the owner of the files alone.
            claim_volume(SOURCE_VOLUME, claim, true),
            hold(),
        ],
        JobKind::Gate => vec![
            empty(DATA_VOLUME),
            empty(SOURCE_VOLUME),
            empty(minio::SCRATCH),
        ],
        JobKind::Back => vec![
            data,
            claim_volume(SOURCE_VOLUME, claim, false),
            empty(minio::SCRATCH),
        ],
    }
}

fn empty(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

fn hold() -> Volume {
    Volume {
        name: HOLD_VOLUME.to_owned(),
        downward_api: Some(DownwardAPIVolumeSource {
            items: Some(vec![DownwardAPIVolumeFile {
                path: HOLD_FILE.to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    field_path: format!("metadata.annotations['{GO_ANNOTATION}']"),
                    ..ObjectFieldSelector::default()
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
            ..DownwardAPIVolumeSource::default()
        }),
        ..Volume::default()
    }
}
