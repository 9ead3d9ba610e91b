//! What the cluster shows of one Filestore at one moment.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStatus, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use kube::ResourceExt as _;

use crate::extras::Found;
use crate::render::{GATEWAY_CONTAINER, MIGRATE_CONTAINER};
use crate::takeover::Takeover;
use crate::told::Told;

/// Objects that bear on a Filestore; `None` = not there.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The claim for the data, made by us or named by the spec.
    pub claim: Option<PersistentVolumeClaim>,
    /// The claim with a legacy drive, where the spec names one.
    pub source_claim: Option<PersistentVolumeClaim>,
    /// The Deployment by the Filestore's name.
    pub deployment: Option<Deployment>,
    /// The Service by the Filestore's name.
    pub service: Option<Service>,
    /// The ServiceAccount by the Filestore's name.
    pub service_account: Option<ServiceAccount>,
    /// Pods that wear the selector labels.
    pub pods: Vec<Pod>,
    /// Optional objects.
    pub extras: Found,
    /// The take-over of a legacy store in the namespace, where the spec asks for one.
    pub takeover: Option<Takeover>,
    /// What the pod's metrics tell.
    pub told: Told,
    /// The Secret that the gateway follows could not be made: a pod would find no keys.
    pub no_keys: bool,
    /// Version of the Secret with the keys of a running source; read where a pod is to be started
    /// with it.
    pub source_keys: Option<String>,
}

/// How a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerView {
    /// Not started, with the kubelet's reason (`ImagePullBackOff`) and message.
    Waiting {
        /// Why.
        reason: String,
        /// The kubelet's words.
        message: String,
    },
    /// It runs.
    Running,
    /// It ended, or waits to be started again after it ended.
    Ended {
        /// Exit status.
        code: i32,
        /// Termination message.
        message: String,
    },
}

impl Observed {
    /// The pod that counts: the newest that is not being deleted.
    pub fn pod(&self) -> Option<&Pod> {
        self.pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .max_by_key(|pod| {
                let created = pod.metadata.creation_timestamp.as_ref();
                (created.map(|time| time.0), pod.name_any())
            })
    }

    /// Whether the server of that pod runs, ready or not.
    pub fn serves(&self) -> bool {
        let status = self.pod().and_then(|pod| pod.status.as_ref());
        let containers = status.and_then(|status| status.container_statuses.as_ref());
        let found = containers.and_then(|all| all.iter().find(|one| one.name == GATEWAY_CONTAINER));
        found.and_then(view) == Some(ContainerView::Running) && self.address().is_some()
    }

    /// Where that pod can be asked for its metrics: the server or the take-over runs in it.
    pub fn address(&self) -> Option<IpAddr> {
        let status = self.pod()?.status.as_ref()?;
        status.pod_ip.as_deref()?.parse().ok()
    }

    /// Where to ask how it stands: a Job at work, else that pod.
    pub fn asked(&self) -> Option<IpAddr> {
        let seen = self.takeover.as_ref();
        seen.and_then(Takeover::working).or_else(|| self.address())
    }

    /// Whether that pod is ready.
    pub fn pod_ready(&self) -> bool {
        self.pod_condition("Ready")
            .is_some_and(|(status, _)| status)
    }

    /// Since when that pod is ready.
    pub fn ready_since(&self) -> Option<Timestamp> {
        let conditions = self.pod()?.status.as_ref()?.conditions.as_ref()?;
        let found = conditions
            .iter()
            .find(|found| found.type_ == "Ready" && found.status == "True")?;
        found.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Why no node takes the pod, if so.
    pub fn unschedulable(&self) -> Option<String> {
        let (scheduled, message) = self.pod_condition("PodScheduled")?;
        (!scheduled).then_some(message)
    }

    fn pod_condition(&self, kind: &str) -> Option<(bool, String)> {
        let conditions = self.pod()?.status.as_ref()?.conditions.as_ref()?;
        let found = conditions.iter().find(|found| found.type_ == kind)?;
        Some((
            found.status == "True",
            found.message.clone().unwrap_or_default(),
        ))
    }

    /// The take-over's container and how often it was started again.
    pub fn migrate(&self) -> Option<(ContainerView, i32)> {
        let status = self.pod()?.status.as_ref()?;
        let found = status.init_container_statuses.iter().flatten();
        let found = found
            .into_iter()
            .find(|one| one.name == MIGRATE_CONTAINER)?;
        Some((view(found)?, found.restart_count))
    }

    /// Whether the take-over in that pod gets nowhere with what it was started with: it failed and
    /// waits to be started again, or the source does not let it begin.
    pub fn migrate_is_stuck(&self) -> bool {
        match self.migrate() {
            Some((ContainerView::Ended { code, .. }, _)) => code != 0,
            Some((ContainerView::Running, _)) => self.told.connecting_fails,
            _ => false,
        }
    }

    /// Exit status and message with which the take-over's container ended before it was started
    /// again, if it failed.
    pub fn migrate_before(&self) -> Option<(i32, String)> {
        let status = self.pod()?.status.as_ref()?;
        let found = status.init_container_statuses.iter().flatten();
        let found = found
            .into_iter()
            .find(|one| one.name == MIGRATE_CONTAINER)?;
        let ended = found.last_state.as_ref()?.terminated.as_ref()?;
        let message = ended.message.as_deref().unwrap_or_default().trim();
        (ended.exit_code != 0).then(|| (ended.exit_code, message.to_owned()))
    }

    /// The first container of the pod, in the order in which they run, that keeps it from
    /// serving.
    pub fn hindrance(&self) -> Option<(String, ContainerView)> {
        let status = self.pod()?.status.as_ref()?;
        let init = status.init_container_statuses.iter().flatten();
        let main = status.container_statuses.iter().flatten();
        init.chain(main).find_map(|found| match view(found)? {
            ContainerView::Ended { code: 0, .. } if found.name != GATEWAY_CONTAINER => None,
            ContainerView::Running => None,
            ContainerView::Waiting { reason, .. }
                if matches!(
                    reason.as_str(),
                    "PodInitializing" | "ContainerCreating" | ""
                ) =>
            {
                None
            }
            other => Some((found.name.clone(), other)),
        })
    }
}

/// How a container stands; `None` when nothing is known yet.
pub fn view(status: &ContainerStatus) -> Option<ContainerView> {
    let ended = |state: &ContainerState| {
        let ended = state.terminated.as_ref()?;
        let reason = ended.reason.clone().unwrap_or_default();
        Some(ContainerView::Ended {
            code: ended.exit_code,
            // Killed for memory, for example, leaves no message but a reason.
            message: match ended.message.as_deref().map(str::trim) {
                Some(message) if !message.is_empty() => message.to_owned(),
                _ if matches!(reason.as_str(), "Error" | "Completed") => String::new(),
                _ => reason,
            },
        })
    };
    let state = status.state.as_ref()?;
    if state.running.is_some() {
        return Some(ContainerView::Running);
    }
    if let Some(ended) = ended(state) {
        return Some(ended);
    }
    let waiting = state.waiting.as_ref()?;
    let reason = waiting.reason.clone().unwrap_or_default();
    // Waiting to be started again: how it ended says more.
    if reason == "CrashLoopBackOff"
        && let Some(ended) = status.last_state.as_ref().and_then(ended)
    {
        return Some(ended);
    }
    Some(ContainerView::Waiting {
        reason,
        message: waiting.message.clone().unwrap_or_default(),
    })
}
