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
    delete_ownership_controls(DeleteBucketOwnershipControlsInput)
        -> DeleteBucketOwnershipControlsOutput = error::code(S3ErrorCode::NotImplemented);
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

/// `BucketOwnerEnforced` is what every bucket has; the others would bring ACLs.
pub(super) async fn put_ownership_controls(
    gateway: &Gateway,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<S3Response<PutBucketOwnershipControlsOutput>> {
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    let [rule] = input.ownership_controls.rules.as_slice() else {
        return Err(error::code(S3ErrorCode::MalformedXML));
    };
    match rule.object_ownership.as_str() {
        ObjectOwnership::BUCKET_OWNER_ENFORCED => {
            Ok(S3Response::new(PutBucketOwnershipControlsOutput {}))
        }
        ObjectOwnership::BUCKET_OWNER_PREFERRED | ObjectOwnership::OBJECT_WRITER => {
            Err(error::code(S3ErrorCode::NotImplemented))
        }
        _ => Err(error::code(S3ErrorCode::MalformedXML)),
    }
}

/// Object lock needs versioning, which no bucket has.
pub(super) async fn put_object_lock(
    gateway: &Gateway,
    request: S3Request<PutObjectLockConfigurationInput>,
) -> S3Result<S3Response<PutObjectLockConfigurationOutput>> {
    let input = request.input;
    gateway
        .check_bucket(&input.bucket, input.expected_bucket_owner.as_deref())
        .await?;
    let Some(configuration) = input.object_lock_configuration else {
        return Err(error::code(S3ErrorCode::MissingRequestBodyError));
    };
    check_object_lock(&configuration)?;
    Err(S3Error::with_message(
        S3ErrorCode::InvalidBucketState,
        "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
    ))
}

fn check_object_lock(configuration: &ObjectLockConfiguration) -> S3Result<()> {
    let malformed = || error::code(S3ErrorCode::MalformedXML);
    let enabled = configuration.object_lock_enabled.as_ref();
    if enabled.map(ObjectLockEnabled::as_str) != Some(ObjectLockEnabled::ENABLED) {
        return Err(malformed());
    }
    let rule = configuration.rule.as_ref();
    let Some(retention) = rule.and_then(|rule| rule.default_retention.as_ref()) else {
        return Ok(());
    };
    let mode = retention.mode.as_ref().map(ObjectLockRetentionMode::as_str);
    let known = [
        ObjectLockRetentionMode::GOVERNANCE,
        ObjectLockRetentionMode::COMPLIANCE,
    ];
    if mode.is_some_and(|mode| !known.contains(&mode)) {
        return Err(malformed());
    }
    let (name, period, most) = match (retention.days, retention.years) {
        (Some(days), None) => ("Days", days, 36_500),
        (None, Some(years)) => ("Years", years, 100),
        _ => return Err(malformed()),
    };
    let message = if period < 1 {
        "Default retention period must be a positive integer value."
    } else if period > most {
        "Default retention period too large."
    } else {
        return Ok(());
    };
    Err(error::invalid_argument(name, &period.to_string(), message))
}
