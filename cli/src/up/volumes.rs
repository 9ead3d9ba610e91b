//! Where the pod's volumes are on this machine: one directory per claim.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Container, PodSpec};

/// Directories by name of the claim.
#[derive(Debug, Clone)]
pub(super) struct Claims {
    data_dir: PathBuf,
    placed: BTreeMap<String, PathBuf>,
}

/// `NAME=DIRECTORY` on the command line.
#[derive(Debug, Clone)]
pub(crate) struct PlacedClaim {
    name: String,
    path: PathBuf,
}

impl std::str::FromStr for PlacedClaim {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.to_owned(),
                path: PathBuf::from(path),
            }),
            _ => bail!("write CLAIM=DIRECTORY, for example ryax-minio=/mnt/minio"),
        }
    }
}

impl Claims {
    /// Claims are `data_dir/<claim>` unless they are placed elsewhere.
    pub(super) fn new(data_dir: &Path, placed: &[PlacedClaim]) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            placed: placed
                .iter()
                .map(|claim| (claim.name.clone(), claim.path.clone()))
                .collect(),
        }
    }

    /// The directory of a claim.
    pub(super) fn path(&self, claim: &str) -> PathBuf {
        self.placed
            .get(claim)
            .cloned()
            .unwrap_or_else(|| self.data_dir.join(claim))
    }

    /// A directory inside a claim; the claim itself when `inner` is empty.
    pub(super) fn path_in(&self, claim: &str, inner: &str) -> PathBuf {
        let path = self.path(claim);
        if inner.is_empty() {
            path
        } else {
            path.join(inner)
        }
    }

    /// Refuses a placed claim that the pod does not use: most likely a typing error, and the
    /// directory meant would silently stay out.
    pub(super) fn check_used(&self, pod: &PodSpec) -> anyhow::Result<()> {
        let used: Vec<&str> = claims_of(pod).map(|(_, claim)| claim).collect();
        match self
            .placed
            .keys()
            .find(|name| !used.contains(&name.as_str()))
        {
            Some(name) => bail!(
                "--claim {name}: the manifest has no claim of this name; it has {}",
                used.join(" and ")
            ),
            None => Ok(()),
        }
    }

    /// What a container mounts: mount path and directory, the longest mount path first.
    pub(super) fn mounts(&self, pod: &PodSpec, container: &Container) -> anyhow::Result<Mounts> {
        let mut mounts = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let (_, claim) = claims_of(pod)
                .find(|(volume, _)| *volume == mount.name)
                .with_context(|| format!("volume {} of the pod is no claim", mount.name))?;
            mounts.push((mount.mount_path.clone(), self.path(claim)));
        }
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(mounts)
    }
}

/// Mount paths inside the pod and the directories that they stand for.
pub(super) type Mounts = Vec<(String, PathBuf)>;

/// Volumes of a pod and their claims.
fn claims_of(pod: &PodSpec) -> impl Iterator<Item = (&str, &str)> {
    pod.volumes.iter().flatten().filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref()?;
        Some((volume.name.as_str(), claim.claim_name.as_str()))
    })
}

/// Replaces a path inside the pod by the one on this machine. `text` is an argument: a path, or a
/// location such as `volume:/data`; anything else comes back as it is.
pub(super) fn substitute(text: &str, mounts: &Mounts) -> String {
    let (scheme, path) = match text.split_once(':') {
        Some((scheme, path))
            if is_scheme(scheme) && path.starts_with('/') && !path.starts_with("//") =>
        {
            (Some(scheme), path)
        }
        _ => (None, text),
    };
    let replaced = mounts.iter().find_map(|(mount, directory)| {
        let rest = path.strip_prefix(mount.as_str())?;
        let inner = match rest.strip_prefix('/') {
            Some(inner) => inner,
            None if rest.is_empty() => "",
            None => return None,
        };
        let path = if inner.is_empty() {
            directory.clone()
        } else {
            directory.join(inner)
        };
        Some(path.to_string_lossy().into_owned())
    });
    match (scheme, replaced) {
        (_, None) => text.to_owned(),
        (None, Some(path)) => path,
        (Some(scheme), Some(path)) => format!("{scheme}:{path}"),
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_a_mount_are_replaced() {
        let mounts = vec![
            ("/source".to_owned(), PathBuf::from("target/up/ryax-minio")),
            ("/data".to_owned(), PathBuf::from("/srv/files")),
        ];
        for (inside, outside) in [
            ("/data", "/srv/files"),
            ("/data/", "/srv/files"),
            ("/data/s3/x", "/srv/files/s3/x"),
            ("volume:/data", "volume:/srv/files"),
            (
                "minio-drive:/source/drive",
                "minio-drive:target/up/ryax-minio/drive",
            ),
            // Not below a mount, not a path, or a URL.
            ("/database", "/database"),
            ("data", "data"),
            ("--data", "--data"),
            (":9000", ":9000"),
            ("http://data", "http://data"),
            ("volume://data", "volume://data"),
            ("127.0.0.1:/data", "127.0.0.1:/data"),
        ] {
            assert_eq!(substitute(inside, &mounts), outside, "{inside}");
        }
    }

    #[test]
    fn the_longest_mount_path_wins() {
        let pod: PodSpec = serde_json::from_value(serde_json::json!({
            "containers": [{
                "name": "c",
                "volumeMounts": [
                    {"name": "a", "mountPath": "/data"},
                    {"name": "b", "mountPath": "/data/inner"},
                ],
            }],
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "outer"}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "inner"}},
            ],
        }))
        .unwrap();
        let claims = Claims::new(Path::new("d"), &["inner=/elsewhere".parse().unwrap()]);

        let mounts = claims.mounts(&pod, &pod.containers[0]).unwrap();

        assert_eq!(substitute("/data/inner/x", &mounts), "/elsewhere/x");
        assert_eq!(substitute("/data/x", &mounts), "d/outer/x");
        assert!(claims.check_used(&pod).is_ok());
        let typo = Claims::new(Path::new("d"), &["iner=/x".parse().unwrap()]);
        let error = typo.check_used(&pod).unwrap_err().to_string();
        assert!(error.contains("it has outer and inner"), "{error}");
    }

    #[test]
    fn a_placed_claim_needs_both_halves() {
        for bad in ["", "x", "=y", "x="] {
            assert!(bad.parse::<PlacedClaim>().is_err(), "{bad}");
        }
    }
}
