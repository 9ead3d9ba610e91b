//! What of an S3 bucket stays behind: versions, delete markers and settings. Also who the server
//! is.

use std::future::Future;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::types::{EncodingType, Payer};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use filestore_common::BucketName;

use super::listing::decode;
use crate::location::Addressing;
use crate::s3::S3;
use crate::scope::Keys;
use crate::source::{Left, Reason, Tally};
use crate::{Error, Kind, Result};

/// Longest answer of the admin API that is read.
const MAX_INFO_BYTES: usize = 1 << 20;

/// Settings of `bucket`; versions and unfinished uploads of the keys that one of `keys` takes.
pub(super) async fn survey(s3: &S3, bucket: &BucketName, keys: &[Keys]) -> Result<Tally> {
    let mut tally = Tally::default();
    settings(s3, bucket, &mut tally).await?;
    let name = bucket.as_str();
    let versioning = s3
        .call("versioning", name, |client| {
            client.get_bucket_versioning().bucket(name).send()
        })
        .await;
    let listed = match versioning {
        Ok(answer) => match answer.status {
            Some(status) => {
                let what = format!("versioning {}", status.as_str());
                setting(&mut tally, bucket, &what, "");
                all_versions(s3, bucket, keys, &mut tally).await
            }
            None => Ok(()),
        },
        Err(error) if is_denied(&error) => {
            setting(&mut tally, bucket, &format!("versioning{DENIED}"), "");
            // They may be listed all the same, by other rights.
            all_versions(s3, bucket, keys, &mut tally).await
        }
        Err(error) => unread(&mut tally, bucket, "versioning", error),
    };
    match listed {
        Err(error) if is_denied(&error) => {
            let name = format!("{bucket}{DENIED}");
            tally.add(Left::new(Reason::UnknownVersions, name, 1));
        }
        listed => listed?,
    }
    uploads(s3, bucket, keys, &mut tally).await?;
    Ok(tally)
}

/// Said of what the server keeps from these credentials.
const DENIED: &str = " (not readable with these credentials)";

fn is_denied(error: &Error) -> bool {
    error.status == Some(403) && matches!(error.kind, Kind::Auth | Kind::Unsupported)
}

/// `text` is what was set, as far as it is read.
fn setting(tally: &mut Tally, bucket: &BucketName, what: &str, text: &str) {
    let name = format!("{bucket}: {what}");
    let left = Left::new(Reason::BucketSettings, name, 1);
    tally.add(left.with_identity(text.as_bytes()));
}

