//! A target of which only the scope shows and changes.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use filestore_common::{BucketName, ObjectKey};
use filestore_store::Space;
use futures::{StreamExt, future, stream};

use super::{Keys, View};
use crate::guard::is_probe_key;
use crate::naming::Naming;
use crate::source::{About, Bucket, Entry, Listed, Listing, Object, Source};
use crate::target::{Expect, Target, Traits};
use crate::{Error, Kind, Result};

/// Shows the scope of a target and lets nothing else be changed.
#[derive(Debug)]
pub struct ScopedTarget {
    inner: Arc<dyn Target>,
    view: Arc<View>,
    create_buckets: bool,
}

impl ScopedTarget {
    /// `inner` seen through `view`; without `create_buckets` its buckets must be there.
    pub fn wrap(inner: Arc<dyn Target>, view: &Arc<View>, create_buckets: bool) -> Arc<dyn Target> {
        if view.is_everything() && create_buckets {
            return inner;
        }
        Arc::new(Self {
            inner,
            view: view.clone(),
            create_buckets,
        })
    }

    /// Fails when a bucket of `source` is not on `target`.
    ///
    /// # Errors
    /// [`Kind::Refused`], naming it.
    pub async fn expect_buckets(source: &dyn Source, target: &dyn Target) -> Result<()> {
        let there = target.buckets().await?;
        for bucket in source.buckets().await? {
            if !there.iter().any(|other| other.name == bucket.name) {
                return Err(missing(&bucket.name));
            }
        }
        Ok(())
    }

    fn listed(&self, bucket: &BucketName, full: bool) -> Listing {
        let own = self.view.target_own(bucket);
        let (inner, view) = (self.inner.clone(), self.view.clone());
        let times = self.inner.traits().keeps_last_modified;
        stream::iter(view.keys(bucket))
            .flat_map(move |keys| {
                let (taken, window) = (keys.clone(), view.scope.window);
                let keys = Keys { full, ..keys };
                inner.list_within(&own, keys).filter_map(move |item| {
                    future::ready(match item {
                        Ok(Listed::Object(entry)) if !taken.takes(entry.key.as_str()) => None,
                        // Where the target sets its own times, nobody can tell whether an object
                        // that only it has was ever in the window.
                        Ok(Listed::Object(entry))
                            if !(window.is_everything()
                                || times && window.contains(entry.last_modified)) =>
                        {
                            Some(Ok(Listed::Outside(entry)))
                        }
                        other => Some(other),
                    })
                })
            })
            .boxed()
    }

    fn inside(&self, operation: &'static str, bucket: &BucketName, key: &ObjectKey) -> Result<()> {
        let inside = self.view.shows(bucket)
            && (is_probe_key(key)
                || self.view.scope.keys.takes(key.as_str())
                    && self.view.range.contains(bucket, key.as_str()));
        if inside {
            return Ok(());
        }
        let problem = "is outside of what is migrated";
        let name = format!("{bucket}/{key}");
        Err(Error::new(Kind::Refused, operation, name, problem))
    }
}

fn missing(bucket: &BucketName) -> Error {
    let problem = "does not exist on the target, and none is to be created";
    Error::new(Kind::Refused, "open bucket", bucket.as_str(), problem)
        .with_cure("create it, or leave out --no-create-bucket")
}

#[async_trait]
impl Target for ScopedTarget {
    fn traits(&self) -> Traits {
        self.inner.traits()
    }

    fn naming(&self) -> Naming {
        self.inner.naming()
    }

    fn about(&self) -> About {
        self.inner.about()
    }

    async fn folds_case(&self) -> Result<bool> {
        self.inner.folds_case().await
    }

    fn metadata_limit(&self) -> Option<String> {
        self.inner.metadata_limit()
    }

    fn attribute_limit(&self) -> Option<u64> {
        self.inner.attribute_limit()
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        let all = self.inner.buckets().await?.into_iter();
        let mut shown: Vec<Bucket> = all
            .filter_map(|bucket| {
                let name = self.view.target_shown(&bucket.name)?;
                Some(Bucket { name, ..bucket })
            })
            .collect();
        shown.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(shown)
    }

