//! Turns what people wrote into what the builders may rely on: every default filled in, every
//! reference resolved, every contradiction refused. Builders never look at the raw spec.

mod access;
mod check;
mod extras;
mod migration;
mod tls;
mod validated;

use crate::api::{
    CredentialsSpec, Engine, Filestore, PodSpec, SecurityProfile, SecuritySpec, StorageSpec,
};
use crate::secret::{SecretError, Secrets};
pub use access::{Access, SecretKeys, User, rendered_name};
use check::{bucket_name, dns_label, dns_subdomain, image, quantity};
pub use tls::{CERTIFICATE, PRIVATE_KEY};
pub use validated::{
    Alerts, Dashboard, InCluster, KeyPair, Migration, Monitoring, Name, NewClaim, Pod, Scrape,
    Security, Server, Site, Source, Storage, Tls, ValidatedFilestore, Wanted,
};

/// Image of this version, for Filestores that name none.
pub const DEFAULT_IMAGE: &str = concat!("docker.io/ryaxtech/filestore:", env!("CARGO_PKG_VERSION"));

/// Key names that MinIO's chart uses in its Secret.
const DEFAULT_KEYS: (&str, &str) = ("root-user", "root-password");

/// Longest name: the objects made for a Filestore append to it and must stay below 63.
const MAX_NAME: usize = 40;

/// User and group of the image.
const DEFAULT_ID: i64 = 1200;

/// What is wrong with a Filestore: the field and what to do about it, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct ValidationError {
    /// Path of the field.
    pub field: Box<str>,
    /// What is wrong and what to do.
    pub message: String,
    /// The reference that leads nowhere, when that is what is wrong.
    pub secret: Option<SecretError>,
    /// The engine cannot do it.
    pub engine_lacks: bool,
}

impl ValidationError {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into().into(),
            message: message.into(),
            secret: None,
            engine_lacks: false,
        }
    }

    /// The Secret that the field refers to is of no use.
    pub(crate) fn secret(field: impl Into<String>, error: &SecretError) -> Self {
        Self {
            secret: Some(error.clone()),
            ..Self::new(field, error.to_string())
        }
    }

    /// Engine versitygw has no `what`.
    fn engine_lacks(field: impl Into<String>, what: &str) -> Self {
        Self {
            engine_lacks: true,
            ..Self::new(
                field,
                format!("engine versitygw has no {what}; use engine bundled, or remove this field"),
            )
        }
    }
}

type Result<T> = std::result::Result<T, ValidationError>;

/// Checks a Filestore together with the Secrets it refers to.
///
/// # Errors
/// The first [`ValidationError`], in the order of the fields.
pub fn validate(filestore: &Filestore, secrets: &Secrets) -> Result<ValidatedFilestore> {
    let spec = &filestore.spec;
    let name = filestore.metadata.name.clone().unwrap_or_default();
    dns_label("metadata.name", &name, MAX_NAME)?;
    if let Some(namespace) = &filestore.metadata.namespace {
        dns_label("metadata.namespace", namespace, 63)?;
    }
    let image = image("spec.image", spec.image.as_deref().unwrap_or(DEFAULT_IMAGE))?;
    let root = key_pair("spec.credentials", &spec.credentials, secrets)?;
    let storage = storage(&name, &spec.storage)?;
    let server = server(filestore)?;
    let access = access::access(
        &name,
        &root.secret,
        spec.access.as_ref(),
        &spec.buckets,
        server == Server::Bundled,
    )?;
    let migration = spec
        .migration
        .as_ref()
        .map(|migration| migration::migration(&name, migration, &storage, &root, secrets))
        .transpose()?;
    let tls = tls::tls(spec.tls.as_ref(), secrets)?;
    let compatibility = spec
        .service
        .as_ref()
        .map(|service| service.compatibility.as_slice())
        .unwrap_or_default();
    Ok(ValidatedFilestore {
        compatibility: extras::names(&name, compatibility)?,
        name,
        namespace: filestore.metadata.namespace.clone(),
        server,
        access,
        image,
        region: region(spec.region.as_deref(), "spec.region")?,
        durability: spec.durability.unwrap_or_default(),
        suspend: spec.suspend.unwrap_or_default(),
        root,
        service_port: spec
            .service
            .as_ref()
            .and_then(|service| service.port)
            .unwrap_or(9000),
        tls,
        storage,
        buckets: spec
            .buckets
            .iter()
            .enumerate()
            .map(|(index, bucket)| bucket_name(format!("spec.buckets[{index}].name"), &bucket.name))
            .collect::<Result<_>>()?,
        migration,
        security: security(spec.security.as_ref())?,
        pod: pod(spec.pod.as_ref())?,
        placement: extras::placement(spec.placement.as_ref())?,
        network_policy: extras::network_policy(spec.network_policy.as_ref()),
        monitoring: extras::monitoring(spec.monitoring.as_ref())?,
        site: extras::site(spec.site.as_ref())?,
        require_marker: None,
    })
}

fn server(filestore: &Filestore) -> Result<Server> {
    match (
        filestore.spec.engine.unwrap_or_default(),
        &filestore.spec.versitygw,
    ) {
        (Engine::Bundled, None) => Ok(Server::Bundled),
        (Engine::Versitygw, Some(settings)) => Ok(Server::Versitygw {
            image: image("spec.versitygw.image", &settings.image)?,
        }),
        (Engine::Versitygw, None) => Err(ValidationError::new(
            "spec.versitygw",
            "engine versitygw needs its image; set versitygw.image",
        )),
        (Engine::Bundled, Some(_)) => Err(ValidationError::new(
            "spec.versitygw",
            "belongs to engine versitygw; set engine: versitygw, or remove this field",
        )),
    }
}

