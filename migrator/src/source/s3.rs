//! An S3 endpoint as source: MinIO, versitygw, another Filestore or anything that speaks S3.

mod listing;
mod object;
mod survey;
mod told;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use filestore_common::marker::SourceIdentity;
use filestore_common::{BucketName, ETag, ObjectKey, Tags};

use super::{About, Bucket, Entry, Left, Listing, Object, Reason, Source, Tally, Tells};
use crate::s3::{Patience, S3};
use crate::scope::Keys;
use crate::{Endpoint, Error, Kind, Result};

pub(crate) use listing::list;
pub(crate) use object::{head, open};

/// Reads from an S3 endpoint.
#[derive(Debug, Clone)]
pub struct S3Source {
    s3: Arc<S3>,
}

impl S3Source {
    /// A source at `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// [`Kind::Usage`], of [`S3::new`].
    pub fn new(endpoint: &Endpoint, patience: Patience) -> Result<Self> {
        Ok(Self {
            s3: Arc::new(S3::new(endpoint, patience)?),
        })
    }
}

/// Name, creation date and tags of every bucket, and the names that we cannot take.
pub(crate) async fn buckets(s3: &S3) -> Result<(Vec<Bucket>, Vec<String>)> {
    if let Some(only) = s3.only_bucket() {
        return Ok((
            only_bucket(s3, only).await?.into_iter().collect(),
            Vec::new(),
        ));
    }
    let mut names = Vec::new();
    let mut refused = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = s3
            .call("list buckets", s3.url(), |client| {
                client
                    .list_buckets()
                    .set_continuation_token(token.clone())
                    .send()
            })
            .await?;
        for bucket in page.buckets.unwrap_or_default() {
            let created = bucket
                .creation_date
                .and_then(|date| SystemTime::try_from(date).ok());
            let name = bucket.name.unwrap_or_default();
            match BucketName::new(name.as_str()) {
                Ok(name) => names.push((name, created.unwrap_or(SystemTime::UNIX_EPOCH))),
                Err(_) => refused.push(name),
            }
        }
        let next = page.continuation_token.filter(|token| !token.is_empty());
        if next.is_none() {
            break;
        }
        if next == token {
            let problem = "more buckets follow but there is no new token";
            return Err(Error::new(Kind::Listing, "list buckets", s3.url(), problem));
        }
        token = next;
    }
    names.sort();
    let mut buckets = Vec::with_capacity(names.len());
    for (name, created) in names {
        let tags = bucket_tags(s3, &name).await?;
        buckets.push(Bucket {
            name,
            created,
            tags,
        });
    }
    Ok((buckets, refused))
}

/// The bucket that the location names, `None` when it does not exist. Its creation date shows
/// only in the list of all buckets.
async fn only_bucket(s3: &S3, bucket: &BucketName) -> Result<Option<Bucket>> {
    let name = bucket.as_str();
    let head = s3.call("head bucket", name, |client| {
        client.head_bucket().bucket(name).send()
    });
    match head.await {
        Ok(_) => Ok(Some(Bucket {
            name: bucket.clone(),
            created: SystemTime::UNIX_EPOCH,
            tags: bucket_tags(s3, bucket).await?,
        })),
        Err(error) if error.kind == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn bucket_tags(s3: &S3, bucket: &BucketName) -> Result<Tags> {
    let name = bucket.as_str();
    let answer = s3
        .call("tags", name, |client| {
            client.get_bucket_tagging().bucket(name).send()
        })
        .await;
    match answer {
        Ok(answer) => Ok(answer
            .tag_set
            .into_iter()
            .map(|tag| (tag.key, tag.value))
            .collect()),
        // None were set, or the server has no bucket tags.
        Err(error) if matches!(error.kind, Kind::NotFound | Kind::Unsupported) => Ok(Tags::new()),
        Err(error) => Err(error),
    }
}

#[async_trait]
impl Source for S3Source {
    async fn check(&self) -> Result<()> {
        self.s3.check().await
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        let (buckets, _) = buckets(&self.s3).await?;
        Ok(SourceIdentity {
            kind: "s3".into(),
            deployment_id: survey::deployment_id(&self.s3).await,
            location: self.s3.url().to_owned(),
            buckets: buckets
                .into_iter()
                .map(|bucket| bucket.name.into())
                .collect(),
        })
    }

    async fn buckets(&self) -> Result<Vec<Bucket>> {
        Ok(buckets(&self.s3).await?.0)
    }

    fn list(&self, bucket: &BucketName) -> Listing {
        self.list_within(bucket, Keys::all())
    }

    fn lists_cheaply(&self) -> bool {
        true
    }

    fn list_within(&self, bucket: &BucketName, keys: Keys) -> Listing {
        list(self.s3.clone(), bucket.clone(), keys)
    }

    fn tells(&self) -> Tells {
        if told::by(&self.s3) {
            Tells::Tags
        } else {
            Tells::Nothing
        }
    }

    async fn survey(&self, bucket: &BucketName) -> Result<Tally> {
        self.survey_within(bucket, &[Keys::all()]).await
    }

    async fn survey_within(&self, bucket: &BucketName, keys: &[Keys]) -> Result<Tally> {
        survey::survey(&self.s3, bucket, keys).await
    }

    fn about(&self) -> About {
        let about = self.s3.about();
        About {
            not_visible: survey::not_visible(about.server.as_deref()),
            ..about
        }
    }

    async fn survey_store(&self) -> Result<Tally> {
        let mut tally = Tally::default();
        for name in buckets(&self.s3).await?.1 {
            tally.add(Left::new(Reason::Unnameable, format!("bucket {name}"), 1));
        }
        Ok(tally)
    }

    async fn open(&self, bucket: &BucketName, entry: &Entry) -> Result<Object> {
        let mut object = open(&self.s3, bucket, &entry.key, entry.etag.as_ref()).await?;
        // Listings have milliseconds, headers only seconds.
        let told = object.info.last_modified;
        if entry
            .last_modified
            .duration_since(told)
            .is_ok_and(|more| more.as_secs() == 0)
        {
            object.info.last_modified = entry.last_modified;
        }
        Ok(object)
    }

    async fn head(&self, bucket: &BucketName, key: &ObjectKey) -> Result<Option<Entry>> {
        head(&self.s3, bucket, key).await
    }
}

/// ETags that say nothing: none at all, or the zeros that old MinIO shows for files that it did
/// not write (minio/minio#6198).
pub(crate) fn known(etag: ETag) -> Option<ETag> {
    let digest = etag.as_str().split('-').next().unwrap_or_default();
    (!digest.bytes().all(|byte| byte == b'0')).then_some(etag)
}
