//! A round of copying that several pods share: an Indexed Job, `--shard INDEX/COUNT` each.
//!
//! A worker that was killed or lost is started again alone and goes on where it was. One that told
//! why it ended is not: what it said does not go away by itself, and the operator makes the next
//! round.

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{Affinity, PodAffinity, PodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{JOB_LABEL, JobRequest, RUN_LABEL};
use crate::render::NAME_LABEL;

/// Starts of a worker after its first.
const AGAIN: i32 = 3;

/// Exit codes of a worker that told why it ended (docs/reference/exit-codes.md): all but those of
/// a store that did not answer, and of signals.
const TOLD: [i32; 7] = [1, 2, 3, 5, 6, 7, 8];

/// The code of a store that did not answer, or of time that was over.
const RETRYABLE: i32 = 4;

/// Makes it the Job of `count` workers. With a `deadline` the code that says so is an end as well:
/// a worker that started again would get all of the time once more.
pub(super) fn share(spec: &mut JobSpec, count: u16, deadline: bool) {
    let mut ends = TOLD.to_vec();
    if deadline {
        ends.push(RETRYABLE);
        ends.sort_unstable();
    }
    spec.completion_mode = Some("Indexed".to_owned());
    spec.completions = Some(i32::from(count));
    spec.parallelism = Some(i32::from(count));
    // Kubernetes counts by index then.
    spec.backoff_limit = None;
    spec.backoff_limit_per_index = Some(AGAIN);
    spec.pod_failure_policy = Some(PodFailurePolicy {
        rules: vec![
            PodFailurePolicyRule {
                action: "FailIndex".to_owned(),
                on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
                    container_name: None,
                    operator: "In".to_owned(),
                    values: ends,
                }),
                on_pod_conditions: None,
            },
            // A node that is drained is nobody's failure.
            PodFailurePolicyRule {
                action: "Ignore".to_owned(),
                on_exit_codes: None,
                on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                    status: "True".to_owned(),
                    type_: "DisruptionTarget".to_owned(),
                }]),
            },
        ],
    });
}

/// All on the node of the first: a volume that one node mounts is nowhere else.
pub(super) fn beside_each_other(name: &str, request: &JobRequest<'_>) -> Affinity {
    let labels = [
        (NAME_LABEL, name),
        (RUN_LABEL, request.run),
        (JOB_LABEL, request.kind.as_str()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Affinity {
        pod_affinity: Some(PodAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![PodAffinityTerm {
                label_selector: Some(LabelSelector {
                    match_labels: Some(labels.into()),
                    ..LabelSelector::default()
                }),
                topology_key: "kubernetes.io/hostname".to_owned(),
                ..PodAffinityTerm::default()
            }]),
            ..PodAffinity::default()
        }),
        ..Affinity::default()
    }
}
