//! The flags that choose what is migrated.

use std::time::SystemTime;

use filestore_common::marker::MarkerScope;
use filestore_migrator::{Result, RunOptions, Scope, Shard};

/// Which objects a migration is about. It stays the same from the first pass to the last, or
/// becomes wider.
#[derive(Debug, clap::Args)]
pub(super) struct ScopeFlags {
    /// Migrate this bucket, under another name with NAME=NEW; may be repeated; all without it.
    #[arg(
        long,
        env = "FILESTORE_BUCKET",
        value_delimiter = ',',
        value_name = "NAME[=NEW]",
        help_heading = "Scope"
    )]
    bucket: Vec<String>,
    /// Leave this bucket out; may be repeated.
    #[arg(
        long,
        env = "FILESTORE_EXCLUDE_BUCKET",
        value_delimiter = ',',
        value_name = "NAME",
        help_heading = "Scope"
    )]
    exclude_bucket: Vec<String>,
    /// Migrate only keys that fit; may be repeated. Without a wildcard a pattern is a prefix; with
    /// one it is a glob for the whole key, in which * stands for any characters, / among them.
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    include: Vec<String>,
    /// Leave out keys that fit, whatever --include says; may be repeated.
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    exclude: Vec<String>,
    /// Migrate only objects modified at this time or later: 2026-11-30T12:00:00Z, 2026-11-30, or
    /// for `copy`, `plan` and `verify` an age like 7d.
    #[arg(long, value_name = "TIME", help_heading = "Scope")]
    newer: Option<String>,
    /// Migrate only objects modified before this time.
    #[arg(long, value_name = "TIME", help_heading = "Scope")]
    older: Option<String>,
    /// Refuse to start when a bucket is missing on the target, instead of making it.
    #[arg(long, env = "FILESTORE_NO_CREATE_BUCKET", help_heading = "Scope")]
    no_create_bucket: bool,
}

impl ScopeFlags {
    /// Adds the scope; ages are taken only with `ages`, where no later run must mean the same.
    pub(super) fn apply(&self, options: RunOptions, ages: bool) -> Result<RunOptions> {
        let given = MarkerScope {
            buckets: self.bucket.clone(),
            exclude_buckets: self.exclude_bucket.clone(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            newer: self.newer.clone(),
            older: self.older.clone(),
        };
        let from = options.from.as_ref().map(|from| &from.location);
        let scope = Scope::read(&given, ages.then(SystemTime::now))?;
        Ok(RunOptions {
            scope: scope.with_locations(from, &options.to.location)?,
            create_buckets: !self.no_create_bucket,
            ..options
        })
    }
}

/// Which part of the work this process does, where several workers share it.
#[derive(Debug, clap::Args)]
pub(super) struct ShardFlag {
    /// Do one of COUNT parts of about equal work, counted from 0: 0/4 to 3/4 for four workers. In
    /// an Indexed Job: $(JOB_COMPLETION_INDEX)/4. The workers may run at the same time.
    #[arg(
        long,
        env = "FILESTORE_SHARD",
        value_name = "INDEX/COUNT",
        help_heading = "Scope"
    )]
    shard: Option<Shard>,
}

impl ShardFlag {
    pub(super) fn apply(&self, options: RunOptions) -> RunOptions {
        RunOptions {
            shard: self.shard,
            ..options
        }
    }
}
