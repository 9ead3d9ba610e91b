//! The operations that metrics and logs tell apart: a closed set, whatever clients send.

/// A request that was refused before its operation was known (bad signature, bad path).
pub(crate) const UNKNOWN: &str = "Unknown";

/// Any operation of S3 that is not in [`OPERATIONS`].
pub(crate) const OTHER: &str = "Other";

/// S3's names of the operations that matter to a file store, and our own one, sorted.
const OPERATIONS: [&str; 71] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateBucket",
    "CreateMultipartUpload",
    "DeleteBucket",
    "DeleteBucketCors",
    "DeleteBucketEncryption",
    "DeleteBucketLifecycle",
    "DeleteBucketOwnershipControls",
    "DeleteBucketPolicy",
    "DeleteBucketReplication",
    "DeleteBucketTagging",
    "DeleteBucketWebsite",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjects",
    "DeletePublicAccessBlock",
    "GetBucketAcl",
    "GetBucketCors",
    "GetBucketEncryption",
    "GetBucketLifecycleConfiguration",
    "GetBucketLocation",
    "GetBucketLogging",
    "GetBucketNotificationConfiguration",
    "GetBucketOwnershipControls",
    "GetBucketPolicy",
    "GetBucketPolicyStatus",
    "GetBucketReplication",
    "GetBucketTagging",
    "GetBucketVersioning",
    "GetBucketWebsite",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectLegalHold",
    "GetObjectLockConfiguration",
    "GetObjectRetention",
    "GetObjectTagging",
    "GetPublicAccessBlock",
    "HandOver",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
    "PostObject",
    "PutBucketAcl",
    "PutBucketCors",
    "PutBucketEncryption",
    "PutBucketLifecycleConfiguration",
    "PutBucketLogging",
    "PutBucketNotificationConfiguration",
    "PutBucketOwnershipControls",
    "PutBucketPolicy",
    "PutBucketReplication",
    "PutBucketTagging",
    "PutBucketVersioning",
    "PutBucketWebsite",
    "PutObject",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectLockConfiguration",
    "PutObjectRetention",
    "PutObjectTagging",
    "PutPublicAccessBlock",
    "UploadPart",
    "UploadPartCopy",
];

/// The label of an operation.
pub(crate) fn label(name: &str) -> &'static str {
    match OPERATIONS.binary_search(&name) {
        Ok(index) => OPERATIONS.get(index).copied().unwrap_or(OTHER),
        Err(_) => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_and_no_other() {
        assert!(OPERATIONS.is_sorted());
        for name in OPERATIONS {
            assert_eq!(label(name), name);
        }
        assert_eq!(label("GetObjectTorrent"), OTHER);
        assert_eq!(label("x\nfake"), OTHER);
    }
}
