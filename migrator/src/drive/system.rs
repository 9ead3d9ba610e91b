//! `.minio.sys`: what of the drive is no object and does not travel.

use rustix::fs::FileType;

use super::error::Result;
use super::fs::Root;

/// Counts of what does not travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemReport {
    /// Uploads that were never completed, in all buckets.
    pub unfinished_uploads: u64,
    /// IAM users.
    pub users: u64,
    /// Service accounts (access keys of users).
    pub service_accounts: u64,
    /// IAM groups.
    pub groups: u64,
    /// IAM policies of their own.
    pub policies: u64,
}

impl SystemReport {
    /// Looks at the drive.
    pub(super) fn read(root: &Root) -> Result<Self> {
        let iam = |name: &str| count_dirs(root, &format!(".minio.sys/config/iam/{name}"));
        Ok(Self {
            unfinished_uploads: unfinished_uploads(root)?,
            users: iam("users")?,
            service_accounts: iam("service-accounts")?,
            groups: iam("groups")?,
            policies: iam("policies")?,
        })
    }
}

/// `multipart/<sha256 of bucket/key>/<upload>/xl.meta`.
fn unfinished_uploads(root: &Root) -> Result<u64> {
    const DIR: &str = ".minio.sys/multipart";
    let mut uploads = 0;
    for key in dirs(root, DIR)? {
        for upload in dirs(root, &format!("{DIR}/{key}"))? {
            if root
                .open_file(&format!("{DIR}/{key}/{upload}/xl.meta"))?
                .is_some()
            {
                uploads += 1;
            }
        }
    }
    Ok(uploads)
}

fn count_dirs(root: &Root, path: &str) -> Result<u64> {
    let mut count = 0;
    root.read_dir(path, |_, kind| {
        count += u64::from(kind == FileType::Directory);
    })?;
    Ok(count)
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
