//! Finds the legacy MinIO of a namespace: its workload, drive, Services and keys.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, Service, Volume};

use super::wear;
use super::workload::Workload;
use crate::api::{NamedObject, SourceStatus};
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
        Wanted::Any => others.filter(|workload| is_minio(workload)).collect(),
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

/// By its image, or by the labels of Bitnami's chart.
fn is_minio(workload: &Workload) -> bool {
    let by_image = containers(workload)
        .iter()
        .any(|container| container.image.as_deref().is_some_and(is_minio_image));
    let labels = workload.metadata.labels.clone().unwrap_or_default();
    let label = |name: &str| {
        labels
            .get(&format!("app.kubernetes.io/{name}"))
            .map(String::as_str)
    };
    by_image
        || (label("name") == Some("minio") && matches!(label("component"), None | Some("minio")))
}

fn is_minio_image(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split(':').next() == Some("minio")
}

fn containers(workload: &Workload) -> &[Container] {
    let spec = workload.template.spec.as_ref();
    spec.map_or(&[], |spec| spec.containers.as_slice())
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
    let container = spec
        .containers
        .iter()
        .find(|one| one.image.as_deref().is_some_and(is_minio_image))
        .or_else(|| spec.containers.first())
        .ok_or("it has no container")?;
    let (claim, path) = drive(workload, spec, container)?;
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
    let keys = keys(spec, container);
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
            user: user(spec, container),
            replicas: workload.record().map(|record| record.replicas),
        },
        keys,
        workload: workload.clone(),
        container: container.clone(),
        conflict,
    })
}

/// User id of the process, 0 apart: we never run as root.
fn user(spec: &PodSpec, container: &Container) -> Option<i64> {
    let own = container.security_context.as_ref();
    let pod = spec.security_context.as_ref();
    own.and_then(|context| context.run_as_user)
        .or_else(|| pod.and_then(|context| context.run_as_user))
        .filter(|user| *user > 0)
}

fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    let env = container.env.as_deref().unwrap_or_default();
    let found = env.iter().find(|variable| variable.name == name)?;
    found.value.as_deref().filter(|value| !value.is_empty())
}

/// The claim with the drive and the folder in it.
fn drive(
    workload: &Workload,
    spec: &PodSpec,
    container: &Container,
) -> Result<(String, String), String> {
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    let claim_of = |name: &str| {
        let of_volume =
            |volume: &Volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone());
        let volume = volumes.iter().find(|volume| volume.name == name);
        volume
            .and_then(of_volume)
            .or_else(|| workload.claims.get(name).cloned())
    };
    let mounts: Vec<_> = container
        .volume_mounts
        .iter()
        .flatten()
        .filter_map(|mount| Some((mount, claim_of(&mount.name)?)))
        .collect();
    let directory = data_directory(container);
    let inside = |mount_path: &str, directory: &str| {
        let rest = directory.strip_prefix(mount_path.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_matches('/').to_owned())
    };
    let found = match &directory {
        Some(directory) => mounts.iter().find_map(|(mount, claim)| {
            Some((*mount, claim, inside(&mount.mount_path, directory)?))
        }),
        None => match mounts.as_slice() {
            [(mount, claim)] => Some((*mount, claim, String::new())),
            _ => None,
        },
    };
    let Some((mount, claim, rest)) = found else {
        return Err(match directory {
            Some(directory) => format!("its data in {directory} is on no claim"),
            None => "it is not clear which of its volumes holds the data".to_owned(),
        });
    };
    let sub = mount.sub_path.as_deref().unwrap_or_default();
    let parts = [sub.trim_matches('/'), rest.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Ok((claim.clone(), parts.join("/")))
}

/// Where MinIO keeps its data, by its environment or command line.
fn data_directory(container: &Container) -> Option<String> {
    for name in ["MINIO_DATA_DIR", "MINIO_VOLUMES"] {
        if let Some(path) = variable(container, name).filter(|path| path.starts_with('/')) {
            return Some(path.trim_end_matches('/').to_owned());
        }
    }
    let words = container.command.iter().chain(&container.args).flatten();
    let words: Vec<&str> = words.flat_map(|word| word.split_whitespace()).collect();
    let at = words.iter().position(|word| *word == "server")?;
    let path = words
        .get(at + 1..)?
        .iter()
        .find(|word| word.starts_with('/') && !word.contains('{'))?;
    Some(path.trim_end_matches('/').to_owned())
}

/// Keys from variables that refer to a Secret, or from files of a mounted one.
fn keys(spec: &PodSpec, container: &Container) -> Option<KeyPair> {
    let mut pairs = BTreeMap::new();
    for (which, names) in [
        ("access", ["MINIO_ROOT_USER", "MINIO_ACCESS_KEY"]),
        ("secret", ["MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY"]),
    ] {
        let found = names.iter().find_map(|name| {
            from_variable(container, name).or_else(|| from_file(spec, container, name))
        })?;
        pairs.insert(which, found);
    }
    let (secret, access_key) = pairs.remove("access")?;
    let (other, secret_key) = pairs.remove("secret")?;
    (secret == other).then_some(KeyPair {
        secret,
        access_key,
        secret_key,
    })
}

fn from_variable(container: &Container, name: &str) -> Option<(String, String)> {
    let env = container.env.as_deref().unwrap_or_default();
    let found = env.iter().find(|variable| variable.name == name)?;
    let reference = found.value_from.as_ref()?.secret_key_ref.as_ref()?;
    Some((reference.name.clone(), reference.key.clone()))
}

fn from_file(spec: &PodSpec, container: &Container, name: &str) -> Option<(String, String)> {
    let path = variable(container, &format!("{name}_FILE"))?;
    let (folder, key) = path.rsplit_once('/')?;
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let mount = mounts
        .iter()
        .find(|mount| mount.mount_path.trim_end_matches('/') == folder)?;
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    let volume = volumes.iter().find(|volume| volume.name == mount.name)?;
    let secret = volume.secret.as_ref()?;
    let item = secret.items.iter().flatten().find(|item| item.path == key);
    Some((
        secret.secret_name.clone()?,
        item.map_or_else(|| key.to_owned(), |item| item.key.clone()),
    ))
}
