//! The requests behind the steps of a plan.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service, ServiceAccount};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::api::Error;
use super::extras;
use super::put_back::put_back;
use super::reconcile::Work;
use crate::api::WorkloadKind;
use crate::drift;
use crate::notices::{self, Notice};
use crate::plan::{Apply, HandOver, Kind, Step};
use crate::takeover::Workload;

impl Work<'_> {
    /// Makes the request of a step, and keeps in mind what came of it.
    pub(super) async fn carry_out(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::CreateClaim(claim) => {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                self.observed.claim = self.requests.create(name, claim.as_ref()).await?;
            }
            Step::PatchClaim { name, patch, .. } => {
                let claim: PersistentVolumeClaim = self.requests.merge(name, patch).await?;
                let is = |seen: &Option<PersistentVolumeClaim>| {
                    seen.as_ref()
                        .is_some_and(|seen| seen.metadata.name == claim.metadata.name)
                };
                if is(&self.observed.source_claim) {
                    self.observed.source_claim = Some(claim);
                } else if is(&self.observed.claim) {
                    self.observed.claim = Some(claim);
                }
            }
            Step::Apply(apply) => self.apply(apply).await?,
            Step::Remove(removal) => extras::remove(&self.requests, removal).await?,
            Step::CreateJob(job) => {
                let name = job.metadata.name.as_deref().unwrap_or_default();
                let made = self.requests.create(name, job.as_ref()).await?;
                if let Some(seen) = &mut self.observed.takeover {
                    seen.jobs.extend(made);
                }
            }
            Step::PatchJob { name, patch, .. } => {
                let job: Job = self.requests.merge(name, patch).await?;
                if let Some(seen) = &mut self.observed.takeover {
                    seen.jobs
                        .retain(|old| old.metadata.name != job.metadata.name);
                    seen.jobs.push(job);
                }
            }
            Step::PatchWorkload {
                kind, name, patch, ..
            } => self.patch_workload(*kind, name, patch).await?,
            Step::Go { pod, patch } => {
                let patched: Pod = self.requests.merge(pod, patch).await?;
                if let Some(seen) = &mut self.observed.takeover {
                    let pods = seen.job_pods.iter_mut();
                    for found in pods.filter(|found| found.metadata.name == patched.metadata.name) {
                        found.clone_from(&patched);
                    }
                }
            }
            Step::HandOver(hand_over) => Box::pin(self.hand_over(hand_over)).await?,
        }
        if let Some(notice) = notices::of_step(step) {
            self.context.tell(&notice, &self.about).await;
        }
        Ok(())
    }

    async fn patch_workload(
        &mut self,
        kind: WorkloadKind,
        name: &str,
        patch: &Value,
    ) -> Result<(), Error> {
        let patched = match kind {
            WorkloadKind::Deployment => {
                Workload::from(&self.requests.merge::<Deployment>(name, patch).await?)
            }
            WorkloadKind::StatefulSet => {
                Workload::from(&self.requests.merge::<StatefulSet>(name, patch).await?)
            }
        };
        let seen = self.observed.takeover.as_mut();
        if let Some(Ok(Some(legacy))) = seen.map(|seen| &mut seen.legacy) {
            legacy.workload = patched;
        }
        Ok(())
    }

    /// Tries the new store, writes down that it is handed over, hands it over, in this order: what
    /// goes wrong before the second goes back to the legacy store, afterwards nothing does.
    async fn hand_over(&mut self, hand_over: &HandOver) -> Result<(), Error> {
        let HandOver {
            address,
            run,
            buckets,
            mark,
        } = hand_over;
        let Some(root) = self.root.clone() else {
            return Ok(());
        };
        let stores = Arc::clone(&self.context.stores);
        if let Some(mark) = mark {
            let tried = stores.try_out(*address, &root, buckets.unwrap_or_default());
            if let Err(trouble) = tried.await {
                self.trouble(trouble);
                return Ok(());
            }
            Box::pin(self.carry_out(mark)).await?;
        }
        if let Err(trouble) = stores.hand_over(*address, &root, run).await {
            self.trouble(trouble);
        }
        Ok(())
    }

    fn trouble(&mut self, trouble: String) {
        tracing::warn!(name = ?self.about.name, namespace = ?self.about.namespace, trouble, "The new store cannot be handed over yet");
        if let Some(seen) = &mut self.observed.takeover {
            seen.trouble = Some(trouble);
        }
    }

    async fn apply(&mut self, apply: &Apply) -> Result<(), Error> {
        let Apply {
            kind,
            name,
            object,
            drift,
        } = apply;
        let applied = match kind {
            Kind::ServiceAccount => {
                let live = self.observed.service_account.as_ref();
                let applied: ServiceAccount = self.put_back(apply, live).await?;
                serde_json::to_value(self.observed.service_account.insert(applied))
            }
            Kind::Service => {
                let live = self.observed.service.as_ref();
                let applied: Service = self.put_back(apply, live).await?;
                serde_json::to_value(self.observed.service.insert(applied))
            }
            Kind::Deployment => {
                let live = self.observed.deployment.as_ref();
                let applied: Deployment = self.put_back(apply, live).await?;
                serde_json::to_value(self.observed.deployment.insert(applied))
            }
            Kind::Extra(purpose) => {
                let live = self.observed.extras.get(*purpose, name);
                let applied = extras::apply(&self.requests, *purpose, apply, live).await?;
                let value = serde_json::to_value(&applied.object);
                self.observed.extras.put(applied);
                value
            }
        };
        let applied = applied.map_err(|error| Error::Json(kind.as_str(), error))?;
        let stays = drift::differences(object, &applied);
        if !drift.is_empty() && !stays.is_empty() {
            let notice = Notice::drift_stays(*kind, name, &stays);
            self.context.tell(&notice, &self.about).await;
        }
        Ok(())
    }

    async fn put_back<K>(&self, apply: &Apply, live: Option<&K>) -> Result<K, Error>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        put_back(&self.requests.api(), self.requests.metrics, apply, live).await
    }
}
