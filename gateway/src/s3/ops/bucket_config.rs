//! Bucket and object configuration that clients probe and that is never set here: answered as S3
//! answers for a bucket without it, so that clients go on. Setting it is `NotImplemented`.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::s3::error::{self, invalid_request};
use crate::s3::{Gateway, request};

/// The operation looks for the bucket, then answers with an error: nothing is configured, or
/// nothing of the kind can be.
macro_rules! not_configured {
    ($($name:ident($input:ident) -> $output:ident = $error:expr;)*) => {
        $(
            pub(super) async fn $name(
                gateway: &Gateway,
                request: S3Request<$input>,
            ) -> S3Result<S3Response<$output>> {
                let input = request.input;
                gateway
                    .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
                    .await?;
                Err($error)
            }
        )*
    };
}

not_configured! {
    policy(GetBucketPolicyInput) -> GetBucketPolicyOutput
        = error::code(S3ErrorCode::NoSuchBucketPolicy);
    policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput
        = error::code(S3ErrorCode::NoSuchBucketPolicy);
    cors(GetBucketCorsInput) -> GetBucketCorsOutput
        = error::code(S3ErrorCode::NoSuchCORSConfiguration);
    lifecycle(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput
        = error::code(S3ErrorCode::NoSuchLifecycleConfiguration);
    encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput
        = error::code(S3ErrorCode::ServerSideEncryptionConfigurationNotFoundError);
    website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput
        = error::code(S3ErrorCode::NoSuchWebsiteConfiguration);
    replication(GetBucketReplicationInput) -> GetBucketReplicationOutput
        = error::code(S3ErrorCode::ReplicationConfigurationNotFoundError);
    public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
        = error::custom("NoSuchPublicAccessBlockConfiguration", http::StatusCode::NOT_FOUND);
    object_lock(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput
        = error::code(S3ErrorCode::ObjectLockConfigurationNotFoundError);
    put_retention(PutObjectRetentionInput) -> PutObjectRetentionOutput = no_object_lock();
    put_legal_hold(PutObjectLegalHoldInput) -> PutObjectLegalHoldOutput = no_object_lock();
    put_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput
        = error::code(S3ErrorCode::NotImplemented);
    put_cors(PutBucketCorsInput) -> PutBucketCorsOutput
        = error::code(S3ErrorCode::NotImplemented);
    put_website(PutBucketWebsiteInput) -> PutBucketWebsiteOutput
        = error::code(S3ErrorCode::NotImplemented);
    put_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput
        = error::code(S3ErrorCode::NotImplemented);
    delete_ownership_controls(DeleteBucketOwnershipControlsInput)
        -> DeleteBucketOwnershipControlsOutput = error::code(S3ErrorCode::NotImplemented);
    put_object_lock(PutObjectLockConfigurationInput) -> PutObjectLockConfigurationOutput
        = error::code(S3ErrorCode::NotImplemented);
}

/// The operation looks for the object first; no bucket has object lock.
macro_rules! object_lock {
    ($($name:ident($input:ident) -> $output:ident;)*) => {
        $(
            pub(super) async fn $name(
                gateway: &Gateway,
                request: S3Request<$input>,
            ) -> S3Result<S3Response<$output>> {
                let input = request.input;
                gateway.check_owner(input.expected_bucket_owner.as_deref())?;
                request::existing_version(input.version_id.as_deref())?;
                let bucket = request::bucket(&input.bucket)?;
                let key = request::key(input.key)?;
                gateway
                    .short(move |store| store.head_object(&bucket, &key))
                    .await?;
                Err(no_object_lock())
            }
        )*
    };
}

object_lock! {
    retention(GetObjectRetentionInput) -> GetObjectRetentionOutput;
    legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput;
}

fn no_object_lock() -> S3Error {
    invalid_request("Bucket is missing Object Lock Configuration")
}

/// The operation answers with a constant.
macro_rules! constant {
    ($($name:ident($input:ident) -> $output:ident = $answer:expr;)*) => {
        $(
            pub(super) async fn $name(
                gateway: &Gateway,
                request: S3Request<$input>,
            ) -> S3Result<S3Response<$output>> {
                let input = request.input;
                gateway
                    .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
                    .await?;
                Ok(S3Response::new($answer))
            }
        )*
    };
}

constant! {
    versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput
        = GetBucketVersioningOutput::default();
    logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = GetBucketLoggingOutput::default();
    notification(GetBucketNotificationConfigurationInput)
        -> GetBucketNotificationConfigurationOutput
        = GetBucketNotificationConfigurationOutput::default();
    accelerate(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput
        = GetBucketAccelerateConfigurationOutput::default();
    request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput
        = GetBucketRequestPaymentOutput {
            payer: Some(Payer::from_static(Payer::BUCKET_OWNER)),
        };
    ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput
        = GetBucketOwnershipControlsOutput {
            ownership_controls: Some(OwnershipControls {
                rules: vec![OwnershipControlsRule {
                    object_ownership: ObjectOwnership::from_static(
                        ObjectOwnership::BUCKET_OWNER_ENFORCED,
                    ),
                }],
            }),
        };
    delete_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput
        = DeleteBucketPolicyOutput {};
    delete_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = DeleteBucketCorsOutput {};
    delete_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput
        = DeleteBucketLifecycleOutput {};
    delete_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput
        = DeleteBucketEncryptionOutput {};
    delete_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput
        = DeleteBucketWebsiteOutput {};
}

fn full_control(gateway: &Gateway) -> Vec<Grant> {
    let owner = gateway.owner();
    vec![Grant {
        grantee: Some(Grantee {
            display_name: owner.display_name,
            email_address: None,
            id: owner.id,
            type_: Type::from_static(Type::CANONICAL_USER),
            uri: None,
        }),
        permission: Some(Permission::from_static(Permission::FULL_CONTROL)),
    }]
}

pub(super) async fn bucket_acl(
    gateway: &Gateway,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    Ok(S3Response::new(GetBucketAclOutput {
        grants: Some(full_control(gateway)),
        owner: Some(gateway.owner()),
    }))
}

pub(super) async fn object_acl(
    gateway: &Gateway,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    request::existing_version(input.version_id.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    gateway
        .short(move |store| store.head_object(&bucket, &key))
        .await?;
    Ok(S3Response::new(GetObjectAclOutput {
        grants: Some(full_control(gateway)),
        owner: Some(gateway.owner()),
        request_charged: None,
    }))
}

/// An ACL that gives the owner what it has anyway is accepted, as S3 does with
/// `BucketOwnerEnforced`.
fn check_policy(policy: Option<&AccessControlPolicy>) -> S3Result<()> {
    let grants = policy.and_then(|policy| policy.grants.as_deref());
    let harmless = grants.unwrap_or_default().iter().all(|grant| {
        grant.permission.as_ref().map(Permission::as_str) == Some(Permission::FULL_CONTROL)
            && grant
                .grantee
                .as_ref()
                .is_some_and(|grantee| grantee.type_.as_str() == Type::CANONICAL_USER)
    });
    if harmless {
        Ok(())
    } else {
        Err(request::acl_not_supported())
    }
}

pub(super) async fn put_bucket_acl(
    gateway: &Gateway,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    let acl = request::check_acl(request::headers(&request));
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    acl?;
    check_policy(input.access_control_policy.as_ref())?;
    Ok(S3Response::new(PutBucketAclOutput {}))
}

pub(super) async fn put_object_acl(
    gateway: &Gateway,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    let acl = request::check_acl(request::headers(&request));
    let input = request.input;
    gateway.check_owner(input.expected_bucket_owner.as_deref())?;
    request::existing_version(input.version_id.as_deref())?;
    let bucket = request::bucket(&input.bucket)?;
    let key = request::key(input.key)?;
    gateway
        .short(move |store| store.head_object(&bucket, &key))
        .await?;
    acl?;
    check_policy(input.access_control_policy.as_ref())?;
    Ok(S3Response::new(PutObjectAclOutput {
        request_charged: None,
    }))
}