    async fn ensure_bucket(&self, bucket: &Bucket) -> Result<()> {
        let bucket = &Bucket {
            name: self.view.target_own(&bucket.name),
            ..bucket.clone()
        };
        if !self.create_buckets {
            let there = self.inner.buckets().await?;
            if !there.iter().any(|other| other.name == bucket.name) {
                return Err(missing(&bucket.name));
            }
        }
        self.inner.ensure_bucket(bucket).await
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.listed(bucket, false)
    }

    fn list_full(&self, bucket: &BucketName) -> Listing {
        self.listed(bucket, true)
    }

    /// Whatever the scope takes: who asks for keys knows which.
    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        self.inner.list_within(&self.view.target_own(bucket), keys)
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        self.inner.head(&self.view.target_own(bucket), key).await
    }

    async fn ready(&self) -> Result<()> {
        self.inner.ready().await
    }

    async fn put(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        object: Object,
        expect: &Expect,
    ) -> Result<()> {
        self.inside("put", bucket, key)?;
        let own = self.view.target_own(bucket);
        self.inner.put(&own, key, object, expect).await
    }

    async fn delete(&self, bucket: &BucketName, key: &ObjectKey, expect: &Expect) -> Result<()> {
        self.inside("delete", bucket, key)?;
        let own = self.view.target_own(bucket);
        self.inner.delete(&own, key, expect).await
    }

    async fn open(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Object> {
        self.inner.open(&self.view.target_own(bucket), key).await
    }

    async fn flush(&self) -> Result<()> {
        self.inner.flush().await
    }

    async fn space(&self) -> Result<Option<Space>> {
        self.inner.space().await
    }

    fn state_dir(&self) -> Option<PathBuf> {
        self.inner.state_dir()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Range, Scope};

    /// A store with limits of its own.
    #[derive(Debug)]
    struct Limited;

    #[async_trait]
    impl Target for Limited {
        fn traits(&self) -> Traits {
            Traits {
                kind: "limited",
                location: "here".into(),
                keeps_etag: true,
                keeps_last_modified: true,
            }
        }
        fn naming(&self) -> Naming {
            Naming::Overflow
        }
        fn metadata_limit(&self) -> Option<String> {
            Some("little".into())
        }
        fn attribute_limit(&self) -> Option<u64> {
            Some(7)
        }
        async fn folds_case(&self) -> Result<bool> {
            Ok(true)
        }
        async fn check(&self) -> Result<()> {
            Ok(())
        }
        async fn buckets(&self) -> Result<Vec<Bucket>> {
            Ok(Vec::new())
        }
        async fn ensure_bucket(&self, _bucket: &Bucket) -> Result<()> {
            Ok(())
        }
        fn list(&self, _bucket: &BucketName) -> Listing {
            stream::empty().boxed()
        }
        async fn head(&self, _bucket: &BucketName, _key: &ObjectKey) -> Result<Option<Entry>> {
            Ok(None)
        }
        async fn put(
            &self,
            _bucket: &BucketName,
            _key: &ObjectKey,
            _object: Object,
            _expect: &Expect,
        ) -> Result<()> {
            Ok(())
        }
        async fn delete(&self, _: &BucketName, _: &ObjectKey, _: &Expect) -> Result<()> {
            Ok(())
        }
        async fn open(&self, _bucket: &BucketName, _key: &ObjectKey) -> Result<Object> {
            unreachable!("not asked")
        }
        async fn flush(&self) -> Result<()> {
            Ok(())
        }
        async fn space(&self) -> Result<Option<Space>> {
            Ok(None)
        }
        fn state_dir(&self) -> Option<PathBuf> {
            Some("state".into())
        }
    }

    /// What the plan asks of a target it hears whatever the scope is.
    #[tokio::test]
    async fn the_limits_of_a_target_show_through_a_scope() {
        let view = Arc::new(View::new(Scope::default(), Range::default()));
        // Any reason to look at it through a view.
        let scoped = ScopedTarget::wrap(Arc::new(Limited), &view, false);
        assert_eq!(scoped.attribute_limit(), Some(7));
        assert_eq!(scoped.metadata_limit().as_deref(), Some("little"));
        assert_eq!(scoped.naming(), Naming::Overflow);
        assert!(scoped.folds_case().await.unwrap());
        assert_eq!(scoped.state_dir(), Some("state".into()));
        assert_eq!(scoped.traits().kind, "limited");
    }
}
