//! A Job as it would be made now, and a name for all that it uses: a failed one is tried again at
//! once when that has changed.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{JobKind, JobView, Legacy, Takeover, access_modes, dressed, next_number};
use crate::observed::Observed;
use crate::render::{self, AFTER_ANNOTATION, JobRequest, USED_ANNOTATION};
use crate::validate::{InCluster, KeyPair, ValidatedFilestore};

/// In place of a part that is not known yet.
const UNKNOWN: &str = "-";

/// What Jobs of a run are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts<'a> {
    pub(super) filestore: &'a ValidatedFilestore,
    pub(super) cluster: &'a InCluster,
    pub(super) observed: &'a Observed,
    pub(super) seen: &'a Takeover,
    pub(super) legacy: &'a Legacy,
    pub(super) run: &'a str,
}

/// Keys of the legacy store.
pub fn source_keys<'a>(
    filestore: &'a ValidatedFilestore,
    cluster: &'a InCluster,
    legacy: &'a Legacy,
) -> &'a KeyPair {
    let named = cluster.keys.as_ref();
    named.or(legacy.keys.as_ref()).unwrap_or(&filestore.root)
}

impl Attempts<'_> {
    /// The next Job of its kind; `last` is the one before it.
    pub(super) fn job(
        &self,
        kind: JobKind,
        round: u32,
        failures: u32,
        last: Option<&JobView>,
    ) -> Job {
        let mut job = self.rendered(kind, round, failures);
        let annotations = job.metadata.annotations.get_or_insert_default();
        if let Some(last) = last.filter(|last| !last.is_done() && self.has_changed(last)) {
            annotations.insert(AFTER_ANNOTATION.to_owned(), last.name.clone());
        }
        if let Some(used) = self.used(kind) {
            annotations.insert(USED_ANNOTATION.to_owned(), used);
        }
        job
    }

    /// Whether what a Job used is another by now. One that does not say what it used, an older
    /// version of the operator has made.
    pub(super) fn has_changed(&self, job: &JobView) -> bool {
        let known = job.used.as_deref().zip(self.used(job.kind));
        known.is_some_and(|(then, now)| {
            let parts = then.split('.').zip(now.split('.'));
            parts
                .into_iter()
                .any(|(then, now)| then != now && then != UNKNOWN && now != UNKNOWN)
        })
    }

    /// Names all that a Job of this kind uses and that a person may correct: the spec, Secrets, the
    /// claim and its size, the legacy claim, 16 hexadecimal digits or [`UNKNOWN`] each. `None` while Secrets are not looked at.
    fn used(&self, kind: JobKind) -> Option<String> {
        let mut spec = json!(self.rendered(kind, 0, 0).spec);
        // Where the legacy pod happens to run is nobody's correction.
        if let Some(pod) = spec["template"]["spec"].as_object_mut() {
            pod.remove("affinity");
        }
        // The others read the drive: keys are no reason to stop clients once more.
        let with_keys = matches!(kind, JobKind::Copy | JobKind::Gate | JobKind::Back);
        // By version: a hash of the values would help to guess them.
        let secrets = self.seen.secrets.as_ref()?;
        let parts = [
            name(&spec),
            name(&json!(with_keys.then_some(secrets))),
            uid(self.observed.claim.as_ref()),
            self.size().map_or_else(unknown, |size| name(&json!(size))),
            uid(self.observed.source_claim.as_ref()),
        ];
        Some(parts.join("."))
    }

    /// What the volume has; before it is there, what it is to have.
    fn size(&self) -> Option<&str> {
        let claim = self.observed.claim.as_ref();
        let status = claim.and_then(|claim| claim.status.as_ref());
        let has = status.and_then(|status| status.capacity.as_ref()?.get("storage"));
        let wants = self.filestore.storage.new.as_ref();
        has.map(|size| size.0.as_str())
            .or_else(|| wants.map(|new| new.size.as_str()))
    }

    fn rendered(&self, kind: JobKind, round: u32, failures: u32) -> Job {
        let Self {
            filestore,
            cluster,
            seen,
            legacy,
            ..
        } = *self;
        let source = seen.source().unwrap_or_else(|| legacy.source.clone());
        let node = seen
            .legacy_pods
            .iter()
            .find_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
        let migration = filestore.migration.as_ref();
        let shards = migration.map_or(1, |migration| migration.shards);
        let request = JobRequest {
            kind,
            shards: if kind == JobKind::Copy { shards } else { 1 },
            spread: access_modes(filestore, self.observed).contains(&"ReadWriteMany"),
            number: next_number(&seen.jobs, kind),
            round,
            failures,
            run: self.run,
            node,
            legacy,
            keys: source_keys(filestore, cluster, legacy),
            prefer: cluster.back.flatten().filter(|_| kind == JobKind::Back),
        };
        render::job(&dressed(filestore, &source, self.run), &request)
    }
}

fn name(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    hex::encode(digest.get(..8).unwrap_or_default())
}

fn uid(claim: Option<&PersistentVolumeClaim>) -> String {
    let uid = claim.and_then(|claim| claim.metadata.uid.as_ref());
    uid.map_or_else(unknown, |uid| name(&json!(uid)))
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}
