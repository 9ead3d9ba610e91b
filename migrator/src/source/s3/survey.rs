//! What of an S3 bucket stays behind: versions, delete markers and settings. Also who the server
//! is.

use std::future::Future;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::types::EncodingType;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use filestore_common::BucketName;

use super::listing::decode;
use crate::location::Addressing;
use crate::s3::S3;
use crate::source::{Left, Reason, Tally};
use crate::{Error, Kind, Result};

/// Longest answer of the admin API that is read.
const MAX_INFO_BYTES: usize = 1 << 20;

/// Settings, versions and unfinished uploads of `bucket`.
pub(super) async fn survey(s3: &S3, bucket: &BucketName) -> Result<Tally> {
    let mut tally = Tally::default();
    settings(s3, bucket, &mut tally).await?;
    let name = bucket.as_str();
    let versioning = s3
        .call("versioning", name, |client| {
            client.get_bucket_versioning().bucket(name).send()
        })
        .await;
    match versioning {
        Ok(answer) if answer.status.is_some() => {
            let status = answer.status.map(|status| status.as_str().to_owned());
            setting(
                &mut tally,
                bucket,
                &format!("versioning {}", status.unwrap_or_default()),
            );
            versions(s3, bucket, &mut tally).await?;
        }
        Ok(_) => {}
        Err(error) => unread(&mut tally, bucket, "versioning", error)?,
    }
    uploads(s3, bucket, &mut tally).await?;
    Ok(tally)
}

fn setting(tally: &mut Tally, bucket: &BucketName, what: &str) {
    let name = format!("{bucket}: {what}");
    tally.add(Left {
        reason: Reason::BucketSettings,
        name,
        count: 1,
    });
}

/// A setting that is not there or not known to the server is nothing; one that may not be read is
/// named as such.
fn unread(tally: &mut Tally, bucket: &BucketName, what: &str, error: Error) -> Result<()> {
    match error.kind {
        Kind::NotFound | Kind::Unsupported if error.status != Some(403) => Ok(()),
        Kind::Other if error.status == Some(400) || error.status == Some(405) => Ok(()),
        Kind::Auth | Kind::Unsupported if error.status == Some(403) => {
            setting(
                tally,
                bucket,
                &format!("{what} (not readable with these credentials)"),
            );
            Ok(())
        }
        _ => Err(error),
    }
}

async fn probe<T, E, F, Fut>(
    s3: &S3,
    bucket: &BucketName,
    what: &'static str,
    tally: &mut Tally,
    send: F,
    is_set: impl Fn(&T) -> bool,
) -> Result<()>
where
    F: Fn(Client) -> Fut,
    Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match s3.call(what, bucket.as_str(), send).await {
        Ok(answer) => {
            if is_set(&answer) {
                setting(tally, bucket, what);
            }
            Ok(())
        }
        Err(error) => unread(tally, bucket, what, error),
    }
}

async fn settings(s3: &S3, bucket: &BucketName, tally: &mut Tally) -> Result<()> {
    let name = bucket.as_str();
    probe(
        s3,
        bucket,
        "policy",
        tally,
        |c| c.get_bucket_policy().bucket(name).send(),
        |a| a.policy.as_ref().is_some_and(|policy| !policy.is_empty()),
    )
    .await?;
    probe(
        s3,
        bucket,
        "lifecycle",
        tally,
        |c| c.get_bucket_lifecycle_configuration().bucket(name).send(),
        |a| !a.rules().is_empty(),
    )
    .await?;
    probe(
        s3,
        bucket,
        "cors",
        tally,
        |c| c.get_bucket_cors().bucket(name).send(),
        |a| !a.cors_rules().is_empty(),
    )
    .await?;
    probe(
        s3,
        bucket,
        "encryption",
        tally,
        |c| c.get_bucket_encryption().bucket(name).send(),
        |a| a.server_side_encryption_configuration.is_some(),
    )
    .await?;
    probe(
        s3,
        bucket,
        "replication",
        tally,
        |c| c.get_bucket_replication().bucket(name).send(),
        |a| a.replication_configuration.is_some(),
    )
    .await?;
    probe(
        s3,
        bucket,
        "object lock",
        tally,
        |c| c.get_object_lock_configuration().bucket(name).send(),
        |a| a.object_lock_configuration.is_some(),
    )
    .await?;
    probe(
        s3,
        bucket,
        "notification",
        tally,
        |c| {
            c.get_bucket_notification_configuration()
                .bucket(name)
                .send()
        },
        |a| {
            !a.topic_configurations().is_empty()
                || !a.queue_configurations().is_empty()
                || !a.lambda_function_configurations().is_empty()
        },
    )
    .await
}

