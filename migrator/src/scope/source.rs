//! A source of which only the scope shows.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ObjectKey};
use futures::{StreamExt, future, stream};

use super::{Buckets, Keys, View};
use crate::source::{About, Bucket, Entry, Listed, Listing, Object, Reason, Source, Tally, Tells};
use crate::{Error, Kind, Result};

/// Shows the scope of a source, its buckets under the names that they have on the target.
#[derive(Debug)]
pub struct ScopedSource {
    inner: Arc<dyn Source>,
    view: Arc<View>,
}

impl ScopedSource {
    /// `inner` seen through `view`.
    pub fn wrap(inner: Arc<dyn Source>, view: &Arc<View>) -> Arc<dyn Source> {
        if view.is_everything() {
            return inner;
        }
        Arc::new(Self {
            inner,
            view: view.clone(),
        })
    }

    /// Fails when a bucket that is asked for does not exist.
    ///
    /// # Errors
    /// [`Kind::Usage`], naming the buckets that there are.
    pub async fn expect_buckets(inner: &dyn Source, view: &View) -> Result<()> {
        let Buckets::Only(chosen) = &view.scope.buckets else {
            return Ok(());
        };
        let there = inner.buckets().await?;
        let missing = chosen
            .keys()
            .find(|name| !there.iter().any(|bucket| bucket.name == **name));
        let Some(missing) = missing else {
            return Ok(());
        };
        let names: Vec<&str> = there.iter().map(|bucket| bucket.name.as_str()).collect();
        let mut error = Error::new(
            Kind::Usage,
            "open bucket",
            missing.as_str(),
            "does not exist on the source",
        );
        if !names.is_empty() {
            error = error.with_cure(format!("there are {}", names.join(", ")));
        }
        Err(error)
    }

    /// The source's own name of a bucket.
    fn own(&self, bucket: &BucketName) -> Result<BucketName> {
        self.view.source_own(bucket).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                "open bucket",
                bucket.as_str(),
                "is outside of what is migrated",
            )
        })
    }
}

impl ScopedSource {
    fn listed(&self, bucket: &BucketName, full: bool) -> Listing {
        let own = match self.own(bucket) {
            Ok(own) => own,
            Err(error) => return stream::once(async { Err(error) }).boxed(),
        };
        let (inner, view) = (self.inner.clone(), self.view.clone());
        stream::iter(view.keys(bucket))
            .flat_map(move |keys| {
                let taken = keys.clone();
                let keys = Keys { full, ..keys };
                let view = view.clone();
                inner
                    .list_within(&own, keys)
                    .filter_map(move |item| future::ready(judged(item, &taken, &view)))
            })
            .boxed()
    }
}

#[async_trait]
impl Source for ScopedSource {
    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        let mut identity = self.inner.identity().await?;
        identity
            .buckets
            .retain(|own| self.view.source_shown(own).is_some());
        Ok(identity)
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        let all = self.inner.buckets().await?.into_iter();
        let mut shown: Vec<Bucket> = all
            .filter_map(|bucket| {
                let name = self.view.source_shown(bucket.name.as_str())?;
                Some(Bucket { name, ..bucket })
            })
            .collect();
        shown.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(shown)
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.listed(bucket, false)
    }

    fn list_full(&self, bucket: &BucketName) -> Listing {
        self.listed(bucket, true)
    }

    fn tells(&self) -> Tells {
        self.inner.tells()
    }

    fn lists_cheaply(&self) -> bool {
        self.inner.lists_cheaply()
    }

    async fn survey(&self, bucket: &BucketName) -> Result<Tally> {
        let keys = self.view.keys(bucket);
        self.inner.survey_within(&self.own(bucket)?, &keys).await
    }

    fn about(&self) -> About {
        self.inner.about()
    }

    async fn survey_store(&self) -> Result<Tally> {
        if !self.view.range.is_first() {
            return Ok(Tally::default());
        }
        let mut tally = self.inner.survey_store().await?;
        tally.retain(Reason::Unnameable, |name| match &self.view.scope.buckets {
            // What has no valid name was not asked for.
            Buckets::Only(_) => false,
            Buckets::AllBut(excluded) => !name
                .strip_prefix("bucket ")
                .is_some_and(|own| excluded.contains(own)),
        });
        Ok(tally)
    }

    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object> {
        self.inner.open(&self.own(bucket)?, entry).await
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        self.inner.head(&self.own(bucket)?, key).await
    }

    async fn still(&self) -> Result<Option<String>> {
        self.inner.still().await
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        self.inner.local_paths()
    }

    fn own_name(&self, bucket: &BucketName) -> BucketName {
        self.own(bucket).unwrap_or_else(|_| bucket.clone())
    }
}

/// What of a listed item shows.
fn judged(item: Result<Listed>, keys: &Keys, view: &View) -> Option<Result<Listed>> {
    match item {
        Ok(Listed::Object(entry) | Listed::Outside(entry)) => {
            if !keys.takes(entry.key.as_str()) {
                return None;
            }
            view.saw(entry.key.as_str());
            Some(Ok(if view.scope.window.contains(entry.last_modified) {
                Listed::Object(entry)
            } else {
                Listed::Outside(entry)
            }))
        }
        other => Some(other),
    }
}
