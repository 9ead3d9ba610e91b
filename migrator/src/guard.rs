//! What must hold before anything is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ETag, ObjectInfo, ObjectKey, ObjectMeta};
use futures::{StreamExt, TryStreamExt, stream};
use md5::{Digest, Md5};

use crate::copy::Ends;
use crate::scope::Keys;
use crate::source::{Entry, Listed, Object};
use crate::target::{Expect, Target};
use crate::{Error, Kind, Location, Result};

/// Begin of the key of a probe; a UUID follows, which is also its content.
const PROBE: &str = ".filestore-probe-";
/// Probes that may vanish before the look at the source, by whoever clears up, before that is told.
const PROBES: u32 = 3;

/// The content of a probe with this key; `None` when no probe is called so.
fn probe_content(key: &ObjectKey) -> Option<&str> {
    let content = key.as_str().strip_prefix(PROBE)?;
    let uuid = uuid::Uuid::try_parse(content).ok()?;
    (uuid.to_string() == content).then_some(content)
}

fn content_etag(content: &str) -> ETag {
    ETag::new(hex::encode(Md5::digest(content.as_bytes())))
}

/// Whether a probe may be called so.
pub(crate) fn is_probe_key(key: &ObjectKey) -> bool {
    probe_content(key).is_some()
}

/// Whether an object is a probe, of a program that begins or of one that was killed: its content is
/// the UUID in its key. Nobody else's object is, whatever it is called.
pub(crate) fn is_probe(entry: &Entry) -> bool {
    // Nearly every key is told by its first letters.
    probe_content(&entry.key).is_some_and(|content| {
        entry.size == content.len() as u64 && entry.etag == Some(content_etag(content))
    })
}

/// Removes the probes that killed programs left on the target. One that is at work may lose its own:
/// it looks whether that is still there.
async fn remove_leftovers(target: &dyn Target) -> Result<()> {
    let mut probes = Keys::all();
    PROBE.clone_into(&mut probes.span.prefix);
    for bucket in target.buckets().await? {
        let mut listing = target.list_within(&bucket.name, probes.clone());
        while let Some(item) = listing.try_next().await? {
            if let Listed::Object(entry) | Listed::Outside(entry) = item
                && is_probe(&entry)
            {
                let expect = Expect::Same(entry.etag);
                let removed = target.delete(&bucket.name, &entry.key, &expect).await;
                removed.or_else(|error| match error.kind {
                    // Another one's by now, or gone.
                    Kind::Conflict | Kind::NotFound => Ok(()),
                    _ => Err(error),
                })?;
            }
        }
    }
    Ok(())
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
    remove_leftovers(&*ends.target).await?;
    for (written, shown) in probes {
        let mut left = PROBES;
        while !probe(ends, written, shown).await? {
            left -= 1;
            if left == 0 {
                let name = format!("{}/{written}", ends.target.traits().location);
                let problem = "what is written vanishes before it can be looked for";
                return Err(Error::new(Kind::Refused, "compare", name, problem)
                    .with_cure("is another program at work on it?"));
            }
        }
    }
    Ok(())
}

/// Writes an object into `written` and looks for it in the bucket that the source shows as `shown`.
/// `false` when it was removed meanwhile, so that its absence there says nothing.
async fn probe(ends: &Ends, written: &BucketName, shown: &BucketName) -> Result<bool> {
    let content = uuid::Uuid::new_v4().to_string();
    let invalid = |error: filestore_common::key::NameError| {
        Error::new(Kind::Other, "probe", written.as_str(), error.to_string())
    };
    let key = ObjectKey::new(format!("{PROBE}{content}")).map_err(invalid)?;
    let etag = content_etag(&content);
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
    let there = ends.target.head(written, &key).await;
    let removed = ends
        .target
        .delete(written, &key, &Expect::Same(Some(etag)))
        .await;
    if seen?.is_some() {
        let name = format!("{}/{written}", ends.target.traits().location);
        let problem =
            "source and target are the same store: a probe written to one appeared on the other";
        return Err(Error::new(Kind::Refused, "compare", name, problem).with_cure(
            "give the address of the legacy store as --from, or a name of its own to each bucket \
             on the target",
        ));
    }
    removed?;
    Ok(there?.is_some())
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
    fn only_what_we_wrote_is_a_probe() {
        let uuid = "7f2c1d0e-8a4b-4c3d-9e5f-001122334455";
        let entry = |key: &str, body: &str| Entry {
            key: ObjectKey::new(key).unwrap(),
            size: body.len() as u64,
            etag: Some(content_etag(body)),
            last_modified: std::time::SystemTime::UNIX_EPOCH,
            meta: None,
            hidden: false,
        };
        let key = format!(".filestore-probe-{uuid}");
        assert!(is_probe(&entry(&key, uuid)));
        for (key, body) in [
            (key.as_str(), "somebody's notes of the same length."),
            (".filestore-probe-notes", "notes"),
            (".filestore-probe-", ""),
            (&key.to_uppercase(), uuid),
            (&format!("a/{key}"), uuid),
            (uuid, uuid),
        ] {
            assert!(!is_probe(&entry(key, body)), "{key}");
        }
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
