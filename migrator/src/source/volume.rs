//! A volume in our format, or versitygw's, as source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ObjectKey};
use filestore_store::{Access, Store};

use super::{About, Bucket, Entry, Listing, Object, Source, Tally, Tells};
use crate::scope::Keys;
use crate::{Result, volume};

/// Reads a mounted volume. A gateway may serve it meanwhile.
#[derive(Debug)]
pub struct VolumeSource {
    path: PathBuf,
    store: Arc<Store>,
}

impl VolumeSource {
    /// Opens the volume at `path`.
    ///
    /// # Errors
    /// [`crate::Kind::Refused`] with the store's reason.
    pub async fn open(path: &Path) -> Result<Self> {
        Self::with(path, Access::Shared).await
    }

    /// Opens the volume at `path` for this process alone: no gateway changes it meanwhile.
    ///
    /// # Errors
    /// As [`VolumeSource::open`], and when it is in use.
    pub async fn alone(path: &Path) -> Result<Self> {
        Self::with(path, Access::Exclusive).await
    }

    async fn with(path: &Path, access: Access) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            store: volume::open_store(path, access).await?,
        })
    }
}

#[async_trait]
impl Source for VolumeSource {
    async fn check(&self) -> Result<()> {
        volume::buckets(&self.store).await.map(drop)
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        let buckets = volume::buckets(&self.store).await?;
        Ok(SourceIdentity {
            kind: "volume".into(),
            deployment_id: None,
            location: format!("volume:{}", self.path.display()),
            buckets: buckets
                .into_iter()
                .map(|bucket| bucket.name.into())
                .collect(),
        })
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        volume::buckets(&self.store).await
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all())
    }

    /// Tags change without the object being written anew, and nothing else shows it.
    fn tells(&self) -> Tells {
        Tells::Metadata
    }

    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        volume::list(self.store.clone(), bucket.clone(), keys.full())
    }

    async fn survey(&self, bucket: &BucketName) -> Result<Tally> {
        self.survey_within(bucket, &[Keys::all()]).await
    }

    async fn survey_within(&self, bucket: &BucketName, keys: &[Keys]) -> Result<Tally> {
        volume::survey(&self.store, bucket, keys).await
    }

    fn about(&self) -> About {
        About {
            not_visible: vec![
                "users, and older versions, which versitygw keeps in directories of their own \
                 (--iam-dir, --versioning-dir)"
                    .into(),
            ],
            ..About::default()
        }
    }

    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object> {
        volume::open(&self.store, bucket, &entry.key).await
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        volume::head(&self.store, bucket, key).await
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }
}
