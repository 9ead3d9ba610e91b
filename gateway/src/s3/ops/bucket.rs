//! CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation.

use filestore_common::BucketName;
use quick_xml::Reader;
use quick_xml::events::Event;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::s3::error::{self, reply};
use crate::s3::{Gateway, request, tags};

/// The region whose buckets have an empty location (GetBucketLocation API reference).
const DEFAULT_REGION: &str = "us-east-1";

pub(super) async fn create(
    gateway: &Gateway,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    if !request::harmless_acl(request::headers(&request))? {
        return Err(S3Error::with_message(
            S3ErrorCode::InvalidBucketAclWithObjectOwnership,
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
        ));
    }
    let tag_set = request
        .extensions
        .get::<request::XmlBody>()
        .map(|body| tags_of(&body.0));
    let input = request.input;
    let bucket = BucketName::new(&*input.bucket).map_err(|error| error::from_name(&error))?;
    if input.object_lock_enabled_for_bucket == Some(true) {
        return Err(error::header_not_implemented(
            "x-amz-bucket-object-lock-enabled",
        ));
    }
    check_ownership(input.object_ownership.as_ref())?;
    let configuration = input.create_bucket_configuration.as_ref();
    if let Some(location) = configuration.and_then(|c| c.location_constraint.as_ref()) {
        check_location(gateway, location.as_str())?;
    }
    let tags = tags::of_bucket(tag_set.transpose()?.unwrap_or_default())?;
    let owner = gateway.settings.owner.clone();
    let name = bucket.clone();
    gateway
        .short(move |store| {
            store.create_bucket(&name, &owner)?;
            if tags.is_empty() {
                return Ok(());
            }
            store.set_bucket_tags(&name, Some(&tags))
        })
        .await
        .map_err(|error| naming(error, bucket.as_str()))?;
    let mut reply = S3Response::new(CreateBucketOutput {
        location: Some(format!("/{bucket}")),
    });
    if let Ok(arn) = http::HeaderValue::from_str(&format!("arn:aws:s3:::{bucket}")) {
        reply.headers.insert("x-amz-bucket-arn", arn);
    }
    Ok(reply)
}

/// Tags of a `CreateBucketConfiguration`, which s3s 0.14 leaves out.
fn tags_of(xml: &[u8]) -> S3Result<TagSet> {
    let malformed = |_| error::code(S3ErrorCode::MalformedXML);
    let mut reader = Reader::from_reader(xml);
    let mut set = TagSet::new();
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(malformed)? {
            Event::Start(element) => {
                text.clear();
                if element.local_name().as_ref() == b"Tag" {
                    set.push(Tag::default());
                }
            }
            Event::Text(piece) => text.push_str(&String::from_utf8_lossy(&piece)),
            Event::GeneralRef(name) => {
                text.push('&');
                text.push_str(&String::from_utf8_lossy(&name));
                text.push(';');
            }
            Event::End(element) => {
                let Some(tag) = set.last_mut() else { continue };
                let value = || {
                    let value = quick_xml::escape::unescape(&text);
                    value
                        .map(std::borrow::Cow::into_owned)
                        .map_err(|_| error::code(S3ErrorCode::MalformedXML))
                };
                match element.local_name().as_ref() {
                    b"Key" => tag.key = Some(value()?),
                    b"Value" => tag.value = Some(value()?),
                    _ => {}
                }
            }
            Event::Eof => return Ok(set),
            _ => {}
        }
    }
}

fn check_ownership(ownership: Option<&ObjectOwnership>) -> S3Result<()> {
    match ownership.map(ObjectOwnership::as_str) {
        None | Some("BucketOwnerEnforced") => Ok(()),
        Some("BucketOwnerPreferred" | "ObjectWriter") => {
            Err(error::header_not_implemented("x-amz-object-ownership"))
        }
        Some(other) => Err(error::invalid_argument(
            "x-amz-object-ownership",
            "",
            format!("Invalid x-amz-object-ownership header: {other}"),
        )),
    }
}

/// us-east-1 is accepted everywhere: minio-py always sends it, MinIO takes it.
fn check_location(gateway: &Gateway, location: &str) -> S3Result<()> {
    if ["", DEFAULT_REGION, gateway.region()].contains(&location) {
        return Ok(());
    }
    let mut error = error::code(S3ErrorCode::InvalidLocationConstraint);
    reply::add_detail(&mut error, "LocationConstraint", location);
    Err(error)
}

fn naming(mut error: S3Error, bucket: &str) -> S3Error {
    reply::add_detail(&mut error, "BucketName", bucket);
    error
}

pub(super) async fn head(
    gateway: &Gateway,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    Ok(S3Response::new(HeadBucketOutput {
        access_point_alias: Some(false),
        bucket_region: Some(gateway.region().to_owned()),
        ..HeadBucketOutput::default()
    }))
}

pub(super) async fn delete(
    gateway: &Gateway,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    gateway
        .long(move |store| store.delete_bucket(&bucket))
        .await
        .map_err(|error| naming(error, &input.bucket))?;
    Ok(S3Response::new(DeleteBucketOutput {}))
}

pub(super) async fn location(
    gateway: &Gateway,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    let region = gateway.region();
    Ok(S3Response::new(GetBucketLocationOutput {
        location_constraint: (region != DEFAULT_REGION)
            .then(|| BucketLocationConstraint::from(region.to_owned())),
    }))
}

impl Gateway {
    /// Checks that a bucket exists and whose it is.
    ///
    /// # Errors
    /// `NoSuchBucket`, `AccessDenied`.
    pub(super) async fn check_bucket(&self, name: &str, owner: Option<&str>) -> S3Result<()> {
        let bucket = request::bucket(name)?;
        self.short(move |store| store.head_bucket(&bucket))
            .await
            .map_err(|error| naming(error, name))?;
        self.check_owner(owner)
    }
}
