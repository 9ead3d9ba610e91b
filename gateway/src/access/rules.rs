//! What each S3 operation needs. An operation that is not here is root's.

use super::Action;

/// What an operation needs before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// This action on the key that the path names, or on the whole bucket if it names none.
    Path(Action),
    /// [`Action::See`] of the bucket; the operation itself asks for each name that is not in the
    /// path: the prefix of a listing, the key of a form, keys to delete.
    Within,
    /// Nothing: the operation shows what its caller may see.
    Anybody,
}

/// Rules by S3's name of the operation, sorted.
const RULES: [(&str, Rule); 63] = {
    use Action::{Administer, Read, See, Write};
    use Rule::{Anybody, Path, Within};
    [
        ("AbortMultipartUpload", Path(Write)),
        ("CompleteMultipartUpload", Path(Write)),
        // And Read of the source.
        ("CopyObject", Path(Write)),
        // Of the whole bucket: programs make their bucket when they start.
        ("CreateBucket", Path(Write)),
        ("CreateMultipartUpload", Path(Write)),
        ("DeleteBucket", Path(Administer)),
        ("DeleteBucketCors", Path(Administer)),
        ("DeleteBucketEncryption", Path(Administer)),
        ("DeleteBucketLifecycle", Path(Administer)),
        ("DeleteBucketOwnershipControls", Path(Administer)),
        ("DeleteBucketPolicy", Path(Administer)),
        ("DeleteBucketTagging", Path(Administer)),
        ("DeleteBucketWebsite", Path(Administer)),
        ("DeleteObject", Path(Write)),
        ("DeleteObjectTagging", Path(Write)),
        ("DeleteObjects", Within),
        ("GetBucketAccelerateConfiguration", Path(See)),
        ("GetBucketAcl", Path(See)),
        ("GetBucketCors", Path(See)),
        ("GetBucketEncryption", Path(See)),
        ("GetBucketLifecycleConfiguration", Path(See)),
        ("GetBucketLocation", Path(See)),
        ("GetBucketLogging", Path(See)),
        ("GetBucketNotificationConfiguration", Path(See)),
        ("GetBucketOwnershipControls", Path(See)),
        ("GetBucketPolicy", Path(See)),
        ("GetBucketPolicyStatus", Path(See)),
        ("GetBucketReplication", Path(See)),
        ("GetBucketRequestPayment", Path(See)),
        ("GetBucketTagging", Path(See)),
        ("GetBucketVersioning", Path(See)),
        ("GetBucketWebsite", Path(See)),
        ("GetObject", Path(Read)),
        ("GetObjectAcl", Path(Read)),
        ("GetObjectAttributes", Path(Read)),
        ("GetObjectLegalHold", Path(Read)),
        ("GetObjectLockConfiguration", Path(See)),
        ("GetObjectRetention", Path(Read)),
        ("GetObjectTagging", Path(Read)),
        ("GetPublicAccessBlock", Path(See)),
        ("HeadBucket", Path(See)),
        ("HeadObject", Path(Read)),
        ("ListBuckets", Anybody),
        ("ListMultipartUploads", Within),
        ("ListObjectVersions", Within),
        ("ListObjects", Within),
        ("ListObjectsV2", Within),
        ("ListParts", Path(Write)),
        ("PostObject", Within),
        ("PutBucketAcl", Path(Administer)),
        ("PutBucketCors", Path(Administer)),
        ("PutBucketOwnershipControls", Path(Administer)),
        ("PutBucketPolicy", Path(Administer)),
        ("PutBucketTagging", Path(Administer)),
        ("PutBucketWebsite", Path(Administer)),
        ("PutObject", Path(Write)),
        ("PutObjectAcl", Path(Write)),
        ("PutObjectLegalHold", Path(Write)),
        ("PutObjectLockConfiguration", Path(Administer)),
        ("PutObjectRetention", Path(Write)),
        ("PutObjectTagging", Path(Write)),
        ("UploadPart", Path(Write)),
        // And Read of the source.
        ("UploadPartCopy", Path(Write)),
    ]
};

/// The rule of an operation.
pub(crate) fn rule(operation: &str) -> Rule {
    match RULES.binary_search_by_key(&operation, |(name, _)| name) {
        Ok(index) => RULES
            .get(index)
            .map_or(Rule::Path(Action::Administer), |(_, rule)| *rule),
        Err(_) => Rule::Path(Action::Administer),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::s3::IMPLEMENTED;

    /// `list_objects_v2` is `ListObjectsV2`.
    fn s3_name(function: &str) -> String {
        let words = function.split('_').map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        });
        words.collect()
    }

    #[test]
    fn every_operation_has_a_rule() {
        let implemented: BTreeSet<String> = IMPLEMENTED.iter().copied().map(s3_name).collect();
        let ruled: BTreeSet<String> = RULES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(implemented, ruled);
        assert!(RULES.is_sorted_by_key(|(name, _)| name));
        for (name, expected) in RULES {
            assert_eq!(rule(name), expected, "{name}");
        }
    }

    #[test]
    fn what_has_no_rule_is_roots() {
        for name in ["GetObjectTorrent", "PutBucketVersioning", "", "getobject"] {
            assert_eq!(rule(name), Rule::Path(Action::Administer), "{name}");
        }
    }
}
