//! The legacy store to take over.

use filestore_common::BucketName;

use super::check::{bandwidth, bucket_name, dns_label, dns_subdomain, duration, endpoint};
use super::{
    InCluster, KeyPair, MAX_NAME, Migration, Result, Source, Storage, ValidationError, Wanted,
    key_pair,
};
use crate::api::{AccessMode, MigrationBucket, MigrationMode, MigrationSource, MigrationSpec};
use crate::secret::Secrets;

pub(super) fn migration(
    name: &str,
    spec: &MigrationSpec,
    storage: &Storage,
    root: &KeyPair,
    secrets: &Secrets,
) -> Result<Migration> {
    if let Some(id) = &spec.id {
        dns_label("spec.migration.id", id, MAX_NAME)?;
    }
    let source = match &spec.source {
        Some(source) if source.endpoint.is_some() || source.existing_claim.is_some() => {
            Some(self::source(source, storage, root, secrets)?)
        }
        _ => None,
    };
    let cluster = match &source {
        Some(_) => None,
        None => Some(in_cluster(name, spec, secrets)?),
    };
    if source.is_some()
        && (spec.cutover.is_some() || spec.approve.is_some() || spec.rollback.is_some())
    {
        return Err(ValidationError::new(
            "spec.migration",
            "cutover, approve and rollback go with a legacy store in the cluster; remove them beside endpoint or existingClaim",
        ));
    }
    match (spec.mode.unwrap_or_default(), &source) {
        (MigrationMode::Auto, _)
        | (MigrationMode::Online, Some(Source::Online { .. }))
        | (MigrationMode::Offline, Some(Source::Offline { .. })) => {}
        (MigrationMode::Online, _) => {
            return Err(ValidationError::new(
                "spec.migration.mode",
                "online needs source.endpoint; set it, or use mode auto",
            ));
        }
        (MigrationMode::Offline, _) => {
            return Err(ValidationError::new(
                "spec.migration.mode",
                "offline needs source.existingClaim; set it, or use mode auto",
            ));
        }
    }
    if spec
        .parallelism
        .is_some_and(|count| !(1..=64).contains(&count))
    {
        return Err(ValidationError::new(
            "spec.migration.parallelism",
            "must be from 1 to 64",
        ));
    }
    shards(spec.shards, source.is_some(), storage)?;
    if let Some(text) = &spec.bandwidth {
        bandwidth("spec.migration.bandwidth", text)?;
    }
    if let Some(text) = &spec.deadline {
        duration("spec.migration.deadline", text)?;
    }
    Ok(Migration {
        id: match &cluster {
            Some(cluster) => Some(cluster.run.clone()),
            None => spec.id.clone(),
        },
        source,
        cluster,
        verify: spec.verify.unwrap_or_default(),
        parallelism: spec.parallelism,
        buckets: buckets(&spec.buckets)?,
        bandwidth: spec.bandwidth.clone(),
        shards: spec.shards.unwrap_or(1),
        deadline: spec.deadline.clone(),
        max_delete: spec.max_delete,
    })
}

/// Several workers, where several can be.
fn shards(count: Option<u16>, direct: bool, storage: &Storage) -> Result<()> {
    let refuse = |message: &str| Err(ValidationError::new("spec.migration.shards", message));
    let Some(count) = count else { return Ok(()) };
    if !(1..=16).contains(&count) {
        return refuse("must be from 1 to 16");
    }
    if direct {
        return refuse(
            "go with a legacy store in the cluster; from endpoint or existingClaim one pod takes it over, remove them",
        );
    }
    let modes = storage.new.as_ref().map(|new| new.access_modes.as_slice());
    if count > 1 && modes.is_some_and(|modes| modes.contains(&AccessMode::ReadWriteOncePod)) {
        return refuse(
            "need a volume that several pods can mount; choose another access mode than ReadWriteOncePod, or remove them",
        );
    }
    Ok(())
}

