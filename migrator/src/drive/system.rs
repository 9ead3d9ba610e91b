//! `.minio.sys`: what of the drive is no object and does not travel.

use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use super::error::Result;
use super::fs::Root;

/// Names of one kind: how many, and a digest over them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many.
    pub count: u64,
    /// SHA-256 over the names; empty when there are none.
    pub identity: Vec<u8>,
}

impl Counted {
    fn of(mut names: Vec<String>) -> Self {
        if names.is_empty() {
            return Self::default();
        }
        names.sort_unstable();
        let mut digest = Sha256::new();
        for name in &names {
            digest.update(name.as_bytes());
            digest.update([0]);
        }
        Self {
            count: names.len() as u64,
            identity: digest.finalize().to_vec(),
        }
    }
}

/// What does not travel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemReport {
    /// Uploads that were never completed, in all buckets.
    pub unfinished_uploads: Counted,
    /// IAM users.
    pub users: Counted,
    /// Service accounts (access keys of users).
    pub service_accounts: Counted,
    /// IAM groups.
    pub groups: Counted,
    /// IAM policies of their own.
    pub policies: Counted,
}

impl SystemReport {
    /// Looks at the drive.
    pub(super) fn read(root: &Root) -> Result<Self> {
        let iam = |name: &str| {
            let names = dirs(root, &format!(".minio.sys/config/iam/{name}"));
            names.map(Counted::of)
        };
        Ok(Self {
            unfinished_uploads: Counted::of(unfinished_uploads(root)?),
            users: iam("users")?,
            service_accounts: iam("service-accounts")?,
            groups: iam("groups")?,
            policies: iam("policies")?,
        })
    }
}

/// `multipart/<sha256 of bucket/key>/<upload>/xl.meta`.
fn unfinished_uploads(root: &Root) -> Result<Vec<String>> {
    const DIR: &str = ".minio.sys/multipart";
    let mut uploads = Vec::new();
    for key in dirs(root, DIR)? {
        for upload in dirs(root, &format!("{DIR}/{key}"))? {
            let upload = format!("{key}/{upload}");
            let metadata = format!("{DIR}/{upload}/xl.meta");
            if root.open_file(&metadata)?.is_some() {
                uploads.push(upload);
            }
        }
    }
    Ok(uploads)
}

/// Names of the directories in `path`; none when it does not exist.
pub(super) fn dirs(root: &Root, path: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    root.read_dir(path, |name, kind| {
        if kind == FileType::Directory
            && let Ok(name) = std::str::from_utf8(name)
        {
            names.push(name.to_owned());
        }
    })?;
    Ok(names)
}