/// A setting that is not there or not known to the server is nothing; one that may not be read is
/// named as such.
fn unread(tally: &mut Tally, bucket: &BucketName, what: &str, error: Error) -> Result<()> {
    match error.kind {
        Kind::NotFound | Kind::Unsupported if error.status != Some(403) => Ok(()),
        Kind::Other if error.status == Some(400) || error.status == Some(405) => Ok(()),
        _ if is_denied(&error) => {
            setting(tally, bucket, &format!("{what}{DENIED}"), "");
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
    text: impl Fn(&T) -> Option<String>,
) -> Result<()>
where
    F: Fn(Client) -> Fut,
    Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match s3.call(what, bucket.as_str(), send).await {
        Ok(answer) => {
            if let Some(text) = text(&answer) {
                setting(tally, bucket, what, &text);
            }
            Ok(())
        }
        Err(error) => unread(tally, bucket, what, error),
    }
}

async fn settings(s3: &S3, bucket: &BucketName, tally: &mut Tally) -> Result<()> {
    let name = bucket.as_str();
    // What they are travels with the bucket.
    probe(
        s3,
        bucket,
        "tags",
        tally,
        |c| c.get_bucket_tagging().bucket(name).send(),
        |_| None,
    )
    .await?;
    /// Asks for one setting: its name, the request, and what the answer says was set, if anything.
    macro_rules! ask {
        ($what:literal, $request:ident, $text:expr) => {
            probe(
                s3,
                bucket,
                $what,
                tally,
                |c| c.$request().bucket(name).send(),
                $text,
            )
            .await?
        };
    }
    ask!("policy", get_bucket_policy, |a| a
        .policy
        .clone()
        .filter(|policy| !policy.is_empty()));
    ask!("lifecycle", get_bucket_lifecycle_configuration, |a| {
        some(a.rules())
    });
    ask!("CORS", get_bucket_cors, |a| some(a.cors_rules()));
    ask!("encryption", get_bucket_encryption, |a| told(
        a.server_side_encryption_configuration.as_ref()
    ));
    ask!("replication", get_bucket_replication, |a| told(
        a.replication_configuration.as_ref()
    ));
    ask!("object lock", get_object_lock_configuration, |a| told(
        a.object_lock_configuration.as_ref()
    ));
    ask!("notification", get_bucket_notification_configuration, |a| {
        let queues = (a.topic_configurations(), a.queue_configurations());
        let others = (
            a.lambda_function_configurations(),
            &a.event_bridge_configuration,
        );
        let is_set = !queues.0.is_empty()
            || !queues.1.is_empty()
            || !others.0.is_empty()
            || others.1.is_some();
        is_set.then(|| format!("{queues:?} {others:?}"))
    });
    ask!("website", get_bucket_website, |a| {
        let website = (
            &a.index_document,
            &a.error_document,
            &a.redirect_all_requests_to,
            a.routing_rules(),
        );
        let is_set = website.0.is_some() || website.2.is_some() || !website.3.is_empty();
        is_set.then(|| format!("{website:?}"))
    });
    ask!("logging", get_bucket_logging, |a| told(
        a.logging_enabled.as_ref()
    ));
    ask!("request payment", get_bucket_request_payment, |a| (a.payer
        == Some(Payer::Requester))
    .then(String::new));
    ask!("acceleration", get_bucket_accelerate_configuration, |a| {
        told(a.status.as_ref())
    });
    ask!("public access block", get_public_access_block, |a| told(
        a.public_access_block_configuration.as_ref()
    ));
    // The owner's own grant is what every bucket has.
    ask!("ACL", get_bucket_acl, |a| some(a.grants())
        .filter(|_| { a.grants().len() > 1 }));
    Ok(())
}

/// The text of a document of the answer. Its form is the SDK's; only ever compared with itself.
fn told<T: std::fmt::Debug>(document: Option<&T>) -> Option<String> {
    document.map(|document| format!("{document:?}"))
}

/// The same of a list, which says nothing when it is empty.
fn some<T: std::fmt::Debug>(list: &[T]) -> Option<String> {
    told(Some(&list).filter(|list| !list.is_empty()))
}

async fn all_versions(
    s3: &S3,
    bucket: &BucketName,
    keys: &[Keys],
    tally: &mut Tally,
) -> Result<()> {
    for keys in keys {
        versions(s3, bucket, keys, tally).await?;
    }
    Ok(())
}

async fn versions(s3: &S3, bucket: &BucketName, keys: &Keys, tally: &mut Tally) -> Result<()> {
    let name = bucket.as_str();
    let prefix = Some(&keys.span.prefix).filter(|prefix| !prefix.is_empty());
    let (mut key, mut version): (Option<String>, Option<String>) = (keys.span.after.clone(), None);
    loop {
        let page = s3
            .call("list versions", name, |client| {
                client
                    .list_object_versions()
                    .bucket(name)
                    .encoding_type(EncodingType::Url)
                    .set_prefix(prefix.cloned())
                    .set_key_marker(key.clone())
                    .set_version_id_marker(version.clone())
                    .send()
            })
            .await?;
        for old in page.versions().iter().filter(|v| v.is_latest != Some(true)) {
            let size = old.size().and_then(|size| u64::try_from(size).ok());
            let which = [old.version_id(), old.e_tag()];
            let left = left(bucket, keys, Reason::NoncurrentVersions, old.key(), which);
            if let Some(left) = left {
                tally.add(left.with_bytes(size.unwrap_or(0)));
            }
        }
        for marker in page.delete_markers() {
            let which = [marker.version_id(), None];
            let left = left(bucket, keys, Reason::DeleteMarkers, marker.key(), which);
            if let Some(left) = left {
                tally.add(left);
            }
        }
        // The markers of the next page are encoded like the keys.
        let next_key = page.next_key_marker().and_then(decode);
        let next_version = page.next_version_id_marker().map(str::to_owned);
        let over = next_key
            .as_deref()
            .is_some_and(|next| keys.span.ends_before(next));
        if page.is_truncated != Some(true) || over {
            return Ok(());
        }
        if next_key.is_none() || (&next_key, &next_version) == (&key, &version) {
            let problem = "more versions follow but there is no new marker";
            return Err(Error::new(Kind::Listing, "list versions", name, problem));
        }
        (key, version) = (next_key, next_version);
    }
}

/// A version of one of `keys`, told from others of its key by version id and ETag.
fn left(
    bucket: &BucketName,
    keys: &Keys,
    reason: Reason,
    key: Option<&str>,
    which: [Option<&str>; 2],
) -> Option<Left> {
    let key = key.and_then(decode).unwrap_or_default();
    let which = which.map(Option::unwrap_or_default).join(" ");
    keys.takes(&key)
        .then(|| Left::new(reason, format!("{bucket}/{key}"), 1).with_identity(which.into_bytes()))
}

async fn uploads(s3: &S3, bucket: &BucketName, keys: &[Keys], tally: &mut Tally) -> Result<()> {
    let name = bucket.as_str();
    let (mut key, mut upload): (Option<String>, Option<String>) = (None, None);
    loop {
        let answer = s3
            .call("list uploads", name, |client| {
                client
                    .list_multipart_uploads()
                    .bucket(name)
                    .set_key_marker(key.clone())
                    .set_upload_id_marker(upload.clone())
                    .send()
            })
            .await;
        let page = match answer {
            Ok(page) => page,
            Err(error) => return unread(tally, bucket, "unfinished uploads", error),
        };
        for upload in page.uploads() {
            let key = upload.key().unwrap_or_default();
            if !keys.iter().any(|keys| keys.takes(key)) {
                continue;
            }
            let name = format!("{bucket}/{key}");
            let id = upload.upload_id().unwrap_or_default();
            let left = Left::new(Reason::UnfinishedUploads, name, 1);
            tally.add(left.with_identity(id.as_bytes()));
        }
        let next = (
            page.next_key_marker().map(str::to_owned),
            page.next_upload_id_marker().map(str::to_owned),
        );
        if page.is_truncated != Some(true) {
            return Ok(());
        }
        if next.0.is_none() || next == (key, upload) {
            let problem = "more uploads follow but there is no new marker";
            return Err(Error::new(Kind::Listing, "list uploads", name, problem));
        }
        (key, upload) = next;
    }
}

/// What only the admin API of a server shows, or nothing at all.
pub(super) fn not_visible(server: Option<&str>) -> Vec<String> {
    let minio = server.is_some_and(|server| server.contains("MinIO"));
    let shared = [
        "users, groups, policies and service accounts",
        "objects encrypted with a key of their owner (SSE-C), until they are read",
    ];
    let only_minio = [
        "bucket quotas, remote tiers and replication targets",
        "unfinished uploads (MinIO lists them by their exact key only)",
        "objects that MinIO's own listings hide (`a/b` beside an object `a`)",
    ];
    let more = if minio { &only_minio[..] } else { &[] };
    shared.iter().chain(more).map(ToString::to_string).collect()
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
