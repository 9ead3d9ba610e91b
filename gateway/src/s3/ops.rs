//! `impl S3`: each operation one line into its file. What is not here answers `NotImplemented`.

mod bucket;
mod bucket_config;
mod bucket_tagging;
mod copy_object;
mod delete_object;
mod delete_objects;
mod get_object;
mod list_buckets;
mod list_object_versions;
mod list_objects;
mod multipart;
mod object_attributes;
mod object_tagging;
mod post_object;
mod put_object;
mod read;
mod receive;
mod upload_part;
mod upload_part_copy;

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use super::Gateway;

macro_rules! operations {
    ($($name:ident($input:ident) -> $output:ident = $function:path;)*) => {
        /// The operations that are here, as s3s names their functions.
        #[cfg(test)]
        pub(crate) const IMPLEMENTED: &[&str] = &[$(stringify!($name)),*];

        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(
                async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    $function(self, request).await
                }
            )*
        }
    };
}

operations! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = list_buckets::list_buckets;
    create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket::create;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket::head;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket::delete;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket::location;

    put_object(PutObjectInput) -> PutObjectOutput = put_object::put_object;
    post_object(PostObjectInput) -> PostObjectOutput = post_object::post_object;
    get_object(GetObjectInput) -> GetObjectOutput = get_object::get_object;
    head_object(HeadObjectInput) -> HeadObjectOutput = get_object::head_object;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput
        = object_attributes::get_object_attributes;
    copy_object(CopyObjectInput) -> CopyObjectOutput = copy_object::copy_object;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete_object::delete_object;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete_objects::delete_objects;

    list_objects(ListObjectsInput) -> ListObjectsOutput = list_objects::list_objects;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list_objects::list_objects_v2;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput
        = list_object_versions::list_object_versions;

    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput
        = multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = upload_part::upload_part;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput
        = upload_part_copy::upload_part_copy;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput
        = multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput
        = multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = multipart::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput
        = multipart::list_uploads;

    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = object_tagging::get;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = object_tagging::put;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput
        = object_tagging::delete;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = bucket_tagging::get;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = bucket_tagging::put;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput
        = bucket_tagging::delete;

    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput
        = bucket_config::versioning;
    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput = bucket_config::bucket_acl;
    put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput = bucket_config::put_bucket_acl;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput = bucket_config::object_acl;
    put_object_acl(PutObjectAclInput) -> PutObjectAclOutput = bucket_config::put_object_acl;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput)
        -> GetBucketOwnershipControlsOutput = bucket_config::ownership_controls;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = bucket_config::policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput
        = bucket_config::policy_status;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = bucket_config::cors;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput)
        -> GetBucketLifecycleConfigurationOutput = bucket_config::lifecycle;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput
        = bucket_config::encryption;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput = bucket_config::website;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput
        = bucket_config::replication;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
        = bucket_config::public_access_block;
    get_object_lock_configuration(GetObjectLockConfigurationInput)
        -> GetObjectLockConfigurationOutput = bucket_config::object_lock;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput
        = bucket_config::retention;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput
        = bucket_config::legal_hold;
    put_object_retention(PutObjectRetentionInput) -> PutObjectRetentionOutput
        = bucket_config::put_retention;
    put_object_legal_hold(PutObjectLegalHoldInput) -> PutObjectLegalHoldOutput
        = bucket_config::put_legal_hold;
    put_bucket_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput = bucket_config::put_policy;
    put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput = bucket_config::put_cors;
    put_bucket_website(PutBucketWebsiteInput) -> PutBucketWebsiteOutput
        = bucket_config::put_website;
    put_bucket_ownership_controls(PutBucketOwnershipControlsInput)
        -> PutBucketOwnershipControlsOutput = bucket_config::put_ownership_controls;
    delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput)
        -> DeleteBucketOwnershipControlsOutput = bucket_config::delete_ownership_controls;
    put_object_lock_configuration(PutObjectLockConfigurationInput)
        -> PutObjectLockConfigurationOutput = bucket_config::put_object_lock;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = bucket_config::logging;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput)
        -> GetBucketNotificationConfigurationOutput = bucket_config::notification;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput
        = bucket_config::request_payment;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput)
        -> GetBucketAccelerateConfigurationOutput = bucket_config::accelerate;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput
        = bucket_config::delete_policy;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput
        = bucket_config::delete_cors;
    delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput
        = bucket_config::delete_lifecycle;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput
        = bucket_config::delete_encryption;
    delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput
        = bucket_config::delete_website;
}
