//! A source as a target can take it: objects whose key the target cannot hold are reported as
//! staying behind, by the same rule in the plan, in every pass and in the verification. Nothing
//! is tried and found out in the middle of a run.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ObjectKey};
use futures::StreamExt;

use crate::Result;
use crate::naming::{Naming, Tree};
use crate::source::{
    About, Bucket, Entry, Left, Listed, Listing, Object, Reason, Source, Tally, Tells,
};

/// The source for a target with these rules; the source itself where the target takes any key.
pub(crate) fn fitted(source: Arc<dyn Source>, naming: Naming) -> Arc<dyn Source> {
    match naming {
        Naming::Any | Naming::Overflow => source,
        Naming::Tree {
            server,
            directory_bodies,
        } => Arc::new(Fitted {
            source,
            server,
            directory_bodies,
        }),
    }
}

#[derive(Debug)]
struct Fitted {
    source: Arc<dyn Source>,
    server: &'static str,
    directory_bodies: bool,
}

impl Fitted {
    /// Takes out what the target cannot hold.
    fn fit(&self, bucket: &BucketName, listing: Listing) -> Listing {
        let (server, bodies, name) = (self.server, self.directory_bodies, bucket.clone());
        let mut tree = Tree::default();
        let fit = move |item: Result<Listed>| {
            let Ok(Listed::Object(entry)) = &item else {
                return item;
            };
            let size = if bodies { 0 } else { entry.size };
            let Some(obstacle) = tree.obstacle(entry.key.as_str(), size) else {
                return item;
            };
            let text = format!("{name}/{}: {obstacle}; {server} cannot hold it", entry.key);
            let left = Left::new(Reason::Unnameable, text, 1).with_bytes(entry.size);
            let left = left.with_identity(entry.identity());
            Ok(Listed::Left(left))
        };
        listing.map(fit).boxed()
    }
}

#[async_trait]
impl Source for Fitted {
    async fn check(&self) -> Result<()> {
        self.source.check().await
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        self.source.identity().await
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        self.source.buckets().await
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.fit(bucket, self.source.list(bucket))
    }

    fn list_full(&self, bucket: &BucketName) -> Listing {
        self.fit(bucket, self.source.list_full(bucket))
    }

    fn tells(&self) -> Tells {
        self.source.tells()
    }

    fn lists_cheaply(&self) -> bool {
        self.source.lists_cheaply()
    }

    async fn survey(&self, bucket: &BucketName) -> Result<Tally> {
        self.source.survey(bucket).await
    }

    fn about(&self) -> About {
        self.source.about()
    }

    async fn survey_store(&self) -> Result<Tally> {
        self.source.survey_store().await
    }

    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object> {
        self.source.open(bucket, entry).await
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        self.source.head(bucket, key).await
    }

    async fn still(&self) -> Result<Option<String>> {
        self.source.still().await
    }

    fn own_name(&self, bucket: &BucketName) -> BucketName {
        self.source.own_name(bucket)
    }

    fn local_paths(&self) -> Vec<PathBuf> {
        self.source.local_paths()
    }
}
