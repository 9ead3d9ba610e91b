//! What must hold before anything is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, ObjectMeta};
use futures::{StreamExt, stream};
use md5::{Digest, Md5};

use crate::copy::Ends;
use crate::source::Object;
use crate::target::Expect;
use crate::{Error, Kind, Location, Result};

/// Begin of the key of a probe.
const PROBE: &str = ".filestore-probe-";

/// Whether a key is that of a probe.
pub(crate) fn is_probe(key: &ObjectKey) -> bool {
    key.as_str().starts_with(PROBE)
}

/// Proves that no bucket that is written is one that is read: what is written to the target does
/// not appear on the source. Names prove nothing (a Service may already lead to the new store),
/// but one store has one list of buckets: only a name that both sides have can be one bucket.
///
/// # Errors
/// [`Kind::Refused`] when one is.
pub async fn prove_different(ends: &Ends, to: &Location) -> Result<()> {
    if let Location::Volume(target) = to {
        for path in ends.source.local_paths() {
            apart(&path, target)?;
        }
    }
    // By the source's own names.
    let mut read: BTreeMap<BucketName, BucketName> = BTreeMap::new();
    for bucket in ends.source.buckets().await? {
        read.insert(ends.source.own_name(&bucket.name), bucket.name);
    }
    let renamed = read.iter().any(|(own, shown)| own != shown);
    let written = ends.target.buckets().await?;
    let mut common = written.iter().filter_map(|bucket| {
        let shown = read.get(&bucket.name)?;
        Some((&bucket.name, shown))
    });
    // Under their own names all buckets are common, or none: one speaks for all. Renamed, each
    // may be the source of one and the target of another.
    let probes: Vec<_> = if renamed {
        common.collect()
    } else {
        common.next().into_iter().collect()
    };
    for (written, shown) in probes {
        probe(ends, written, shown).await?;
    }
    Ok(())
}

/// Writes an object into `written` and looks for it in the bucket that the source shows as `shown`.
async fn probe(ends: &Ends, written: &BucketName, shown: &BucketName) -> Result<()> {
    let content = uuid::Uuid::new_v4().to_string();
    let invalid = |error: filestore_common::key::NameError| {
        Error::new(Kind::Other, "probe", written.as_str(), error.to_string())
    };
    let key = ObjectKey::new(format!("{PROBE}{content}")).map_err(invalid)?;
    let etag = ETag::new(hex::encode(Md5::digest(content.as_bytes())));
    let probe = Object {
        info: ObjectInfo {
            size: content.len() as u64,
            last_modified: std::time::SystemTime::now(),
            meta: ObjectMeta::new(etag.clone()),
        },
        body: stream::iter([Ok(Bytes::from(content))]).boxed(),
    };
    ends.target
        .put(written, &key, probe, &Expect::Absent)
        .await?;
    let seen = ends.source.head(shown, &key).await;
    let removed = ends
        .target
        .delete(written, &key, &Expect::Same(Some(etag)))
        .await;
    match seen? {
        Some(_) => Err(Error::new(
            Kind::Refused,
            "compare",
            format!("{}/{written}", ends.target.traits().location),
            "source and target are the same store: a probe written to one appeared on the other",
        )
        .with_cure(
            "give the address of the legacy store as --from, or a name of its own to each bucket \
             on the target",
        )),
        None => removed,
    }
}

/// Neither directory lies in the other.
fn apart(one: &Path, other: &Path) -> Result<()> {
    let real = |path: &Path| -> Result<PathBuf> {
        path.canonicalize().map_err(|error| {
            Error::new(
                Kind::Refused,
                "open",
                path.display().to_string(),
                error.to_string(),
            )
        })
    };
    let (one, other) = (real(one)?, real(other)?);
    if one.starts_with(&other) || other.starts_with(&one) {
        let message = format!("source and target lie in one another: {}", one.display());
        return Err(Error::new(
            Kind::Refused,
            "compare",
            other.display().to_string(),
            message,
        )
        .with_cure("use a volume of its own as target"));
    }
    Ok(())
}

/// The store must be the one that was migrated.
///
/// # Errors
/// [`Kind::Refused`].
pub fn require_source(expected: &SourceIdentity, found: &SourceIdentity) -> Result<()> {
    if same_source(expected, found) {
        return Ok(());
    }
    let problem = format!("is not the store that was migrated, {}", describe(expected));
    Err(
        Error::new(Kind::Refused, "compare", describe(found), problem).with_cure(
            "give that store; a MinIO shows its deployment to its root credentials only",
        ),
    )
}

/// Address and deployment of a store, for people.
pub(crate) fn describe(identity: &SourceIdentity) -> String {
    let id = identity.deployment_id.as_deref().unwrap_or("unknown");
    format!("{} (deployment {id})", identity.location)
}

/// Whether the marker's source is this one: by deployment id where the marker has one, else by kind
/// and place. A store that hides its id is not taken for the known one: behind the same address
/// may be a fresh one, in which everything that was carried is missing.
pub fn same_source(marker: &SourceIdentity, now: &SourceIdentity) -> bool {
    match (&marker.deployment_id, &now.deployment_id) {
        (Some(one), now) => Some(one) == now.as_ref(),
        (None, _) => marker.kind == now.kind && marker.location == now.location,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(kind: &str, id: Option<&str>, location: &str) -> SourceIdentity {
        SourceIdentity {
            kind: kind.into(),
            deployment_id: id.map(str::to_owned),
            location: location.into(),
            buckets: Vec::new(),
        }
    }

    #[test]
    fn a_source_is_known_by_its_deployment_before_its_address() {
        let online = identity("s3", Some("d1"), "http://ryax-minio:9000");
        // The same drive, read offline for the final pass.
        assert!(same_source(
            &online,
            &identity("minio-drive", Some("d1"), "/legacy")
        ));
        assert!(!same_source(
            &online,
            &identity("s3", Some("d2"), "http://ryax-minio:9000")
        ));
        // May be a fresh store behind the old address.
        let hidden = identity("s3", None, "http://ryax-minio:9000");
        assert!(!same_source(&online, &hidden));
        let refused = require_source(&online, &hidden).unwrap_err();
        assert_eq!(refused.kind, Kind::Refused);
        assert!(refused.cure.unwrap().contains("root credentials"));
        // Never known by more than its address.
        assert!(same_source(&hidden, &hidden));
        assert!(same_source(&hidden, &online));
        assert!(!same_source(
            &hidden,
            &identity("s3", None, "http://other:9000")
        ));
    }

    #[test]
    fn nested_directories_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        std::fs::create_dir_all(a.join("inner")).unwrap();
        std::fs::create_dir(&b).unwrap();
        assert!(apart(&a, &b).is_ok());
        assert_eq!(apart(&a, &a).unwrap_err().kind, Kind::Refused);
        assert_eq!(apart(&a, &a.join("inner")).unwrap_err().kind, Kind::Refused);
        assert_eq!(apart(&a.join("inner"), &a).unwrap_err().kind, Kind::Refused);
        std::os::unix::fs::symlink(&a, root.path().join("link")).unwrap();
        assert_eq!(
            apart(&root.path().join("link"), &a).unwrap_err().kind,
            Kind::Refused
        );
    }
}
