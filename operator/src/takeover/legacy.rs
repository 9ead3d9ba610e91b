//! Finds the legacy MinIO of a namespace: its workload, drive, Services and keys.

use k8s_openapi::api::core::v1::{Container, Service};

use super::wear;
use super::workload::Workload;
use crate::api::{NamedObject, SourceStatus};
use crate::minio;
use crate::status::{Problem, reason};
use crate::validate::{InCluster, KeyPair, Wanted};

/// A legacy MinIO.
#[derive(Clone, Debug, PartialEq)]
pub struct Legacy {
    /// Its Deployment or StatefulSet.
    pub workload: Workload,
    /// What is recorded of it.
    pub source: SourceStatus,
    /// URL of its S3 API.
    pub endpoint: String,
    /// Keys that it is started with, where they come from a Secret.
    pub keys: Option<KeyPair>,
    /// The container that serves.
    pub container: Container,
    /// A label or port with which the new pod cannot take its place, in words.
    pub conflict: Option<String>,
}

/// What the namespace holds.
#[derive(Clone, Copy, Debug)]
pub struct Namespace<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its Deployments and StatefulSets.
    pub workloads: &'a [Workload],
    /// Its Services.
    pub services: &'a [Service],
}

/// The legacy store that is meant; `None` when there is none.
///
/// # Errors
/// There are several, or it is one that cannot be taken over in the cluster.
pub fn find(
    filestore: &str,
    cluster: &InCluster,
    recorded: Option<&SourceStatus>,
    namespace: Namespace<'_>,
) -> Result<Option<Legacy>, Problem> {
    let workload = match recorded {
        Some(source) => namespace
            .workloads
            .iter()
            .find(|found| found.kind == source.kind && found.name() == source.workload.name),
        None => candidate(&cluster.wanted, namespace)?,
    };
    let Some(workload) = workload else {
        return Ok(None);
    };
    understand(filestore, workload, namespace)
        .map(Some)
        .map_err(|why| Problem {
            reason: reason::SOURCE_UNSUPPORTED,
            message: format!(
                "{} cannot be taken over in the cluster: {why}; name migration.source.endpoint, or existingClaim once it is stopped",
                workload.title()
            ),
        })
}

fn candidate<'a>(
    wanted: &Wanted,
    namespace: Namespace<'a>,
) -> Result<Option<&'a Workload>, Problem> {
    let others = namespace
        .workloads
        .iter()
        .filter(|workload| !workload.is_of_a_filestore());
    let found: Vec<&Workload> = match wanted {
        Wanted::Workload(named) => others
            .filter(|workload| workload.kind == named.kind && workload.name() == named.name)
            .collect(),
        Wanted::Service(name) => {
            let service = namespace
                .services
                .iter()
                .find(|service| service.metadata.name.as_ref() == Some(name));
            let Some(service) = service else {
                return Ok(None);
            };
            others
                .filter(|workload| wear::selects(service, &workload.pod_labels()))
                .collect()
        }
        Wanted::Any => others
            .filter(|workload| minio::is_minio(workload))
            .collect(),
    };
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        several => {
            let mut names: Vec<String> = several.iter().map(|one| one.title()).collect();
            names.sort();
            Err(Problem {
                reason: reason::AMBIGUOUS_SOURCE,
                message: format!(
                    "{} look like legacy stores; name one under migration.source.workload",
                    names.join(", ")
                ),
            })
        }
    }
}

/// Reads what a take-over has to know; in words why it cannot be.
fn understand(
    filestore: &str,
    workload: &Workload,
    namespace: Namespace<'_>,
) -> Result<Legacy, String> {
    // What was begun is brought to an end, whatever became of its Services.
    let begun = workload
        .record()
        .is_some_and(|record| record.by == filestore);
    if workload.replicas > 1 && !begun {
        return Err(format!(
            "it has {} replicas, and one drive of several holds no complete object",
            workload.replicas
        ));
    }
    let Some(spec) = &workload.template.spec else {
        return Err("it has no pod template".to_owned());
    };
    let container = minio::server(workload).ok_or("it has no container")?;
    let (claim, path) = minio::drive(workload, container)?;
    let port = wear::api_port(container);
    let labels = workload.pod_labels();
    let (services, conflict) = wear::services(filestore, &labels, port, container, namespace);
    if workload.name() == filestore || services.iter().any(|service| service.name == filestore) {
        return Err("it has the name of the Filestore; give the Filestore another".to_owned());
    }
    let first = services.first();
    if first.is_none() && !begun {
        return Err("no Service leads to its S3 port".to_owned());
    }
    let name = first.map_or_else(|| workload.name(), |first| first.name.as_str());
    let service_port = wear::service_port(name, port, container, namespace);
    let uid = |metadata: &kube::core::ObjectMeta| metadata.uid.clone().unwrap_or_default();
    let keys = minio::keys(spec, container);
    let keys = keys.and_then(|[(secret, access_key), (other, secret_key)]| {
        (secret == other).then_some(KeyPair {
            secret,
            access_key,
            secret_key,
        })
    });
    Ok(Legacy {
        endpoint: format!(
            "http://{}.{}.svc:{}",
            name,
            namespace.name,
            service_port.unwrap_or(9000)
        ),
        source: SourceStatus {
            kind: workload.kind,
            workload: NamedObject {
                name: workload.name().to_owned(),
                uid: uid(&workload.metadata),
            },
            labels: wear::labels(&services, &labels, namespace),
            services,
            claim: NamedObject {
                name: claim,
                uid: String::new(),
            },
            path,
            secret: keys.as_ref().map(|keys| keys.secret.clone()),
            image: container.image.clone().unwrap_or_default(),
            user: minio::user(spec, container),
            replicas: workload.record().map(|record| record.replicas),
        },
        keys,
        workload: workload.clone(),
        container: container.clone(),
        conflict,
    })
}