fn buckets(spec: &[MigrationBucket]) -> Result<Vec<(BucketName, Option<BucketName>)>> {
    let mut chosen: Vec<(BucketName, Option<BucketName>)> = Vec::new();
    for (index, bucket) in spec.iter().enumerate() {
        let field = format!("spec.migration.buckets[{index}]");
        let name = bucket_name(format!("{field}.name"), &bucket.name)?;
        let target = bucket
            .target
            .as_ref()
            .map(|target| bucket_name(format!("{field}.target"), target))
            .transpose()?
            .filter(|target| *target != name);
        let here = target.as_ref().unwrap_or(&name);
        for (other, renamed) in &chosen {
            if *other == name {
                return Err(ValidationError::new(
                    field,
                    format!("names {:?} a second time; remove one", bucket.name),
                ));
            }
            if renamed.as_ref().unwrap_or(other) == here {
                return Err(ValidationError::new(
                    field,
                    format!("{other} would be called {here} as well; give one another target"),
                ));
            }
        }
        chosen.push((name, target));
    }
    Ok(chosen)
}

fn source(
    spec: &MigrationSource,
    storage: &Storage,
    root: &KeyPair,
    secrets: &Secrets,
) -> Result<Source> {
    let field = "spec.migration.source";
    if spec.service.is_some() || spec.workload.is_some() {
        return Err(ValidationError::new(
            field,
            "set at most one of endpoint, existingClaim, service and workload",
        ));
    }
    match (&spec.endpoint, &spec.existing_claim) {
        (Some(url), None) => {
            if spec.path.is_some() {
                return Err(ValidationError::new(
                    format!("{field}.path"),
                    "belongs to existingClaim; remove it beside endpoint",
                ));
            }
            Ok(Source::Online {
                endpoint: endpoint(format!("{field}.endpoint"), url)?,
                keys: match &spec.credentials {
                    Some(credentials) => {
                        key_pair(&format!("{field}.credentials"), credentials, secrets)?
                    }
                    None => root.clone(),
                },
            })
        }
        (None, Some(claim)) => {
            dns_subdomain(format!("{field}.existingClaim"), claim)?;
            if *claim == storage.claim {
                return Err(ValidationError::new(
                    format!("{field}.existingClaim"),
                    format!(
                        "{claim:?} is also the target; the legacy volume is only ever read, give the Filestore a volume of its own"
                    ),
                ));
            }
            if spec.credentials.is_some() {
                return Err(ValidationError::new(
                    field,
                    "a drive needs no credentials; remove them",
                ));
            }
            let path = spec.path.as_deref().unwrap_or_default().trim_matches('/');
            if path.split('/').any(|segment| segment == "..") {
                return Err(ValidationError::new(
                    format!("{field}.path"),
                    "must stay inside the claim; remove \"..\"",
                ));
            }
            Ok(Source::Offline {
                claim: claim.clone(),
                path: path.to_owned(),
            })
        }
        _ => Err(ValidationError::new(
            field,
            "set only one of endpoint (a running store) and existingClaim (the drive of a stopped one)",
        )),
    }
}

/// A take-over of a store in the namespace.
fn in_cluster(name: &str, spec: &MigrationSpec, secrets: &Secrets) -> Result<InCluster> {
    let field = "spec.migration.source";
    let source = spec.source.clone().unwrap_or_default();
    if source.path.is_some() {
        return Err(ValidationError::new(
            format!("{field}.path"),
            "belongs to existingClaim; the folder of a MinIO in the cluster is found by itself, remove it",
        ));
    }
    let wanted = match (source.service, source.workload) {
        (None, None) => Wanted::Any,
        (Some(service), None) => {
            dns_label(&format!("{field}.service"), &service, 63)?;
            Wanted::Service(service)
        }
        (None, Some(workload)) => {
            dns_subdomain(format!("{field}.workload.name"), &workload.name)?;
            Wanted::Workload(workload)
        }
        (Some(_), Some(_)) => {
            return Err(ValidationError::new(
                field,
                "set at most one of endpoint, existingClaim, service and workload",
            ));
        }
    };
    let run = spec.id.clone().unwrap_or_else(|| name.to_owned());
    if let Some(rollback) = &spec.rollback
        && rollback.request_id != run
    {
        return Err(ValidationError::new(
            "spec.migration.rollback.requestID",
            format!(
                "is {:?}, the migration is {run:?}; name the one to undo",
                rollback.request_id
            ),
        ));
    }
    Ok(InCluster {
        run,
        wanted,
        keys: source
            .credentials
            .map(|credentials| key_pair(&format!("{field}.credentials"), &credentials, secrets))
            .transpose()?,
        cutover: spec.cutover.unwrap_or_default(),
        approve: spec.approve.clone(),
        back: spec.rollback.as_ref().map(|rollback| rollback.prefer),
    })
}
