//! An S3 endpoint as target. Our own gateway takes ETag, Last-Modified and part sizes by trusted
//! import headers; on any other server the parts are laid out as at the source, so that the ETag
//! comes out equal, and Last-Modified cannot be kept.

mod put;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use filestore_common::{BucketName, ObjectKey};
use filestore_store::Space;

use super::{Expect, Target, Traits};
use crate::naming::Naming;
use crate::s3::{Patience, S3};
use crate::scope::Keys;
use crate::source::s3 as reader;
use crate::source::{About, Bucket, Entry, Listing, Object};
use crate::{Endpoint, Error, Kind, Result, body};

/// Writes to an S3 endpoint.
#[derive(Debug)]
pub struct S3Target {
    s3: Arc<S3>,
    /// Its `Server` header.
    server: Option<String>,
    /// Our own gateway: it said so in its `Server` header.
    imports: bool,
}

impl S3Target {
    /// Connects to `endpoint` to learn which server it is.
    ///
    /// # Errors
    /// As [`Target::check`], and [`Kind::Usage`].
    pub async fn connect(endpoint: &Endpoint, patience: Patience) -> Result<Self> {
        let s3 = Arc::new(S3::new(endpoint, patience)?);
        answers(&s3).await?;
        let server = s3.server();
        let imports = server
            .as_deref()
            .is_some_and(|server| server.starts_with("Filestore"));
        Ok(Self {
            s3,
            server,
            imports,
        })
    }
}

/// Comes back when the server answers.
async fn answers(s3: &S3) -> Result<()> {
    match s3.only_bucket().map(BucketName::as_str) {
        None => {
            let list = s3.call("list buckets", s3.url(), |c| c.list_buckets().send());
            list.await.map(drop)
        }
        Some(name) => {
            let head = s3.call("head bucket", name, |c| c.head_bucket().bucket(name).send());
            head.await.map(drop).or_else(|error| match error.kind {
                Kind::NotFound => Ok(()),
                _ => Err(error),
            })
        }
    }
}

#[async_trait]
impl Target for S3Target {
    fn traits(&self) -> Traits {
        Traits {
            kind: if self.imports { "filestore" } else { "s3" },
            location: self.s3.url().to_owned(),
            keeps_etag: self.imports,
            keeps_last_modified: self.imports,
        }
    }

    fn naming(&self) -> Naming {
        Naming::of_server(self.server.as_deref())
    }

    fn about(&self) -> About {
        self.s3.about()
    }

    fn metadata_limit(&self) -> Option<String> {
        Some(
            "S3 servers take about 2 KB of user metadata and 10 tags an object; one that the \
             target refuses is named when it is copied"
                .into(),
        )
    }

    async fn check(&self) -> Result<()> {
        self.s3.check().await
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        Ok(reader::buckets(&self.s3).await?.0)
    }

    async fn ensure_bucket(&self, bucket: &Bucket) -> Result<()> {
        let name = bucket.name.as_str();
        let head = self
            .s3
            .call("head bucket", name, |c| c.head_bucket().bucket(name).send())
            .await;
        match head {
            Ok(_) => {}
            Err(error) if error.kind == Kind::NotFound => {
                self.s3
                    .call("create bucket", name, |c| {
                        c.create_bucket().bucket(name).send()
                    })
                    .await?;
            }
            Err(error) => return Err(error),
        }
        put::bucket_tags(&self.s3, bucket).await
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all())
    }

    /// Without metadata: what MinIO tells of it here is a hint and no record.
    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        let keys = Keys {
            full: false,
            ..keys
        };
        reader::list(self.s3.clone(), bucket.clone(), keys)
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        reader::head(&self.s3, bucket, key).await
    }

    async fn ready(&self) -> Result<()> {
        if self.s3.is_down() {
            answers(&self.s3).await?;
        }
        Ok(())
    }

    async fn put(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        object: Object,
        expect: &Expect,
    ) -> Result<()> {
        let name = format!("{bucket}/{key}");
        let object = body::checked(object, &name);
        let put = put::Put {
            s3: &self.s3,
            bucket,
            key,
            name: &name,
            expect,
        };
        if self.imports {
            put.import(object).await
        } else {
            put.foreign(object).await
        }
    }

    async fn delete(&self, bucket: &BucketName, key: &ObjectKey, expect: &Expect) -> Result<()> {
        let name = format!("{bucket}/{key}");
        if let Expect::Same(etag) = expect {
            match self.head(bucket, key).await? {
                None => return Ok(()),
                Some(now) if now.etag == *etag => {}
                Some(_) => {
                    let problem = "the object on the target is another one now";
                    return Err(Error::new(Kind::Conflict, "delete", name, problem));
                }
            }
        }
        // Our gateway looks and deletes in one; others are looked at before, since a server that does
        // not know the header would delete whatever is there.
        let condition = match expect {
            Expect::Same(Some(etag)) if self.imports => Some(etag.quoted()),
            _ => None,
        };
        self.s3
            .call("delete", &name, |client| {
                client
                    .delete_object()
                    .bucket(bucket.as_str())
                    .key(key.as_str())
                    .set_if_match(condition.clone())
                    .send()
            })
            .await
            .map(drop)
    }

    async fn open(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Object> {
        reader::open(&self.s3, bucket, key, None).await
    }

    async fn flush(&self) -> Result<()> {
        // The server flushed before it answered, or promised to nobody.
        Ok(())
    }

    async fn space(&self) -> Result<Option<Space>> {
        Ok(None)
    }

    fn state_dir(&self) -> Option<PathBuf> {
        None
    }
}
