//! How a MinIO is recognised by the pod template of its workload, and what that says of its drive,
//! user and keys. Knows the layouts of MinIO's and Bitnami's charts and nothing of take-overs.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use crate::takeover::Workload;

/// A key of a Secret: name of the Secret and name of the key.
pub type SecretKey = (String, String);

/// By its image, or by the labels of Bitnami's chart. The pod of a Filestore may wear these, too.
pub fn is_minio(workload: &Workload) -> bool {
    if workload.is_of_a_filestore() {
        return false;
    }
    let labels = workload.metadata.labels.clone().unwrap_or_default();
    let label = |name: &str| {
        labels
            .get(&format!("app.kubernetes.io/{name}"))
            .map(String::as_str)
    };
    let by_label =
        label("name") == Some("minio") && matches!(label("component"), None | Some("minio"));
    by_label || containers(workload).iter().any(is_minio_image)
}

fn is_minio_image(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split(':').next() == Some("minio")
}

fn containers(workload: &Workload) -> &[Container] {
    let spec = workload.template.spec.as_ref();
    spec.map_or(&[], |spec| spec.containers.as_slice())
}

/// The container that serves.
pub fn server(workload: &Workload) -> Option<&Container> {
    let all = containers(workload);
    all.iter()
        .find(|container| is_minio_image(container))
        .or_else(|| all.first())
}

/// User id of the process, 0 apart: we never run as root.
pub fn user(spec: &PodSpec, container: &Container) -> Option<i64> {
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

/// The claim with the drive and the folder in it, without slashes around.
///
/// # Errors
/// In words why it is not known.
pub fn drive(workload: &Workload, container: &Container) -> Result<(String, String), String> {
    let volumes = workload.template.spec.as_ref();
    let volumes = volumes.and_then(|spec| spec.volumes.as_deref());
    let volume = |name: &str| {
        let mut all = volumes.unwrap_or_default().iter();
        all.find(|volume| volume.name == name)
    };
    let claim_of = |name: &str| {
        let of_volume =
            |volume: &Volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone());
        volume(name)
            .and_then(of_volume)
            .or_else(|| workload.claims.get(name).cloned())
    };
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let claims: Vec<_> = mounts
        .iter()
        .filter_map(|mount| Some((mount, claim_of(&mount.name)?)))
        .collect();
    let directory = data_directory(container);
    let found = match &directory {
        Some(directory) => claims.iter().find_map(|(mount, claim)| {
            Some((*mount, claim, inside(&mount.mount_path, directory)?))
        }),
        None => match claims.as_slice() {
            [(mount, claim)] => Some((*mount, claim, String::new())),
            _ => None,
        },
    };
    let Some((mount, claim, rest)) = found else {
        let Some(directory) = directory else {
            return Err("it is not clear which of its volumes holds the data".to_owned());
        };
        let mount = mounts
            .iter()
            .filter(|mount| inside(&mount.mount_path, &directory).is_some())
            .max_by_key(|mount| mount.mount_path.len());
        let on = match mount.map(|mount| volume(&mount.name)) {
            Some(Some(volume)) => format!(" (it is {})", kind_of(volume)),
            _ => String::new(),
        };
        return Err(format!("its data in {directory} is on no claim{on}"));
    };
    let sub = mount.sub_path.as_deref().unwrap_or_default();
    let parts = [sub.trim_matches('/'), rest.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Ok((claim.clone(), parts.join("/")))
}

/// What is left of `directory` below a mount.
fn inside(mount_path: &str, directory: &str) -> Option<String> {
    let rest = directory.strip_prefix(mount_path.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_matches('/').to_owned())
}

/// A volume that is no claim, as people call it.
fn kind_of(volume: &Volume) -> String {
    match (&volume.empty_dir, &volume.host_path) {
        (Some(_), _) => "an emptyDir, which goes with the pod".to_owned(),
        (_, Some(host)) => format!("the folder {} of a node", host.path),
        _ => "a volume of another kind".to_owned(),
    }
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

/// Access key and secret key of root, from variables that refer to a Secret or from files of a
/// mounted one.
pub fn keys(spec: &PodSpec, container: &Container) -> Option<[SecretKey; 2]> {
    let key = |names: [&str; 2]| {
        names.iter().find_map(|name| {
            from_variable(container, name).or_else(|| from_file(spec, container, name))
        })
    };
    Some([
        key(["MINIO_ROOT_USER", "MINIO_ACCESS_KEY"])?,
        key(["MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY"])?,
    ])
}

fn from_variable(container: &Container, name: &str) -> Option<SecretKey> {
    let env = container.env.as_deref().unwrap_or_default();
    let found = env.iter().find(|variable| variable.name == name)?;
    let reference = found.value_from.as_ref()?.secret_key_ref.as_ref()?;
    Some((reference.name.clone(), reference.key.clone()))
}

fn from_file(spec: &PodSpec, container: &Container, name: &str) -> Option<SecretKey> {
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

/// Why a claim cannot be read by another pod beside the legacy store, in words.
pub fn not_beside(name: &str, access_modes: &[String]) -> Option<String> {
    // One pod at a time may have it: the one of the final pass would never start.
    access_modes
        .iter()
        .any(|mode| mode == "ReadWriteOncePod")
        .then(|| format!("its PersistentVolumeClaim {name} is ReadWriteOncePod: no pod reads it beside the legacy store"))
}
