//! ListBuckets.

use s3s::dto::{Bucket, ListBucketsInput, ListBucketsOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::access::Action;
use crate::auth;
use crate::s3::error::invalid_argument;
use crate::s3::{Gateway, listing};

const MAX_BUCKETS: i32 = 10_000;

pub(super) async fn list_buckets(
    gateway: &Gateway,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let input = request.input;
    let limit = limit(input.max_buckets)?;
    let after = match input.continuation_token.as_deref() {
        Some(token) if !token.is_empty() => Some(listing::parse_token(token)?),
        _ => None,
    };
    let other_region = input
        .bucket_region
        .as_deref()
        .is_some_and(|region| !region.is_empty() && region != gateway.region());
    let prefix = input.prefix.unwrap_or_default();
    let mut found = if other_region {
        Vec::new()
    } else {
        gateway.long(filestore_store::Store::list_buckets).await?
    };
    let caller = auth::principal().ok_or_else(auth::denied)?;
    found.retain(|bucket| {
        let name = bucket.name.as_str();
        caller.may(Action::See, name, "")
            && name.starts_with(&prefix)
            && after.as_deref().is_none_or(|after| name > after)
    });
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found
        .last()
        .filter(|_| more)
        .map(|bucket| listing::token(bucket.name.as_str()));
    let buckets = found
        .into_iter()
        .map(|bucket| Bucket {
            bucket_region: Some(gateway.region().to_owned()),
            creation_date: Some(bucket.created.into()),
            name: Some(bucket.name.into()),
        })
        .collect();
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets),
        continuation_token: next,
        owner: Some(gateway.owner()),
        prefix: Some(prefix).filter(|prefix| !prefix.is_empty()),
    }))
}

fn limit(asked: Option<i32>) -> S3Result<usize> {
    let asked = asked.unwrap_or(MAX_BUCKETS);
    match usize::try_from(asked) {
        Ok(limit) if (1..=MAX_BUCKETS).contains(&asked) => Ok(limit),
        _ => Err(invalid_argument(
            "max-buckets",
            &asked.to_string(),
            "Argument max-buckets must be an integer between 1 and 10000.",
        )),
    }
}