fn region(value: Option<&str>, field: &str) -> Result<String> {
    let region = value.unwrap_or("us-east-1");
    let valid = (1..=32).contains(&region.len())
        && region
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if valid {
        Ok(region.to_owned())
    } else {
        Err(ValidationError::new(
            field,
            format!(
                "{region:?} is no region; use up to 32 of a-z, 0-9 and '-', or omit it for us-east-1"
            ),
        ))
    }
}

fn key_pair(field: &str, spec: &CredentialsSpec, secrets: &Secrets) -> Result<KeyPair> {
    let secret = &spec.secret_ref.name;
    dns_subdomain(format!("{field}.secretRef.name"), secret)?;
    let named = spec.keys.clone().unwrap_or_default();
    let access_key = named
        .access_key
        .unwrap_or_else(|| DEFAULT_KEYS.0.to_owned());
    let secret_key = named
        .secret_key
        .unwrap_or_else(|| DEFAULT_KEYS.1.to_owned());
    for key in [&access_key, &secret_key] {
        secrets
            .value(secret, key)
            .map_err(|error| ValidationError::secret(field, &error))?;
    }
    Ok(KeyPair {
        secret: secret.clone(),
        access_key,
        secret_key,
    })
}

fn storage(name: &str, spec: &StorageSpec) -> Result<Storage> {
    let metadata = spec.metadata.unwrap_or_default();
    match (&spec.size, &spec.existing_claim) {
        (Some(size), None) => {
            quantity("spec.storage.size", size)?;
            if let Some(class) = spec
                .storage_class_name
                .as_deref()
                .filter(|class| !class.is_empty())
            {
                dns_subdomain("spec.storage.storageClassName", class)?;
            }
            Ok(Storage {
                claim: name.to_owned(),
                new: Some(NewClaim {
                    size: size.clone(),
                    storage_class: spec.storage_class_name.clone(),
                    access_modes: if spec.access_modes.is_empty() {
                        vec![crate::api::AccessMode::ReadWriteOnce]
                    } else {
                        spec.access_modes.clone()
                    },
                }),
                metadata,
            })
        }
        (None, Some(claim)) => {
            dns_subdomain("spec.storage.existingClaim", claim)?;
            if spec.storage_class_name.is_some() || !spec.access_modes.is_empty() {
                return Err(ValidationError::new(
                    "spec.storage",
                    "storageClassName and accessModes belong to a new claim; remove them beside existingClaim",
                ));
            }
            Ok(Storage {
                claim: claim.clone(),
                new: None,
                metadata,
            })
        }
        _ => Err(ValidationError::new(
            "spec.storage",
            "set exactly one of size (a new claim, for example 20Gi) or existingClaim",
        )),
    }
}

fn security(spec: Option<&SecuritySpec>) -> Result<Security> {
    let spec = spec.cloned().unwrap_or_default();
    let ids = [spec.run_as_user, spec.run_as_group, spec.fs_group];
    match spec.profile.unwrap_or_default() {
        SecurityProfile::Restricted if ids.iter().flatten().any(|id| *id < 1) => {
            Err(ValidationError::new(
                "spec.security",
                "ids must be 1 or more; the pod never runs as root",
            ))
        }
        SecurityProfile::Restricted => Ok(Security {
            run_as_user: spec.run_as_user.or(Some(DEFAULT_ID)),
            user_is_set: spec.run_as_user.is_some(),
            run_as_group: spec.run_as_group.or(Some(DEFAULT_ID)),
            fs_group: spec.fs_group.or(Some(DEFAULT_ID)),
        }),
        SecurityProfile::Openshift if ids.iter().any(Option::is_some) => Err(ValidationError::new(
            "spec.security",
            "profile openshift takes the ids that the cluster assigns; remove runAsUser, runAsGroup and fsGroup",
        )),
        SecurityProfile::Openshift => Ok(Security {
            run_as_user: None,
            user_is_set: false,
            run_as_group: None,
            fs_group: None,
        }),
    }
}

fn pod(spec: Option<&PodSpec>) -> Result<Pod> {
    let spec = spec.cloned().unwrap_or_default();
    let grace_seconds = spec.termination_grace_period_seconds.unwrap_or(60);
    if !(1..=3600).contains(&grace_seconds) {
        return Err(ValidationError::new(
            "spec.pod.terminationGracePeriodSeconds",
            "must be from 1 to 3600 seconds",
        ));
    }
    if let Some(label) = spec
        .labels
        .keys()
        .find(|key| key.starts_with(crate::api::GROUP))
    {
        return Err(ValidationError::new(
            "spec.pod.labels",
            format!("{label:?} is set by Filestore itself; remove it"),
        ));
    }
    Ok(Pod {
        image_pull_secrets: extras::pull_secrets(&spec.image_pull_secrets)?,
        labels: spec.labels,
        annotations: spec.annotations,
        resources: spec.resources.unwrap_or_default(),
        grace_seconds,
    })
}

#[cfg(test)]
mod tests;