async fn versions(s3: &S3, bucket: &BucketName, tally: &mut Tally) -> Result<()> {
    let name = bucket.as_str();
    let (mut key, mut version): (Option<String>, Option<String>) = (None, None);
    loop {
        let page = s3
            .call("list versions", name, |client| {
                client
                    .list_object_versions()
                    .bucket(name)
                    .encoding_type(EncodingType::Url)
                    .set_key_marker(key.clone())
                    .set_version_id_marker(version.clone())
                    .send()
            })
            .await?;
        for old in page
            .versions()
            .iter()
            .filter(|version| version.is_latest != Some(true))
        {
            add(tally, bucket, Reason::NoncurrentVersions, old.key());
        }
        for marker in page.delete_markers() {
            add(tally, bucket, Reason::DeleteMarkers, marker.key());
        }
        // The markers of the next page are encoded like the keys.
        let next_key = page.next_key_marker().and_then(decode);
        let next_version = page.next_version_id_marker().map(str::to_owned);
        if page.is_truncated != Some(true) {
            return Ok(());
        }
        if next_key.is_none() || (&next_key, &next_version) == (&key, &version) {
            let problem = "more versions follow but there is no new marker";
            return Err(Error::new(Kind::Listing, "list versions", name, problem));
        }
        (key, version) = (next_key, next_version);
    }
}

fn add(tally: &mut Tally, bucket: &BucketName, reason: Reason, key: Option<&str>) {
    let key = key.and_then(decode).unwrap_or_default();
    tally.add(Left {
        reason,
        name: format!("{bucket}/{key}"),
        count: 1,
    });
}

async fn uploads(s3: &S3, bucket: &BucketName, tally: &mut Tally) -> Result<()> {
    let name = bucket.as_str();
    let answer = s3
        .call("list uploads", name, |client| {
            client.list_multipart_uploads().bucket(name).send()
        })
        .await;
    match answer {
        Ok(page) => {
            for upload in page.uploads() {
                let name = format!("{bucket}/{}", upload.key().unwrap_or_default());
                tally.add(Left {
                    reason: Reason::UnfinishedUploads,
                    name,
                    count: 1,
                });
            }
            Ok(())
        }
        Err(error) => unread(tally, bucket, "unfinished uploads", error),
    }
}

/// MinIO's deployment id by its admin API, which root may ask for; `None` from any other server.
/// The path `/minio/admin/v3/info` has the form of an object's, so that GetObject signs it.
pub(super) async fn deployment_id(s3: &S3) -> Option<String> {
    // With virtual hosts, `minio` would be asked for as one.
    if s3.addressing() == Addressing::Virtual
        || !s3.server().is_some_and(|server| server.contains("MinIO"))
    {
        return None;
    }
    let answer = s3
        .call("identify", s3.url(), |client| {
            client
                .get_object()
                .bucket("minio")
                .key("admin/v3/info")
                .send()
        })
        .await;
    let mut body = answer.ok()?.body;
    let mut text = Vec::new();
    while let Some(chunk) = body.next().await {
        text.extend_from_slice(&chunk.ok()?);
        if text.len() > MAX_INFO_BYTES {
            return None;
        }
    }
    let info: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let id = info.get("deploymentID")?.as_str()?;
    (!id.is_empty()).then(|| id.to_owned())
}
